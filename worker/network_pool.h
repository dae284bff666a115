// The network namespaces of a zygote's workers: made once, and given to one worker after another. To make one and to clean
// it up takes longer than all other walls of a worker together.
//
// No two workers are ever in the same one: it is free when the process of its worker has ended. A worker can leave nothing
// in it for the next, even where no other wall stands: it belongs to the zygote's user namespace, so that no worker can
// change it; no interface in it is up, not even loopback; and sockets end with their process. That is why it is networks
// alone that are used again: queues and shared memory stay in an IPC namespace.
//
// Threads: for processes with one thread.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "worker/channel.h"

namespace membrane::worker {

class NetworkPool {
 public:
  // This process, and what it forks, is in a network of the pool from then on, until leave(). Its number; nothing where the
  // system refuses: then a worker makes its own.
  std::optional<size_t> enter();
  // Back to this process's own.
  void leave();
  // The worker that was forked in it has ended.
  void give_back(size_t number) { free_.push_back(number); }
  // In a forked worker, which has no use for those of others.
  void close_all();

 private:
  static Descriptor current();
  static bool join(const Descriptor& network);

  Descriptor home_;
  std::vector<Descriptor> all_;
  std::vector<size_t> free_;
};

}  // namespace membrane::worker
