// The files that a program may access: guest paths decided by the policy's grants, and opened beneath the granted
// directory, whatever its links are (beneath.h).
//
//   guest path ─(normalise)─▶ components ─(longest granted prefix)─▶ grant + path beneath it
//
//   - Guest paths are absolute. "//", "/./" and a trailing slash mean nothing; ".." is refused,
//     since it would mean one thing to us and another to the kernel.
//   - Only regular files and directories exist. FIFOs, devices and sockets are refused before
//     they are opened, and never waited for.
//   - Reading follows symbolic links that stay beneath the granted directory. Writing, appending
//     and removing follow none, in no component, and replace none.
//   - Mounts below a granted directory are not part of it: grant them by themselves.
//   - A write makes a new file and renames it over the old one, so a reader sees one or the
//     other, and another hard link to the old file keeps the old content. Appending to a file
//     with more than one hard link is refused: it would change a file of another name.
//   - Missing directories above a written file are made.
//   - Quotas are exact: what does not fit is refused before anything is written. What a run
//     wrote or made is not given back by removing it.
//   - Names that are not UTF-8 cannot be named by a program; lists leave them out.
//
// The host's directories are opened once, when the object is created; renaming them afterwards has no effect. Reads
// take from bytes_in of the budget, writes from bytes_out.
//
// Reading and listing end with EBUDGET when the run's deadline passes, between two system calls.
//
// Ownership: budget and deadline (null: none) are borrowed. Threads: one at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "host/broker.h"
#include "host/deadline.h"
#include "host/files/file_handles.h"
#include "policy/budget.h"
#include "policy/policy.h"

namespace membrane::host {

class FileAccess {
 public:
  static constexpr size_t kMaxPathBytes = 4096;
  static constexpr size_t kMaxComponents = 64;
  static constexpr size_t kMaxListEntries = 10'000;

  // ENOENT when a granted directory or file does not exist; ENOTSUP on a kernel that does not support these
  // guarantees.
  static HostResult<std::unique_ptr<FileAccess>> open(const std::vector<policy::FsGrant>& grants,
                                                      policy::Budget& budget, const Deadline* run = nullptr);
  ~FileAccess();

  HostResult<std::string> read(std::string_view path,
                               uint64_t most_bytes = UINT64_MAX);  // ENOMEM for a larger file
  HostResult<void> write(std::string_view path, std::string_view bytes, FileMode mode);
  // Sorted by name. The guest directories above a grant exist too, with their granted entries. EFBIG for a directory
  // of more than `most_entries`.
  HostResult<std::vector<FileInfo>> list(std::string_view path, size_t most_entries = kMaxListEntries);
  HostResult<FileInfo> stat(std::string_view path);
  HostResult<void> remove(std::string_view path);  // a file, or an empty directory

  // Files that stay open, under the same grants and quotas.
  [[nodiscard]] FileHandles& handles() { return handles_; }
  [[nodiscard]] Roots& roots() { return *roots_; }

 private:
  class Impl;
  FileAccess(std::unique_ptr<Roots> roots, policy::Budget& budget, const Deadline* run);
  std::unique_ptr<Roots> roots_;
  std::unique_ptr<Impl> impl_;
  FileHandles handles_;
};

}  // namespace membrane::host
