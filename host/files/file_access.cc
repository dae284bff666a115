#include "host/files/file_access.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "base/text.h"
#include "base/utf8.h"
#include "host/broker/guest_path.h"
#include "host/files/links.h"
#include "host/files/permissions.h"
#include "host/files/roots.h"

namespace membrane::host {
namespace {

using policy::Budget;
using policy::FsGrant;
using policy::FsMode;
using policy::Resource;

FileInfo info_of(std::string name, const struct stat& info) {
  const bool directory = S_ISDIR(info.st_mode);
  return {std::move(name), directory, directory ? 0 : static_cast<uint64_t>(info.st_size)};
}

HostError out_of_time() { return {Errno::kBudget, std::string(policy::kTimeIsUsedUp), {}}; }

// An entry of a directory. Nothing for a file that programs cannot have, and for one that has just been removed.
// Below a grant with links it is the entry itself, with its target; else a link is replaced by its target, or
// nothing.
std::optional<FileInfo> info_of_entry(const Target& entry) {
  const std::string& name = entry.beneath.back();
  const auto look = open_target(entry, O_PATH);
  const auto seen = look ? inspect(*look, entry.text) : std::unexpected(look.error());
  if (!entry.root.grant.links) return seen ? std::optional(info_of(name, *seen)) : std::nullopt;
  const auto itself = open_target(entry, O_PATH | O_NOFOLLOW);
  const auto info = itself ? inspect_entry(*itself, entry) : std::unexpected(itself.error());
  if (!info) return std::nullopt;
  FileInfo out = seen ? info_of(name, *seen) : FileInfo{name};
  out.is_link = S_ISLNK(info->st_mode);
  out.file_id = file_id_of(*info);
  return out;
}

// Reads to the end, but at most `most` bytes, and not past the deadline.
HostResult<std::string> read_all(const Fd& fd, uint64_t expected, uint64_t most, const std::string& text,
                                 const Deadline* run) {
  std::string out;
  constexpr size_t kStep = 64 << 10;
  out.reserve(std::min(expected, most) + kStep);
  for (;;) {
    if (run != nullptr && run->passed()) return std::unexpected(out_of_time());
    const size_t had = out.size();
    out.resize(had + kStep);
    const ssize_t got = ::read(fd.get(), out.data() + had, kStep);
    if (got < 0 && errno != EINTR) return std::unexpected(errno_of(text));
    out.resize(had + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (out.size() > most)
      return refuse(Errno::kTooBig,
                    text + " is larger than the grant's " + count_of(most, "byte") + " (max_file).");
    if (got == 0) return out;
  }
}

bool write_all(const Fd& fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd.get(), bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(wrote));
  }
  return true;
}

HostResult<std::string> temporary_name() {
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random)
    return refuse(Errno::kHost, "The system has no randomness.");
  char name[48];
  std::snprintf(name, sizeof name, ".membrane-%016llx.tmp", static_cast<unsigned long long>(random));
  return std::string(name);
}

}  // namespace

class FileAccess::Impl {
 public:
  Impl(Roots& roots, Budget& budget, const Deadline* run) : roots_(roots), budget_(budget), run_(run) {}

  HostResult<std::string> read(std::string_view path, uint64_t most_bytes);
  HostResult<void> write(std::string_view path, std::string_view bytes, FileMode mode);
  HostResult<std::vector<FileInfo>> list(std::string_view path, size_t most_entries);
  HostResult<FileInfo> stat(std::string_view path);
  HostResult<void> remove(std::string_view path);

 private:
  HostResult<void> write_within(Target& target, std::string_view bytes, FileMode mode);
  HostResult<Fd> open_parent(Target& target, bool new_file);
  HostResult<bool> exists(const Target& target);
  HostResult<void> replace(Target& target, std::string_view bytes, bool existed);
  HostResult<void> append(Target& target, std::string_view bytes);
  HostResult<void> list_host(const Target& target, size_t most_entries, std::map<std::string, FileInfo>& out);

  Roots& roots_;
  Budget& budget_;
  const Deadline* run_;
};

// -- reading ---------------------------------------------------------------------------

