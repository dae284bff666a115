// Which pages of this process are there, as the kernel tells (/proc/self/pagemap).
//
// Threads: any; what other threads do with the pages at the same time may be reported or not.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace membrane::engine {

enum class Pages : uint8_t {
  kTouched,  // somebody has come to them: they are there, or in the swap
  kOwn,      // of these, the ones that are no file's: written to, or without a file
};

// Neighbouring pages that are alike.
struct PageRun {
  uint64_t offset, bytes;
  bool is_swapped;
  bool operator==(const PageRun&) const = default;
};

// Opens the system's map of this process once and for all, for when no file can be opened any more. After a fork the
// child calls it again: what its parent holds is the parent's map.
void hold_page_map();

// The runs of such pages, ascending, in `bytes` from `base` on; both are whole pages. Nothing when the system
// does not say.
std::optional<std::vector<PageRun>> page_runs(const uint8_t* base, uint64_t bytes, Pages wanted);

// The two ways to ask, the first of which is quick, and not there before Linux 6.7.
std::optional<std::vector<PageRun>> page_runs_by_scan(const uint8_t* base, uint64_t bytes, Pages wanted);
std::optional<std::vector<PageRun>> page_runs_by_entries(const uint8_t* base, uint64_t bytes, Pages wanted);

}  // namespace membrane::engine
