// Files and directories of the grants, as calls use them: every request goes through the World's broker, costs
// kWorldFuel, and is recorded in the report (operations on an open file are recorded together, when it is closed).
//
// Below a grant without links, links look like their targets, and a file's inode number is derived from its path, so
// that it reveals nothing of the host and is the same in every run. Below a grant with links, the walk (path_walk.h) has
// resolved paths, a link appears as one, and a file has the same number under all its names.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <string>

#include "wasi/state.h"

namespace membrane::wasi::host_files {

inline constexpr uint64_t kDevice = 2;  // the device number of every file of the host

struct Opening {
  bool write = false, create = false, exclusive = false, truncate = false;
  bool only_directory = false;
};

// The opened OpenHostFile or OpenDirectory.
Answer<Descriptor> open(Call& call, const std::string& path, const Opening& how);
// A short read is the end of the file, or continues with the next call.
Answer<size_t> read(Call& call, OpenHostFile& file, uint64_t offset, std::span<uint8_t> to);
Done write(Call& call, OpenHostFile& file, uint64_t offset, std::span<const uint8_t> bytes);
Done resize(Call& call, OpenHostFile& file, uint64_t size);
Done sync(Call& call, OpenHostFile& file);
Answer<FileStat> stat(Call& call, OpenHostFile& file);
// Also records the report's line. Never fails for the program.
void close(State& state, OpenHostFile& file);

Answer<FileStat> stat(Call& call, const std::string& path);
Answer<std::shared_ptr<const Listing>> list(Call& call, const std::string& path);
Done set_times(Call& call, const std::string& path, const NewTimes& times);
Done make_directory(Call& call, const std::string& path);
Done remove_directory(Call& call, const std::string& path);
Done unlink(Call& call, const std::string& path);
Done rename(Call& call, const std::string& from, const std::string& to);
// Empty below a grant without links, where the host is not asked.
Answer<host::LinkOnPath> find_link(Call& call, const std::string& path);
// The guest path of the grant that covers the path, without a trailing slash; "" when there is none.
std::string grant_root(const State& state, const std::string& path);
// Below a grant without links: EPERM, or EROFS.
Done make_symlink(Call& call, const std::string& target, const std::string& path);
Done make_link(Call& call, const std::string& from, const std::string& to);

// Replaces the mounts in the state's tree by those of its grants.
Status mount_grants(State& state);
// Records that a path does not exist because no grant covers it.
void note_ungranted(State& state, std::string_view path, bool to_write);

}  // namespace membrane::wasi::host_files
