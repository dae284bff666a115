// What a worker does: it takes one command of its supervisor after the other, until the socket ends.
//
// Threads: the process has one.
#pragma once

#include "worker/channel.h"
#include "worker/walls.h"

namespace membrane::worker {

// Never returns. `walls` is what the process that it was born in could not raise.
[[noreturn]] void work(Descriptor socket, Walls walls);

}  // namespace membrane::worker
