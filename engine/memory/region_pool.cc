#include "engine/memory/region_pool.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "engine/memory/memory.h"
#include "engine/memory/memory_image.h"
#include "engine/memory/page_map.h"

namespace membrane::engine {
namespace {

constexpr uint64_t kReservedBytes = Memory::kRegionBytes + Memory::kGuardBytes;
constexpr size_t kMostIdle = 64;  // regions: each is 8 GiB of addresses
constexpr size_t kMostReleased =
    2;  // that wait for the thread: each may keep kMostRestoredBytes of its guest's
// Limits of what is searched of a region beside its image (the system knows what has changed in that), of what is put
// back in place, and of what all idle regions keep together.
constexpr uint64_t kMostSearchedBytes = 128u << 20, kMostRestoredBytes = 8u << 20, kMostKeptBytes = 64u << 20;
constexpr size_t kMostRuns = 32, kMostRunsOfImage = 1024;

// A page that is not in memory may still be in the swap, with what the guest left in it.
enum class PageState : uint8_t { kAbsent, kPresent };

// Calls `each` with the state, offset and bytes of each run of pages in the same state. False when `each`
// returned false.
template <typename F>
bool for_each_run(std::span<const PageState> pages, uint64_t first_offset, const F& each) {
  const uint64_t page_bytes = system_page_bytes();
  for (size_t i = 0; i < pages.size();) {
    size_t end = i + 1;
    while (end < pages.size() && pages[end] == pages[i]) ++end;
    if (!each(pages[i], first_offset + i * page_bytes, (end - i) * page_bytes)) return false;
    i = end;
  }
  return true;
}

bool drop(uint8_t* base, uint64_t bytes) { return bytes == 0 || madvise(base, bytes, MADV_DONTNEED) == 0; }

// Room for the states of that many pages, the thread's own.
std::span<PageState> page_states(size_t count) {
  thread_local std::vector<PageState> states;
  if (states.size() < count) states.resize(count);
  return std::span(states).first(count);
}

// Zeroes what a guest has left in pages without an image. The bytes that stay; nothing when it is too much.
std::optional<uint64_t> restore_zeros(uint8_t* base, uint64_t begin, uint64_t end) {
  const size_t count = (end - begin) / system_page_bytes();
  if (count == 0) return 0;
  const std::span<PageState> pages = page_states(count);
  auto* const residency = reinterpret_cast<unsigned char*>(pages.data());
  if (mincore(base + begin, end - begin, residency) != 0) return std::nullopt;
  for (size_t i = 0; i < count; ++i)
    pages[i] = (residency[i] & 1) != 0 ? PageState::kPresent : PageState::kAbsent;
  uint64_t kept = 0;
  size_t runs = 0;
  const bool done = for_each_run(pages, begin, [&](PageState state, uint64_t at, uint64_t bytes) {
    if (++runs > kMostRuns) return false;
    if (state == PageState::kAbsent) return drop(base + at, bytes);
    if ((kept += bytes) > kMostRestoredBytes) return false;
    std::memset(base + at, 0, bytes);
    return true;
  });
  return done ? std::optional(kept) : std::nullopt;
}

// Restores the pages that a guest has changed from the image. Returns the same as restore_zeros().
std::optional<uint64_t> restore_image(uint8_t* base, const MemoryImage& image) {
  const auto own = page_runs(base, image.bytes(), Pages::kOwn);
  if (!own || own->size() > kMostRunsOfImage) return std::nullopt;
  uint64_t kept = 0;
  std::vector<MemoryRange> changed;
  for (const PageRun& run : *own) {
    changed.emplace_back(run.offset, run.bytes);
    if (run.is_swapped) {
      if (!drop(base + run.offset, run.bytes)) return std::nullopt;
      continue;
    }
    if ((kept += run.bytes) > kMostRestoredBytes) return std::nullopt;
    std::memcpy(base + run.offset, image.content().data() + run.offset, run.bytes);
  }
  image.learn(changed);
  return kept;
}

// False when the region cannot be used again.
bool put_back(Region& region, const MemoryImage* image) {
  const uint64_t mapped = image == nullptr ? 0 : region.image_bytes;
  if (region.accessible_bytes - mapped <= kMostSearchedBytes) {
    const auto zeros = restore_zeros(region.base, mapped, region.accessible_bytes);
    const auto changed = !zeros || image == nullptr ? zeros : restore_image(region.base, *image);
    if (zeros && changed) {
      region.kept_bytes = std::max(region.kept_bytes, image == nullptr ? *zeros : *zeros + *changed);
      return true;
    }
  }
  region.kept_bytes = 0;
  return drop(region.base, region.used_bytes);
}

bool unmap_image(Region& region) {
  const int protection = region.accessible_bytes == 0 ? PROT_NONE : PROT_READ | PROT_WRITE;
  if (mmap(region.base, region.image_bytes, protection,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
    return false;
  region.accessible_bytes = std::max(region.accessible_bytes, region.image_bytes);
  region.image = region.image_bytes = 0;
  return true;
}

}  // namespace

uint64_t system_page_bytes() {
  static const auto bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

RegionPool& RegionPool::instance() {
  static RegionPool* const pool = new RegionPool;
  return *pool;
}

// The most recent region with this image; else the most recent one without an image; else the most
// recent one.
bool RegionPool::take_idle(uint64_t image, Region& region) {
  if (idle_.empty()) return false;
  auto best = idle_.end() - 1;
  if (best->image != image) {
    for (const uint64_t wanted : {image, uint64_t{0}}) {
      const auto found =
          std::find_if(idle_.rbegin(), idle_.rend(), [&](const Region& r) { return r.image == wanted; });
      if (found == idle_.rend()) continue;
      best = std::prev(found.base());
      break;
    }
  }
  region = *best;
  idle_.erase(best);
  kept_bytes_ -= region.kept_bytes;
  return true;
}

// The oldest region with this image.
bool RegionPool::take_released(uint64_t image, Released& released) {
  const auto found = std::ranges::find(released_, image, [](const Released& r) { return r.region.image; });
  if (found == released_.end()) return false;
  released = std::move(*found);
  released_.erase(found);
  return true;
}

Region RegionPool::acquire(uint64_t image) {
  Region region;
  Released released;
  bool found = false, is_released = false;
  {
    const std::lock_guard lock(mutex_);
    const bool has_idle = std::ranges::any_of(idle_, [&](const Region& idle) { return idle.image == image; });
    is_released = !has_idle && take_released(image, released);
    found = !is_released && take_idle(image, region);
    ++in_use_;
  }
  if (is_released) {
    if (put_back(released.region, released.image.get())) return released.region;
    munmap(released.region.base, kReservedBytes);
  }
  if (found && (region.image == image || region.image == 0 || unmap_image(region))) return region;
  if (found) munmap(region.base, kReservedBytes);
  void* const base =
      mmap(nullptr, kReservedBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base != MAP_FAILED) return {static_cast<uint8_t*>(base)};
  const std::lock_guard lock(mutex_);
  --in_use_;
  return {};
}

void RegionPool::release(Region region, std::shared_ptr<const MemoryImage> image) {
  region.used_bytes = std::max(region.used_bytes, region.accessible_bytes);
  const bool keeps = keeps_.load(std::memory_order_relaxed);
  Released released{region, std::move(image)};
  if (!keeps || !give_to_thread(released)) {
    const bool is_usable = keeps && put_back(released.region, released.image.get());
    keep(released.region, is_usable);
  }
  const std::lock_guard lock(mutex_);
  --in_use_;
}

void RegionPool::keep(Region region, bool is_usable) {
  const std::lock_guard lock(mutex_);
  if (is_usable && kept_bytes_ + region.kept_bytes > kMostKeptBytes) {
    is_usable = drop(region.base, region.used_bytes);
    region.kept_bytes = 0;
  }
  if (is_usable && idle_.size() < kMostIdle) {
    kept_bytes_ += region.kept_bytes;
    idle_.push_back(region);
    return;
  }
  munmap(region.base, kReservedBytes);
}

// -- in the background --------------------------------------------------------------------------------------------

void RegionPool::put_back_in_background() {
  [[maybe_unused]] static const int registered =
      pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                     [] { instance().begin_as_child(); });
  const std::lock_guard lock(mutex_);
  in_background_ = true;
}

// Call it with the lock held. The region that the thread was working on is lost to the child; those that were
// waiting for it are not.
void RegionPool::begin_as_child() {
  in_background_ = has_thread_ = false;
  new (&has_released_)
      std::condition_variable;  // the thread may have waited for the old one: it cannot be destroyed
  mutex_.unlock();
}

// False when the caller has to restore it itself.
bool RegionPool::give_to_thread(Released& released) {
  const std::lock_guard lock(mutex_);
  if (!in_background_ || released_.size() >= kMostReleased) return false;
  if (!has_thread_) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);  // the process's signals are for its own threads
    try {
      std::thread([this] { run_thread(); }).detach();
      has_thread_ = true;
    } catch (const std::system_error&) {
      in_background_ = false;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!has_thread_) return false;
  }
  released_.push_back(std::move(released));
  has_released_.notify_one();
  return true;
}

void RegionPool::run_thread() {
  for (;;) {
    Released released;
    {
      std::unique_lock lock(mutex_);
      has_released_.wait(lock, [this] { return !released_.empty(); });
      released = std::move(released_.front());
      released_.pop_front();
    }
    const bool is_usable = put_back(released.region, released.image.get());
    keep(released.region, is_usable);
  }
}

void RegionPool::keep_none() { keeps_.store(false, std::memory_order_relaxed); }

void RegionPool::prepare_for_fork() {
  const std::lock_guard lock(mutex_);
  for (Region& region : idle_) {
    if (std::exchange(region.was_cleared, true)) continue;
    const auto own = page_runs(region.base, region.used_bytes, Pages::kOwn);
    if (!own) drop(region.base, region.used_bytes);
    else
      for (const PageRun& run : *own) drop(region.base + run.offset, run.bytes);
    kept_bytes_ -= region.kept_bytes;
    region.kept_bytes = 0;
  }
}

void RegionPool::forget(uint64_t image) {
  const std::lock_guard lock(mutex_);
  std::erase_if(idle_, [&](const Region& region) {
    if (region.image != image) return false;
    kept_bytes_ -= region.kept_bytes;
    munmap(region.base, kReservedBytes);
    return true;
  });
}

RegionPool::Count RegionPool::count() {
  const std::lock_guard lock(mutex_);
  return {in_use_, idle_.size() + released_.size(), kept_bytes_};
}

}  // namespace membrane::engine
