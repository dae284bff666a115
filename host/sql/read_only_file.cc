#include "host/sql/read_only_file.h"

#include <sys/stat.h>

#include <array>
#include <filesystem>
#include <fstream>

namespace membrane::host {
namespace {

// As a URI's path: escapes everything that could have another meaning.
std::string uri_of(const std::string& path, const char* parameters) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out = "file:";
  for (const char c : path) {
    const auto byte = static_cast<uint8_t>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '/' || c == '.' || c == '-' || c == '_';
    if (plain) out += c;
    else out.append({'%', kDigits[byte >> 4], kDigits[byte & 15]});
  }
  return out + parameters;
}

// Byte 19 of the header: the format version that a reader must support. 2 is the write-ahead log.
bool uses_log(const std::string& path) {
  constexpr size_t kReadVersion = 19;
  std::array<char, kReadVersion + 1> header{};
  std::ifstream file(path, std::ios::binary);
  return file.read(header.data(), header.size()) && header[kReadVersion] == 2;
}

}  // namespace

ReadOnlyFile::Stamp ReadOnlyFile::stamp_of(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino, static_cast<uint64_t>(info.st_size),
          int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec};
}

HostResult<std::unique_ptr<sqlite::Connection>> ReadOnlyFile::open(const sqlite::Api& api, const char* vfs) {
  std::error_code none;
  real_path_ = std::filesystem::canonical(path_, none).string();
  if (none) real_path_ = path_;  // opening reports what is wrong
  file_ = stamp_of(real_path_);
  log_ = stamp_of(real_path_ + "-wal");
  index_ = stamp_of(real_path_ + "-shm");
  mode_ = !uses_log(real_path_) ? Mode::kLocked : log_.size == 0 ? Mode::kImmutable : Mode::kWithLog;
  if (mode_ == Mode::kWithLog && index_.inode == 0)
    return refuse(Errno::kHost,
                  "'" + path_ + "' has changes in its -wal file but no -shm, which reading does not make",
                  "on the host: sqlite3 FILE 'PRAGMA wal_checkpoint(TRUNCATE)'");
  constexpr const char* kParameters[] = {"?mode=ro", "?mode=ro&immutable=1", "?mode=ro&readonly_shm=1"};
  auto db = std::make_unique<sqlite::Connection>(api);
  const int code = db->open(uri_of(real_path_, kParameters[static_cast<size_t>(mode_)]),
                            SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, vfs);
  if (code != SQLITE_OK) return refuse(Errno::kHost, "'" + path_ + "' cannot be opened: " + db->message());
  return db;
}

bool ReadOnlyFile::has_changed() const {
  const Stamp file = stamp_of(real_path_), log = stamp_of(real_path_ + "-wal"),
              index = stamp_of(real_path_ + "-shm");
  switch (mode_) {
    case Mode::kLocked: return !file.same_file(file_) || uses_log(real_path_);
    case Mode::kImmutable: return file != file_ || log.size != 0;
    case Mode::kWithLog: break;
  }
  return !file.same_file(file_) || !log.same_file(log_) || !index.same_file(index_);
}

}  // namespace membrane::host
