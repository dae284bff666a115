#include "host/files/path_walk.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <vector>

namespace membrane::host {
namespace {

constexpr int kLook = O_PATH | O_NOFOLLOW | O_CLOEXEC;
// Another process can replace the last component between its examination and its opening. Worth a few more tries.
constexpr int kTries = 16;

std::unexpected<int> failed(int error) { return std::unexpected(error); }

// -- the file of a descriptor --------------------------------------------------------------

struct Seen {
  mode_t mode;
  uint64_t mount;
};

// The line `mnt_id:` of /proc/self/fdinfo/FD (Linux 3.15).
std::optional<uint64_t> mount_by_proc(int fd) {
  const std::string name = "/proc/self/fdinfo/" + std::to_string(fd);
  const Fd info(::open(name.c_str(), O_RDONLY | O_CLOEXEC));
  if (!info.valid()) return std::nullopt;
  std::array<char, 1024> buffer{};
  const ssize_t got = ::read(info.get(), buffer.data(), buffer.size());
  if (got <= 0) return std::nullopt;
  const std::string_view text(buffer.data(), static_cast<size_t>(got));
  constexpr std::string_view kKey = "mnt_id:";
  const size_t at = text.find(kKey);
  if (at == std::string_view::npos) return std::nullopt;
  const size_t digits = text.find_first_not_of(" \t", at + kKey.size());
  if (digits == std::string_view::npos) return std::nullopt;
  uint64_t mount = 0;
  const auto [end, error] = std::from_chars(text.data() + digits, text.data() + text.size(), mount);
  if (error != std::errc()) return std::nullopt;
  return mount;
}

// statx returns type and mount together (Linux 5.8). An emulator may claim to return the mount and leave it 0.
std::expected<Seen, int> look_at(int fd) {
  struct statx info{};
  if (statx(fd, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT, STATX_TYPE | STATX_MNT_ID, &info) == 0 &&
      (info.stx_mask & STATX_TYPE) != 0 && (info.stx_mask & STATX_MNT_ID) != 0 && info.stx_mnt_id != 0)
    return Seen{info.stx_mode, info.stx_mnt_id};
  struct stat plain{};
  if (fstat(fd, &plain) != 0) return failed(errno);
  const auto mount = mount_by_proc(fd);
  if (!mount) return failed(ENOTSUP);
  return Seen{plain.st_mode, *mount};
}

// The target of an open symbolic link. ELOOP for the links of /proc, which lead to objects rather than to their
// text: openat2 follows the few ordinary ones there; this does not.
std::expected<std::string, int> read_link(int fd) {
  struct statfs system{};
  if (fstatfs(fd, &system) != 0) return failed(errno);
  if (system.f_type == PROC_SUPER_MAGIC) return failed(ELOOP);
  std::array<char, PATH_MAX> buffer{};
  const ssize_t got = readlinkat(fd, "", buffer.data(), buffer.size());
  if (got < 0) return failed(errno);
  if (got == 0) return failed(ENOENT);
  if (static_cast<size_t>(got) == buffer.size()) return failed(ENAMETOOLONG);
  return std::string(buffer.data(), static_cast<size_t>(got));
}

// -- the walk ----------------------------------------------------------------------------

class Walk {
 public:
  Walk(int root, int flags, Symlinks symlinks, unsigned mode)
      : root_(root), flags_(flags | O_CLOEXEC), symlinks_(symlinks), mode_(mode) {}

  std::expected<Fd, int> open(const std::string& path);

 private:
  [[nodiscard]] int here() const { return directories_.empty() ? root_ : directories_.back().get(); }
  std::expected<void, int> add(std::string_view path);
  std::expected<void, int> follow(const Fd& link);
  std::expected<Seen, int> look_on_mount(const Fd& fd) const;
  std::expected<void, int> step(const std::string& name);
  std::expected<Fd, int> open_directory();
  std::expected<std::optional<Fd>, int> open_last(const std::string& name);
  std::expected<Fd, int> create(const std::string& name);

