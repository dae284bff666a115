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
  std::string directory;        // of this try alone; files in it:
  std::string file;             // readable by all
  std::string file_of_another;  // for another user alone, where this one may make such files
  std::string program;          // one that can be run
  std::string socket;           // somebody listens on it
  std::string abstract_socket;  // the same, by a name without a file
  uint16_t port = 0;            // of TCP on 127.0.0.1, where somebody listens
  int shared_memory_key = 0, shared_memory = -1, queue_key = 0, semaphore_key = 0;  // of System V
  int left_file = -1, left_directory = -1, left_listener = -1;  // descriptors that were not closed
  uint64_t cgroup_namespace = 0;                                // its inode
  std::string machine;                                          // its name
  int own_socket = -1;                                          // the worker's, to its supervisor
  std::string* secret = nullptr;                                // in the supervisor's memory
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
