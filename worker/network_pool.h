// The network namespaces of a zygote's workers: created once, and given to one worker after another. Creating
// and cleaning up a namespace takes longer than all other walls of a worker together.
//
// No two workers are ever in the same one: it becomes free when its worker's process has ended. A worker can
// leave nothing in it for the next, even without any other wall: it belongs to the zygote's user namespace,
// so no worker can change it; no interface in it is up, not even loopback; and sockets end with their
// process. That is why only networks are reused: queues and shared memory would stay in an IPC namespace.
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
  // Moves this process, and its forks, into a network of the pool until leave(). Returns its number; nothing
  // if the system refuses: then a worker creates its own.
  std::optional<size_t> enter();
  // Returns to this process's own network.
  void leave();
  // The worker that was forked in it has ended.
  void give_back(size_t number) { free_.push_back(number); }
  // In a forked worker, which has no use for the others.
  void close_all();

 private:
  static Descriptor current();
  static bool join(const Descriptor& network);

  Descriptor home_;
  std::vector<Descriptor> all_;
  std::vector<size_t> free_;
};

}  // namespace membrane::worker
