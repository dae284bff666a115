// Finds the private pages of a process with /proc/PID/pagemap: anonymous ones, present or swapped out.
// Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "linux/platform/platform.h"

namespace membrane::linux {

// The ioctl() request that scan_own_pages() makes.
extern const uint32_t kPagemapScan;

// `file` is the pagemap; the range is whole pages, and the runs ascend. The host walks its page tables, so
// empty ranges cost nothing; zero pages that were only read do not count. Returns nothing before Linux 6.7,
// which lacks the request.
std::optional<std::vector<PageRun>> scan_own_pages(int file, uint64_t address, uint64_t length);
// The same by reading: a word for each page, empty or not, which takes a second for each TiB.
std::vector<PageRun> read_own_pages(int file, uint64_t address, uint64_t length);

}  // namespace membrane::linux
