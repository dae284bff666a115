#include "base/private_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/sealed_file.h"
#include "base/write_at.h"

namespace membrane {

namespace fs = std::filesystem;

bool is_private(const struct stat& status) {
  return status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

Status check_private_directory(const std::string& path, std::string_view what) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return refused_by_system("look at", path);
  if (!S_ISDIR(status.st_mode))
    return fail(ErrorCode::kInvalidArgument, path + " is not a directory",
                "Give a directory for " + std::string(what) + ".");
  if (!is_private(status))
    return refused_as_open(path, std::string(what) + " is not loaded from " + path +
                                     ": another user owns it or can write to it");
  return {};
}

bool make_directory(const std::string& path) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  return mkdir(path.c_str(), S_IRWXU) == 0 || errno == EEXIST;
}

void make_room(const std::string& directory, std::string_view ending, uint64_t most_bytes,
               const std::string& used) {
  struct Kept {
    fs::file_time_type used;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<Kept> files;
  uint64_t bytes = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().extension() != ending) continue;
    const uint64_t size = entry.file_size(error);
    if (error) continue;
    bytes += size;
    if (entry.path() == used) continue;
    fs::file_time_type last_used = entry.last_write_time(error);
    std::error_code none;
    const fs::file_time_type touched = fs::last_write_time(seal_path_of(entry.path()), none);
    if (!none) last_used = std::max(last_used, touched);
    files.push_back({last_used, size, entry.path()});
  }
  std::ranges::sort(files, {}, &Kept::used);
  for (const Kept& file : files) {
    if (bytes <= most_bytes) return;
    if (!fs::remove(file.path, error)) continue;
    bytes -= file.bytes;
    fs::remove(seal_path_of(file.path), error);
  }
}

std::unexpected<Error> refused_by_system(const char* what, const std::string& path) {
  return fail(ErrorCode::kUnavailable,
              std::string("cannot ") + what + " " + path + ": " + std::strerror(errno),
              "Give a directory of your own, on a disk with room.");
}

std::unexpected<Error> refused_as_open(const std::string& directory, std::string message) {
  return fail(ErrorCode::kInvalidArgument, std::move(message),
              "Give a directory of your own, and: chmod go-w " + directory);
}

OpenedFile::OpenedFile(const std::string& path, bool must_be_private)
    : number_(::open(path.c_str(),
                     O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (must_be_private ? O_NOFOLLOW : 0))) {
  struct stat status{};
  usable_ = number_ >= 0 && fstat(number_, &status) == 0 && S_ISREG(status.st_mode) &&
            (!must_be_private || (is_private(status) && status.st_nlink == 1));
  bytes_ = usable_ ? static_cast<size_t>(status.st_size) : 0;
}

OpenedFile::~OpenedFile() {
  if (number_ >= 0) close(number_);
}

Result<NewFile> NewFile::create(const std::string& path) {
  NewFile file;
  file.path_ = path;
  file.beside_ = path + ".XXXXXX";
  file.number_ = mkostemp(file.beside_.data(), O_CLOEXEC);
  if (file.number_ < 0) return refused_by_system("make", file.beside_);
  return file;
}

NewFile::NewFile(NewFile&& other) noexcept
    : path_(std::move(other.path_)),
      beside_(std::move(other.beside_)),
      number_(std::exchange(other.number_, -1)) {}

NewFile::~NewFile() {
  if (number_ < 0) return;
  close(number_);
  if (!published_) unlink(beside_.c_str());
}

Status NewFile::write(uint64_t offset, std::span<const uint8_t> bytes) {
  if (!write_at(number_, offset, bytes)) return refused_by_system("write", beside_);
  return {};
}

Status NewFile::resize(uint64_t bytes) {
  if (ftruncate(number_, static_cast<off_t>(bytes)) != 0) return refused_by_system("write", beside_);
  return {};
}

Status NewFile::publish() {
  if (rename(beside_.c_str(), path_.c_str()) != 0) return refused_by_system("rename", beside_);
  published_ = true;
  return {};
}

}  // namespace membrane
