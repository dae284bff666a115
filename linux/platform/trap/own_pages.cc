#include "linux/platform/trap/own_pages.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "linux/platform/trap/stub/layout.h"

namespace membrane::linux {
namespace {

void add(std::vector<PageRun>& runs, uint64_t address, uint64_t length) {
  if (!runs.empty() && runs.back().address + runs.back().length == address) runs.back().length += length;
  else runs.push_back({address, length});
}

// Of linux/fs.h since 6.7, which Debian 12's headers do not have.
struct ScannedRegion {
  uint64_t start, end, categories;
};
struct ScanArgument {
  uint64_t size, flags, start, end, walk_end, regions, region_count, most_pages;
  uint64_t inverted_categories, all_categories, any_categories, told_categories;
};
constexpr uint64_t kIsOfFile = 1 << 2, kIsPresent = 1 << 3, kIsSwapped = 1 << 4, kIsZeroPage = 1 << 5;

}  // namespace

const uint32_t kPagemapScan = _IOWR('f', 16, ScanArgument);

std::optional<std::vector<PageRun>> scan_own_pages(int file, uint64_t address, uint64_t length) {
  std::vector<PageRun> runs;
  std::array<ScannedRegion, 512> regions;
  const uint64_t end = address + length;
  while (address < end) {
    ScanArgument argument = {.size = sizeof(ScanArgument),
                             .flags = 0,
                             .start = address,
                             .end = end,
                             .walk_end = 0,
                             .regions = reinterpret_cast<uint64_t>(regions.data()),
                             .region_count = regions.size(),
                             .most_pages = 0,
                             .inverted_categories = kIsOfFile | kIsZeroPage,
                             .all_categories = kIsOfFile | kIsZeroPage,
                             .any_categories = kIsPresent | kIsSwapped,
                             .told_categories = kIsPresent | kIsSwapped};
    const int count = ioctl(file, kPagemapScan, &argument);
    if (count < 0 || argument.walk_end <= address || argument.walk_end > end) return std::nullopt;
    for (const ScannedRegion& each : std::span(regions).first(std::min<size_t>(count, regions.size())))
      add(runs, each.start, each.end - each.start);
    address = argument.walk_end;
  }
  return runs;
}

std::vector<PageRun> read_own_pages(int file, uint64_t address, uint64_t length) {
  constexpr uint64_t kPresent = uint64_t{1} << 63, kSwapped = uint64_t{1} << 62, kOfFile = uint64_t{1} << 61;
  std::vector<PageRun> runs;
  std::vector<uint64_t> words(std::min<uint64_t>(length / TRAP_PAGE, 1u << 16));
  for (uint64_t at = address; at < address + length;) {
    const size_t wanted = std::min<uint64_t>(words.size(), (address + length - at) / TRAP_PAGE);
    const ssize_t got = pread(file, words.data(), wanted * sizeof words[0],
                              static_cast<off_t>(at / TRAP_PAGE * sizeof words[0]));
    const size_t count = got <= 0 ? 0 : static_cast<size_t>(got) / sizeof words[0];
    if (count == 0) {
      add(runs, at, address + length - at);
      break;
    }
    for (size_t i = 0; i < count; ++i, at += TRAP_PAGE)
      if ((words[i] & (kPresent | kSwapped)) != 0 && (words[i] & kOfFile) == 0) add(runs, at, TRAP_PAGE);
  }
  return runs;
}

}  // namespace membrane::linux
