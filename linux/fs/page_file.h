// A read-only mapped file whose pages are the contents of a tree's files: that of a kept sandbox
// (linux/kept/). It must not be changed or shortened while this exists. Threads: any; it does not change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "linux/abi/answer.h"

namespace membrane::linux {

class PageFile {
 public:
  // The file remains the caller's. Guests get its descriptor, so open it read-only if they must not change
  // it. Errors: those of fstat(), fcntl() and mmap(); EINVAL for anything but a file.
  static Try<std::shared_ptr<const PageFile>> map(int file);
  ~PageFile();
  PageFile(const PageFile&) = delete;
  PageFile& operator=(const PageFile&) = delete;

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  PageFile() = default;
  int fd_ = -1;
  std::span<const std::byte> bytes_;
};

}  // namespace membrane::linux
