// The path_* functions: operations on a name.
#include <algorithm>

#include "wasi/system/host_files.h"
#include "wasi/system/state.h"

namespace membrane::wasi {
namespace {

// A name that may be created or removed: not ".", "..", or the directory itself.
Answer<Walked> walk_to_name(Call& call, const Call::At& at, Errno for_itself) {
  auto walked = call.walk_to(at, LastLink::kNever);
  if (walked && walked->name.empty()) return fail(for_itself);
  return walked;
}

// An existing name, to remove it.
Answer<Walked> walk_to_removed(Call& call, Rights needed, Errno for_itself) {
  const auto at = call.at(0, 1, needed);
  if (!at) return fail(at.error());
  auto walked = walk_to_name(call, *at, for_itself);
  if (walked && !walked->found) return fail(Errno::kNoent);
  return walked;
}

LastLink last_of(uint32_t lookup_flags) {
  return (lookup_flags & kSymlinkFollow) != 0 ? LastLink::kFollow : LastLink::kKeep;
}

Done check_lookup(uint32_t flags) { return (flags & ~kSymlinkFollow) == 0 ? Done() : fail(Errno::kInval); }

Answer<FileStat> stat_of(Call& call, const Place& place) {
  return place.is_host() ? host_files::stat(call, place.host) : call.state.files->stat(place.inode);
}

// A name that ends in "/" must be that of a directory.
Done rename_on_host(Call& call, const Walked& from, const Walked& to) {
  if (from.wants_directory || to.wants_directory) {
    const auto stat = host_files::stat(call, from.found->host);
    if (!stat) return fail(stat.error());
    if (stat->type != FileType::kDirectory) return fail(Errno::kNotdir);
  }
  return host_files::rename(call, from.found->host, to.found->host);
}

// A file cannot be created with a name that ends in "/": the error depends on what is there.
Errno refusal_of_slash(Call& call, const Place& place) {
  const auto stat = host_files::stat(call, place.host);
  return stat ? Errno::kExist : stat.error();
}

Done link_on_host(Call& call, const Walked& from, const Walked& to) {
  if (!from.found->is_host()) return fail(Errno::kXdev);
  if (to.wants_directory) return fail(refusal_of_slash(call, *to.found));
  if (from.wants_directory) {
    const auto stat = host_files::stat(call, from.found->host);
    if (!stat) return fail(stat.error());
    if (stat->type != FileType::kDirectory) return fail(Errno::kNotdir);
  }
  return host_files::make_link(call, from.found->host, to.found->host);
}

Done symlink_on_host(Call& call, const std::string& target, const Walked& at) {
  if (at.wants_directory) return fail(refusal_of_slash(call, *at.found));
  return host_files::make_symlink(call, target, at.found->host);
}

// EINVAL if it is not a link.
Answer<std::string> target_of(Call& call, const Walked& walked) {
  if (walked.host_link) return *walked.host_link;
  if (walked.found->is_host()) {
    const auto stat = host_files::stat(call, walked.found->host);
    return fail(stat ? Errno::kInval : stat.error());
  }
  const auto* symlink = std::get_if<Symlink>(&call.state.files->find(walked.found->inode)->is);
  return symlink == nullptr ? Answer<std::string>(fail(Errno::kInval)) : symlink->target;
}

// -- path_open ----------------------------------------------------------------------------

struct Opening {
  uint32_t lookup, flags, fd_flags;
  Rights rights, inheriting;
  uint32_t number_at;

