// Writes the pages of a kept sandbox into its file, one after another. Threads: one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace membrane::linux {

class PageWriter {
 public:
  // The first page goes to `begin`, which is page-aligned. The file remains the caller's.
  PageWriter(int file, uint64_t begin)
      : file_(file), until_(std::chrono::steady_clock::now() + kMostTime), end_(begin), written_(begin) {}

  // Where the next page will go.
  [[nodiscard]] uint64_t end() const { return end_; }
  // Whole pages; the last is filled with zeros.
  void add(std::span<const std::byte> bytes);
  // Room for pages that the caller fills at once: at most kMostPages.
  static constexpr size_t kMostPages = 256;
  std::span<std::byte> room(size_t pages);
  // False after a failure, or once the whole takes longer than kMostTime: further pages are not written.
  static constexpr std::chrono::seconds kMostTime{60};
  bool goes_on();
  // Waits until everything added is in the file. Errors: the first of any write; kExhausted after kMostTime.
  Status finish();

 private:
  void flush();
  const int file_;
  const std::chrono::steady_clock::time_point until_;
  uint64_t end_, written_;
  std::vector<std::byte> waiting_;
  int error_ = 0;
};

// Writes all of it at an offset. Returns 0 or the error.
int write_at(int file, uint64_t offset, std::span<const std::byte> bytes);

}  // namespace membrane::linux
