// What a worker does: it takes one command of its supervisor after the other, until the socket ends.
//
// Threads: the process has one.
#pragma once

#include "worker/channel.h"
#include "worker/walls.h"

namespace membrane::worker {

// Never returns. `walls` is what the process that it was born in could not raise. `embedder`: a process with which this one
// ends, too; then it is a zygote, and reaps its workers as soon as they end.
[[noreturn]] void work(Descriptor socket, Walls walls, Descriptor embedder = {});

}  // namespace membrane::worker
