// The only way in which the service writes files of its own: what a call has promised survives kill -9 and a
// power cut. Disk is the base of such promises, the calls of a POSIX file system one by one, so that a test
// can substitute a disk that fails and loses power (simulated_disk_testing.h). SQLite, which writes the
// database, keeps the same promise by itself.
//
// Paths are relative to the directory of the service's state, without a leading "/": "images/0123".
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

// Errors of all: kNotFound for missing files, kExhausted for a full disk, kUnavailable for anything else that
// the system refuses. Until it is synced, what was written, created, renamed or removed may be lost with the
// power.
class Disk {
 public:
  virtual ~Disk() = default;

  // Creates the file, closed to others, or empties it.
  virtual Status write(const std::string& path, std::string_view bytes) = 0;
  // Creates it if it does not exist.
  virtual Status append(const std::string& path, std::string_view bytes) = 0;
  virtual Status truncate(const std::string& path, uint64_t size_bytes) = 0;
  virtual Result<std::string> read(const std::string& path, uint64_t most_bytes) = 0;
  virtual Result<uint64_t> size(const std::string& path) = 0;
  // Returns the last `most_bytes` of it, or all.
  virtual Result<std::string> read_end(const std::string& path, uint64_t most_bytes) = 0;
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  virtual Status remove(const std::string& path) = 0;
  // An existing directory is not an error. "" is the root itself.
  virtual Status make_directory(const std::string& path) = 0;
  // Returns the names in it, sorted.
  virtual Result<std::vector<std::string>> list(const std::string& directory) = 0;
  // Sync the file's bytes, or the directory's names.
  virtual Status sync_file(const std::string& path) = 0;
  virtual Status sync_directory(const std::string& path) = 0;
};

// The machine's disk, below `root`.
std::unique_ptr<Disk> disk_below(std::string root);

inline constexpr uint64_t kMostFileBytes = uint64_t{1} << 32;

class DurableFiles {
 public:
  // `disk` is borrowed.
  explicit DurableFiles(Disk& disk) : disk_(disk) {}

  // Creates the directory (and makes its name durable) if it does not exist.
  Status make_directory(const std::string& path);
  // Replaces the whole file: whenever the power fails, there is either the previous file or all of the new
  // one; after the call returns, the new one. After an error it may be either.
  Status write(const std::string& path, std::string_view bytes);
  // Appends to the file. When it returns, all of it is durable; after an error or a power cut a part of it
  // may be.
  Status append(const std::string& path, std::string_view bytes);
  // Permanently removes everything after that many bytes.
  Status truncate(const std::string& path, uint64_t size_bytes);
  // Errors: also kTooLong for a file of more than `most_bytes`.
  [[nodiscard]] Result<std::string> read(const std::string& path, uint64_t most_bytes = kMostFileBytes);
  // Removing a missing file is not an error. Not durable: a power cut can bring it back.
  Status remove(const std::string& path);
  // Leaves out the remains of interrupted writes.
  [[nodiscard]] Result<std::vector<std::string>> list(const std::string& directory);
  // Removes the remains of interrupted writes. Call it before the first write.
  Status clean(const std::string& directory);

 private:
  Disk& disk_;
  std::mutex mutex_;  // guards what follows
  uint64_t writes_ = 0;
};

}  // namespace membrane::service
