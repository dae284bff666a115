// The main loop of a worker: it executes its supervisor's commands one after another, until the socket ends.
//
// Threads: the process has one.
#pragma once

#include "worker/channel.h"
#include "worker/walls.h"

namespace membrane::worker {

// Never returns. `walls`: those that the forking process could not raise. `embedder`: a process with which
// this one ends too; if given, this process is a zygote, and reaps its workers as soon as they end.
[[noreturn]] void work(Descriptor socket, Walls walls, Descriptor embedder = {});

}  // namespace membrane::worker
