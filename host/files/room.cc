#include "host/files/room.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <string>

namespace membrane::host {

HostResult<Room> room_of(Roots& roots, std::string_view path) {
  const auto components = parse_guest_path(path);
  if (!components) return std::unexpected(components.error());
  const auto target = roots.locate(*components, policy::FsMode::kRead);
  if (!target) return std::unexpected(target.error());
  const Root& root = target->root;
  Room room = {.most_bytes = root.grant.max_total_bytes, .most_files = root.grant.max_files};
  if (root.grant.mode != policy::FsMode::kWrite) return room;
  struct statvfs system{};
  if (fstatvfs(root.directory.get(), &system) != 0) return std::unexpected(errno_of(target->text));
  room.free_bytes = std::min<uint64_t>(room.most_bytes - std::min(root.written_bytes, room.most_bytes),
                                       uint64_t{system.f_bavail} * system.f_frsize);
  room.free_files = room.most_files - std::min(root.made, room.most_files);
  return room;
}

}  // namespace membrane::host
