// Files and directories of the grants, as calls meet them: everything goes through the World's broker, pays
// kWorldFuel, and leaves a line for the report (what is done on an open file leaves one line, when it is closed).
//
// Below a grant without links, links look like what they lead to, and a file's inode number is made of its path, so
// that it says nothing of the host and is the same in every run. Below a grant with links, paths have been resolved by
// the walk (path_walk.h), a link is one, and a file has the same number under all its names.
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

// What was opened: OpenHostFile, or OpenDirectory.
Answer<Descriptor> open(Call& call, const std::string& path, const Opening& how);
// Short reads are ends, or wait for the next call.
Answer<size_t> read(Call& call, OpenHostFile& file, uint64_t offset, std::span<uint8_t> to);
Done write(Call& call, OpenHostFile& file, uint64_t offset, std::span<const uint8_t> bytes);
Done resize(Call& call, OpenHostFile& file, uint64_t size);
Done sync(Call& call, OpenHostFile& file);
Answer<FileStat> stat(Call& call, OpenHostFile& file);
// And the line of the report. Never fails for the program.
void close(State& state, OpenHostFile& file);

Answer<FileStat> stat(Call& call, const std::string& path);
Answer<std::shared_ptr<const Listing>> list(Call& call, const std::string& path);
Done set_times(Call& call, const std::string& path, const NewTimes& times);
Done make_directory(Call& call, const std::string& path);
Done remove_directory(Call& call, const std::string& path);
Done unlink(Call& call, const std::string& path);
Done rename(Call& call, const std::string& from, const std::string& to);
// Empty below a grant without links, which is not asked.
Answer<host::LinkOnPath> find_link(Call& call, const std::string& path);
// The guest path of the grant that rules the path, without a slash at its end; "" when there is none.
std::string grant_root(const State& state, const std::string& path);
// Below a grant without links EPERM, or EROFS.
Done make_symlink(Call& call, const std::string& target, const std::string& path);
Done make_link(Call& call, const std::string& from, const std::string& to);

// Puts the grants of the state into its tree, after taking out those that were there.
Status mount_grants(State& state);
// Remembers that the path is nowhere, since no grant leads there.
void note_ungranted(State& state, std::string_view path, bool to_write);

}  // namespace membrane::wasi::host_files
