#include "host/files/beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "host/files/path_walk.h"

namespace membrane::host {
namespace {

// RESOLVE_BENEATH returns EAGAIN when a concurrent rename races with a ".." in a symlink: the kernel could not tell
// whether the path is still beneath. Worth a few more tries, not more.
constexpr int kTries = 16;

int openat2(int directory, const char* path, const open_how& how) {
  return static_cast<int>(syscall(SYS_openat2, directory, path, &how, sizeof how));
}

constexpr uint64_t kResolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;

// Kernels before 5.6 return ENOSYS, and so do emulators; a seccomp profile older than openat2 returns EPERM.
bool probe_openat2() {
  open_how how{};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = kResolve;
  const Fd fd(openat2(AT_FDCWD, ".", how));
  return fd.valid() || (errno != ENOSYS && errno != EINVAL && errno != E2BIG && errno != EPERM);
}

constexpr int kAsProbed = -1;
std::atomic<int> resolution_for_testing = kAsProbed;

std::expected<Fd, int> open_by_openat2(int directory, const std::string& path, int flags, Symlinks symlinks,
                                       unsigned mode) {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC);
  how.mode = mode;
  how.resolve = kResolve;
  if (symlinks == Symlinks::kNone) how.resolve |= RESOLVE_NO_SYMLINKS;
  for (int i = 0; i < kTries; ++i) {
    const int fd = openat2(directory, path.empty() ? "." : path.c_str(), how);
    if (fd >= 0) return Fd(fd);
    if (errno != EAGAIN && errno != EINTR) break;
  }
  return std::unexpected(errno);
}

}  // namespace

Fd::~Fd() {
  if (fd_ >= 0) close(fd_);
}

HostError system_error(int error, const std::string& path) {
  const auto say = [&](Errno code, const char* what) { return HostError{code, path + " " + what, ""}; };
  switch (error) {
    case EXDEV: return say(Errno::kAccess, "leads out of the granted directory.");
    case ELOOP: return say(Errno::kAccess, "leads through a symbolic link that is not followed.");
    case EAGAIN: return say(Errno::kAccess, "is being moved while it is opened.");
    case EACCES:
    case EPERM: return say(Errno::kAccess, "is not accessible to Membrane itself on the host.");
    case EROFS: return say(Errno::kAccess, "is on a read-only file system of the host.");
    case ENOENT: return say(Errno::kNotFound, "does not exist.");
    case ENOTDIR: return say(Errno::kNotDir, "has a part that is not a directory.");
    case EISDIR: return say(Errno::kIsDir, "is a directory.");
    case EEXIST: return say(Errno::kExists, "exists already.");
    case ENOTEMPTY: return say(Errno::kInvalid, "is a directory that is not empty.");
    case ENAMETOOLONG: return say(Errno::kInvalid, "is too long a name.");
    case ENXIO:
    case ENODEV: return say(Errno::kAccess, "is neither a regular file nor a directory.");
    case EFBIG: return say(Errno::kTooBig, "would be too large for the host's file system.");
    case ENOSPC:
    case EDQUOT: return say(Errno::kHost, "finds no more room on the host's disk.");
    case ENOTSUP:
      return say(
          Errno::kUnsupported,
          "cannot be opened safely: this machine has no openat2, and neither statx nor /proc says which "
          "mount a file lies on.");
    default: return {Errno::kHost, path + ": " + std::strerror(error) + ".", ""};
  }
}

HostResult<Fd> open_beneath(int directory, const std::string& path, int flags, Symlinks symlinks,
                            unsigned mode) {
  const auto open = path_resolution() == PathResolution::kOpenat2 ? open_by_openat2 : open_by_walk;
  auto fd = open(directory, path, flags, symlinks, mode);
  if (!fd) return std::unexpected(system_error(fd.error(), path));
  return std::move(*fd);
}

bool has_openat2() {
  static const bool has = probe_openat2();
  return has;
}

PathResolution path_resolution() {
  const int forced = resolution_for_testing.load(std::memory_order_relaxed);
  if (forced != kAsProbed) return static_cast<PathResolution>(forced);
  return has_openat2() ? PathResolution::kOpenat2 : PathResolution::kWalk;
}

std::string_view name_of(PathResolution resolution) {
  return resolution == PathResolution::kOpenat2 ? "openat2" : "walk";
}

HostResult<void> check_kernel() {
  if (path_resolution() == PathResolution::kOpenat2 || can_tell_mounts()) return {};
  return refuse(Errno::kUnsupported, system_error(ENOTSUP, "The granted directory").reason);
}

PathResolutionForTesting::PathResolutionForTesting(PathResolution resolution) {
  resolution_for_testing = static_cast<int>(resolution);
}

PathResolutionForTesting::~PathResolutionForTesting() { resolution_for_testing = kAsProbed; }

}  // namespace membrane::host
