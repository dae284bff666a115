// Calls of WASI by a running instance: the one way for modules (run.cc) and for languages (body.h).
//
// Threads: those of the run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "engine/instance/host_call.h"
#include "sandbox/guest_instance.h"
#include "sandbox/report.h"
#include "wasi/system.h"
#include "wasm/module.h"

namespace membrane::sandbox {

// The function of WASI that an import names. Null when the import is not WASI's, or WASI has no such function.
const wasi::Function* find_wasi(const wasm::Import& import);

// What a call makes of the run.
struct WasiConsequence {
  engine::HostAction action = engine::HostAction::kContinue;
  std::optional<Outcome> outcome;  // where the call decides it
  // The program reads from stdin, which is empty and waits: after System::give_stdin() or close_stdin() the call is to
  // be made again. `action` is kOutOfFuel, so that the engine repeats it when the run is resumed.
  bool waits = false;
};
// Makes the call, with the guest's charges going to `call`. Sets the trap's message when `action` is kTrap.
WasiConsequence call_wasi(wasi::System& system, const wasi::Function& function, GuestInstance& guest,
                          engine::HostCall& call);

// Lets `ns` of real time pass. Returns early, with false, within 20 ms after `must_stop` says so.
bool wait_unless(const std::function<bool()>& must_stop, uint64_t ns);

}  // namespace membrane::sandbox
