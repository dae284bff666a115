// Whether a file is unchanged since it was last read and verified completely.
//
// Hashing a file of hundreds of megabytes takes longer than running a program that needs a hundredth of it. So the
// file is hashed once, and a seal beside it records its identity: device, inode, size, and the times of its last
// modification and its last change, in nanoseconds. The kernel sets the time of change at every write, truncation,
// rename and link, and no program can set it. As long as the seal matches, nothing has been written to the file, and
// the verification still holds.
//
// A seal is valid until the system restarts: a crash can lose data that was not yet on the disk but keep the times,
// and damage on the disk itself is found then, too. A file that changed just now is not sealed: a second write
// within the same clock tick would leave the same time.
//
// A seal guards against damage only. An attacker who can write the user's private files can also write a seal.
//
// Threads: any; processes may share the files.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "base/result.h"

namespace membrane {

// The minimum age of a file's last change before it is sealed: longer than the coarsest file system clock tick.
inline constexpr int64_t kSealAfterNs = 2'000'000'000;

std::string seal_path_of(const std::string& path);

// Whether the file at `path`, open as `file`, has a matching seal.
bool is_sealed(const std::string& path, int file);

// Seals the file. `before` is the result of fstat() before the file was read and verified, and `now_ns` the time
// since 1970. Does nothing when the file has changed since, or changed so recently that a further change might not
// show. Errors: kUnavailable.
Status seal(const std::string& path, int file, const struct stat& before, int64_t now_ns);
int64_t real_time_ns();

// Records that the file was used now, for make_room().
void touch_seal(const std::string& path);

}  // namespace membrane
