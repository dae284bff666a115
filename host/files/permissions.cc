#include "host/files/permissions.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <string>

namespace membrane::host {
namespace {

using policy::FsMode;

constexpr uint32_t kPermissions = 0777;

HostResult<Target> locate(Roots& roots, std::string_view path, FsMode mode) {
  const auto components = parse_guest_path(path);
  if (!components) return std::unexpected(components.error());
  return roots.locate(*components, mode);
}

}  // namespace

HostResult<uint32_t> permissions_of(Roots& roots, std::string_view path) {
  const auto target = locate(roots, path, FsMode::kRead);
  if (!target) return std::unexpected(target.error());
  const auto fd = open_target(*target, O_PATH | (target->root.grant.links ? O_NOFOLLOW : 0));
  if (!fd) return std::unexpected(fd.error());
  const auto info = inspect_entry(*fd, *target);
  if (!info) return std::unexpected(info.error());
  return info->st_mode & kPermissions;
}

// With O_PATH, which opens a file whatever its permissions are, but allows no change itself: its name in /proc does.
HostResult<void> set_permissions(Roots& roots, std::string_view path, uint32_t mode) {
  const auto target = locate(roots, path, FsMode::kWrite);
  if (!target) return std::unexpected(target.error());
  const auto fd = open_beneath(target->root.directory.get(), target->path(), O_PATH, Symlinks::kNone);
  if (!fd) return std::unexpected(error_at_path(fd.error(), target->path(), target->text));
  const auto info = inspect(*fd, target->text);
  if (!info) return std::unexpected(info.error());
  if (S_ISREG(info->st_mode) && target->root.has_foreign_names(*info))
    return refuse(Errno::kAccess, target->text + " has another hard link, whose file would change with it.");
  constexpr uint32_t kOthersWrite = 0022;
  const uint32_t kept = S_ISDIR(info->st_mode) ? info->st_mode & 07000 : 0;
  const uint32_t wanted = kept | (mode & kPermissions & (~kOthersWrite | info->st_mode));
  if (chmod(("/proc/self/fd/" + std::to_string(fd->get())).c_str(), wanted) != 0)
    return std::unexpected(errno_of(target->text));
  return {};
}

HostResult<void> drop_privileges(const Fd& fd, const std::string& text) {
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return std::unexpected(errno_of(text));
  if ((info.st_mode & (S_ISUID | S_ISGID)) == 0) return {};
  if (fchmod(fd.get(), info.st_mode & 01777) != 0) return std::unexpected(errno_of(text));
  return {};
}

}  // namespace membrane::host
