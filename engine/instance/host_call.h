// Functions of the host, and one call of one.
//
// Threads: those of the Store that has the function.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace membrane::engine {

class Instance;
class Run;

enum class HostAction : uint8_t {
  kContinue,   // the results are written
  kTrap,       // HostCall::trap_message says why
  kOutOfFuel,  // there is not enough to begin: the guest pauses before the call, which is made again
  kInterrupt,  // the results are written, and the guest pauses after the call
  kExit,       // the program is done, as if its entry had returned nothing
};

// One call of a host function, while it runs.
struct HostCall {
  Run& execution;
  Instance* caller;                     // whose code called; null when the embedder did
  std::span<const uint64_t> arguments;  // a slot each (v128: two)
  std::span<uint64_t> results;  // written by the function; may overlap the arguments: read those first
  std::string trap_message;

  // Takes fuel for work to be done on behalf of the guest. False: there is less, and nothing was taken.
  [[nodiscard]] bool charge(uint64_t fuel);
  // Takes fuel for work that was done. When there is less, the rest drops to 0, the guest pauses after the
  // call, and fuel that is added later pays the debt first.
  void owe(uint64_t fuel);
};

using HostFunction = std::function<HostAction(HostCall&)>;

}  // namespace membrane::engine
