// Which pages of this process are there, as the kernel tells (/proc/self/pagemap).
//
// Threads: any; what other threads do with the pages at the same time may be reported or not.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace membrane::engine {

enum class Pages : uint8_t {
  kTouched,  // they were touched: they are in memory or in the swap
  kOwn,      // of these, the ones that do not belong to a file: written to, or anonymous
};

// Neighbouring pages in the same state.
struct PageRun {
  uint64_t offset, bytes;
  bool is_swapped;
  bool operator==(const PageRun&) const = default;
};

// Opens the system's map of this process, for a process that will not be able to open files later. After a fork the
// child calls it again, since it inherits its parent's map.
void hold_page_map();

// The runs of such pages, ascending, in `bytes` from `base` on; both are whole pages. Nothing when the system
// does not provide this.
std::optional<std::vector<PageRun>> page_runs(const uint8_t* base, uint64_t bytes, Pages wanted);

// The two ways to ask. The first is quick, and needs Linux 6.7.
std::optional<std::vector<PageRun>> page_runs_by_scan(const uint8_t* base, uint64_t bytes, Pages wanted);
std::optional<std::vector<PageRun>> page_runs_by_entries(const uint8_t* base, uint64_t bytes, Pages wanted);

}  // namespace membrane::engine
