// Paths opened beneath a directory by the kernel itself: openat2 with RESOLVE_BENEATH,
// RESOLVE_NO_MAGICLINKS and RESOLVE_NO_XDEV (openat2(2), Linux 5.6). There is no fall-back
// that walks the path in user space: such a walk can be raced.
//
// Threads: pure functions around system calls.
#pragma once

#include <string>
#include <utility>

#include "host/errno.h"

namespace membrane::host {

// A file descriptor with one owner.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd();

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

enum class Symlinks : uint8_t {
  kBeneath,  // followed when they stay beneath the directory
  kNone,     // refused, in every component
};

// Opens `path`, relative, beneath `directory`; "" is the directory itself. `flags` as for
// open(2); close-on-exec is added. `mode` only with O_CREAT.
// EACCES for whatever leaves the directory: "..", absolute symlinks, magic links, mounts.
HostResult<Fd> open_beneath(int directory, const std::string& path, int flags, Symlinks symlinks,
                            unsigned mode = 0);

// An errno of the system about `path`, as the program names it, in our words.
HostError system_error(int error, const std::string& path);

// ENOTSUP when this kernel cannot do what open_beneath needs.
HostResult<void> check_kernel();

}  // namespace membrane::host
