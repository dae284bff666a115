// Opens paths beneath a directory: whatever a path's components and symbolic links are, and whatever others rename
// or replace meanwhile, the opened file was reached from that directory and is on its mount.
//
// There are two implementations, and the machine determines which is used (path_resolution):
//
//   kOpenat2  openat2 with RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS and RESOLVE_NO_XDEV (openat2(2), Linux 5.6)
//   kWalk     one component at a time (path_walk.h), where the kernel or a container's seccomp profile has no openat2
//
// Threads: pure functions around system calls.
#pragma once

#include <string>
#include <string_view>
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
  kBeneath,  // followed if they stay beneath the directory
  kNone,     // refused, in every component
};

// Opens `path`, relative, beneath `directory`; "" is the directory itself. `flags` as for open(2); close-on-exec is
// added. `mode` only with O_CREAT. EACCES for everything that leaves the directory: "..", absolute symlinks, magic
// links, mounts.
HostResult<Fd> open_beneath(int directory, const std::string& path, int flags, Symlinks symlinks,
                            unsigned mode = 0);

// Converts an errno of the system about `path`, the program's name of the file.
HostError system_error(int error, const std::string& path);

enum class PathResolution : uint8_t { kOpenat2, kWalk };

// How open_beneath opens files on this machine. The first call asks the kernel; any thread.
PathResolution path_resolution();
std::string_view name_of(PathResolution resolution);  // "openat2", "walk"

// ENOTSUP when this machine supports neither: a walk must learn the mount of each file, from statx or from /proc.
HostResult<void> check_kernel();

// For tests: while one exists, every thread of the process opens files this way. At most one at a time. Both ways
// guarantee the same, so this cannot weaken it.
class PathResolutionForTesting {
 public:
  explicit PathResolutionForTesting(PathResolution resolution);
  PathResolutionForTesting(const PathResolutionForTesting&) = delete;
  PathResolutionForTesting& operator=(const PathResolutionForTesting&) = delete;
  ~PathResolutionForTesting();
};

// Whether this machine has openat2, regardless of a test's choice.
bool has_openat2();

}  // namespace membrane::host
