// Names: making, removing, linking and renaming them; working directory, root and umask.
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/limits.h>
#include <sys/stat.h>

#include <utility>

#include "linux/kernel/announcing.h"
#include "linux/kernel/file_calls.h"
#include "linux/kernel/kernel.h"

namespace membrane::linux {
namespace {

bool is_dots(std::string_view name) { return name == "." || name == ".."; }

Try<Parent> parent_at(Call& call, int directory, uint64_t path) {
  MEMBRANE_ASSIGN(const std::string name, path_at(call, path));
  return parent_from(call, directory, name);
}

// The parent directory for a new name. Errors: EEXIST when the name exists.
Try<Parent> new_name_at(Call& call, int directory, uint64_t path, bool is_directory) {
  MEMBRANE_ASSIGN(Parent parent, parent_at(call, directory, path));
  if (parent.name.empty() || is_dots(parent.name)) return err(EEXIST);
  MEMBRANE_TRY(may(who(call), parent.directory->node->attributes(), X_OK));
  if (parent.directory->node->look_up(parent.name)) return err(EEXIST);
  if (parent.has_slash && !is_directory) return err(ENOENT);
  MEMBRANE_TRY(may(who(call), parent.directory->node->attributes(), W_OK | X_OK));
  return parent;
}

int64_t create(Call& call, const Parent& parent, const NewNode& wanted) {
  CALL_ASSIGN(const NodeRef made, parent.directory->node->create(parent.name, wanted));
  announce_in(call.kernel, *parent.directory->node, parent.name, *made, IN_CREATE);
  return 0;
}

int64_t make_directory(Call& call, int directory, uint64_t path, uint64_t mode) {
  CALL_ASSIGN(const Parent parent, new_name_at(call, directory, path, true));
  const Attributes above = parent.directory->node->attributes();
  const uint32_t kind = S_IFDIR | (static_cast<uint32_t>(mode) & 01777);
  return create(call, parent, new_node(call, above, kind));
}

// Root may make character devices; those that /dev has can be opened. Block devices are refused.
int64_t make_node(Call& call, int directory, uint64_t path, uint64_t mode, uint64_t device) {
  uint32_t type = static_cast<uint32_t>(mode) & S_IFMT;
  if (type == 0) type = S_IFREG;
  if (type == S_IFBLK || type == S_IFDIR || (type == S_IFCHR && !who(call).is_root())) return -EPERM;
  if (type != S_IFREG && type != S_IFIFO && type != S_IFSOCK && type != S_IFCHR) return -EINVAL;
  CALL_ASSIGN(const Parent parent, new_name_at(call, directory, path, false));
  const Attributes above = parent.directory->node->attributes();
  NewNode made = new_node(call, above, type | (static_cast<uint32_t>(mode) & 07777));
  if (type == S_IFCHR) made.special = device;
  return create(call, parent, made);
}

int64_t make_symbolic_link(Call& call, uint64_t target, int directory, uint64_t path) {
  CALL_ASSIGN(std::string text, path_at(call, target));
  if (text.empty()) return -ENOENT;
  CALL_ASSIGN(const Parent parent, new_name_at(call, directory, path, false));
  NewNode made = new_node(call, parent.directory->node->attributes(), 0);
  made.mode = S_IFLNK | 0777;
  made.target = std::move(text);
  return create(call, parent, made);
}

// -- removing

struct Existing {
  Parent parent;
  NodeRef node;
};

// The node that the last name refers to, if the caller may remove or rename it. Errors: ENOENT, EBUSY for
// mount points.
Try<Existing> removable_at(Call& call, const Parent& parent) {
  const Attributes above = parent.directory->node->attributes();
  MEMBRANE_TRY(may(who(call), above, X_OK));
  MEMBRANE_ASSIGN(NodeRef node, parent.directory->node->look_up(parent.name));
  MEMBRANE_TRY(may_remove(who(call), above, node->attributes()));
  if (call.kernel.mounts.over(node) != node) return err(EBUSY);
  return Existing{parent, std::move(node)};
}

int64_t remove_file(Call& call, int directory, uint64_t path) {
  CALL_ASSIGN(const Parent parent, parent_at(call, directory, path));
  if (parent.name.empty() || is_dots(parent.name)) return -EISDIR;
  CALL_ASSIGN(const Existing found, removable_at(call, parent));
  const bool is_directory = found.node->type() == S_IFDIR;
  if (is_directory) return -EISDIR;
  if (parent.has_slash) return -ENOTDIR;
  CALL_TRY(parent.directory->node->unlink(parent.name));
  announce_removal(call.kernel, *parent.directory->node, parent.name, *found.node);
  return 0;
}

int64_t remove_directory(Call& call, int directory, uint64_t path) {
  CALL_ASSIGN(const Parent parent, parent_at(call, directory, path));
  if (parent.name.empty()) return -EBUSY;
  if (parent.name == ".") return -EINVAL;
  if (parent.name == "..") return -ENOTEMPTY;
  CALL_ASSIGN(const Existing found, removable_at(call, parent));
  if (found.node->type() != S_IFDIR) return -ENOTDIR;
  CALL_TRY(parent.directory->node->remove_directory(parent.name));
  announce_removal(call.kernel, *parent.directory->node, parent.name, *found.node);
  return 0;
}

// -- renaming and linking

bool is_same_file_system(Node& a, Node& b) { return a.attributes().device == b.attributes().device; }

// Whether `node` is `directory` or an ancestor of it.
bool is_above(const NodeRef& node, NodeRef directory) {
  for (;;) {
    if (directory == node) return true;
    NodeRef up = directory->parent();
    if (up == nullptr || up == directory) return false;
    directory = std::move(up);
  }
}

// The rules when the new name exists.
Done check_replaced(Call& call, const Existing& from, const Parent& to, const NodeRef& replaced,
                    unsigned flags) {
  MEMBRANE_TRY(may_remove(who(call), to.directory->node->attributes(), replaced->attributes()));
  if (call.kernel.mounts.over(replaced) != replaced) return err(EBUSY);
  const bool is_directory = from.node->type() == S_IFDIR, was_directory = replaced->type() == S_IFDIR;
  if ((flags & RENAME_EXCHANGE) != 0) {
    if (was_directory && is_above(replaced, from.parent.directory->node)) return err(EINVAL);
    return {};
  }
  if (is_directory && !was_directory) return err(ENOTDIR);
  if (!is_directory && was_directory) return err(EISDIR);
  return {};
}

Done rename_to(Call& call, const Existing& from, const Parent& to, unsigned flags) {
  Node& directory = *to.directory->node;
  const bool is_directory = from.node->type() == S_IFDIR;
  const Attributes above = directory.attributes();
  MEMBRANE_TRY(may(who(call), above, X_OK));
  if (!is_same_file_system(*from.node, directory)) return err(EXDEV);
  const auto replaced = directory.look_up(to.name);
  if (!replaced && replaced.error() != ENOENT) return err(replaced.error());
  if (replaced && (flags & RENAME_NOREPLACE) != 0) return err(EEXIST);
  if (!replaced && (flags & RENAME_EXCHANGE) != 0) return err(ENOENT);
  if (!is_directory && (from.parent.has_slash || (to.has_slash && !replaced))) return err(ENOTDIR);
  if (is_directory && is_above(from.node, to.directory->node)) return err(EINVAL);
  if (replaced && *replaced == from.node) return {};
  MEMBRANE_TRY(may(who(call), above, W_OK | X_OK));
  if (replaced) MEMBRANE_TRY(check_replaced(call, from, to, *replaced, flags));
  // Moving a directory changes its "..".
  if (is_directory && from.parent.directory->node != to.directory->node)
    MEMBRANE_TRY(may(who(call), from.node->attributes(), W_OK));
  return from.parent.directory->node->rename(from.parent.name, directory, to.name, flags);
}

int64_t rename_at(Call& call, int old_directory, uint64_t old_path, int new_directory, uint64_t new_path,
                  unsigned flags) {
  if ((flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE)) != 0) return -EINVAL;
  if (flags == (RENAME_NOREPLACE | RENAME_EXCHANGE)) return -EINVAL;
  CALL_ASSIGN(const Parent from, parent_at(call, old_directory, old_path));
  CALL_ASSIGN(const Parent to, parent_at(call, new_directory, new_path));
  if (from.name.empty() || is_dots(from.name)) return -EBUSY;
  if (to.name.empty() || is_dots(to.name)) return (flags & RENAME_NOREPLACE) != 0 ? -EEXIST : -EBUSY;
  CALL_ASSIGN(const Existing existing, removable_at(call, from));
  CALL_TRY(rename_to(call, existing, to, flags));
  announce_move(call.kernel, from, to, *existing.node);
  return 0;
}

int64_t link_at(Call& call, int old_directory, uint64_t old_path, int new_directory, uint64_t new_path,
                int flags) {
  if ((flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH)) != 0) return -EINVAL;
  const int find = (flags & AT_EMPTY_PATH) | ((flags & AT_SYMLINK_FOLLOW) != 0 ? 0 : AT_SYMLINK_NOFOLLOW);
  CALL_ASSIGN(const Target target, target_at(call, old_directory, old_path, find));
  CALL_ASSIGN(const Parent parent, new_name_at(call, new_directory, new_path, false));
  if (target.node->type() == S_IFDIR) return -EPERM;
  if (!is_same_file_system(*target.node, *parent.directory->node)) return -EXDEV;
  CALL_TRY(parent.directory->node->link(parent.name, target.node));
  announce_in(call.kernel, *parent.directory->node, parent.name, *target.node, IN_CREATE);
  return 0;
}

