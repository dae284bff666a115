#include "host/files/file_handles.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/text.h"
#include "base/write_at.h"
#include "host/files/links.h"
#include "host/files/permissions.h"

namespace membrane::host {
namespace {

using policy::FsMode;
using policy::Resource;

constexpr int kCautious = O_NONBLOCK | O_NOCTTY;

int64_t ns_of(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

FileStatus status_of(const struct stat& info, const Root& root) {
  const bool is_directory = S_ISDIR(info.st_mode);
  FileStatus status{is_directory, is_directory ? 0 : static_cast<uint64_t>(info.st_size), ns_of(info.st_atim),
                    ns_of(info.st_mtim), ns_of(info.st_ctim)};
  if (!root.grant.links) return status;
  status.is_link = S_ISLNK(info.st_mode);
  status.link_count = info.st_nlink;
  status.file_id = file_id_of(info);
  return status;
}

std::pair<uint64_t, uint64_t> key_of(const struct stat& info) { return {info.st_dev, info.st_ino}; }

// Failures that only operations on POSIX names have.
std::unexpected<HostError> failed(const std::string& text) {
  if (errno == ENOTEMPTY || errno == EEXIST)
    return refuse(errno == EEXIST ? Errno::kExists : Errno::kNotEmpty,
                  text + (errno == EEXIST ? " exists already." : " is a directory that is not empty."));
  if (errno == EINVAL) return refuse(Errno::kInvalid, text + " cannot be moved into itself.");
  return std::unexpected(errno_of(text));
}

HostError too_large(const Root& root, const std::string& text) {
  return {Errno::kTooBig,
          text + " is, or would be, larger than the grant's " + count_of(root.grant.max_file_bytes, "byte") +
              " (max_file).",
          {}};
}

// Whether a file may be written: regular, and without other names that would change with it, except for those that
// this run gave it.
HostResult<void> check_writable(const Fd& fd, const Root& root, const std::string& text) {
  const auto info = inspect(fd, text);
  if (!info) return std::unexpected(info.error());
  if (S_ISDIR(info->st_mode)) return refuse(Errno::kIsDir, text + " is a directory.");
  if (root.has_foreign_names(*info))
    return refuse(Errno::kAccess, text + " has another hard link, whose file would change with it.");
  return {};
}

HostError quota_of_files(const Root& root) {
  return {Errno::kQuota,
          "The run would create more than the grant's " + std::to_string(root.grant.max_files) +
              " files and directories in " + root.grant.guest + " (max_files).",
          {}};
}

}  // namespace

HostResult<Target> FileHandles::locate(std::string_view path, FsMode mode) {
  const auto components = parse_guest_path(path);
  if (!components) return std::unexpected(components.error());
  return roots_.locate(*components, mode);
}

// -- opening ---------------------------------------------------------------------------

HostResult<Fd> FileHandles::open_to_read(const Target& target) {
  // Examined first without opening, since opening a FIFO or a device already has effects.
  const auto look = open_target(target, O_PATH);
  if (!look) return std::unexpected(look.error());
  const auto seen = inspect(*look, target.text);
  if (!seen) return std::unexpected(seen.error());
  if (S_ISDIR(seen->st_mode)) return refuse(Errno::kIsDir, target.text + " is a directory.");
  auto fd = open_target(target, O_RDONLY | kCautious);
  if (!fd) return fd;
  const auto info = inspect(*fd, target.text);  // it may have been swapped since
  if (!info) return std::unexpected(info.error());
  if (S_ISDIR(info->st_mode)) return refuse(Errno::kIsDir, target.text + " is a directory.");
  return fd;
}

HostResult<Fd> FileHandles::create(Target& target) {
  if (target.root.made >= target.root.grant.max_files) return std::unexpected(quota_of_files(target.root));
  auto fd = open_beneath(target.root.directory.get(), target.path(), O_RDWR | O_CREAT | O_EXCL | kCautious,
                         Symlinks::kNone, 0666);
  if (!fd) return std::unexpected(error_at_path(fd.error(), target.path(), target.text));
  ++target.root.made;
  return fd;
}

HostResult<Fd> FileHandles::open_to_write(Target& target, const FileOpening& how) {
  const int directory = target.root.directory.get();
  const std::string path = target.path();
  const auto look = open_beneath(directory, path, O_PATH, Symlinks::kNone);
  if (!look && look.error().code == Errno::kNotFound && how.create) return create(target);
  if (!look) return std::unexpected(error_at_path(look.error(), path, target.text));
  if (how.create && how.exclusive) return refuse(Errno::kExists, target.text + " exists already.");
  if (auto may = check_writable(*look, target.root, target.text); !may) return std::unexpected(may.error());
  auto fd = open_beneath(directory, path, O_RDWR | kCautious, Symlinks::kNone);
  if (!fd) return std::unexpected(error_at_path(fd.error(), path, target.text));
  if (auto may = check_writable(*fd, target.root, target.text); !may) return std::unexpected(may.error());
  if (auto dropped = drop_privileges(*fd, target.text); !dropped) return std::unexpected(dropped.error());
  if (how.truncate && ftruncate(fd->get(), 0) != 0) return std::unexpected(errno_of(target.text));
  return fd;
}

HostResult<OpenedFile> FileHandles::open(std::string_view path, const FileOpening& how) {
  if (open_.size() >= kMostOpen)
    return refuse(Errno::kQuota, "More than " + std::to_string(kMostOpen) + " files are open at once.");
  const bool writes = how.write || how.create || how.truncate;
  auto target = locate(path, writes ? FsMode::kWrite : FsMode::kRead);
  if (!target) return std::unexpected(target.error());
  auto fd = writes ? open_to_write(*target, how) : open_to_read(*target);
  if (!fd) return std::unexpected(fd.error());
  const auto info = inspect(*fd, target->text);
  if (!info) return std::unexpected(info.error());
  if (static_cast<uint64_t>(info->st_size) > target->root.grant.max_file_bytes)
    return std::unexpected(too_large(target->root, target->text));
  open_.emplace(++last_, Open{std::move(*fd), &target->root, writes, target->text});
  return OpenedFile{last_, status_of(*info, target->root)};
}

HostResult<FileHandles::Open*> FileHandles::find(FileHandle file) {
  const auto found = open_.find(file);
  if (found == open_.end()) return refuse(Errno::kInvalid, "No file is open under this number.");
  return &found->second;
}

HostResult<FileHandles::Open*> FileHandles::find_to_write(FileHandle file) {
  auto open = find(file);
  if (open && !(*open)->writes) return refuse(Errno::kInvalid, (*open)->text + " is open for reading only.");
  return open;
}

HostResult<void> FileHandles::close(FileHandle file) {
  if (open_.erase(file) == 0) return refuse(Errno::kInvalid, "No file is open under this number.");
  return {};
}

// -- on open files -----------------------------------------------------------------------

HostResult<std::string> FileHandles::read(FileHandle file, uint64_t offset, uint32_t count) {
  const auto open = find(file);
  if (!open) return std::unexpected(open.error());
  const uint64_t most = (*open)->root->grant.max_file_bytes;
  const auto info = inspect((*open)->fd, (*open)->text);
  if (!info) return std::unexpected(info.error());
  const auto size = static_cast<uint64_t>(info->st_size);
  if (size > most) return std::unexpected(too_large(*(*open)->root, (*open)->text));
  const uint64_t there = size - std::min(size, offset);
  const uint64_t wanted = std::min<uint64_t>({count, kMostBytes, there});
  std::string bytes(wanted, '\0');
  if (!budget_.take(Resource::kBytesIn, wanted))
    return refuse(Errno::kBudget, std::string(policy::used_up(policy::Resource::kBytesIn)));
  ssize_t got = 0;
  do got = pread((*open)->fd.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
  while (got < 0 && errno == EINTR);
  budget_.give_back(Resource::kBytesIn, wanted - static_cast<uint64_t>(std::max<ssize_t>(got, 0)));
  if (got < 0) return std::unexpected(errno_of((*open)->text));
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

HostResult<void> FileHandles::write(FileHandle file, uint64_t offset, std::string_view bytes) {
  const auto open = find_to_write(file);
  if (!open) return std::unexpected(open.error());
  Root& root = *(*open)->root;
  const uint64_t most = root.grant.max_file_bytes;
  if (offset > most || bytes.size() > most - offset) return std::unexpected(too_large(root, (*open)->text));
  if (bytes.size() > root.grant.max_total_bytes - root.written_bytes)
    return refuse(Errno::kQuota, "The run would write more than the grant's " +
                                     count_of(root.grant.max_total_bytes, "byte") + " in " +
                                     root.grant.guest + " (max_total).");
  if (!budget_.take(Resource::kBytesOut, bytes.size()))
    return refuse(Errno::kBudget, std::string(policy::used_up(policy::Resource::kBytesOut)));
  // A write that was started counts in full: part of it may have been written.
  root.written_bytes += bytes.size();
  const std::span<const uint8_t> from(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  if (!membrane::write_at((*open)->fd.get(), offset, from)) return std::unexpected(errno_of((*open)->text));
  return {};
}

HostResult<void> FileHandles::resize(FileHandle file, uint64_t size) {
  const auto open = find_to_write(file);
  if (!open) return std::unexpected(open.error());
  if (size > (*open)->root->grant.max_file_bytes)
    return std::unexpected(too_large(*(*open)->root, (*open)->text));
  if (ftruncate((*open)->fd.get(), static_cast<off_t>(size)) != 0)
    return std::unexpected(errno_of((*open)->text));
  return {};
}

HostResult<FileStatus> FileHandles::status(FileHandle file) {
  const auto open = find(file);
  if (!open) return std::unexpected(open.error());
  const auto info = inspect((*open)->fd, (*open)->text);
  if (!info) return std::unexpected(info.error());
  return status_of(*info, *(*open)->root);
}

HostResult<void> FileHandles::sync(FileHandle file) {
  const auto open = find(file);
  if (!open) return std::unexpected(open.error());
  if (fsync((*open)->fd.get()) != 0) return std::unexpected(errno_of((*open)->text));
  return {};
}

// -- by path -----------------------------------------------------------------------------

HostResult<FileStatus> FileHandles::status(std::string_view path) {
  const auto components = parse_guest_path(path);
  if (!components) return std::unexpected(components.error());
  const bool is_above_grants = !roots_.granted_in(*components).empty();
  const auto target = roots_.locate(*components, FsMode::kRead);
  if (!target && is_above_grants) return FileStatus{.is_directory = true};
  if (!target) return std::unexpected(target.error());
  const auto fd = open_target(*target, O_PATH | (target->root.grant.links ? O_NOFOLLOW : 0));
  if (!fd && is_above_grants) return FileStatus{.is_directory = true};
  if (!fd) return std::unexpected(fd.error());
  const auto info = inspect_entry(*fd, *target);
  if (!info) return std::unexpected(info.error());
  return status_of(*info, target->root);
}

HostResult<void> FileHandles::set_times(std::string_view path, const FileTimes& times) {
  const auto target = locate(path, FsMode::kWrite);
  if (!target) return std::unexpected(target.error());
  const int directory = target->root.directory.get();
  const auto look = open_beneath(directory, target->path(), O_PATH | O_NOFOLLOW, Symlinks::kNone);
  if (!look) return std::unexpected(error_at_path(look.error(), target->path(), target->text));
  const auto info = inspect_entry(*look, *target);
  if (!info) return std::unexpected(info.error());
  const auto time = [](const std::optional<int64_t>& ns) {
    constexpr int64_t kSecond = 1'000'000'000;
    if (!ns) return timespec{0, UTIME_OMIT};
    const int64_t part = (*ns % kSecond + kSecond) % kSecond;  // nonnegative even before 1970
    return timespec{(*ns - part) / kSecond, part};
  };
  const timespec both[] = {time(times.accessed_ns), time(times.modified_ns)};
  if (S_ISLNK(info->st_mode)) {
    // A link can only be opened with O_PATH, which allows no change: it is addressed by name in its directory,
    // without following it.
    const auto at = locate_name(path);
    if (!at) return std::unexpected(at.error());
    if (utimensat(at->directory.get(), at->name.c_str(), both, AT_SYMLINK_NOFOLLOW) != 0)
      return std::unexpected(errno_of(target->text));
    return {};
  }
  const auto fd = open_beneath(directory, target->path(), O_RDONLY | kCautious, Symlinks::kNone);
  if (!fd) return std::unexpected(error_at_path(fd.error(), target->path(), target->text));
  if (S_ISREG(info->st_mode))
    if (auto may = check_writable(*fd, target->root, target->text); !may) return may;
  if (futimens(fd->get(), both) != 0) return std::unexpected(errno_of(target->text));
  return {};
}

// Refuses an entry that is itself granted, or contains one that is.
HostResult<FileHandles::Name> FileHandles::locate_name(std::string_view path) {
  const auto components = parse_guest_path(path);
  if (!components) return std::unexpected(components.error());
  auto target = roots_.locate(*components, FsMode::kWrite);
  if (!target) return std::unexpected(target.error());
  if (target->beneath.empty() || target->root.is_file() || !roots_.granted_in(*components).empty())
    return refuse(Errno::kAccess, target->text + " is itself granted; it cannot be moved.");
  Target parent{target->root, target->beneath, target->text};
  parent.beneath.pop_back();
  auto directory =
      open_beneath(target->root.directory.get(), parent.path(), O_PATH | O_DIRECTORY, Symlinks::kNone);
  if (!directory) return std::unexpected(error_at_path(directory.error(), parent.path(), target->text));
  return Name{std::move(*directory), target->beneath.back(), std::move(*target)};
}

namespace {

// The status of a name, without following links; nothing when it does not exist. EACCES for a file that programs
// cannot have.
HostResult<std::optional<struct stat>> look_at(int directory, const std::string& name, const Target& target) {
  struct stat info{};
  if (fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return std::nullopt;
    return std::unexpected(errno_of(target.text));
  }
  const bool is_link = S_ISLNK(info.st_mode) && target.root.grant.links;
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode) && !is_link)
    return refuse(Errno::kAccess, target.text + " is neither a regular file nor a directory.");
  return info;
}

}  // namespace

// unlinkat follows no link: if the name is swapped now, the new entry is removed, not its target.
HostResult<void> FileHandles::remove(std::string_view path, bool as_directory) {
  const auto at = locate_name(path);
  if (!at) return std::unexpected(at.error());
  const std::string& text = at->target.text;
  const auto info = look_at(at->directory.get(), at->name, at->target);
  if (!info) return std::unexpected(info.error());
  if (!*info) return refuse(Errno::kNotFound, text + " does not exist.");
  if (S_ISDIR((*info)->st_mode) != as_directory)
    return as_directory ? refuse(Errno::kNotDir, text + " is not a directory.")
                        : refuse(Errno::kIsDir, text + " is a directory.");
  if (unlinkat(at->directory.get(), at->name.c_str(), as_directory ? AT_REMOVEDIR : 0) != 0)
    return failed(text);
  at->target.root.forget_link(**info);
  return {};
}

HostResult<void> FileHandles::unlink(std::string_view path) { return remove(path, false); }
HostResult<void> FileHandles::remove_directory(std::string_view path) { return remove(path, true); }

HostResult<void> FileHandles::make_directory(std::string_view path) {
  const auto target = locate(path, FsMode::kWrite);
  if (target && (target->beneath.empty() || target->root.is_file()))
    return refuse(Errno::kExists, target->text + " exists already.");
  const auto at = locate_name(path);
  if (!at) return std::unexpected(at.error());
  Root& root = at->target.root;
  struct stat info{};
  if (fstatat(at->directory.get(), at->name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0)
    return refuse(Errno::kExists, at->target.text + " exists already.");
  if (root.made >= root.grant.max_files) return std::unexpected(quota_of_files(root));
  if (mkdirat(at->directory.get(), at->name.c_str(), 0777) != 0) return failed(at->target.text);
  ++root.made;
  return {};
}

// A relative link that is moved changes its meaning: nearer to the root it may lead out, and so may those in a
// directory.
HostResult<void> FileHandles::check_move(const Name& from, const struct stat& info, const Name& to) {
  if (!to.target.root.grant.links) return {};
  const size_t depth = to.target.beneath.size() - 1;
  if (S_ISLNK(info.st_mode)) {
    char target[kMaxTargetBytes + 1];
    const ssize_t length = readlinkat(from.directory.get(), from.name.c_str(), target, sizeof target);
    if (length < 0) return std::unexpected(errno_of(from.target.text));
    return check_new_target({target, static_cast<size_t>(length)}, depth, to.target.text);
  }
  if (S_ISDIR(info.st_mode) && depth < from.target.beneath.size() - 1)
    return check_moved_links(from.target, to.target.beneath.size());
  return {};
}

// Both names of a rename or a hard link, and the file that `from` names: below one grant, and not a link that would
// lead out after the move.
HostResult<FileHandles::NamePair> FileHandles::locate_pair(HostResult<Name> from, HostResult<Name> to) {
  if (!from) return std::unexpected(from.error());
  if (!to) return std::unexpected(to.error());
  if (&from->target.root != &to->target.root)
    return refuse(Errno::kUnsupported,
                  from->target.text + " cannot be moved to another grant, or have a name there.");
  const auto info = look_at(from->directory.get(), from->name, from->target);
  if (!info) return std::unexpected(info.error());
  if (!*info) return refuse(Errno::kNotFound, from->target.text + " does not exist.");
  if (auto may = check_move(*from, **info, *to); !may) return std::unexpected(may.error());
  return NamePair{std::move(*from), std::move(*to), **info};
}

// The lock of the grant that covers a path. None if it has no links: nothing can lead out there.
HostResult<std::optional<MoveLock>> FileHandles::lock_moves(std::string_view path) {
  const auto target = locate(path, FsMode::kWrite);
  if (!target) return std::unexpected(target.error());
  if (!target->root.grant.links) return std::nullopt;
  return MoveLock::take(target->root);
}

HostResult<void> FileHandles::rename(std::string_view from, std::string_view to) {
  const auto lock = lock_moves(from);
  if (!lock) return std::unexpected(lock.error());
  const auto pair = locate_pair(locate_name(from), locate_name(to));
  if (!pair) return std::unexpected(pair.error());
  const Name &old = pair->from, &made = pair->to;
  const auto replaced = look_at(made.directory.get(), made.name, made.target);
  if (!replaced) return std::unexpected(replaced.error());
  if (renameat(old.directory.get(), old.name.c_str(), made.directory.get(), made.name.c_str()) == 0) {
    // Two names of the same file both stay.
    if (*replaced && key_of(**replaced) != key_of(pair->info)) made.target.root.forget_link(**replaced);
    return {};
  }
  if (errno == EEXIST) errno = ENOTEMPTY;  // some file systems report this for directories
  return failed(made.target.text);
}

// -- links -------------------------------------------------------------------------------

HostResult<LinkOnPath> FileHandles::find_link(std::string_view path) {
  const auto components = parse_guest_path(path);
  if (!components) return std::unexpected(components.error());
  const auto target = roots_.locate(*components, FsMode::kRead);
  if (!target)
    return LinkOnPath{};  // directories above the grants have no links; other paths are refused where they are used
  auto found = host::find_link(*target);
  if (!found) return std::unexpected(found.error());
  if (!*found) return LinkOnPath{};
  Components link = target->root.guest;
  link.insert(link.end(), target->beneath.begin(),
              target->beneath.begin() + static_cast<std::ptrdiff_t>((*found)->index) + 1);
  return LinkOnPath{guest_text(link), std::move((*found)->target)};
}

// A free name, below a grant that has links and room for one more file.
HostResult<FileHandles::Name> FileHandles::locate_new_link(std::string_view path) {
  auto at = locate_name(path);
  if (!at) return at;
  const Root& root = at->target.root;
  if (!root.grant.links)
    return refuse(Errno::kAccess, at->target.text + " cannot be a link: the grant has no links.",
                  policy::allow_flag("fs:write,links:" + root.grant.host + ":" + root.grant.guest));
  struct stat info{};
  if (fstatat(at->directory.get(), at->name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0)
    return refuse(Errno::kExists, at->target.text + " exists already.");
  if (root.made >= root.grant.max_files) return std::unexpected(quota_of_files(root));
  return at;
}

HostResult<void> FileHandles::make_symlink(std::string_view target, std::string_view path) {
  const auto lock = lock_moves(path);
  if (!lock) return std::unexpected(lock.error());
  const auto at = locate_new_link(path);
  if (!at) return std::unexpected(at.error());
  const size_t depth = at->target.beneath.size() - 1;
  if (auto may = check_new_target(target, depth, at->target.text); !may) return may;
  if (symlinkat(std::string(target).c_str(), at->directory.get(), at->name.c_str()) != 0)
    return failed(at->target.text);
  ++at->target.root.made;
  return {};
}

HostResult<void> FileHandles::make_link(std::string_view from, std::string_view to) {
  const auto lock = lock_moves(from);
  if (!lock) return std::unexpected(lock.error());
  const auto pair = locate_pair(locate_name(from), locate_new_link(to));
  if (!pair) return std::unexpected(pair.error());
  const Name &old = pair->from, &made = pair->to;
  Root& root = made.target.root;
  // So all names of a file with links of this run are below the grant, and however many of them went unnoticed (a
  // file that was replaced, a name that another grant removed), none of the remaining ones is outside.
  if (S_ISREG(pair->info.st_mode) && root.has_foreign_names(pair->info))
    return refuse(Errno::kAccess,
                  old.target.text + " has another hard link, which may lie outside of the grant.");
  if (linkat(old.directory.get(), old.name.c_str(), made.directory.get(), made.name.c_str(), 0) != 0)
    return failed(made.target.text);
  ++root.made;
  // Counted only if the examined file is the one that has the new name.
  struct stat after{};
  if (fstatat(made.directory.get(), made.name.c_str(), &after, AT_SYMLINK_NOFOLLOW) == 0 &&
      key_of(after) == key_of(pair->info) && S_ISREG(after.st_mode))
    root.note_link(after);
  return {};
}

}  // namespace membrane::host
