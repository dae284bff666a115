// Open files of the granted directories, and operations on names in them, with POSIX semantics.
//
// The guarantees of file_access.h apply here, too: paths are opened beneath the directory; only regular files and
// directories exist; reading follows links that stay beneath, everything else follows none and replaces none; a file
// with more than one hard link is not written; quotas are exact, and shared with FileAccess. Differences:
//
//   - a write is done in place, at an offset, and others see it at once;
//   - missing directories are not made;
//   - a directory that is not empty is ENOTEMPTY.
//
// A file of 1 GB is read in pieces of the caller's choice: nothing of it is kept here. It must not be larger than
// the grant's max_file.
//
// Ownership: roots and budget are borrowed. Threads: one at a time.
#pragma once

#include <sys/stat.h>

#include <map>
#include <string>
#include <string_view>

#include "host/broker.h"
#include "host/files/links.h"
#include "host/files/roots.h"
#include "policy/budget.h"

namespace membrane::host {

class FileHandles {
 public:
  static constexpr size_t kMostOpen = 256;
  static constexpr uint32_t kMostBytes = 1u << 20;  // per read; a larger request returns this many

  FileHandles(Roots& roots, policy::Budget& budget) : roots_(roots), budget_(budget) {}

  // EISDIR for a directory, which needs no handle: it is read by its path.
  HostResult<OpenedFile> open(std::string_view path, const FileOpening& how);
  // "" at the end. EINVAL for a handle that is not open.
  HostResult<std::string> read(FileHandle file, uint64_t offset, uint32_t count);
  HostResult<void> write(FileHandle file, uint64_t offset, std::string_view bytes);
  HostResult<void> resize(FileHandle file, uint64_t size);
  HostResult<FileStatus> status(FileHandle file);
  HostResult<void> sync(FileHandle file);
  HostResult<void> close(FileHandle file);

  HostResult<FileStatus> status(std::string_view path);
  // Below a grant with links these report on a link itself, and unlink, rename and set_times treat it like any name.
  HostResult<LinkOnPath> find_link(std::string_view path);
  // EACCES for a target that is absolute or leads out of the granted directory, and below a grant without links.
  HostResult<void> make_symlink(std::string_view target, std::string_view path);
  // Creates a second name for a file or link, within a grant with links. The run may continue to write to the file.
  HostResult<void> make_link(std::string_view from, std::string_view to);
  HostResult<void> set_times(std::string_view path, const FileTimes& times);
  HostResult<void> unlink(std::string_view path);
  // ENOTSUP between two grants.
  HostResult<void> rename(std::string_view from, std::string_view to);
  HostResult<void> make_directory(std::string_view path);
  HostResult<void> remove_directory(std::string_view path);

 private:
  struct Open {
    Fd fd;
    Root* root;
    bool writes;
    std::string text;
  };
  // The opened directory of a name, for creating or removing the name.
  struct Name {
    Fd directory;
    std::string name;
    Target target;
  };

  struct NamePair {
    Name from, to;
    struct stat info;  // of `from`
  };

  HostResult<Target> locate(std::string_view path, policy::FsMode mode);
  HostResult<Name> locate_name(std::string_view path);
  HostResult<void> remove(std::string_view path, bool as_directory);
  HostResult<Name> locate_new_link(std::string_view path);
  HostResult<std::optional<MoveLock>> lock_moves(std::string_view path);
  static HostResult<NamePair> locate_pair(HostResult<Name> from, HostResult<Name> to);
  static HostResult<void> check_move(const Name& from, const struct stat& info, const Name& to);
  HostResult<Fd> open_to_read(const Target& target);
  HostResult<Fd> open_to_write(Target& target, const FileOpening& how);
  HostResult<Fd> create(Target& target);
  HostResult<Open*> find(FileHandle file);
  HostResult<Open*> find_to_write(FileHandle file);

  Roots& roots_;
  policy::Budget& budget_;
  std::map<FileHandle, Open> open_;
  FileHandle last_ = 0;
};

}  // namespace membrane::host
