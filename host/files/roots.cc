#include "host/files/roots.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "host/broker/decisions.h"

namespace membrane::host {

using policy::FsGrant;
using policy::FsMode;

HostError errno_of(const std::string& text) { return system_error(errno, text); }

uint64_t file_id_of(const struct stat& info) {
  // splitmix64 of both numbers.
  uint64_t mixed = info.st_ino + 0x9E37'79B9'7F4A'7C15 * (info.st_dev + 1);
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58'476D'1CE4'E5B9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D0'49BB'1331'11EB;
  return (mixed ^ (mixed >> 31)) | 1;
}

bool Root::has_foreign_names(const struct stat& info) const {
  const auto known = links_made.find({info.st_dev, info.st_ino});
  return info.st_nlink > 1 + (known == links_made.end() ? 0 : known->second);
}

void Root::note_link(const struct stat& info) { ++links_made[{info.st_dev, info.st_ino}]; }

void Root::forget_link(const struct stat& info) {
  const auto known = links_made.find({info.st_dev, info.st_ino});
  if (known != links_made.end() && --known->second == 0) links_made.erase(known);
}

HostError error_at_path(HostError error, const std::string& path, const std::string& text) {
  if (error.reason.starts_with(path)) error.reason.replace(0, path.size(), text);
  return error;
}

HostResult<Fd> open_target(const Target& target, int flags) {
  const std::string path = target.path();
  auto fd = open_beneath(target.root.directory.get(), path, flags, target.links());
  if (!fd) return std::unexpected(error_at_path(fd.error(), path, target.text));
  return fd;
}

HostResult<struct stat> inspect(const Fd& fd, const std::string& text) {
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return std::unexpected(errno_of(text));
  if (!S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
    return refuse(Errno::kAccess, text + " is neither a regular file nor a directory.");
  return info;
}

HostResult<struct stat> inspect_entry(const Fd& fd, const Target& target) {
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return std::unexpected(errno_of(target.text));
  if (S_ISLNK(info.st_mode) && target.root.grant.links) return info;
  return inspect(fd, target.text);
}

namespace {

// -- opening the grants ----------------------------------------------------------

HostResult<Root> open_file_root(const FsGrant& grant, Components guest) {
  char* real =
      realpath(grant.host.c_str(), nullptr);  // the owner may use links to name it; the program may not
  if (real == nullptr) return std::unexpected(errno_of(grant.host));
  const std::string path(real);
  free(real);
  const size_t slash = path.rfind('/');
  Fd directory(::open(path.substr(0, slash + 1).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return std::unexpected(errno_of(grant.host));
  return Root{grant, std::move(guest), std::move(directory), path.substr(slash + 1)};
}

HostResult<Root> open_root(const FsGrant& grant) {
  auto guest = parse_guest_path(grant.guest);
  if (!guest) return std::unexpected(guest.error());
  Fd fd(::open(grant.host.c_str(), O_PATH | O_CLOEXEC));
  if (!fd.valid()) return std::unexpected(errno_of(grant.host));
  auto info = inspect(fd, grant.host);
  if (!info) return std::unexpected(info.error());
  if (S_ISDIR(info->st_mode)) return Root{grant, std::move(*guest), std::move(fd), ""};
  if (guest->empty()) return refuse(Errno::kInvalid, grant.host + " is a file and cannot be granted as /.");
  return open_file_root(grant, std::move(*guest));
}

}  // namespace

HostResult<std::unique_ptr<Roots>> Roots::open(const std::vector<FsGrant>& grants) {
  std::unique_ptr<Roots> roots(new Roots(grants));
  if (!grants.empty())
    if (auto kernel = check_kernel(); !kernel) return std::unexpected(kernel.error());
  for (const FsGrant& grant : roots->grants_) {
    auto root = open_root(grant);
    if (!root) return std::unexpected(root.error());
    roots->roots_.push_back(std::move(*root));
  }
  return roots;
}

HostResult<Target> Roots::locate(const Components& path, FsMode mode) {
  Root* const root = find_rule(roots_, path);
  if (auto may = check_path(root == nullptr ? nullptr : &root->grant, path, mode); !may)
    return std::unexpected(may.error());
  const std::string text = guest_text(path);
  Components beneath(path.begin() + static_cast<std::ptrdiff_t>(root->guest.size()), path.end());
  if (root->is_file()) {
    if (!beneath.empty())
      return refuse(Errno::kNotDir, guest_text(root->guest) + " is a file, not a directory.");
    beneath = {root->file};
  }
  return Target{*root, std::move(beneath), text};
}

std::vector<std::string> Roots::granted_in(const Components& path) const {
  std::vector<std::string> out;
  for (const Root& root : roots_)
    if (root.guest.size() > path.size() && begins_with(root.guest, path))
      out.push_back(root.guest[path.size()]);
  return out;
}

}  // namespace membrane::host
