// Operations of a System's owner on the files of its own tree, between two calls of the program: they cost no fuel,
// and do not reach into directories of the host. System::read_file() and put_file() are the same for bytes.
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
  std::string to = {};   // for kMove: the new path, whose parent exists
  bool is_deep = false;  // for kList and kRemove: recursive
  uint64_t time_ns = 0;  // for kTellTime: since 1970
};

struct FileFact {
  std::string path;  // absolute, below the requested path as written
  FileType type = FileType::kUnknown;
  uint64_t size_bytes = 0;
  uint64_t modified_ns = 0;  // since 1970, on the program's clock
};

// kStat returns the fact and follows links. kList returns the directory's entries by name, each directory before its
// entries; links below it are not followed. kMakeDirectory returns the directory, which may exist; missing parents
// are created. kRemove returns nothing and removes a link itself. kMove returns the fact of the new place, and
// replaces what was there, as rename(2) does. kTellTime returns nothing; if the program has the real clock, the
// owner's next operations have this time, otherwise it is ignored. Errors: kNotFound, kNotDir, kIsDir, kNotEmpty,
// kInvalid for an invalid path and for "/", kQuota, kAccess for devices, kUnsupported for files of the host, kTooBig
// for more than System::kMaxListedPathBytes of paths.
host::HostResult<std::vector<FileFact>> act_on_files(System& system, const FileRequest& request);

}  // namespace membrane::wasi
