// WASI calls of a running instance: shared by modules (run.h) and languages (body.h).
//
// Threads: as for the run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "engine/instance/host_call.h"
#include "sandbox/report/report.h"
#include "sandbox/run/guest_instance.h"
#include "wasi/system/system.h"
#include "wasm/module.h"

namespace membrane::sandbox {

// The WASI function that an import names. Null when the import is not from WASI, or WASI has no such function.
const wasi::Function* find_wasi(const wasm::Import& import);

// The effect of a call on the run.
struct WasiConsequence {
  engine::HostAction action = engine::HostAction::kContinue;
  std::optional<Outcome> outcome;  // if the call decides it
  // The program reads from stdin, which is empty and waits: after System::give_stdin() or close_stdin() the call
  // must be repeated. `action` is kOutOfFuel, so that the engine repeats it when the run is resumed.
  bool waits = false;
};
// Makes the call; the guest's charges go to `call`. Sets the trap's message when `action` is kTrap.
WasiConsequence call_wasi(wasi::System& system, const wasi::Function& function, GuestInstance& guest,
                          engine::HostCall& call);

// Lets `ns` of real time pass. Returns false early, within 20 ms after `must_stop` returns true.
bool wait_unless(const std::function<bool()>& must_stop, uint64_t ns);

}  // namespace membrane::sandbox
