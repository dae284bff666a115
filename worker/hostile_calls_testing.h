// What a worker that runs arbitrary code tries: the rows of hostile_calls.def, each a system call or a few.
//
// Threads: for processes with one thread, which end after an attempt.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>

#include "worker/walls.h"

namespace membrane::worker {

// Resources of a supervisor on this machine that a worker could want; created before the worker.
struct Bait {
  pid_t supervisor = 0;
  std::string directory;        // for this attempt only; with these files:
  std::string file;             // readable by all
  std::string file_of_another;  // readable only by another user, if such a file can be created
  std::string program;          // an executable program
  std::string socket;           // a listening socket
  std::string abstract_socket;  // the same, with an abstract name
  uint16_t port = 0;            // a listening TCP port on 127.0.0.1
  int shared_memory_key = 0, shared_memory = -1, queue_key = 0, semaphore_key = 0;  // of System V
  int left_file = -1, left_directory = -1, left_listener = -1;                      // descriptors left open
  uint64_t cgroup_namespace = 0;                                                    // its inode
  std::string machine;                                                              // its name
  int own_socket = -1;            // the worker's socket to its supervisor
  std::string* secret = nullptr;  // in the supervisor's memory
};

// Returns -errno for a refusal; 0 when there was nothing; anything else means that it succeeded.
using Act = int (*)(const Bait& bait);

enum class When : uint8_t { running, setting_up, orphaned };

struct Try {
  const char* name;
  Wall wall;
  When when;
  const char* stop;
  Act act;
};
std::span<const Try> all_tries();

}  // namespace membrane::worker
