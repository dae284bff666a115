#include "linux/kernel/file_calls.h"

#include <fcntl.h>

#include <utility>

#include "linux/kernel/announcing.h"
#include "linux/kernel/kernel.h"

namespace membrane::linux {

Try<FileRef> any_file(Call& call, int descriptor) { return call.process().descriptors->get(descriptor); }

Try<FileRef> open_file(Call& call, int descriptor) {
  MEMBRANE_ASSIGN(FileRef file, any_file(call, descriptor));
  if ((file->flags & O_PATH) != 0) return err(EBADF);
  return file;
}

Try<FileRef> file_to_read(Call& call, int descriptor) {
  MEMBRANE_ASSIGN(FileRef file, open_file(call, descriptor));
  const int access = file->flags & O_ACCMODE;
  if (access != O_RDONLY && access != O_RDWR) return err(EBADF);
  return file;
}

Try<FileRef> file_to_write(Call& call, int descriptor) {
  MEMBRANE_ASSIGN(FileRef file, open_file(call, descriptor));
  const int access = file->flags & O_ACCMODE;
  if (access != O_WRONLY && access != O_RDWR) return err(EBADF);
  return file;
}

Try<int> add_file(Call& call, FileRef file, bool closes_on_exec, int from) {
  if (File::alive() > call.kernel.options().limits.most_files) return err(ENFILE);
  return call.process().descriptors->add(std::move(file), closes_on_exec, file_limit(call), from);
}

void close_file(Call& call, const FileRef& file) {
  if (file == nullptr) return;
  file->on_close(call.task);
  // Of the last descriptor.
  if (file.use_count() == 1 && (file->flags & O_PATH) == 0)
    announce(call.kernel, *file, (file->flags & O_ACCMODE) == O_RDONLY ? IN_CLOSE_NOWRITE : IN_CLOSE_WRITE);
}

Try<std::string> path_at(Call& call, uint64_t address) { return call.get_string(address, kMostPathBytes); }

Try<LocationRef> base_of(Call& call, int directory, std::string_view path) {
  const Place& place = *call.process().place;
  if (path.starts_with('/')) return place.root;
  if (directory == AT_FDCWD) return place.directory;
  MEMBRANE_ASSIGN(FileRef file, any_file(call, directory));
  if (file->location == nullptr) return err(ENOTDIR);
  return file->location;
}

Try<LocationRef> walk_from(Call& call, int directory, std::string_view path, const WalkOptions& options) {
  MEMBRANE_ASSIGN(const LocationRef from, base_of(call, directory, path));
  return walk(call.kernel.mounts, *call.process().place, from, path, who(call), options);
}

Try<Parent> parent_from(Call& call, int directory, std::string_view path) {
  MEMBRANE_ASSIGN(const LocationRef from, base_of(call, directory, path));
  return walk_to_parent(call.kernel.mounts, *call.process().place, from, path, who(call));
}

Try<Target> target_at(Call& call, int directory, uint64_t path, int flags) {
  std::string name;
  if (path != 0 || (flags & AT_EMPTY_PATH) == 0) {
    MEMBRANE_ASSIGN(name, path_at(call, path));
  }
  if (name.empty() && (flags & AT_EMPTY_PATH) != 0) {
    if (directory == AT_FDCWD) {
      const LocationRef here = call.process().place->directory;
      return Target{here->node, here};
    }
    MEMBRANE_ASSIGN(const FileRef file, any_file(call, directory));
    return Target{file->node(), file->location};
  }
  WalkOptions options;
  options.follows_last = (flags & AT_SYMLINK_NOFOLLOW) == 0;
  MEMBRANE_ASSIGN(const LocationRef found, walk_from(call, directory, name, options));
  return Target{found->node, found};
}

bool owns(const Credentials& who, const Attributes& attributes) {
  return who.is_root() || who.fsuid == attributes.uid;
}

NewNode new_node(Call& call, const Attributes& directory, uint32_t mode) {
  NewNode made;
  made.mode = mode & ~call.process().place->umask;
  made.uid = who(call).fsuid;
  made.gid = who(call).fsgid;
  if ((directory.mode & S_ISGID) != 0) {
    made.gid = directory.gid;
    if (S_ISDIR(mode)) made.mode |= S_ISGID;
  }
  return made;
}

}  // namespace membrane::linux
