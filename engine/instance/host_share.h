// What a host function may do with the limits of the guest that called it.
//
// Threads: the guest's.
#pragma once

#include <cstdint>

#include "engine/instance/instance.h"

namespace membrane::engine {

// How many bytes the memories of the instance can still grow by.
[[nodiscard]] uint64_t memory_left_bytes(Instance& instance);
// Reserves bytes of the instance's memory limit for the host: its memories can grow by that much less, in whole
// pages. False: less is left, and nothing changed.
[[nodiscard]] bool take_from_memory_limit(Instance& instance, uint64_t bytes);
// Gives back what was taken; the same amounts as were taken.
void give_to_memory_limit(Instance& instance, uint64_t bytes);

// Gives back fuel that the call has charged, since nothing was done for it and the call will be made again. `fuel` is
// not more than it charged.
void give_back_fuel(HostCall& call, uint64_t fuel);
// The same for a call that did some work, but needed more fuel than there is: Run::fell_short().
void fall_short(HostCall& call, uint64_t fuel);

}  // namespace membrane::engine
