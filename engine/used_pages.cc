#include "engine/used_pages.h"

#include <cstring>

#include "engine/page_map.h"

namespace membrane::engine {
namespace {

constexpr uint64_t kPage = 4096;

// Which pages are the guest's own by now: the kernel's page map says what is present or swapped out. A large memory
// of which little is used is so not read whole. Without the map, all are taken as touched.
std::vector<bool> touched_pages(const uint8_t* base, uint64_t count) {
  std::vector<bool> touched(count, true);
  if (system_page_bytes() != kPage) return touched;
  const PageMap map;
  std::vector<uint64_t> entries(std::min<uint64_t>(count, 8192));
  for (uint64_t first = 0; first < count; first += entries.size()) {
    const uint64_t wanted = std::min<uint64_t>(entries.size(), count - first);
    if (!map.read(base + first * kPage, std::span(entries).first(wanted))) break;
    for (uint64_t i = 0; i < wanted; ++i)
      touched[first + i] = (entries[i] & (PageMap::kPresent | PageMap::kSwapped)) != 0;
  }
  return touched;
}

bool is_zero(const uint8_t* page) { return page[0] == 0 && std::memcmp(page, page + 1, kPage - 1) == 0; }

}  // namespace

namespace {

// The runs of pages for which `is_wanted` says so.
template <typename F>
std::vector<MemoryRange> runs_of(uint64_t count, const F& is_wanted) {
  std::vector<MemoryRange> runs;
  for (uint64_t page = 0; page < count; ++page) {
    if (!is_wanted(page)) continue;
    const uint64_t first = page;
    do ++page;
    while (page < count && is_wanted(page));
    runs.emplace_back(first * kPage, (page - first) * kPage);
  }
  return runs;
}

}  // namespace

std::optional<std::vector<MemoryRange>> changed_pages(const Memory& memory) {
  if (memory.image() == nullptr || system_page_bytes() != kPage) return std::nullopt;
  const uint64_t count = memory.size_bytes() / kPage, in_image = memory.image()->bytes() / kPage;
  const PageMap map;
  std::vector<uint64_t> entries(count);
  if (!map.read(memory.base(), entries)) return std::nullopt;
  return runs_of(count, [&](uint64_t page) {
    const uint64_t entry = entries[page];
    if ((entry & (PageMap::kPresent | PageMap::kSwapped)) == 0) return false;
    if (page < in_image) return (entry & PageMap::kSwapped) != 0 || (entry & PageMap::kOfFile) == 0;
    return !is_zero(memory.base() + page * kPage);
  });
}

std::vector<MemoryRange> used_pages(const Memory& memory) {
  const uint64_t count = memory.size_bytes() / kPage;
  const std::vector<bool> touched = touched_pages(memory.base(), count);
  // What it began with and nobody touched is not there, and not zero either.
  const std::span<const uint8_t> image =
      memory.image() == nullptr ? std::span<const uint8_t>() : memory.image()->content();
  const auto is_used = [&](uint64_t page) {
    if (touched[page]) return !is_zero(memory.base() + page * kPage);
    return (page + 1) * kPage <= image.size() && !is_zero(image.data() + page * kPage);
  };
  return runs_of(count, is_used);
}

}  // namespace membrane::engine
