// Repeats the run of a receipt, from its private part, and compares the results; also lists what another policy
// would have refused, which needs no run.
//
// A turn of a session needs all turns before it, from the first.
//
// Threads: replay() may be called from many threads concurrently.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "host/recorded_calls.h"
#include "sandbox/receipt.h"
#include "sandbox/sandbox.h"
#include "sandbox/session.h"
#include "sandbox/template.h"

namespace membrane::sandbox {

// A receipt with its own private part.
struct SealedRun {
  Receipt receipt;
  PrivatePart content;
};

// What to open a template for.
struct TemplateRequest {
  std::string language;
  std::string program;  // "" for a session, whose turns are not known
  policy::Policy policy;
};

struct ReplayOptions {
  // Errors end the replay. Not called for programs that the engine runs itself.
  std::function<Result<std::shared_ptr<const Template>>(const TemplateRequest& request)> open;
  // Runs the program elsewhere; null: in this process. As run(), Session::create() and Session::restore().
  std::function<Report(const Program& program, const RunOptions& options)> run = {};
  std::function<Result<std::unique_ptr<Session>>(std::shared_ptr<const Template> of, RunOptions options)>
      create = {};
  std::function<Result<std::unique_ptr<Session>>(std::shared_ptr<const Template> of,
                                                 std::span<const uint8_t> kept, RunOptions options)>
      restore = {};
  engine::Tier tier = engine::Tier::kAuto;
  const std::atomic<bool>* cancel = nullptr;  // may be null
};

struct Replayed {
  Report report;  // of the last run
  // Sentences, the first difference first; empty: the same bytes and fuel.
  std::vector<std::string> differences;
  bool was_stopped = false;  // it was stopped from outside: it is repeated and compared up to that point
};

// `runs` is one run, or the turns of one session from the first on. Errors: kInvalidArgument for runs that cannot be
// repeated (a needed line was removed; a turn is missing), those of `open`, of Session::create() and of
// Journal::parse().
Result<Replayed> replay(std::span<const SealedRun> runs, const ReplayOptions& options);

// A call that a policy would have refused.
struct RefusedCall {
  uint64_t number = 0;  // in the receipt, from 1; 0: the run as a whole, whose fuel exceeds the limit
  std::string function;
  std::string about;     // what is decided about: "GET https://example.org/a"; bounded
  std::string decision;  // the original decision: "allowed", "denied", "failed"
  host::HostError error;
};
// In order. A policy's limits apply to each receipt. `judge` must be for `policy`. Errors: kInvalidArgument when
// lines of calls were removed; those of CallJudge::judge().
Result<std::vector<RefusedCall>> refused_calls(const SealedRun& run, host::CallJudge& judge,
                                               const policy::Policy& policy);

}  // namespace membrane::sandbox
