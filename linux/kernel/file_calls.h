// Shared by the handlers of file calls: arguments that are descriptors and paths, and new descriptors.
// Threads: the kernel's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "linux/fs/paths.h"
#include "linux/kernel/call.h"
#include "linux/kernel/user_buffer.h"

namespace membrane::linux {

// -- descriptors. Errors: EBADF.
Try<FileRef> any_file(Call& call, int descriptor);   // including O_PATH
Try<FileRef> open_file(Call& call, int descriptor);  // not of O_PATH
Try<FileRef> file_to_read(Call& call, int descriptor);
Try<FileRef> file_to_write(Call& call, int descriptor);
// Adds the file at the lowest free number within the process's limit. Errors: EMFILE.
Try<int> add_file(Call& call, FileRef file, bool closes_on_exec, int from = 0);
void close_file(Call& call, const FileRef& file);
constexpr uint64_t kMostDescriptors = 1 << 20;  // per process, whatever its limit: fs.nr_open
[[nodiscard]] uint64_t file_limit(const Call& call);
// A pidfd of the process (files/process_file.h), which may be a zombie.
FileRef process_file_of(Process& process, int flags);

// -- paths in guest memory. `directory` is a descriptor or AT_FDCWD.
Try<std::string> path_at(Call& call, uint64_t address);
Try<LocationRef> base_of(Call& call, int directory, std::string_view path);
Try<LocationRef> walk_from(Call& call, int directory, std::string_view path, const WalkOptions& options = {});
Try<Parent> parent_from(Call& call, int directory, std::string_view path);

// The file that `flags` (AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH) and arguments of the *at calls name. A file
// without a location has only its node.
struct Target {
  NodeRef node;
  LocationRef location;
};
Try<Target> target_at(Call& call, int directory, uint64_t path, int flags);

[[nodiscard]] inline const Credentials& who(const Call& call) { return call.process().credentials; }
[[nodiscard]] bool owns(const Credentials& who, const Attributes& attributes);

// -- moving bytes; EAGAIN waits unless the file is O_NONBLOCK or `flags` has RWF_NOWAIT.
int64_t read_from(Call& call, File& file, UserBuffer& buffer, std::optional<uint64_t> offset, int flags);
int64_t write_to(Call& call, File& file, UserBuffer& buffer, std::optional<uint64_t> offset, int flags);

// -- opening. `mode` is used when a file is created.
struct OpenWish {
  int directory = 0;
  std::string path;
  int flags = 0;
  uint32_t mode = 0;
  WalkOptions walk;
};
int64_t open_path(Call& call, const OpenWish& wish);
// A new node with the type and permissions of `mode` in a directory: the owner is the caller, or as the
// directory says (S_ISGID). The umask is applied.
[[nodiscard]] NewNode new_node(Call& call, const Attributes& directory, uint32_t mode);

}  // namespace membrane::linux