  [[nodiscard]] bool creates() const { return (flags & oflag::kCreat) != 0; }
  [[nodiscard]] bool is_exclusive() const { return creates() && (flags & oflag::kExcl) != 0; }
  [[nodiscard]] bool truncates() const { return (flags & oflag::kTrunc) != 0; }
  [[nodiscard]] bool wants_directory() const { return (flags & oflag::kDirectory) != 0; }
  [[nodiscard]] bool writes() const { return (rights & right::kFdWrite) != 0; }
};

Answer<Opening> read_opening(const Call& call, const Descriptor& directory) {
  // Unknown bits are ignored.
  const Opening asked{
      call.u32(1), call.u32(4), call.u32(7), call.u64(5) & kAllRights, call.u64(6) & kAllRights, call.u32(8)};
  if (!check_lookup(asked.lookup)) return fail(Errno::kInval);
  if ((asked.flags & ~uint32_t{oflag::kAll}) != 0 || (asked.fd_flags & ~uint32_t{fdflag::kAll}) != 0)
    return fail(Errno::kInval);
  if (asked.wants_directory() && (asked.creates() || asked.truncates())) return fail(Errno::kInval);
  Rights needed = right::kPathOpen;
  if (asked.creates()) needed |= right::kPathCreateFile;
  if (asked.truncates()) needed |= right::kPathFilestatSetSize;
  if ((directory.rights & needed) != needed) return fail(Errno::kNotcapable);
  if (((asked.rights | asked.inheriting) & ~directory.inheriting) != 0) return fail(Errno::kNotcapable);
  return asked;
}

Rights rights_of(FileType type) {
  switch (type) {
    case FileType::kDirectory: return kDirectoryRights;
    case FileType::kRegularFile: return kFileRights;
    default: return kCharacterRights;
  }
}

// Opens an existing file.
Answer<Descriptor> open_existing(Call& call, const Opening& asked, const Walked& walked) {
  FileTree& files = *call.state.files;
  const Inode inode = walked.found->inode;
  const Node& node = *files.find(inode);
  const FileType type = node.type();
  if (asked.is_exclusive()) return fail(Errno::kExist);
  if (type == FileType::kSymbolicLink) return fail(Errno::kLoop);
  if (type != FileType::kDirectory && (asked.wants_directory() || walked.wants_directory))
    return fail(Errno::kNotdir);
  if (type == FileType::kDirectory && (asked.writes() || asked.truncates() || asked.creates()))
    return fail(Errno::kIsdir);
  Descriptor opened{.is = OpenFile{inode},
                    .rights = asked.rights & rights_of(type),
                    .inheriting = type == FileType::kDirectory ? asked.inheriting : 0,
                    .flags = static_cast<uint16_t>(asked.fd_flags)};
  if (type == FileType::kDirectory) opened.is = OpenDirectory{{inode, {}}, nullptr};
  if (const auto* device = std::get_if<Device>(&node.is)) opened.is = OpenDevice{inode, *device, {}, 0};
  if (type == FileType::kRegularFile && (asked.writes() || asked.truncates())) {
    const uint64_t now = new_file_time_ns(call);  // the same time as for later writes
    if (asked.truncates() && node.size() > 0)
      if (const auto cut = files.resize(inode, 0, now); !cut) return fail(cut.error());
  }
  return opened;
}

// Opens or creates a file of the host.
Answer<Descriptor> open_host(Call& call, const Opening& asked, const Walked& walked) {
  const bool needs_directory = asked.wants_directory() || walked.wants_directory;
  if (walked.host_link) return fail(asked.is_exclusive() ? Errno::kExist : Errno::kLoop);
  if (needs_directory && (asked.writes() || asked.truncates() || asked.creates())) return fail(Errno::kIsdir);
  auto opened = host_files::open(
      call, walked.found->host,
      {asked.writes(), asked.creates(), asked.is_exclusive(), asked.truncates(), needs_directory});
  if (!opened) return opened;
  opened->rights = asked.rights & rights_of(opened->type());
  opened->inheriting = opened->type() == FileType::kDirectory ? asked.inheriting : 0;
  opened->flags = static_cast<uint16_t>(asked.fd_flags);
  return opened;
}

Answer<Descriptor> open_new(Call& call, const Opening& asked, const Walked& walked) {
  if (!asked.creates()) return fail(Errno::kNoent);
  if (walked.wants_directory) return fail(Errno::kIsdir);
  const auto made = call.state.files->make_file(walked.directory.inode, walked.name, new_file_time_ns(call));
  if (!made) return fail(made.error());
  return Descriptor{.is = OpenFile{*made},
                    .rights = asked.rights & kFileRights,
                    .inheriting = 0,
                    .flags = static_cast<uint16_t>(asked.fd_flags)};
}

}  // namespace

namespace functions_of {

Done path_open(Call& call) {
  auto at = call.at(0, 2, right::kPathOpen);
  if (!at) return fail(at.error());
  const auto asked = read_opening(call, *at->directory);
  if (!asked) return fail(asked.error());
  if (const auto to = call.memory.bytes(asked->number_at, 4); !to) return fail(to.error());
  if (call.state.descriptors.is_full()) return fail(Errno::kMfile);
  at->to_write = asked->writes() || asked->creates() || asked->truncates();
  const auto walked = call.walk_to(*at, asked->is_exclusive() ? LastLink::kKeep : last_of(asked->lookup));
  if (!walked) return fail(walked.error());
  auto opened = !walked->found             ? open_new(call, *asked, *walked)
                : walked->found->is_host() ? open_host(call, *asked, *walked)
                                           : open_existing(call, *asked, *walked);
  if (!opened) return fail(opened.error());
  const auto number = call.state.descriptors.add(std::move(*opened));
  if (!number) return fail(number.error());
  return call.memory.write(asked->number_at, *number);
}

Done path_create_directory(Call& call) {
  const auto at = call.at(0, 1, right::kPathCreateDirectory);
  if (!at) return fail(at.error());
  const auto walked = walk_to_name(call, *at, Errno::kExist);
  if (!walked) return fail(walked.error());
  if (walked->directory.is_host()) return host_files::make_directory(call, walked->found->host);
  const auto made =
      call.state.files->make_directory(walked->directory.inode, walked->name, new_file_time_ns(call));
  return made ? Done() : fail(made.error());
}

Done path_filestat_get(Call& call) {
  const auto at = call.at(0, 2, right::kPathFilestatGet);
  if (!at) return fail(at.error());
  MEMBRANE_TRY(check_lookup(call.u32(1)));
  const auto walked = call.walk_to(*at, last_of(call.u32(1)));
  if (!walked) return fail(walked.error());
  if (!walked->found) return fail(Errno::kNoent);
  const auto stat = stat_of(call, *walked->found);
  if (!stat) return fail(stat.error());
  if (walked->wants_directory && stat->type != FileType::kDirectory) return fail(Errno::kNotdir);
  return write_stat(call, call.u32(4), *stat);
}

Done path_filestat_set_times(Call& call) {
  const auto at = call.at(0, 2, right::kPathFilestatSetTimes);
  if (!at) return fail(at.error());
  MEMBRANE_TRY(check_lookup(call.u32(1)));
  const auto times = new_times(call, call.u64(4), call.u64(5), call.u32(6));
  if (!times) return fail(times.error());
  const auto walked = call.walk_to(*at, last_of(call.u32(1)));
  if (!walked) return fail(walked.error());
  if (!walked->found) return fail(Errno::kNoent);
  if (walked->wants_directory) {
    const auto stat = stat_of(call, *walked->found);
    if (!stat) return fail(stat.error());
    if (stat->type != FileType::kDirectory) return fail(Errno::kNotdir);
  }
  return set_times(call, *walked->found, *times);
}

Done path_link(Call& call) {
  const auto from = call.at(0, 2, right::kPathLinkSource);
  if (!from) return fail(from.error());
  const auto to = call.at(4, 5, right::kPathLinkTarget);
  if (!to) return fail(to.error());
  // A hard link to the target of a link could give a name to a file that the program cannot reach: refused, as
  // elsewhere.
  if (call.u32(1) != 0) return fail(Errno::kInval);
  const auto old = call.walk_to(*from, LastLink::kKeep);
  if (!old) return fail(old.error());
  if (!old->found) return fail(Errno::kNoent);
  const auto made = walk_to_name(call, *to, Errno::kExist);
  if (!made) return fail(made.error());
  if (made->directory.is_host()) return link_on_host(call, *old, *made);
  if (old->found->is_host()) return fail(Errno::kXdev);
  if (made->found) return fail(Errno::kExist);
  const bool is_directory = call.state.files->directory(old->found->inode) != nullptr;
  if (!is_directory && old->wants_directory) return fail(Errno::kNotdir);
  if (made->wants_directory) return fail(Errno::kNoent);
  return call.state.files->link(old->found->inode, made->directory.inode, made->name, new_file_time_ns(call));
}

Done path_readlink(Call& call) {
  const auto at = call.at(0, 1, right::kPathReadlink);
  if (!at) return fail(at.error());
  const auto to = call.memory.bytes(call.u32(3), call.u32(4));
  if (!to) return fail(to.error());
  if (const auto count = call.memory.bytes(call.u32(5), 4); !count) return fail(count.error());
  const auto walked = call.walk_to(*at, LastLink::kKeep);
  if (!walked) return fail(walked.error());
  if (!walked->found) return fail(Errno::kNoent);
  const auto target = target_of(call, *walked);
  if (!target) return fail(target.error());
  const size_t count = std::min(to->size(), target->size());
  std::memcpy(to->data(), target->data(), count);
  call.given_bytes += count;
  return call.memory.write(call.u32(5), static_cast<uint32_t>(count));
}

Done path_remove_directory(Call& call) {
  const auto walked = walk_to_removed(call, right::kPathRemoveDirectory, Errno::kInval);
  if (!walked) return fail(walked.error());
  if (walked->directory.is_host()) return host_files::remove_directory(call, walked->found->host);
  const Done removed =
      call.state.files->remove_directory(walked->directory.inode, walked->name, new_file_time_ns(call));
  if (removed) release_if_unused(call.state, walked->found->inode);
  return removed;
}

Done path_unlink_file(Call& call) {
  const auto walked = walk_to_removed(call, right::kPathUnlinkFile, Errno::kIsdir);
  if (!walked) return fail(walked.error());
  if (walked->directory.is_host()) {
    if (!walked->wants_directory) return host_files::unlink(call, walked->found->host);
    const auto stat = host_files::stat(call, walked->found->host);
    if (!stat) return fail(stat.error());
    return fail(stat->type == FileType::kDirectory ? Errno::kIsdir : Errno::kNotdir);
  }
  if (walked->wants_directory && call.state.files->directory(walked->found->inode) == nullptr)
    return fail(Errno::kNotdir);
  const Done removed =
      call.state.files->unlink(walked->directory.inode, walked->name, new_file_time_ns(call));
  if (removed) release_if_unused(call.state, walked->found->inode);
  return removed;
}

Done path_rename(Call& call) {
  const auto from = call.at(0, 1, right::kPathRenameSource);
  if (!from) return fail(from.error());
  const auto to = call.at(3, 4, right::kPathRenameTarget);
  if (!to) return fail(to.error());
  const auto old = walk_to_name(call, *from, Errno::kBusy);
  if (!old) return fail(old.error());
  const auto made = walk_to_name(call, *to, Errno::kBusy);
  if (!made) return fail(made.error());
  if (!old->found) return fail(Errno::kNoent);
  if (old->directory.is_host() != made->directory.is_host()) return fail(Errno::kXdev);
  if (old->directory.is_host()) return rename_on_host(call, *old, *made);
  const bool is_directory = call.state.files->directory(old->found->inode) != nullptr;
  if (!is_directory && (old->wants_directory || made->wants_directory)) return fail(Errno::kNotdir);
  const Done renamed = call.state.files->rename(old->directory.inode, old->name, made->directory.inode,
                                                made->name, new_file_time_ns(call));
  if (renamed && made->found && *made->found != *old->found)
    release_if_unused(call.state, made->found->inode);
  return renamed;
}

Done path_symlink(Call& call) {
  const auto target = call.memory.text(call.u32(0), std::min(call.u32(1), kMaxPathBytes + 1));
  if (!target) return fail(target.error());
  const std::string kept(*target);
  const auto at = call.at(2, 3, right::kPathSymlink);
  if (!at) return fail(at.error());
  MEMBRANE_TRY(check_path(kept));
  const auto walked = walk_to_name(call, *at, Errno::kExist);
  if (!walked) return fail(walked.error());
  if (walked->directory.is_host()) return symlink_on_host(call, kept, *walked);
  if (walked->found) return fail(Errno::kExist);
  if (walked->wants_directory) return fail(Errno::kNoent);
  return call.state.files->make_symlink(walked->directory.inode, walked->name, kept, new_file_time_ns(call));
}

}  // namespace functions_of
}  // namespace membrane::wasi
