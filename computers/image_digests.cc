#include "computers/image_digests.h"

#include <unistd.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/private_file.h"
#include "base/sha256.h"
#include "base/user_directory.h"

namespace membrane::computers {
namespace {

constexpr size_t kMostRecordBytes = 512;
constexpr uint64_t kMostBytes = 64u << 10;  // of all records
constexpr const char* kEnding = ".digest";

}  // namespace

std::string ImageDigests::default_directory() { return user_path(UserDirectory::kCache, "images"); }

std::string ImageDigests::mark_of(const struct stat& file) {
  std::string mark;
  for (const auto part :
       {static_cast<uint64_t>(file.st_dev), static_cast<uint64_t>(file.st_ino),
        static_cast<uint64_t>(file.st_size), static_cast<uint64_t>(file.st_mtim.tv_sec),
        static_cast<uint64_t>(file.st_mtim.tv_nsec), static_cast<uint64_t>(file.st_ctim.tv_sec),
        static_cast<uint64_t>(file.st_ctim.tv_nsec)})
    mark += std::to_string(part) + ":";
  return mark;
}

bool ImageDigests::is_settled(const struct stat& file, int64_t now_s) {
  constexpr int64_t kCoarsest = 2;  // seconds
  return std::max(file.st_mtim.tv_sec, file.st_ctim.tv_sec) + kCoarsest < now_s;
}

// One record per inode, so only the last state of a changing file is kept.
std::string ImageDigests::file_of(const std::string& mark) const {
  const size_t device = mark.find(':'), inode = mark.find(':', device + 1);
  if (directory_.empty() || inode == std::string::npos) return "";
  return directory_ + "/" + mark.substr(0, device) + "-" + mark.substr(device + 1, inode - device - 1) +
         kEnding;
}

std::optional<std::string> ImageDigests::find(const std::string& mark) const {
  const std::string path = file_of(mark);
  if (path.empty() || !check_private_directory(directory_, "digests of images")) return std::nullopt;
  const PrivateFile file(path);
  if (!file.usable() || file.bytes() > kMostRecordBytes) return std::nullopt;
  std::string record(file.bytes(), '\0');
  if (pread(file.number(), record.data(), record.size(), 0) != static_cast<ssize_t>(record.size()) ||
      !record.starts_with(mark))
    return std::nullopt;
  record.erase(0, mark.size());
  return is_sha256_hex(record) ? std::optional(std::move(record)) : std::nullopt;
}

void ImageDigests::keep(const std::string& mark, const std::string& sha256) const {
  const std::string path = file_of(mark);
  if (path.empty() || !make_directory(directory_) ||
      !check_private_directory(directory_, "digests of images"))
    return;
  auto file = NewFile::create(path);
  if (!file) return;
  const std::string record = mark + sha256;
  if (!file->write(0, std::span(reinterpret_cast<const uint8_t*>(record.data()), record.size())) ||
      !file->publish())
    return;
  make_room(directory_, kEnding, kMostBytes, path);
}

}  // namespace membrane::computers