// -- where the process is

Done enter(Call& call, const LocationRef& location, LocationRef Place::* where) {
  const Attributes attributes = location->node->attributes();
  if (!S_ISDIR(attributes.mode)) return err(ENOTDIR);
  MEMBRANE_TRY(may(who(call), attributes, X_OK));
  call.process().place.get()->*where = location;
  return {};
}

}  // namespace

int64_t sys_mkdir(Call& call) { return make_directory(call, AT_FDCWD, call.arg(0), call.arg(1)); }
int64_t sys_mkdirat(Call& call) { return make_directory(call, call.int_arg(0), call.arg(1), call.arg(2)); }
int64_t sys_mknod(Call& call) { return make_node(call, AT_FDCWD, call.arg(0), call.arg(1), call.arg(2)); }
int64_t sys_mknodat(Call& call) {
  return make_node(call, call.int_arg(0), call.arg(1), call.arg(2), call.arg(3));
}
int64_t sys_symlink(Call& call) { return make_symbolic_link(call, call.arg(0), AT_FDCWD, call.arg(1)); }
int64_t sys_symlinkat(Call& call) {
  return make_symbolic_link(call, call.arg(0), call.int_arg(1), call.arg(2));
}

int64_t sys_unlink(Call& call) { return remove_file(call, AT_FDCWD, call.arg(0)); }
int64_t sys_rmdir(Call& call) { return remove_directory(call, AT_FDCWD, call.arg(0)); }
int64_t sys_unlinkat(Call& call) {
  const int flags = call.int_arg(2);
  if ((flags & ~AT_REMOVEDIR) != 0) return -EINVAL;
  return flags != 0 ? remove_directory(call, call.int_arg(0), call.arg(1))
                    : remove_file(call, call.int_arg(0), call.arg(1));
}

