// What the owner of a System does with the files of its own tree, between two calls of the program: nobody pays fuel for
// it, and directories of the host are not looked into. System::read_file() and put_file() are the same for bytes.
//
// Threads: as the System's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/errno.h"
#include "wasi/system.h"

namespace membrane::wasi {

enum class FileAct : uint8_t { kStat, kList, kMakeDirectory, kRemove, kMove, kTellTime };

struct FileRequest {
  FileAct act = FileAct::kStat;
  std::string path;      // absolute
  std::string to = {};   // of kMove: the new path, whose directory is there
  bool is_deep = false;  // kList, kRemove: with all that is below
  uint64_t time_ns = 0;  // of kTellTime: since 1970
};

struct FileFact {
  std::string path;  // absolute, below the path that was asked for as it was written
  FileType type = FileType::kUnknown;
  uint64_t size_bytes = 0;
  uint64_t modified_ns = 0;  // since 1970, on the program's clock
};

// kStat: the fact; links are followed. kList: of what is in the directory, by name, directories before what is in them;
// links are not followed below it. kMakeDirectory: of the directory, which may be there already; those above it are made.
// kRemove: nothing; a link goes itself. kMove: the fact of the new place; what was there is replaced, as by rename(2).
// kTellTime: nothing; where the program has the real clock, what the owner does next has this time, else it means nothing.
// Errors: kNotFound, kNotDir, kIsDir, kNotEmpty, kInvalid for a path that is none and for "/", kQuota, kAccess for devices,
// kUnsupported for files of the host, kTooBig for more than System::kMaxListedPathBytes of paths.
host::HostResult<std::vector<FileFact>> act_on_files(System& system, const FileRequest& request);

}  // namespace membrane::wasi
