// The memory that the host attributes to a process, from /proc. Threads: any.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace membrane::linux {

struct ProcessMemory {
  uint64_t anonymous_bytes = 0;  // anonymous pages, including swapped-out ones
  uint64_t table_bytes = 0;      // of page tables
};
// From counters that the host maintains, without walking page tables. 0: the caller's process. Nothing when
// unknown.
std::optional<ProcessMemory> process_memory(pid_t process);

// The process's proportional share of such pages: a shared page is divided by the number of its users.
// Nothing when unknown.
std::optional<uint64_t> proportional_bytes(pid_t process);

}  // namespace membrane::linux
