// Decides whether a policy would have allowed the calls of a finished run, without acting.
//
// A journal has only a hash of a call's arguments. A sink that stores what the call was decided by
// (JournalEntry::decided_by: method and URL, path, key, database) has everything needed here. The judge considers
// what the policy grants by name (decisions.h), each known hop of a redirected request, and the number of host
// calls. It does not consider what only the world knows: the addresses of a name, sizes, quotas of stores, links in
// a path. The trifecta rule is applied to what the run had read by then, except for files that it had made itself.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "host/broker.h"
#include "host/errno.h"
#include "policy/policy.h"

namespace membrane::host {

// How many of a request's first arguments decide about it; 0 for an unknown function.
size_t deciding_arguments(std::string_view function);

struct RecordedCall {
  std::string_view function;                // the broker's function, as in a journal
  std::span<const std::string> decided_by;  // at most deciding_arguments() of them
  std::string_view final_url = {};          // for http.request: the target of redirects; "": unknown
  std::span<const HttpHop> heard = {};      // for http.request: each hop, if the journal has them
  Errno code = Errno::kOk;                  // its result
  std::string_view reason = {};
};

class CallJudge {
 public:
  // Copies the policy. Errors: those of UrlGrant::parse().
  static Result<CallJudge> create(const policy::Policy& policy);
  CallJudge(CallJudge&& other) noexcept;
  CallJudge& operator=(CallJudge&&) = delete;
  ~CallJudge();

  // For the calls of one run, in order: why the policy would have refused this one, EACCES or EBUDGET; nothing if it
  // would not. kUnsupported for an unknown function.
  Result<std::optional<HostError>> judge(const RecordedCall& call);
  // The calls of another run follow. Turns of one session, judged in order, share what they have read; "": a run.
  void begin_run(std::string_view session = {});

 private:
  class Impl;
  explicit CallJudge(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace membrane::host