  const int root_;
  const int flags_;
  const Symlinks symlinks_;
  const unsigned mode_;
  uint64_t mount_ = 0;
  int links_ = 0;
  size_t added_ = 0;
  std::vector<Fd> directories_;       // the path from the root to here, without the root
  std::vector<std::string> to_come_;  // remaining components, the next one last
};

// Puts the components of `path` before the remaining ones. A trailing slash counts as a "." after it.
std::expected<void, int> Walk::add(std::string_view path) {
  if (path.size() >= PATH_MAX) return failed(ENAMETOOLONG);
  if (path.starts_with('/')) return failed(EXDEV);
  if (path.find('\0') != std::string_view::npos) return failed(EINVAL);
  std::vector<std::string> components;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    if (end > at) components.emplace_back(path.substr(at, end - at));
    at = end + 1;
  }
  if (path.empty() || path.ends_with('/')) components.emplace_back(".");
  added_ += components.size();
  if (added_ > kMaxWalkSteps) return failed(ENAMETOOLONG);
  to_come_.insert(to_come_.end(), components.rbegin(), components.rend());
  return {};
}

std::expected<void, int> Walk::follow(const Fd& link) {
  if (symlinks_ == Symlinks::kNone || ++links_ > kMaxLinksFollowed) return failed(ELOOP);
  const auto target = read_link(link.get());
  if (!target) return failed(target.error());
  return add(*target);
}

std::expected<Seen, int> Walk::look_on_mount(const Fd& fd) const {
  const auto seen = look_at(fd.get());
  if (seen && seen->mount != mount_) return failed(EXDEV);
  return seen;
}

// Enters a directory, goes back to the previous one, or follows a link.
std::expected<void, int> Walk::step(const std::string& name) {
  if (name == ".") return {};
  if (name == "..") {
    if (directories_.empty()) return failed(EXDEV);
    directories_.pop_back();
    return {};
  }
  Fd next(openat(here(), name.c_str(), kLook));
  if (!next.valid()) return failed(errno);
  const auto seen = look_on_mount(next);
  if (!seen) return failed(seen.error());
  if (S_ISLNK(seen->mode)) return follow(next);
  if (!S_ISDIR(seen->mode)) return failed(ENOTDIR);
  if (directories_.size() == kMaxWalkDepth) return failed(ENAMETOOLONG);
  directories_.push_back(std::move(next));
  return {};
}

// The current directory of the walk. "." never leads to what is mounted over it.
std::expected<Fd, int> Walk::open_directory() {
  if ((flags_ & O_CREAT) != 0) return failed((flags_ & O_EXCL) != 0 ? EEXIST : EISDIR);
  Fd fd(openat(here(), ".", flags_));
  if (!fd.valid()) return failed(errno);
  return fd;
}

// Creates a file; without O_EXCL, accepts one that another process has just created.
std::expected<Fd, int> Walk::create(const std::string& name) {
  Fd fd(openat(here(), name.c_str(), flags_ | O_NOFOLLOW, mode_));
  if (!fd.valid()) return failed(errno);
  if (const auto seen = look_on_mount(fd); !seen) return failed(seen.error());
  return fd;
}

// One attempt at the last component. Nothing when it was a link, which has been followed: the walk continues. EAGAIN
// when it was replaced meanwhile.
std::expected<std::optional<Fd>, int> Walk::open_last(const std::string& name) {
  const auto replaced = [](int error) {
    return failed(error == ELOOP || error == ENOENT || error == ENOTDIR ? EAGAIN : error);
  };
  Fd look(openat(here(), name.c_str(), kLook));
  if (!look.valid()) {
    if (errno != ENOENT || (flags_ & O_CREAT) == 0) return failed(errno);
    auto made = create(name);
    if (!made) return made.error() == ELOOP ? replaced(ELOOP) : failed(made.error());
    return std::move(*made);
  }
  if ((flags_ & O_CREAT) != 0 && (flags_ & O_EXCL) != 0) return failed(EEXIST);
  const auto seen = look_on_mount(look);
  if (!seen) return failed(seen.error());
  if (S_ISLNK(seen->mode) && (flags_ & O_NOFOLLOW) == 0) {
    if (const auto followed = follow(look); !followed) return failed(followed.error());
    return std::nullopt;
  }
  if ((flags_ & O_DIRECTORY) != 0 && !S_ISDIR(seen->mode)) return failed(ENOTDIR);
  if ((flags_ & O_PATH) != 0) return look;
  if (S_ISLNK(seen->mode)) return failed(ELOOP);
  Fd fd(openat(here(), name.c_str(), flags_ | O_NOFOLLOW, mode_));
  if (!fd.valid()) return replaced(errno);
  if (const auto again = look_on_mount(fd); !again) return failed(again.error());
  return fd;
}

std::expected<Fd, int> Walk::open(const std::string& path) {
  const auto seen = look_at(root_);
  if (!seen) return failed(seen.error());
  mount_ = seen->mount;
  if (const auto added = add(path); !added) return failed(added.error());
  int tries = 0;
  while (!to_come_.empty()) {
    const std::string name = std::move(to_come_.back());
    to_come_.pop_back();
    if (!to_come_.empty() || name == "." || name == "..") {
      if (const auto stepped = step(name); !stepped) return failed(stepped.error());
      continue;
    }
    auto last = open_last(name);
    if (last && *last) return std::move(**last);
    if (last) continue;
    if (last.error() != EAGAIN || ++tries == kTries) return failed(last.error());
    to_come_.push_back(name);
  }
  return open_directory();
}

}  // namespace

std::expected<Fd, int> open_by_walk(int directory, const std::string& path, int flags, Symlinks symlinks,
                                    unsigned mode) {
  return Walk(directory, flags, symlinks, mode).open(path);
}

bool can_tell_mounts() {
  const Fd here(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  return here.valid() && look_at(here.get()).has_value();
}

}  // namespace membrane::host
