#include "sandbox/run/wasi_calls.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace membrane::sandbox {

using engine::HostAction;

const wasi::Function* find_wasi(const wasm::Import& import) {
  const bool is_function = import.kind == wasm::ExternKind::kFunc;
  return is_function ? wasi::find_function(import.module, import.name) : nullptr;
}

WasiConsequence call_wasi(wasi::System& system, const wasi::Function& function, GuestInstance& guest,
                          engine::HostCall& call) {
  guest.enter(call);
  wasi::CallOutcome outcome = system.call(function, guest, call.arguments, call.results);
  switch (outcome.end) {
    case wasi::End::kReturn: return {};
    case wasi::End::kExit: return {.action = HostAction::kExit, .outcome = {}};
    case wasi::End::kOutOfFuel: return {.action = HostAction::kOutOfFuel, .outcome = {}};
    case wasi::End::kWait: return {.action = HostAction::kOutOfFuel, .outcome = {}, .waits = true};
    case wasi::End::kOutOfOutput:
      call.trap_message = std::move(outcome.message);
      return {.action = HostAction::kTrap, .outcome = Outcome::kOutOfOutput};
    case wasi::End::kTrap: break;
  }
  call.trap_message = std::move(outcome.message);
  return {.action = HostAction::kTrap, .outcome = {}};
}

bool wait_unless(const std::function<bool()>& must_stop, uint64_t ns) {
  using Clock = std::chrono::steady_clock;
  constexpr uint64_t kForever = 1ull << 60;
  const Clock::time_point end =
      ns > kForever ? Clock::time_point::max() : Clock::now() + std::chrono::nanoseconds(ns);
  while (Clock::now() < end) {
    if (must_stop()) return false;
    std::this_thread::sleep_for(std::min<Clock::duration>(end - Clock::now(), std::chrono::milliseconds(20)));
  }
  return !must_stop();
}

}  // namespace membrane::sandbox
