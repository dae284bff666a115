#include "linux/kept/memory_state.h"

#include <algorithm>
#include <array>

#include "linux/image/layer.h"

namespace membrane::linux {
namespace {

// The limit for host mappings of one memory's areas and runs; the host allows 65,530. Runs beyond it are
// copied.
constexpr size_t kMostMappings = 40'000;
constexpr size_t kLeastAreaBytes = 32, kRunBytes = 24;

// Merges runs that are close to each other, to save mappings: the zeros between them cost a page.
constexpr uint64_t kNear = 8 * kPage;

// Granularity for a mostly empty area, so that the time can be checked.
constexpr uint64_t kLookedAtAtOnce = uint64_t{64} << 30;

constexpr std::string_view kVdso = "[vdso]";
constexpr std::array<std::string_view, 4> kNames = {"", "[heap]", "[stack]", kVdso};

bool has_own_pages(const Area& area) { return !area.is_shared && area.name != kVdso; }

template <typename State>
void transfer_places(State& state, Memory& memory) {
  for (uint64_t* const each :
       {&memory.start_code, &memory.end_code, &memory.start_stack, &memory.arguments_start,
        &memory.arguments_end, &memory.environment_start, &memory.environment_end})
    state(*each);
}

void add_run(std::vector<PageRun>& runs, const PageRun& run, uint64_t near) {
  if (!runs.empty()) {
    PageRun& last = runs.back();
    const uint64_t end = last.address + last.length;
    if (run.address <= end + near) {
      last.length = std::max(end, run.address + run.length) - last.address;
      return;
    }
  }
  runs.push_back(run);
}

}  // namespace

// Pages that were kept before and have not changed since are read from the file that they were kept in.
std::vector<PageRun> MemoryState::own_pages(SandboxWriter& to, Memory& memory, uint64_t start,
                                            const Area& area) {
  std::vector<PageRun> all;
  for (uint64_t at = start; at < area.end && to.pages.goes_on(); at += kLookedAtAtOnce)
    for (const PageRun& each : memory.space_->own_pages(at, std::min(kLookedAtAtOnce, area.end - at)))
      all.push_back(each);
  const size_t fresh = all.size();
  for (auto kept = memory.kept_pages_.lower_bound(start);
       kept != memory.kept_pages_.end() && kept->first < area.end; ++kept)
    if (kept->second.file >= 0) all.push_back({kept->first, kept->second.end - kept->first});
  std::ranges::inplace_merge(all, all.begin() + static_cast<ptrdiff_t>(fresh), {}, &PageRun::address);
  std::vector<PageRun> runs;
  for (const PageRun& each : all) add_run(runs, each, area.file == nullptr ? kNear : 0);
  return runs;
}

void MemoryState::write(SandboxWriter& to, Memory& memory, StateWriter& state) {
  transfer_places(state, memory);
  state(memory.heap_);
  state(memory.break_);
  state(static_cast<uint32_t>(memory.areas_.size()));
  StateWriter pages;
  uint32_t count = 0;
  for (const auto& [start, area] : memory.areas_) {
    if (!to.pages.goes_on()) return;
    state(start);
    state(area.end);
    state(static_cast<uint8_t>(area.protection));
    state(static_cast<uint8_t>(area.most_protection));
    state(area.is_shared);
    state(to.file(area.file));
    state(area.offset);
    state(static_cast<uint8_t>(std::ranges::find(kNames, area.name) - kNames.begin()));
    if (!has_own_pages(area)) continue;
    for (PageRun run : own_pages(to, memory, start, area)) {
      pages(run.address);
      pages(run.length);
      pages(to.pages.end());
      ++count;
      while (run.length > 0 && to.pages.goes_on()) {
        const auto room = to.pages.room(run.length / kPage);
        const size_t got = memory.space_->peek(run.address, room);
        std::ranges::fill(room.subspan(got), std::byte{});
        run.address += room.size();
        run.length -= room.size();
      }
    }
  }
  state(count);
  state.put(pages.bytes());
}

bool MemoryState::read_area(SandboxReader& from, Memory& memory, uint64_t& last) {
  StateReader& state = from.state;
  const auto start = state.get<uint64_t>();
  Area area;
  state(area.end);
  area.protection = state.get<uint8_t>();
  area.most_protection = state.get<uint8_t>();
  state(area.is_shared);
  area.file = from.take(from.files);
  state(area.offset);
  const auto name = state.get<uint8_t>();
  state.require(start % kPage == 0 && area.end % kPage == 0 && area.offset % kPage == 0 && start >= last &&
                start < area.end && memory.fits(start, area.end - start) && name < kNames.size() &&
                (area.protection & ~kAllProtections) == 0 && (area.most_protection & ~kAllProtections) == 0 &&
                (!area.is_shared || area.file != nullptr) && area.offset <= UINT64_MAX - (area.end - start));
  if (!state.is_good()) return false;
  area.name = kNames[name];
  last = area.end;
  const uint64_t length = area.end - start, offset = area.offset;
  memory.mapped_bytes_ += length;
  Area& added = memory.areas_.emplace(start, std::move(area)).first->second;
  return memory.map_base(start, length, added, offset).has_value();
}

bool MemoryState::read_pages(SandboxReader& from, Memory& memory, uint64_t& last, bool maps) {
  StateReader& state = from.state;
  const auto address = state.get<uint64_t>(), length = state.get<uint64_t>(), at = state.get<uint64_t>();
  const auto after = memory.areas_.upper_bound(address);
  state.require(address >= last && address % kPage == 0 && length > 0 && length % kPage == 0 &&
                at % kPage == 0 && at <= from.pages->bytes().size() &&
                length <= from.pages->bytes().size() - at && after != memory.areas_.begin());
  if (!state.is_good()) return false;
  const Area& area = std::prev(after)->second;
  state.require(address < area.end && length <= area.end - address && has_own_pages(area));
  if (!state.is_good()) return false;
  last = address + length;
  if (!maps) return memory.space_->poke(address, from.pages->bytes().subspan(at, length)) == length;
  memory.space_->map(address, length, area.protection, {.fd = from.pages->fd(), .offset = at});
  memory.kept_pages_[address] = {.end = last, .file = from.pages->fd(), .offset = at};
  return true;
}

bool MemoryState::read(SandboxReader& from, Memory& memory) {
  StateReader& state = from.state;
  transfer_places(state, memory);
  state(memory.heap_);
  state(memory.break_);
  state.require(memory.heap_ <= memory.break_ && memory.break_ <= memory.highest_);
  memory.kept_file_ = from.pages;
  uint64_t last = 0;
  for (size_t left = state.count(kLeastAreaBytes, Memory::kMostAreas); left > 0; --left)
    if (!state.is_good() || !read_area(from, memory, last)) return false;
  last = 0;
  size_t mappings = memory.areas_.size();
  for (size_t left = state.count(kRunBytes); left > 0; --left, mappings += 2)  // a run divides its area
    if (!state.is_good() || !read_pages(from, memory, last, mappings < kMostMappings)) return false;
  return state.is_good();
}

}  // namespace membrane::linux
