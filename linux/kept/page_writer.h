// The pages of a kept sandbox on their way into its file, one after the other. Threads: one.
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
  // The first page comes at `begin`, a whole page. The file stays the caller's.
  PageWriter(int file, uint64_t begin)
      : file_(file), until_(std::chrono::steady_clock::now() + kMostTime), end_(begin), written_(begin) {}

  // Where the next page will be.
  [[nodiscard]] uint64_t end() const { return end_; }
  // Whole pages; the last is filled with zeros.
  void add(std::span<const std::byte> bytes);
  // Room for pages that whoever calls fills at once: their number is at most kMostPages.
  static constexpr size_t kMostPages = 256;
  std::span<std::byte> room(size_t pages);
  // False after a failure, or when all of it takes longer than kMostTime: what comes is not written.
  static constexpr std::chrono::seconds kMostTime{60};
  bool goes_on();
  // What was added is in the file. Errors: the first that any write had; kExhausted after kMostTime.
  Status finish();

 private:
  void flush();
  const int file_;
  const std::chrono::steady_clock::time_point until_;
  uint64_t end_, written_;
  std::vector<std::byte> waiting_;
  int error_ = 0;
};

// All of it, at an offset. 0, or the error.
int write_at(int file, uint64_t offset, std::span<const std::byte> bytes);

}  // namespace membrane::linux