HostResult<std::string> FileAccess::Impl::read(std::string_view guest_path, uint64_t most_bytes) {
  auto path = parse_guest_path(guest_path);
  if (!path) return std::unexpected(path.error());
  auto target = roots_.locate(*path, FsMode::kRead);
  if (!target) {
    if (!roots_.granted_in(*path).empty())
      return refuse(Errno::kIsDir, guest_text(*path) + " is a directory.");
    return std::unexpected(target.error());
  }
  // Examined first without opening, since opening a FIFO or a device already has effects.
  const auto look = open_target(*target, O_PATH);
  if (!look) return std::unexpected(look.error());
  auto info = inspect(*look, target->text);
  if (info && S_ISREG(info->st_mode)) {
    const auto fd = open_target(*target, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    if (!fd) return std::unexpected(fd.error());
    info = inspect(*fd, target->text);  // it may have been swapped since
    if (info && S_ISREG(info->st_mode)) {
      if (static_cast<uint64_t>(info->st_size) > budget_.left(Resource::kBytesIn))
        return refuse(Errno::kBudget, std::string(policy::used_up(policy::Resource::kBytesIn)));
      if (static_cast<uint64_t>(info->st_size) > most_bytes)
        return refuse(Errno::kNoMemory, target->text + " has " + count_of(info->st_size, "byte") +
                                            ", and the sandbox has no room for them. Read it in parts.");
      auto bytes = read_all(*fd, static_cast<uint64_t>(info->st_size),
                            std::min(most_bytes, target->root.grant.max_file_bytes), target->text, run_);
      if (bytes && !budget_.take(Resource::kBytesIn, bytes->size()))
        return refuse(Errno::kBudget, std::string(policy::used_up(policy::Resource::kBytesIn)));
      return bytes;
    }
  }
  if (!info) return std::unexpected(info.error());
  return refuse(Errno::kIsDir, target->text + " is a directory.");
}

HostResult<FileInfo> FileAccess::Impl::stat(std::string_view guest_path) {
  auto path = parse_guest_path(guest_path);
  if (!path) return std::unexpected(path.error());
  const std::string name = path->empty() ? "" : path->back();
  auto target = roots_.locate(*path, FsMode::kRead);
  const bool above_grants = !roots_.granted_in(*path).empty();
  if (!target && above_grants) return FileInfo{name, true, 0};
  if (!target) return std::unexpected(target.error());
  const auto fd = open_target(*target, O_PATH);
  if (!fd && above_grants) return FileInfo{name, true, 0};
  if (!fd) return std::unexpected(fd.error());
  const auto info = inspect(*fd, target->text);
  if (!info) return std::unexpected(info.error());
  return info_of(name, *info);
}

// The entries of the host's directory, except for those that programs cannot have.
HostResult<void> FileAccess::Impl::list_host(const Target& target, size_t most_entries,
                                             std::map<std::string, FileInfo>& out) {
  auto fd = open_target(target, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
  if (!fd) return std::unexpected(fd.error());
  DIR* directory = fdopendir(fd->get());
  if (directory == nullptr) return std::unexpected(errno_of(target.text));
  fd->release();
  size_t seen = 0;
  HostResult<void> result;
  for (errno = 0; const dirent* entry = readdir(directory); errno = 0) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (run_ != nullptr && run_->passed()) {
      result = std::unexpected(out_of_time());
      break;
    }
    if (++seen > most_entries) {
      result =
          refuse(Errno::kTooBig, target.text + " has more than " + count_of(most_entries, "entry") + ".");
      break;
    }
    if (!is_utf8(name)) continue;
    Target child{target.root, target.beneath, target.text + "/" + name};
    child.beneath.push_back(name);
    if (auto info = info_of_entry(child)) out.insert_or_assign(name, std::move(*info));
  }
  closedir(directory);
  return result;
}

HostResult<std::vector<FileInfo>> FileAccess::Impl::list(std::string_view guest_path, size_t most_entries) {
  auto path = parse_guest_path(guest_path);
  if (!path) return std::unexpected(path.error());
  const auto granted = roots_.granted_in(*path);
  std::map<std::string, FileInfo> found;
  if (auto target = roots_.locate(*path, FsMode::kRead)) {
    auto listed = list_host(*target, most_entries, found);
    if (!listed && granted.empty()) return std::unexpected(listed.error());
  } else if (granted.empty()) {
    return std::unexpected(target.error());
  }
  for (const std::string& name : granted) {
    Components child = *path;
    child.push_back(name);
    if (auto info = stat(guest_text(child))) found.insert_or_assign(name, *info);
  }
  std::vector<FileInfo> out;
  uint64_t bytes = 0;
  for (auto& [name, info] : found) {
    bytes += name.size();
    out.push_back(std::move(info));
  }
  if (!budget_.take(Resource::kBytesIn, bytes))
    return refuse(Errno::kBudget, std::string(policy::used_up(policy::Resource::kBytesIn)));
  return out;
}

// -- writing ---------------------------------------------------------------------------

// Whether the target exists: a regular file, or nothing. Writing never follows links.
HostResult<bool> FileAccess::Impl::exists(const Target& target) {
  const auto fd = open_beneath(target.root.directory.get(), target.path(), O_PATH, Symlinks::kNone);
  if (!fd && fd.error().code == Errno::kNotFound) return false;
  if (!fd) return std::unexpected(error_at_path(fd.error(), target.path(), target.text));
  const auto info = inspect(*fd, target.text);
  if (!info) return std::unexpected(info.error());
  if (S_ISDIR(info->st_mode)) return refuse(Errno::kIsDir, target.text + " is a directory.");
  return true;
}

// The directory of the target. Missing ones are created, after the quota has been charged for all of them and for
// the file itself.
HostResult<Fd> FileAccess::Impl::open_parent(Target& target, bool new_file) {
  constexpr int kFlags = O_PATH | O_DIRECTORY;
  Target at{target.root, target.beneath, target.text};
  at.beneath.pop_back();
  const Components wanted = at.beneath;
  auto fd = open_beneath(at.root.directory.get(), at.path(), kFlags, Symlinks::kNone);
  while (!fd && fd.error().code == Errno::kNotFound && !at.beneath.empty()) {
    at.beneath.pop_back();
    fd = open_beneath(at.root.directory.get(), at.path(), kFlags, Symlinks::kNone);
  }
  if (!fd) return std::unexpected(error_at_path(fd.error(), at.path(), target.text));
  const uint64_t made = wanted.size() - at.beneath.size() + (new_file ? 1 : 0);
  Root& root = target.root;
  if (made > root.grant.max_files - std::min(root.made, root.grant.max_files))
    return refuse(Errno::kQuota, "The run would create more than the grant's " +
                                     std::to_string(root.grant.max_files) + " files and directories in " +
                                     root.grant.guest + " (max_files).");
  for (size_t i = at.beneath.size(); i < wanted.size(); ++i) {
    const bool new_one = mkdirat(fd->get(), wanted[i].c_str(), 0777) == 0;
    if (!new_one && errno != EEXIST) return std::unexpected(errno_of(target.text));
    root.made += new_one ? 1 : 0;
    fd = open_beneath(fd->get(), wanted[i], kFlags, Symlinks::kNone);
    if (!fd) return std::unexpected(error_at_path(fd.error(), wanted[i], target.text));
  }
  return fd;
}

// A new file beside the old one, then renamed over it: readers see one or the other.
HostResult<void> FileAccess::Impl::replace(Target& target, std::string_view bytes, bool existed) {
  auto parent = open_parent(target, !existed);
  if (!parent) return std::unexpected(parent.error());
  const std::string& name = target.beneath.back();
  struct stat old{};
  const bool keep_mode = existed && fstatat(parent->get(), name.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0;
  const auto temporary = temporary_name();
  if (!temporary) return std::unexpected(temporary.error());
  const auto fd = open_beneath(parent->get(), *temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
                               Symlinks::kNone, 0666);
  if (!fd) return std::unexpected(error_at_path(fd.error(), *temporary, target.text));
  const bool done = write_all(*fd, bytes) && (!keep_mode || fchmod(fd->get(), old.st_mode & 0777) == 0) &&
                    renameat(parent->get(), temporary->c_str(), parent->get(), name.c_str()) == 0;
  if (!done) {
    const HostError error = errno_of(target.text);
    unlinkat(parent->get(), temporary->c_str(), 0);
    return std::unexpected(error);
  }
  target.root.made += existed ? 0 : 1;
  return {};
}

HostResult<void> FileAccess::Impl::append(Target& target, std::string_view bytes) {
  auto fd = open_beneath(target.root.directory.get(), target.path(),
                         O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY, Symlinks::kNone);
  if (!fd) return std::unexpected(error_at_path(fd.error(), target.path(), target.text));
  const auto info = inspect(*fd, target.text);
  if (!info) return std::unexpected(info.error());
  if (target.root.has_foreign_names(*info))
    return refuse(Errno::kAccess, target.text + " has another hard link, whose file would change with it.",
                  "replace the file instead of appending to it");
  const auto size = static_cast<uint64_t>(info->st_size);
  if (size > target.root.grant.max_file_bytes || bytes.size() > target.root.grant.max_file_bytes - size)
    return refuse(Errno::kTooBig, target.text + " would be larger than the grant's " +
                                      count_of(target.root.grant.max_file_bytes, "byte") + " (max_file).");
  if (auto dropped = drop_privileges(*fd, target.text); !dropped) return dropped;
  if (write_all(*fd, bytes)) return {};
  const HostError error = errno_of(target.text);
  if (ftruncate(fd->get(), info->st_size) != 0)
    return refuse(Errno::kHost, target.text + " was left half written.");
  return std::unexpected(error);
}

HostResult<void> FileAccess::Impl::write_within(Target& target, std::string_view bytes, FileMode mode) {
  const auto existed = exists(target);
  if (!existed) return std::unexpected(existed.error());
  if (mode == FileMode::kAppend && *existed) return append(target, bytes);
  return replace(target, bytes, *existed);
}

HostResult<void> FileAccess::Impl::write(std::string_view guest_path, std::string_view bytes, FileMode mode) {
  auto path = parse_guest_path(guest_path);
  if (!path) return std::unexpected(path.error());
  path = follow_links(roots_, std::move(*path), LastComponent::kFollow);
  if (!path) return std::unexpected(path.error());
  auto target = roots_.locate(*path, FsMode::kWrite);
  if (!target) return std::unexpected(target.error());
  if (target->beneath.empty()) return refuse(Errno::kIsDir, target->text + " is a directory.");
  const FsGrant& grant = target->root.grant;
  if (bytes.size() > grant.max_file_bytes)
    return refuse(Errno::kTooBig, target->text + " would be larger than the grant's " +
                                      count_of(grant.max_file_bytes, "byte") + " (max_file).");
  if (bytes.size() > grant.max_total_bytes - target->root.written_bytes)
    return refuse(Errno::kQuota, "The run would write more than the grant's " +
                                     count_of(grant.max_total_bytes, "byte") + " in " + grant.guest +
                                     " (max_total).");
  if (!budget_.take(Resource::kBytesOut, bytes.size()))
    return refuse(Errno::kBudget, std::string(policy::used_up(policy::Resource::kBytesOut)));
  auto written = write_within(*target, bytes, mode);
  if (written) target->root.written_bytes += bytes.size();
  else budget_.give_back(Resource::kBytesOut, bytes.size());
  return written;
}

HostResult<void> FileAccess::Impl::remove(std::string_view guest_path) {
  auto path = parse_guest_path(guest_path);
  if (!path) return std::unexpected(path.error());
  path = follow_links(roots_, std::move(*path), LastComponent::kKeep);
  if (!path) return std::unexpected(path.error());
  auto target = roots_.locate(*path, FsMode::kWrite);
  if (!target) return std::unexpected(target.error());
  if (target->beneath.empty() || target->root.is_file() || !roots_.granted_in(*path).empty())
    return refuse(Errno::kAccess, target->text + " is itself granted; it cannot be removed.");
  const std::string name = target->beneath.back();
  Target parent{target->root, target->beneath, target->text};
  parent.beneath.pop_back();
  const auto fd =
      open_beneath(parent.root.directory.get(), parent.path(), O_PATH | O_DIRECTORY, Symlinks::kNone);
  if (!fd) return std::unexpected(error_at_path(fd.error(), parent.path(), target->text));
  struct stat info{};
  if (fstatat(fd->get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
    return std::unexpected(errno_of(target->text));
  const bool is_link = S_ISLNK(info.st_mode) && target->root.grant.links;
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode) && !is_link)
    return refuse(Errno::kAccess, target->text + " is neither a regular file nor a directory.");
  // unlinkat follows no link: if the name is swapped now, the new entry is removed, not its target.
  const int flags = S_ISDIR(info.st_mode) ? AT_REMOVEDIR : 0;
  if (unlinkat(fd->get(), name.c_str(), flags) != 0) return std::unexpected(errno_of(target->text));
  target->root.forget_link(info);
  return {};
}

FileAccess::FileAccess(std::unique_ptr<Roots> roots, Budget& budget, const Deadline* run)
    : roots_(std::move(roots)),
      impl_(std::make_unique<Impl>(*roots_, budget, run)),
      handles_(*roots_, budget) {}
FileAccess::~FileAccess() = default;

HostResult<std::unique_ptr<FileAccess>> FileAccess::open(const std::vector<FsGrant>& grants, Budget& budget,
                                                         const Deadline* run) {
  auto roots = Roots::open(grants);
  if (!roots) return std::unexpected(roots.error());
  return std::unique_ptr<FileAccess>(new FileAccess(std::move(*roots), budget, run));
}

HostResult<std::string> FileAccess::read(std::string_view path, uint64_t most_bytes) {
  return impl_->read(path, most_bytes);
}
HostResult<void> FileAccess::write(std::string_view path, std::string_view bytes, FileMode mode) {
  return impl_->write(path, bytes, mode);
}
HostResult<std::vector<FileInfo>> FileAccess::list(std::string_view path, size_t most_entries) {
  return impl_->list(path, most_entries);
}
HostResult<FileInfo> FileAccess::stat(std::string_view path) { return impl_->stat(path); }
HostResult<void> FileAccess::remove(std::string_view path) { return impl_->remove(path); }

}  // namespace membrane::host
