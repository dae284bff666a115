// Opens a path beneath a directory without openat2, as openat2 would with RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS and
// RESOLVE_NO_XDEV.
//
// Each component is opened by itself, relative to the descriptor of the directory before it, with O_PATH |
// O_NOFOLLOW: the kernel never resolves more than one name, and never a link. The opened file is then examined
// through its own descriptor, so nobody can replace it between the examination and the next step. A symbolic link is
// read from its descriptor, and its components replace it in the path; an absolute one is refused. ".." goes back to
// the descriptor that the walk came from, not to the parent in the file system: a directory that is moved during the walk
// leads nowhere else. Files on another mount than the directory's are refused.
//
// Threads: pure functions around system calls. The walk keeps one descriptor per directory on its path.
#pragma once

#include <expected>
#include <string>

#include "host/files/beneath.h"

namespace membrane::host {

inline constexpr int kMaxLinksFollowed = 40;    // as in the kernel; more is ELOOP
inline constexpr size_t kMaxWalkDepth = 128;    // directories open at once; more is ENAMETOOLONG
inline constexpr size_t kMaxWalkSteps = 2'048;  // components, with those of links; more is ENAMETOOLONG

// `flags`, `symlinks` and `mode` as for open_beneath. The error is an errno of the system:
//   EXDEV     the path is absolute, or a "..", an absolute link or a mount leads out of `directory`
//   ELOOP     a link that must not be followed, a link of /proc, or too many links
//   EAGAIN    the last component was replaced at each attempt to open it
//   ENOTSUP   the mount of a file cannot be learnt here (see can_tell_mounts)
// and what openat(2) answers.
std::expected<Fd, int> open_by_walk(int directory, const std::string& path, int flags, Symlinks symlinks,
                                    unsigned mode);

// Whether statx or /proc/self/fdinfo reports the mount of an open file.
bool can_tell_mounts();

}  // namespace membrane::host
