// Whether a file is still what it was when all of it was last read and found right.
//
// To hash a file of hundreds of megabytes takes longer than the program that needs a hundredth of it. So the file is
// hashed once, and a seal beside it notes its identity: device, inode, size, and the times of its last modification and
// its last change, in nanoseconds. The kernel sets the time of change at every write, truncation, rename and link, and no
// program can set it. As long as the seal agrees, nothing has been written to the file, and what was found still holds.
//
// A seal holds until the system restarts: a crash can lose data that was not on the disk yet and keep the times, and
// what a disk lost by itself is then found, too. A file that changed in the last moments is not sealed: a second write
// within the same tick of the clock would leave the same time.
//
// A seal guards against damage. Who may write the user's private files can also write a seal.
//
// Threads: any; processes may share the files.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "base/result.h"

namespace membrane {

// How old a file's last change must be before it is sealed: longer than the coarsest clock of a file system.
inline constexpr int64_t kSealAfterNs = 2'000'000'000;

std::string seal_path_of(const std::string& path);

// Whether the file at `path`, which is open as `file`, has a seal that agrees with it.
bool is_sealed(const std::string& path, int file);

// Seals it. `before` is what fstat() said before the file was read and found right, and `now_ns` the time since 1970:
// nothing is done when the file has changed since, or so late that a further change might not show. Errors: kUnavailable.
Status seal(const std::string& path, int file, const struct stat& before, int64_t now_ns);
int64_t real_time_ns();

// Notes that the file was used now, for make_room().
void touch_seal(const std::string& path);

}  // namespace membrane
