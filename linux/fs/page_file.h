// A file that is mapped for reading, and whose pages are contents of files of a tree: those of a sandbox that was kept (linux/kept/).
// It must not be changed or made shorter while it is here. Threads: any; it does not change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "linux/abi/answer.h"

namespace membrane::linux {

class PageFile {
 public:
  // The file stays the caller's. Guests get its descriptor: where they must not change it, it is open for reading only. Errors: those
  // of fstat(), fcntl() and mmap(); EINVAL for what is no file.
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
