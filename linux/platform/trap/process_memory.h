// What the host counts as a process's memory, by /proc. Threads: any.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace membrane::linux {

struct ProcessMemory {
  uint64_t anonymous_bytes = 0;  // pages of no file that it has, also those that are swapped out
  uint64_t table_bytes = 0;      // of page tables
};
// Of counts that the host keeps: it walks no page table. 0: of the caller's process. Nothing when it is not known.
std::optional<ProcessMemory> process_memory(pid_t process);

// The process's part of such pages: one that others have, too, is divided by how many have it. Nothing when it is not known.
std::optional<uint64_t> proportional_bytes(pid_t process);

}  // namespace membrane::linux
