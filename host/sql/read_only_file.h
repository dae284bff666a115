// An SQLite file that is read without a trace: no -wal, -shm or journal file is created or changed beside it.
//
//   the file's mode                       how it is opened
//   a rollback journal                    read-only; readers and writers lock as usual
//   WAL, and no -wal with content         immutable, since SQLite would make both files; opened again when the file
//                                         or its -wal has changed since
//   WAL, and a -wal with content, -shm    read-only, also the -shm: what was committed to the -wal is seen
//   WAL, and a -wal with content only     refused: to read it, SQLite would have to make the -shm
//
// A writer that changes an immutable file during a query can make that query fail, or see both states.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/sqlite.h"
#include "host/errno.h"

namespace membrane::host {

class ReadOnlyFile {
 public:
  explicit ReadOnlyFile(std::string path) : path_(std::move(path)) {}

  // `vfs`: by its name, null for the default. The connection has not read anything yet.
  HostResult<std::unique_ptr<sqlite::Connection>> open(const sqlite::Api& api, const char* vfs);
  // Since open(): the connection may no longer reflect the file.
  [[nodiscard]] bool has_changed() const;

 private:
  struct Stamp {
    uint64_t device = 0, inode = 0, size = 0;
    int64_t modified_ns = 0;
    [[nodiscard]] bool same_file(const Stamp& other) const {
      return device == other.device && inode == other.inode;
    }
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  enum class Mode : uint8_t { kLocked, kImmutable, kWithLog };
  static Stamp stamp_of(const std::string& path);

  std::string path_, real_path_;  // as granted; with links resolved
  Mode mode_ = Mode::kLocked;
  Stamp file_, log_, index_;
};

}  // namespace membrane::host
