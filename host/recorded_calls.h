// Whether a policy would have allowed the calls of a run that is over, without acting.
//
// A journal has only a hash of a call's arguments. A sink that keeps what the call was decided by (JournalEntry::decided_by:
// method and URL, path, key, database) has all that this needs. What is decided is what the policy grants by names
// (decisions.h), each hop that is known of a redirected request, and the number of host calls. What only the world knows
// is not: the addresses of a name, sizes, quotas of stores, links on a path. The trifecta rule is held to what the run had
// read by then, but for files that it had made itself.
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

// How many of a request's first arguments decide about it; 0 also of a function that is not known.
size_t deciding_arguments(std::string_view function);

struct RecordedCall {
  std::string_view function;                // of the broker, as a journal has it
  std::span<const std::string> decided_by;  // at most deciding_arguments() of them
  std::string_view final_url = {};          // of http.request: where redirects led to; "": not known
  std::span<const HttpHop> heard = {};      // of http.request: each hop, where the journal has them
  Errno code = Errno::kOk;                  // how it ended
  std::string_view reason = {};
};

class CallJudge {
 public:
  // Copies the policy. Errors: those of UrlGrant::parse().
  static Result<CallJudge> create(const policy::Policy& policy);
  CallJudge(CallJudge&& other) noexcept;
  CallJudge& operator=(CallJudge&&) = delete;
  ~CallJudge();

  // Of one run's calls, in their order: why the policy would have refused this one, EACCES or EBUDGET; nothing when it would
  // not. kUnsupported for a function that is not known.
  Result<std::optional<HostError>> judge(const RecordedCall& call);
  // Another run's calls come next. Turns of one session, told one after the other, share what they have read; "": a run.
  void begin_run(std::string_view session = {});

 private:
  class Impl;
  explicit CallJudge(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace membrane::host
