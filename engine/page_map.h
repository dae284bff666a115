// What the kernel's page map (/proc/self/pagemap) says of this process's pages.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <span>

namespace membrane::engine {

class PageMap {
 public:
  // Bits of an entry.
  static constexpr uint64_t kPresent = 1ull << 63, kSwapped = 1ull << 62, kOfFile = 1ull << 61;

  PageMap();
  ~PageMap();
  PageMap(const PageMap&) = delete;
  PageMap& operator=(const PageMap&) = delete;

  // The entries of the pages from that of `address` on. False when they cannot be read.
  [[nodiscard]] bool read(const uint8_t* address, std::span<uint64_t> entries) const;

 private:
  int file_;
};

}  // namespace membrane::engine
