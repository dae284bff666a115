// The one way by which the service writes files of its own: what a call has promised is there after kill -9 and after a
// power cut. Disk is what such a promise rests on, the calls of a POSIX file system one by one, so that a test can put a
// disk that fails and loses power in its place (simulated_disk_testing.h). SQLite, which writes the database, keeps the
// same promise by itself.
//
// Paths are below the directory of the service's state, without a leading "/": "images/0123".
//
// Threads: any.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace membrane::service {

// Errors of all: kNotFound for what there is not, kExhausted for a full disk, kUnavailable for what else the system
// refuses. What was written, made, renamed or removed may be lost with the power until it is synced.
class Disk {
 public:
  virtual ~Disk() = default;

  // Makes the file, closed to others, or empties it.
  virtual Status write(const std::string& path, std::string_view bytes) = 0;
  // Makes it when it is not there.
  virtual Status append(const std::string& path, std::string_view bytes) = 0;
  virtual Status truncate(const std::string& path, uint64_t size_bytes) = 0;
  virtual Result<std::string> read(const std::string& path, uint64_t most_bytes) = 0;
  virtual Result<uint64_t> size(const std::string& path) = 0;
  // The last `most_bytes` of it, or all.
  virtual Result<std::string> read_end(const std::string& path, uint64_t most_bytes) = 0;
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual Status remove(const std::string& path) = 0;
  // There already is no error. "" is the root itself.
  virtual Status make_directory(const std::string& path) = 0;
  // The names in it, sorted.
  virtual Result<std::vector<std::string>> list(const std::string& directory) = 0;
  // The file's bytes; the directory's names.
  virtual Status sync_file(const std::string& path) = 0;
  virtual Status sync_directory(const std::string& path) = 0;
};

// The machine's, below `root`.
std::unique_ptr<Disk> disk_below(std::string root);

inline constexpr uint64_t kMostFileBytes = uint64_t{1} << 32;

class DurableFiles {
 public:
  // `disk` is borrowed.
  explicit DurableFiles(Disk& disk) : disk_(disk) {}

  // Makes the directory (and its name durable) when it is not there.
  Status make_directory(const std::string& path);
  // The whole file or what was there before, at whatever moment the power goes; when it returns, the whole file. After an
  // error it may be either.
  Status write(const std::string& path, std::string_view bytes);
  // At the file's end. When it returns, all of it is there to stay; after an error or a power cut a part of it may be.
  Status append(const std::string& path, std::string_view bytes);
  // What lies after that many bytes is gone for good.
  Status truncate(const std::string& path, uint64_t size_bytes);
  // Errors: also kTooLong for a file of more than `most_bytes`.
  [[nodiscard]] Result<std::string> read(const std::string& path, uint64_t most_bytes = kMostFileBytes);
  // One that there is not is no error. Not durable: a power cut can bring it back.
  Status remove(const std::string& path);
  // Without what a write that did not end has left.
  [[nodiscard]] Result<std::vector<std::string>> list(const std::string& directory);
  // What writes that did not end have left there goes. To be called before the first write.
  Status clean(const std::string& directory);

 private:
  Disk& disk_;
  std::mutex mutex_;  // guards what follows
  uint64_t writes_ = 0;
};

}  // namespace membrane::service
