// The address space of linear memories. What one guest leaves in a region is cleared before another gets it.
//
// First touches cost most: on a virtual machine the fault for a page costs thirty times what zeroing it costs. So
// the pages that a guest has changed are put back as they were, in place, and stay with the region; only what is
// too much for that goes back to the system (MADV_DONTNEED).
//
// Threads: any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace membrane::engine {

class MemoryImage;

uint64_t system_page_bytes();

struct Region {
  uint8_t* base = nullptr;        // null: there was no address space
  uint64_t accessible_bytes = 0;  // from the base: can be read and written
  uint64_t used_bytes = 0;        // from the base: were accessible once; beyond, there are no pages
  uint64_t kept_bytes = 0;        // of its pages that stayed when it was put back; about
  uint64_t image = 0;             // the image that its beginning is mapped from; 0: none
  uint64_t image_bytes = 0;
  bool was_cleared = false;  // it gave its own pages back while it was idle
};

class RegionPool {
 public:
  static RegionPool& instance();  // outlives every memory, also static ones

  // A region that reads as the image (0: none) and then zeros, or one without an image, into which the
  // caller maps it.
  Region acquire(uint64_t image);
  // `image` is what the region is mapped from.
  void release(Region region, std::shared_ptr<const MemoryImage> image);
  // For a process that makes and ends many sandboxes: from now on a thread of the pool, started when it is first needed,
  // restores regions. A forked child of the process restores them in release() again.
  void put_back_in_background();
  // For a process that runs one program and ends: from now on released regions go back to the system.
  void keep_none();
  // Call it in the parent before fork(). Idle regions keep the pages of their images, which the child's page tables then
  // have, and give back their own pages, for which a child would pay twice: for copying the entries now, and the contents
  // when it writes.
  void prepare_for_fork();
  // The image was destroyed.
  void forget(uint64_t image);

  struct Count {
    size_t in_use = 0;
    size_t idle = 0;
    uint64_t kept_bytes = 0;
  };
  Count count();

 private:
  RegionPool() = default;
  // A region in the state in which its guest left it.
  struct Released {
    Region region;
    std::shared_ptr<const MemoryImage> image;
  };
  bool take_idle(uint64_t image, Region& region);
  bool take_released(uint64_t image, Released& released);
  bool give_to_thread(Released& released);
  void keep(Region region, bool is_usable);
  void run_thread();
  void begin_as_child();

  std::atomic<bool> keeps_ = true;
  std::mutex mutex_;
  std::vector<Region> idle_;
  size_t in_use_ = 0;
  uint64_t kept_bytes_ = 0;  // of the idle ones
  bool in_background_ = false, has_thread_ = false;
  std::deque<Released> released_;  // for the thread, the oldest first
  std::condition_variable has_released_;
};

}  // namespace membrane::engine
