#include "service/durable_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace membrane::service {
namespace {

constexpr std::string_view kUnfinished = ".unfinished";

std::unexpected<Error> system_error(const char* what, const std::string& path) {
  const int why = errno;
  const std::string message = std::string("cannot ") + what + " " + path + ": " + std::strerror(why);
  if (why == ENOENT) return fail(ErrorCode::kNotFound, message);
  if (why == ENOSPC || why == EDQUOT)
    return fail(ErrorCode::kExhausted, message, "Free space on the disk that holds the service's state.");
  return fail(ErrorCode::kUnavailable, message, "Check the directory of the service's state.");
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

class SystemDisk final : public Disk {
 public:
  explicit SystemDisk(std::string root) : root_(std::move(root)) {}

  Status write(const std::string& path, std::string_view bytes) override { return put(path, bytes, O_TRUNC); }
  Status append(const std::string& path, std::string_view bytes) override {
    return put(path, bytes, O_APPEND);
  }

  Status truncate(const std::string& path, uint64_t size_bytes) override {
    if (::truncate(place_of(path).c_str(), static_cast<off_t>(size_bytes)) != 0)
      return system_error("shorten", place_of(path));
    return {};
  }

  Result<uint64_t> size(const std::string& path) override {
    struct stat status{};
    if (::lstat(place_of(path).c_str(), &status) != 0) return system_error("read", place_of(path));
    return static_cast<uint64_t>(status.st_size);
  }
  Result<std::string> read(const std::string& path, uint64_t most_bytes) override {
    MEMBRANE_ASSIGN(const uint64_t bytes, size(path));
    if (bytes > most_bytes)
      return fail(ErrorCode::kTooLong, place_of(path) + " is larger than such a file can be");
    return read_end(path, most_bytes);
  }
  Result<std::string> read_end(const std::string& path, uint64_t most_bytes) override {
    const Descriptor file(::open(place_of(path).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    struct stat status{};
    if (file.number() < 0 || ::fstat(file.number(), &status) != 0)
      return system_error("read", place_of(path));
    const auto size = static_cast<uint64_t>(status.st_size);
    std::string bytes(std::min(size, most_bytes), '\0');
    size_t filled = 0;
    while (filled < bytes.size()) {
      const ssize_t got = ::pread(file.number(), bytes.data() + filled, bytes.size() - filled,
                                  static_cast<off_t>(size - bytes.size() + filled));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return system_error("read", place_of(path));
      if (got == 0) break;
      filled += static_cast<size_t>(got);
    }
    bytes.resize(filled);
    return bytes;
  }

  Status rename(const std::string& from, const std::string& to) override {
    if (::rename(place_of(from).c_str(), place_of(to).c_str()) != 0)
      return system_error("rename", place_of(from));
    return {};
  }
  Status remove(const std::string& path) override {
    if (::unlink(place_of(path).c_str()) != 0) return system_error("remove", place_of(path));
    return {};
  }
  Status make_directory(const std::string& path) override {
    if (::mkdir(place_of(path).c_str(), S_IRWXU) != 0 && errno != EEXIST)
      return system_error("make", place_of(path));
    return {};
  }

  Result<std::vector<std::string>> list(const std::string& directory) override {
    DIR* const open = ::opendir(place_of(directory).c_str());
    if (open == nullptr) return system_error("list", place_of(directory));
    std::vector<std::string> names;
    while (const dirent* const entry = ::readdir(open)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    ::closedir(open);
    std::ranges::sort(names);
    return names;
  }

  Status sync_file(const std::string& path) override { return sync(path, 0); }
  Status sync_directory(const std::string& path) override { return sync(path, O_DIRECTORY); }

 private:
  [[nodiscard]] std::string place_of(const std::string& path) const {
    return path.empty() ? root_ : root_ + "/" + path;
  }

  Status put(const std::string& path, std::string_view bytes, int flag) {
    const Descriptor file(::open(place_of(path).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flag,
                                 S_IRUSR | S_IWUSR));
    if (file.number() < 0) return system_error("write", place_of(path));
    while (!bytes.empty()) {
      const ssize_t written = ::write(file.number(), bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return system_error("write", place_of(path));
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return {};
  }

  Status sync(const std::string& path, int flag) {
    const Descriptor file(::open(place_of(path).c_str(), O_RDONLY | O_CLOEXEC | flag));
    if (file.number() < 0 || ::fsync(file.number()) != 0) return system_error("sync", place_of(path));
    return {};
  }

  const std::string root_;
};

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

bool exists(const Status& status) { return status || status.error().code != ErrorCode::kNotFound; }

}  // namespace

std::unique_ptr<Disk> disk_below(std::string root) { return std::make_unique<SystemDisk>(std::move(root)); }

Status DurableFiles::make_directory(const std::string& path) {
  MEMBRANE_TRY(disk_.make_directory(path));
  if (path.empty()) return {};
  return disk_.sync_directory(directory_of(path));
}

Status DurableFiles::write(const std::string& path, std::string_view bytes) {
  std::string beside;
  {
    const std::lock_guard lock(mutex_);
    beside = path + "." + std::to_string(++writes_) + std::string(kUnfinished);
  }
  Status done = disk_.write(beside, bytes);
  if (done) done = disk_.sync_file(beside);
  if (done) done = disk_.rename(beside, path);
  if (!done) {
    static_cast<void>(disk_.remove(beside));  // else clean() does
    return done;
  }
  return disk_.sync_directory(directory_of(path));
}

Status DurableFiles::append(const std::string& path, std::string_view bytes) {
  MEMBRANE_TRY(disk_.append(path, bytes));
  MEMBRANE_TRY(disk_.sync_file(path));
  return disk_.sync_directory(directory_of(path));
}

Status DurableFiles::truncate(const std::string& path, uint64_t size_bytes) {
  MEMBRANE_TRY(disk_.truncate(path, size_bytes));
  return disk_.sync_file(path);
}

Result<std::string> DurableFiles::read(const std::string& path, uint64_t most_bytes) {
  return disk_.read(path, most_bytes);
}

Status DurableFiles::remove(const std::string& path) {
  const Status removed = disk_.remove(path);
  return exists(removed) ? removed : Status();
}

Result<std::vector<std::string>> DurableFiles::list(const std::string& directory) {
  MEMBRANE_ASSIGN(std::vector<std::string> names, disk_.list(directory));
  std::erase_if(names, [](const std::string& name) { return name.ends_with(kUnfinished); });
  return names;
}

Status DurableFiles::clean(const std::string& directory) {
  MEMBRANE_ASSIGN(const std::vector<std::string> names, disk_.list(directory));
  for (const std::string& name : names)
    if (name.ends_with(kUnfinished)) MEMBRANE_TRY(remove(directory.empty() ? name : directory + "/" + name));
  return {};
}

}  // namespace membrane::service
