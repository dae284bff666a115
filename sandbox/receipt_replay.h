// Runs again what a receipt is of, from its private part, and says whether the same came out; and says what another policy would
// have refused of it, which needs no run.
//
// A turn of a session needs the turns before it, all the way to the first.
//
// Threads: replay() may be called from many threads at once.
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

// A receipt with its private part, which is the receipt's.
struct SealedRun {
  Receipt receipt;
  PrivatePart content;
};

// What a template is opened for.
struct WantedTemplate {
  std::string language;
  std::string program;  // "" of a session: turns that are not known
  policy::Policy policy;
};

struct ReplayOptions {
  // Errors end the replay. Not called for programs of the engine's own.
  std::function<Result<std::shared_ptr<const Template>>(const WantedTemplate& wanted)> open;
  // Where it runs; null: in this process. As run(), Session::create() and Session::restore().
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
  // Sentences, the first that was met first; empty: the same bytes and fuel.
  std::vector<std::string> differences;
  bool was_stopped = false;  // from outside, then: it is run, and compared, to where it was stopped
};

// `runs` is one run, or the turns of one session from the first on. Errors: kInvalidArgument for what cannot be run again (a
// line that is needed was taken away; a turn is missing), those of `open`, of Session::create() and of Journal::parse().
Result<Replayed> replay(std::span<const SealedRun> runs, const ReplayOptions& options);

// A call that a policy would have refused.
struct RefusedCall {
  uint64_t number = 0;  // of the receipt, from 1; 0: the run as a whole, whose fuel is more than the limit
  std::string function;
  std::string about;     // what decides it: "GET https://example.org/a"; bounded
  std::string decision;  // what was decided then: "allowed", "denied", "failed"
  host::HostError error;
};
// In their order. A policy's limits count for each receipt. `judge` is of `policy`. Errors: kInvalidArgument when lines of calls were
// taken away; those of CallJudge::judge().
Result<std::vector<RefusedCall>> refused_calls(const SealedRun& run, host::CallJudge& judge,
                                               const policy::Policy& policy);

}  // namespace membrane::sandbox
