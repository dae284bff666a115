// Opening and creating files: open, openat, openat2, creat; memfd_create.
#include <fcntl.h>
#include <linux/openat2.h>

#include <array>
#include <utility>

#include "linux/files/certificate_files.h"
#include "linux/files/path_file.h"
#include "linux/files/regular_file.h"
#include "linux/files/socket_end.h"
#include "linux/kernel/announcing.h"
#include "linux/kernel/file_calls.h"
#include "linux/kernel/kernel.h"

namespace membrane::linux {
namespace {

constexpr int kLargeFile = 0100000;  // what a 64-bit kernel adds to every open file
constexpr int kTmpFile = 020000000;  // O_TMPFILE without its O_DIRECTORY
constexpr int kFlagsOfPath = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr int kKnownFlags = O_ACCMODE | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_APPEND | O_NONBLOCK |
                            O_DSYNC | O_ASYNC | O_DIRECT | kLargeFile | O_DIRECTORY | O_NOFOLLOW | O_NOATIME |
                            O_CLOEXEC | O_SYNC | O_PATH | kTmpFile;

struct Found {
  LocationRef location;
  bool is_new = false;
};

// The permissions that reading and writing by `flags` require.
int wanted_access(int flags) {
  constexpr std::array<int, 4> kWanted = {R_OK, W_OK, R_OK | W_OK, R_OK | W_OK};
  return kWanted[static_cast<size_t>(flags & O_ACCMODE)] | ((flags & O_TRUNC) != 0 ? W_OK : 0);
}

Try<LocationRef> create_in(Call& call, const Parent& parent, uint32_t mode) {
  const Attributes directory = parent.directory->node->attributes();
  MEMBRANE_TRY(may(who(call), directory, W_OK | X_OK));
  MEMBRANE_ASSIGN(NodeRef made, parent.directory->node->create(
                                    parent.name, new_node(call, directory, S_IFREG | (mode & 07777))));
  return std::make_shared<const Location>(Location{std::move(made), parent.directory, parent.name});
}

// Finds or creates what `wish` names. A link whose target is missing is followed, and the file is created
// at its target.
Try<Found> find_or_create(Call& call, const OpenWish& wish) {
  MEMBRANE_ASSIGN(LocationRef from, base_of(call, wish.directory, wish.path));
  const Place& place = *call.process().place;
  std::string path = wish.path;
  for (int links = 0; links <= kMostLinks; ++links) {
    auto found = walk(call.kernel.mounts, place, from, path, who(call), wish.walk);
    if (found) {
      if ((wish.flags & O_CREAT) != 0 && (wish.flags & O_EXCL) != 0) return err(EEXIST);
      return Found{std::move(*found)};
    }
    if (found.error() != ENOENT || (wish.flags & O_CREAT) == 0 || path.empty()) return err(found.error());
    MEMBRANE_ASSIGN(const Parent parent, walk_to_parent(call.kernel.mounts, place, from, path, who(call)));
    if (parent.has_slash) return err(EISDIR);
    auto link = parent.directory->node->look_up(parent.name);
    if (!link) {
      if (link.error() != ENOENT) return err(link.error());
      MEMBRANE_ASSIGN(LocationRef made, create_in(call, parent, wish.mode));
      return Found{std::move(made), true};
    }
    if (!wish.walk.follows_last || (*link)->type() != S_IFLNK) return err(ENOENT);
    MEMBRANE_ASSIGN(path, (*link)->target());
    from = path.starts_with('/') ? place.root : parent.directory;
  }
  return err(ELOOP);
}

Try<Found> find_nameless(Call& call, const OpenWish& wish) {
  if ((wish.flags & O_ACCMODE) == O_RDONLY) return err(EINVAL);
  MEMBRANE_ASSIGN(const LocationRef directory, walk_from(call, wish.directory, wish.path, wish.walk));
  const Attributes attributes = directory->node->attributes();
  if (!S_ISDIR(attributes.mode)) return err(ENOTDIR);
  MEMBRANE_TRY(may(who(call), attributes, W_OK | X_OK));
  MEMBRANE_ASSIGN(NodeRef made, directory->node->create_nameless(
                                    new_node(call, attributes, S_IFREG | (wish.mode & 07777))));
  const std::string name = "#" + std::to_string(made->attributes().number);
  return Found{std::make_shared<const Location>(Location{std::move(made), directory, name}), true};
}

// Checks whether the file that was found may be opened in this way.
Done check(Call& call, const Found& found, int flags) {
  const Attributes attributes = found.location->node->attributes();
  const uint32_t type = attributes.mode & S_IFMT;
  if (type == S_IFLNK && (flags & O_PATH) == 0) return err(ELOOP);
  if ((flags & O_DIRECTORY) != 0 && type != S_IFDIR && (flags & kTmpFile) == 0) return err(ENOTDIR);
  if ((flags & O_PATH) != 0) return {};
  const int wanted = wanted_access(flags);
  if (type == S_IFDIR && ((wanted & W_OK) != 0 || (flags & O_CREAT) != 0)) return err(EISDIR);
  if (!found.is_new) MEMBRANE_TRY(may(who(call), attributes, wanted));
  if ((flags & O_NOATIME) != 0 && !owns(who(call), attributes)) return err(EPERM);
  return {};
}

// The file that readers get: the file itself or, for a file of certificates, a copy that also contains the
// network's, wherever the file is.
NodeRef node_to_open(Call& call, const Found& found, int flags) {
  const NodeRef& node = found.location->node;
  const SocketSpace* const sockets = call.kernel.sockets.get();
  if (sockets == nullptr || sockets->network == nullptr || sockets->network->certificate().empty())
    return node;
  const bool only_reads = (flags & O_ACCMODE) == O_RDONLY && (flags & O_TRUNC) == 0 && !found.is_new;
  if (!only_reads || !is_certificate_file(*found.location) || node->type() != S_IFREG) return node;
  return with_certificate(node, *call.kernel.root->node, sockets->network->certificate()).value_or(node);
}

Try<FileRef> make_file(Call& call, const Found& found, int flags) {
  if ((flags & O_PATH) != 0) {
    FileRef file = std::make_shared<PathFile>(found.location);
    file->flags = flags & ~O_CLOEXEC;
    return file;
  }
  MEMBRANE_ASSIGN(FileRef file, open_node(call.task, node_to_open(call, found, flags), flags | kLargeFile));
  if ((flags & O_TRUNC) != 0 && !found.is_new && found.location->node->type() == S_IFREG)
    MEMBRANE_TRY(found.location->node->resize(0));
  file->location = found.location;
  return file;
}

Done check_flags(const OpenWish& wish) {
  if ((wish.flags & kTmpFile) != 0) {
    if ((wish.flags & O_DIRECTORY) == 0 || (wish.flags & O_CREAT) != 0) return err(EINVAL);
  } else if ((wish.flags & O_CREAT) != 0 && (wish.flags & O_DIRECTORY) != 0) {
    return err(EINVAL);
  }
  return {};
}

int64_t open_by(Call& call, int directory, uint64_t path, int flags, uint64_t mode) {
  CALL_ASSIGN(std::string name, path_at(call, path));
  return open_path(call, {directory, std::move(name), flags & kKnownFlags, static_cast<uint32_t>(mode), {}});
}

}  // namespace

int64_t open_path(Call& call, const OpenWish& given) {
  OpenWish wish = given;
  if ((wish.flags & O_PATH) != 0) wish.flags &= kFlagsOfPath;
  CALL_TRY(check_flags(wish));
  const bool closes_on_exec = (wish.flags & O_CLOEXEC) != 0;
  FileRef file = std::exchange(call.task.waiting.file, nullptr);
  if (!call.is_again()) file = nullptr;  // of a call that a signal ended
  if (file == nullptr) {
    const bool is_exclusive = (wish.flags & O_CREAT) != 0 && (wish.flags & O_EXCL) != 0;
    wish.walk.follows_last = (wish.flags & O_NOFOLLOW) == 0 && !is_exclusive;
    CALL_ASSIGN(const Found found,
                (wish.flags & kTmpFile) != 0 ? find_nameless(call, wish) : find_or_create(call, wish));
    CALL_TRY(check(call, found, wish.flags));
    if (found.is_new && found.location->parent != nullptr)
      announce_in(call.kernel, *found.location->parent->node, found.location->name, *found.location->node,
                  IN_CREATE);
    CALL_ASSIGN(file, make_file(call, found, wish.flags));
    if ((wish.flags & O_PATH) == 0) announce(call.kernel, *file, IN_OPEN);
  }
  if (!file->is_complete()) {
    call.join(*file);
    call.task.waiting.file = std::move(file);
    return call.wait();
  }
  return answer(add_file(call, std::move(file), closes_on_exec));
}

int64_t sys_open(Call& call) { return open_by(call, AT_FDCWD, call.arg(0), call.int_arg(1), call.arg(2)); }
int64_t sys_openat(Call& call) {
  return open_by(call, call.int_arg(0), call.arg(1), call.int_arg(2), call.arg(3));
}
int64_t sys_creat(Call& call) {
  return open_by(call, AT_FDCWD, call.arg(0), O_CREAT | O_WRONLY | O_TRUNC, call.arg(1));
}

// RESOLVE_NO_XDEV, RESOLVE_CACHED, and O_CREAT together with a RESOLVE flag are refused.
int64_t sys_openat2(Call& call) {
  constexpr uint64_t kKnownResolve =
      RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | RESOLVE_IN_ROOT;
  const uint64_t size = call.arg(3);
  if (size < sizeof(open_how)) return -EINVAL;
  if (size > sizeof(open_how)) return -E2BIG;
  CALL_ASSIGN(const auto how, call.get<open_how>(call.arg(2)));
  if ((how.flags & ~static_cast<uint64_t>(kKnownFlags)) != 0 || (how.resolve & ~kKnownResolve) != 0)
    return -EINVAL;
  const auto flags = static_cast<int>(how.flags);
  if ((flags & O_PATH) != 0 && (flags & ~kFlagsOfPath) != 0) return -EINVAL;
  const bool makes = (flags & (O_CREAT | kTmpFile)) != 0;
  if (makes ? (how.mode & ~uint64_t{07777}) != 0 : how.mode != 0) return -EINVAL;
  if (how.resolve != 0 && (flags & O_CREAT) != 0) return -EOPNOTSUPP;
  constexpr uint64_t kBoth = RESOLVE_BENEATH | RESOLVE_IN_ROOT;
  if ((how.resolve & kBoth) == kBoth) return -EINVAL;
  OpenWish wish = {call.int_arg(0), {}, flags, static_cast<uint32_t>(how.mode), {}};
  CALL_ASSIGN(wish.path, path_at(call, call.arg(1)));
  wish.walk.in_root = (how.resolve & RESOLVE_IN_ROOT) != 0;
  wish.walk.beneath = (how.resolve & RESOLVE_BENEATH) != 0;
  wish.walk.no_links = (how.resolve & RESOLVE_NO_SYMLINKS) != 0;
  wish.walk.no_magic_links = wish.walk.no_links || (how.resolve & RESOLVE_NO_MAGICLINKS) != 0;
  return open_path(call, wish);
}

}  // namespace membrane::linux
