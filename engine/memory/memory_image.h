// The content that many memories begin with: written once into a file without a name, and mapped copy-on-write
// into each, so that a memory pays for the pages that it changes, and not for all of them.
//
// Ownership: shared by the memories that begin with it and by their maker. Threads: any; it does not change,
// except for what it learns.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace membrane::engine {

// Offset and bytes.
using MemoryRange = std::pair<uint64_t, uint64_t>;
using MemoryPart = std::pair<uint64_t, std::span<const uint8_t>>;

class MemoryImage {
 public:
  // Copying less than this costs less than mapping it.
  static constexpr uint64_t kLeastBytes = 256u << 10;

  // The parts are within the first `bytes`, and may follow each other in any order; what is between them is zero.
  // Null when the system has no room or no such files: then the parts must be copied.
  static std::shared_ptr<const MemoryImage> create(uint64_t bytes, std::span<const MemoryPart> parts);
  // An image of a part of a file, which must not change any more. `offset` and `bytes` are whole pages of the system.
  // Null when the system refuses.
  static std::shared_ptr<const MemoryImage> of_file(int file, uint64_t offset, uint64_t bytes);
  ~MemoryImage();
  MemoryImage(const MemoryImage&) = delete;
  MemoryImage& operator=(const MemoryImage&) = delete;

  [[nodiscard]] uint64_t number() const { return number_; }  // of this image alone in the process; never 0
  [[nodiscard]] uint64_t bytes() const { return content_.size(); }  // whole pages of the system
  [[nodiscard]] std::span<const uint8_t> content() const { return content_; }
  // Maps it at `base`, readable and writable.
  [[nodiscard]] bool map_at(uint8_t* base) const;

  // Reports the ranges that a memory had changed when it ended. The first report is kept: the same pages of other
  // memories are then made at once when code begins to run, instead of one by one as they are changed.
  void learn(std::span<const MemoryRange> changed) const;
  [[nodiscard]] std::vector<MemoryRange> learned() const;
  void populate(uint8_t* base) const;

 private:
  MemoryImage() = default;
  bool map(uint64_t bytes);

  uint64_t number_ = 0;
  int file_ = -1;
  uint64_t offset_ = 0;               // in the file
  std::span<const uint8_t> content_;  // mapped, read only
  mutable std::mutex mutex_;          // guards changed_
  mutable std::vector<MemoryRange> changed_;
};

}  // namespace membrane::engine
