// A host function that the embedder defines: a hole in the wall besides the capabilities.
//
// It is neither decided on by the policy nor journaled (a run that replays calls it again), but it
// counts as a host call and stands in the report.
//
// It may answer later: the run then stops in the call (Outcome::kWaiting) and becomes bytes, which thaw() takes with an
// OwnAnswer, in this process or another. The call counts once, and what it charged before it waited stays charged, so the
// whole run costs what it would have cost with the answer at once.
//
// Threads: called on the thread of the run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/instance/host_call.h"
#include "engine/instance/value.h"
#include "host/guest.h"
#include "sandbox/report.h"
#include "wasm/types.h"

namespace membrane::sandbox {

// How a call ended.
struct OwnEnd {
  engine::HostAction action = engine::HostAction::kContinue;
  // The answer comes later: what stands beside the call in the report, "" for nothing. `action` does not count then.
  std::optional<std::string> waits{};
};

struct OwnFunction {
  std::string module;  // of the import
  std::string name;
  wasm::FuncType type;
  std::function<OwnEnd(host::Guest&, engine::HostCall&)> call;

  [[nodiscard]] std::string full_name() const { return module + "." + name; }
};

// What a call that waited is answered with: `values`, of the types of the function's results; else `error`, which traps;
// else `call`, in the place of the function's own, with the same caller and arguments. It may answer later again.
struct OwnAnswer {
  std::vector<engine::Value> values{};
  std::optional<std::string> error{};
  std::function<OwnEnd(const OwnFunction&, host::Guest&, engine::HostCall&)> call{};

  // Errors: kInvalidArgument when the values are not of the types of the function's results.
  [[nodiscard]] Status check(const OwnFunction& function) const;
  // Ends the call with it.
  OwnEnd give(const OwnFunction& function, host::Guest& guest, engine::HostCall& to) const;
};

// The call as the report has it, while it runs.
WaitingCall waiting_call(const OwnFunction& function, const engine::HostCall& call, std::string note);

}  // namespace membrane::sandbox
