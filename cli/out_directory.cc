#include "cli/out_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/base64.h"
#include "base/write_at.h"
#include "host/files/links.h"

namespace membrane::cli {
namespace {

constexpr unsigned kFileMode = 0644, kProgramMode = 0755, kDirectoryMode = 0755;
constexpr std::pair<std::string_view, std::string_view> kImages[] = {
    {"image/png", ".png"}, {"image/jpeg", ".jpg"}, {"image/svg+xml", ".svg"}, {"image/gif", ".gif"}};

std::unexpected<Error> refused(const std::string& path, const std::string& why) {
  return fail(ErrorCode::kUnavailable, path + " cannot be written: " + why,
              "Name a writable directory, with nothing else in the way.");
}

}  // namespace

Result<OutDirectory> OutDirectory::open(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  host::Fd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return refused(path, std::strerror(errno));
  return OutDirectory(path, std::move(directory));
}

// Opens directory by directory, none of which may be a link. Errors name `path`.
Result<host::Fd> OutDirectory::open_directory(std::string_view below, const std::string& path) {
  host::Fd at(fcntl(directory_.get(), F_DUPFD_CLOEXEC, 0));
  for (size_t begin = 0; begin < below.size();) {
    const size_t end = std::min(below.find('/', begin), below.size());
    const std::string name(below.substr(begin, end - begin));
    begin = end + 1;
    if (name.empty()) continue;
    if (mkdirat(at.get(), name.c_str(), kDirectoryMode) != 0 && errno != EEXIST)
      return refused(path, std::strerror(errno));
    auto next = host::open_beneath(at.get(), name, O_RDONLY | O_DIRECTORY, host::Symlinks::kNone);
    if (!next) return refused(path, next.error().reason);
    at = std::move(*next);
  }
  return at;
}

Status OutDirectory::write(const std::string& below, std::string_view bytes, bool is_executable) {
  const std::string path = path_of(below);
  const size_t slash = below.rfind('/');
  const size_t begin = slash == std::string::npos ? 0 : slash + 1;
  MEMBRANE_ASSIGN(const host::Fd at, open_directory(std::string_view(below).substr(0, begin), path));
  constexpr int kFlags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK;  // does not block on a FIFO
  const auto file = host::open_beneath(at.get(), below.substr(begin), kFlags, host::Symlinks::kNone,
                                       is_executable ? kProgramMode : kFileMode);
  if (!file) return refused(path, file.error().reason);
  struct stat status{};
  if (fstat(file->get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink > 1)
    return refused(path, "it is not a regular file, or has several names");
  // An existing file keeps its permissions.
  constexpr mode_t kRun = 0111, kRead = 0444;
  const mode_t run = is_executable ? (status.st_mode & kRead) >> 2 : 0;
  if ((status.st_mode & kRun) != run && fchmod(file->get(), (status.st_mode & 0777 & ~kRun) | run) != 0)
    return refused(path, std::strerror(errno));
  const auto* const data = reinterpret_cast<const uint8_t*>(bytes.data());
  if (ftruncate(file->get(), 0) != 0 || !write_at(file->get(), 0, {data, bytes.size()}))
    return refused(path, std::strerror(errno));
  kept_.push_back(path);
  return {};
}

void OutDirectory::keep(std::string_view guest_path, std::string_view bytes, bool is_executable) {
  guest_path.remove_prefix(std::min(guest_path.find_first_not_of('/'), guest_path.size()));
  if (guest_path.empty()) return;
  Status written = write(std::string(guest_path), bytes, is_executable);
  if (status_) status_ = std::move(written);
}

Status OutDirectory::write_link(const std::string& below, const std::string& target) {
  const std::string path = path_of(below);
  const size_t slash = below.rfind('/');
  const size_t begin = slash == std::string::npos ? 0 : slash + 1;
  MEMBRANE_ASSIGN(const host::Fd at, open_directory(std::string_view(below).substr(0, begin), path));
  const std::string name = below.substr(begin);
  if (unlinkat(at.get(), name.c_str(), 0) != 0 && errno != ENOENT) return refused(path, std::strerror(errno));
  if (symlinkat(target.c_str(), at.get(), name.c_str()) != 0) return refused(path, std::strerror(errno));
  kept_.push_back(path);
  return {};
}

bool OutDirectory::keep_link(std::string_view guest_path, const std::string& target,
                             std::string_view within) {
  const auto depth_of = [](std::string_view path) {
    return static_cast<size_t>(std::ranges::count(path.substr(0, path.find_last_not_of('/') + 1), '/'));
  };
  const size_t depth = depth_of(guest_path) - (within.empty() ? 0 : depth_of(within) + 1);
  if (!host::check_new_target(target, depth, std::string(guest_path))) return false;
  Status written = write_link(std::string(guest_path), target);
  if (status_) status_ = std::move(written);
  return true;
}

void OutDirectory::keep_directory(std::string_view guest_path) {
  const auto made = open_directory(guest_path, path_of(guest_path));
  if (!made && status_) status_ = std::unexpected(made.error());
}

std::string OutDirectory::path_of(std::string_view below) const {
  return path_ + (path_.ends_with('/') ? "" : "/") + std::string(below);
}

void OutDirectory::keep_image(const sandbox::RichValue& value, const std::string& name) {
  for (const sandbox::MimePart& part : value) {
    for (const auto& [type, ending] : kImages) {
      if (part.type != type) continue;
      const auto bytes = part.is_base64 ? base64_decode(part.data) : std::optional(part.data);
      if (bytes) keep(name + std::string(ending), *bytes);
    }
  }
}

void OutDirectory::keep_images(const sandbox::Report& report) {
  keep_image(report.value, "value");
  for (size_t i = 0; i < report.displays.size(); ++i)
    keep_image(report.displays[i], "display-" + std::to_string(i + 1));
}

}  // namespace membrane::cli
