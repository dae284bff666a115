// A host function that the embedder defines, in addition to the capabilities.
//
// The policy does not decide about it, and no journal records it (a replay calls it again), but it counts as a host
// call and is listed in the report.
//
// It may answer later: the run then stops in the call (Outcome::kWaiting) and becomes bytes, which thaw() takes with
// an OwnAnswer, in this process or another. The call counts once, and what it charged before it waited stays
// charged, so the whole run costs the same as if the call had been answered at once.
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
  // The answer comes later: the note for the call in the report, "" for none. `action` is ignored then.
  std::optional<std::string> waits{};
};

struct OwnFunction {
  std::string module;  // of the import
  std::string name;
  wasm::FuncType type;
  std::function<OwnEnd(host::Guest&, engine::HostCall&)> call;

  [[nodiscard]] std::string full_name() const { return module + "." + name; }
};

// The answer to a waiting call: `values`, of the function's result types; or `error`, which traps; or `call`, which
// replaces the function and gets the same caller and arguments. It may again answer later.
struct OwnAnswer {
  std::vector<engine::Value> values{};
  std::optional<std::string> error{};
  std::function<OwnEnd(const OwnFunction&, host::Guest&, engine::HostCall&)> call{};

  // Errors: kInvalidArgument when the values do not have the function's result types.
  [[nodiscard]] Status check(const OwnFunction& function) const;
  // Completes the call with this answer.
  OwnEnd give(const OwnFunction& function, host::Guest& guest, engine::HostCall& to) const;
};

// The call as it appears in the report, while it runs.
WaitingCall waiting_call(const OwnFunction& function, const engine::HostCall& call, std::string note);

}  // namespace membrane::sandbox
