// Reads the headers of ELF programs: what to map where. The bytes are foreign: all sizes are bounded and
// checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "linux/abi/answer.h"
#include "linux/fs/node.h"

namespace membrane::linux {

struct ElfSegment {
  uint64_t address = 0, memory_size = 0;  // as in the program; not yet page-aligned
  uint64_t offset = 0, file_size = 0;
  int protection = 0;
};

struct ElfProgram {
  bool moves = false;  // ET_DYN: position-independent
  uint64_t entry = 0, headers_address = 0;
  uint16_t headers = 0;
  std::vector<ElfSegment> segments;  // in order of addresses; none overlap after rounding to pages
  std::string interpreter;           // "" for none
  bool has_executable_stack = false;
  uint64_t lowest = 0, end = 0;  // of all segments, in whole pages
  uint64_t alignment = 4096;
};

// Errors: ENOEXEC for a file that is not an ELF program of x86-64, or is malformed; EIO.
Try<ElfProgram> read_elf(Node& node);

}  // namespace membrane::linux
