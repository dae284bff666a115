#include "engine/memory/page_map.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <span>

#include "base/kept_descriptors.h"
#include "engine/memory/region_pool.h"

namespace membrane::engine {
namespace {

int open_page_map() { return open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC); }

std::atomic<int> held_page_map{-1};

class PageMapFile {
 public:
  PageMapFile() : held_(held_page_map), number_(held_ >= 0 ? held_ : open_page_map()) {}
  ~PageMapFile() {
    if (number_ >= 0 && held_ < 0) close(number_);
  }
  PageMapFile(const PageMapFile&) = delete;
  PageMapFile& operator=(const PageMapFile&) = delete;
  [[nodiscard]] int number() const { return number_; }

 private:
  int held_;
  int number_;
};

// PAGEMAP_SCAN of <linux/fs.h>, which older headers do not have (Documentation/admin-guide/mm/pagemap.rst).
enum Category : uint64_t { kIsFile = 1u << 2, kIsPresent = 1u << 3, kIsSwapped = 1u << 4 };
struct ScannedRegion {
  uint64_t start, end, categories;
};
struct ScanRequest {
  uint64_t size, flags, start, end, walk_end, regions, region_count, most_pages;
  uint64_t inverted, all_of, any_of, told;
};
constexpr unsigned long kScan = _IOWR('f', 16, ScanRequest);

void append(std::vector<PageRun>& runs, const PageRun& next) {
  if (!runs.empty() && runs.back().is_swapped == next.is_swapped &&
      runs.back().offset + runs.back().bytes == next.offset)
    runs.back().bytes += next.bytes;
  else runs.push_back(next);
}

}  // namespace

void hold_page_map() {
  const int before = held_page_map.exchange(open_page_map());
  if (before >= 0) {
    KeptDescriptors::instance().remove(before);
    close(before);
  }
  KeptDescriptors::instance().add(held_page_map);
}

std::optional<std::vector<PageRun>> page_runs_by_scan(const uint8_t* base, uint64_t bytes, Pages wanted) {
  const PageMapFile file;
  std::array<ScannedRegion, 256>
      regions;  // NOLINT(cppcoreguidelines-pro-type-member-init): the kernel writes it
  const auto begin = reinterpret_cast<uint64_t>(base);
  const uint64_t no_file = wanted == Pages::kOwn ? uint64_t{kIsFile} : 0;
  ScanRequest request{.size = sizeof request,
                      .flags = 0,
                      .start = begin,
                      .end = begin + bytes,
                      .walk_end = 0,
                      .regions = reinterpret_cast<uint64_t>(regions.data()),
                      .region_count = regions.size(),
                      .most_pages = 0,
                      .inverted = no_file,
                      .all_of = no_file,
                      .any_of = kIsPresent | kIsSwapped,
                      .told = kIsSwapped};
  std::vector<PageRun> runs;
  while (request.start < request.end) {
    const int count = ioctl(file.number(), kScan, &request);
    if (count < 0) return std::nullopt;
    for (const ScannedRegion& r : std::span(regions).first(static_cast<size_t>(count)))
      append(runs, {r.start - begin, r.end - r.start, (r.categories & kIsSwapped) != 0});
    request.start = request.walk_end;
  }
  return runs;
}

std::optional<std::vector<PageRun>> page_runs_by_entries(const uint8_t* base, uint64_t bytes, Pages wanted) {
  constexpr uint64_t kPresent = 1ull << 63, kSwapped = 1ull << 62, kOfFile = 1ull << 61;
  const PageMapFile file;
  const uint64_t page_bytes = system_page_bytes(), count = bytes / page_bytes;
  const uint64_t first_page = reinterpret_cast<uint64_t>(base) / page_bytes;
  std::array<uint64_t, 1024> entries;  // NOLINT(cppcoreguidelines-pro-type-member-init): the map writes it
  std::vector<PageRun> runs;
  for (uint64_t first = 0; first < count; first += entries.size()) {
    const auto part = std::span(entries).first(std::min<uint64_t>(entries.size(), count - first));
    if (pread(file.number(), part.data(), part.size_bytes(),
              static_cast<off_t>((first_page + first) * sizeof(uint64_t))) !=
        static_cast<ssize_t>(part.size_bytes()))
      return std::nullopt;
    for (uint64_t i = 0; i < part.size(); ++i) {
      const bool is_there = (part[i] & (kPresent | kSwapped)) != 0;
      if (is_there && (wanted == Pages::kTouched || (part[i] & kOfFile) == 0))
        append(runs, {(first + i) * page_bytes, page_bytes, (part[i] & kSwapped) != 0});
    }
  }
  return runs;
}

std::optional<std::vector<PageRun>> page_runs(const uint8_t* base, uint64_t bytes, Pages wanted) {
  if (auto runs = page_runs_by_scan(base, bytes, wanted)) return runs;
  return page_runs_by_entries(base, bytes, wanted);
}

}  // namespace membrane::engine