int64_t sys_rename(Call& call) { return rename_at(call, AT_FDCWD, call.arg(0), AT_FDCWD, call.arg(1), 0); }
int64_t sys_renameat(Call& call) {
  return rename_at(call, call.int_arg(0), call.arg(1), call.int_arg(2), call.arg(3), 0);
}
int64_t sys_renameat2(Call& call) {
  return rename_at(call, call.int_arg(0), call.arg(1), call.int_arg(2), call.arg(3),
                   static_cast<unsigned>(call.arg(4)));
}

int64_t sys_link(Call& call) { return link_at(call, AT_FDCWD, call.arg(0), AT_FDCWD, call.arg(1), 0); }
int64_t sys_linkat(Call& call) {
  return link_at(call, call.int_arg(0), call.arg(1), call.int_arg(2), call.arg(3), call.int_arg(4));
}

int64_t sys_chdir(Call& call) {
  CALL_ASSIGN(const Target target, target_at(call, AT_FDCWD, call.arg(0), 0));
  return answer(enter(call, target.location, &Place::directory));
}
int64_t sys_fchdir(Call& call) {
  CALL_ASSIGN(const FileRef file, any_file(call, call.int_arg(0)));
  if (file->location == nullptr) return -ENOTDIR;
  return answer(enter(call, file->location, &Place::directory));
}
int64_t sys_chroot(Call& call) {
  CALL_ASSIGN(const Target target, target_at(call, AT_FDCWD, call.arg(0), 0));
  if (call.process().credentials.euid != 0) return -EPERM;
  return answer(enter(call, target.location, &Place::root));
}

int64_t sys_getcwd(Call& call) {
  const Place& place = *call.process().place;
  if (place.directory->node->attributes().links == 0) return -ENOENT;
  const std::string path = path_of(place, *place.directory);
  const size_t size = path.size() + 1;
  if (size > PATH_MAX) return -ENAMETOOLONG;
  if (size > call.arg(1)) return -ERANGE;
  CALL_TRY(call.task.write_memory(call.arg(0), std::as_bytes(std::span(path.c_str(), size))));
  return static_cast<int64_t>(size);
}

int64_t sys_umask(Call& call) {
  return std::exchange(call.process().place->umask, static_cast<uint32_t>(call.arg(0)) & 0777);
}

}  // namespace membrane::linux
