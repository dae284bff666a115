// Extended attributes: setxattr, getxattr, listxattr, removexattr, and their variants for links and
// descriptors.
#include <fcntl.h>
#include <linux/limits.h>
#include <linux/xattr.h>

#include <string>

#include "linux/kernel/file_calls.h"

namespace membrane::linux {
namespace {

enum class By : uint8_t { kPath, kLink, kDescriptor };

Try<NodeRef> node_by(Call& call, By by) {
  if (by == By::kDescriptor) {
    MEMBRANE_ASSIGN(const FileRef file, open_file(call, call.int_arg(0)));
    return file->node();
  }
  const int flags = by == By::kLink ? AT_SYMLINK_NOFOLLOW : 0;
  MEMBRANE_ASSIGN(const Target target, target_at(call, AT_FDCWD, call.arg(0), flags));
  return target.node;
}

Try<std::string> name_at(Call& call, uint64_t address) {
  auto name = call.get_string(address, XATTR_NAME_MAX + 1);
  if (!name) return err(name.error() == ENAMETOOLONG ? ERANGE : name.error());
  if (name->empty() || name->size() > XATTR_NAME_MAX) return err(ERANGE);
  return name;
}

// Whether the caller may read or change an attribute of that name.
Done check_name(Call& call, Node& node, std::string_view name, bool writes) {
  const Attributes attributes = node.attributes();
  const bool is_root = who(call).is_root();
  if (name.starts_with("trusted.")) return is_root ? Done() : err(writes ? EPERM : ENODATA);
  if (name.starts_with("security.")) return is_root || !writes ? Done() : err(EPERM);
  if (!name.starts_with("user.")) return err(EOPNOTSUPP);
  if (!S_ISREG(attributes.mode) && !S_ISDIR(attributes.mode)) return err(writes ? EPERM : ENODATA);
  return may(who(call), attributes, writes ? W_OK : R_OK);
}

int64_t set(Call& call, By by) {
  const int flags = call.int_arg(4);
  if ((flags & ~(XATTR_CREATE | XATTR_REPLACE)) != 0) return -EINVAL;
  CALL_ASSIGN(const std::string name, name_at(call, call.arg(1)));
  if (call.arg(3) > XATTR_SIZE_MAX) return -E2BIG;
  std::string value(call.arg(3), '\0');
  CALL_TRY(call.task.read_memory(call.arg(2), std::as_writable_bytes(std::span(value))));
  CALL_ASSIGN(const NodeRef node, node_by(call, by));
  CALL_TRY(check_name(call, *node, name, true));
  return answer(node->set_attribute(name, value, flags));
}

// Copies bytes to the caller; a size of 0 asks for their number.
int64_t give(Call& call, std::string_view bytes, uint64_t to, uint64_t room) {
  if (room == 0) return static_cast<int64_t>(bytes.size());
  if (bytes.size() > room) return -ERANGE;
  CALL_TRY(call.task.write_memory(to, std::as_bytes(std::span(bytes))));
  return static_cast<int64_t>(bytes.size());
}

int64_t get(Call& call, By by) {
  CALL_ASSIGN(const std::string name, name_at(call, call.arg(1)));
  CALL_ASSIGN(const NodeRef node, node_by(call, by));
  CALL_TRY(check_name(call, *node, name, false));
  CALL_ASSIGN(const std::string value, node->attribute(name));
  return give(call, value, call.arg(2), call.arg(3));
}

int64_t list(Call& call, By by) {
  CALL_ASSIGN(const NodeRef node, node_by(call, by));
  CALL_ASSIGN(const auto names, node->attribute_names());
  std::string all;
  for (const std::string& name : names) {
    if (name.starts_with("trusted.") && !who(call).is_root()) continue;
    all.append(name).push_back('\0');
  }
  return give(call, all, call.arg(1), call.arg(2));
}

int64_t remove(Call& call, By by) {
  CALL_ASSIGN(const std::string name, name_at(call, call.arg(1)));
  CALL_ASSIGN(const NodeRef node, node_by(call, by));
  CALL_TRY(check_name(call, *node, name, true));
  return answer(node->remove_attribute(name));
}

}  // namespace

int64_t sys_setxattr(Call& call) { return set(call, By::kPath); }
int64_t sys_lsetxattr(Call& call) { return set(call, By::kLink); }
int64_t sys_fsetxattr(Call& call) { return set(call, By::kDescriptor); }
int64_t sys_getxattr(Call& call) { return get(call, By::kPath); }
int64_t sys_lgetxattr(Call& call) { return get(call, By::kLink); }
int64_t sys_fgetxattr(Call& call) { return get(call, By::kDescriptor); }
int64_t sys_listxattr(Call& call) { return list(call, By::kPath); }
int64_t sys_llistxattr(Call& call) { return list(call, By::kLink); }
int64_t sys_flistxattr(Call& call) { return list(call, By::kDescriptor); }
int64_t sys_removexattr(Call& call) { return remove(call, By::kPath); }
int64_t sys_lremovexattr(Call& call) { return remove(call, By::kLink); }
int64_t sys_fremovexattr(Call& call) { return remove(call, By::kDescriptor); }

}  // namespace membrane::linux
