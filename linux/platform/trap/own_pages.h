// Which pages of a process are its own, by /proc/PID/pagemap: anonymous ones, present or swapped out. Threads: any.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "linux/platform/platform.h"

namespace membrane::linux {

// The request that scan_own_pages() makes of the host, by ioctl().
extern const uint32_t kPagemapScan;

// `file` is that of the pagemap; the range is whole pages, and the runs ascend. The host walks its page tables, so that what is empty
// costs nothing; pages of zeros that were only read are none. Nothing before Linux 6.7, which lacks the request.
std::optional<std::vector<PageRun>> scan_own_pages(int file, uint64_t address, uint64_t length);
// The same by reading: a word for each page, empty or not, a second for each TiB.
std::vector<PageRun> read_own_pages(int file, uint64_t address, uint64_t length);

}  // namespace membrane::linux
