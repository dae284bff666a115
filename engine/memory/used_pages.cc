#include "engine/memory/used_pages.h"

#include <algorithm>
#include <cstring>

#include "engine/memory/page_map.h"

namespace membrane::engine {
namespace {

constexpr uint64_t kPage = 4096;

bool is_zero(const uint8_t* page) { return page[0] == 0 && std::memcmp(page, page + 1, kPage - 1) == 0; }

// One page more after them.
void append(std::vector<MemoryRange>& ranges, uint64_t at) {
  if (!ranges.empty() && ranges.back().first + ranges.back().second == at) ranges.back().second += kPage;
  else ranges.emplace_back(at, kPage);
}

}  // namespace

std::optional<std::vector<MemoryRange>> changed_pages(const Memory& memory) {
  if (memory.image() == nullptr || system_page_bytes() != kPage) return std::nullopt;
  const auto own = page_runs(memory.base(), memory.size_bytes(), Pages::kOwn);
  if (!own) return std::nullopt;
  const uint64_t image_bytes = memory.image()->bytes();
  std::vector<MemoryRange> changed;
  for (const PageRun& run : *own)
    for (uint64_t at = run.offset; at < run.offset + run.bytes; at += kPage)
      if (at < image_bytes || !is_zero(memory.base() + at)) append(changed, at);
  return changed;
}

// Pages of the image that were not touched are not in memory, but are not zero either. A large memory of which little is
// used is not read whole, unless the system does not say which pages are touched.
std::vector<MemoryRange> used_pages(const Memory& memory) {
  const uint64_t bytes = memory.size_bytes();
  const std::span<const uint8_t> image =
      memory.image() == nullptr ? std::span<const uint8_t>() : memory.image()->content();
  auto touched =
      system_page_bytes() == kPage ? page_runs(memory.base(), bytes, Pages::kTouched) : std::nullopt;
  if (!touched) touched = {{0, bytes, false}};
  std::vector<MemoryRange> used;
  uint64_t at = 0;
  const auto look_through = [&](const uint8_t* content, uint64_t end) {
    for (; at < end; at += kPage)
      if (!is_zero(content + at)) append(used, at);
  };
  for (const PageRun& run : *touched) {
    look_through(image.data(), std::clamp<uint64_t>(image.size(), at, run.offset));
    at = run.offset;
    look_through(memory.base(), run.offset + run.bytes);
  }
  look_through(image.data(), std::max<uint64_t>(image.size(), at));
  return used;
}

}  // namespace membrane::engine
