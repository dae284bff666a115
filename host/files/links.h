// Symbolic links below a granted directory, for grants that have links: found and read here, followed by the caller
// one at a time. Opening stays in beneath.h; a link that is swapped in after the look is then refused there.
//
// Threads: pure functions around system calls.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "host/files/beneath.h"
#include "host/files/path_walk.h"
#include "host/files/roots.h"

namespace membrane::host {

inline constexpr size_t kMaxTargetBytes = 4'095;

struct LinkBeneath {
  size_t index = 0;  // of the component that is the link
  std::string target;
};

// The first link that `beneath` leads through or ends in. Nothing when there is none, or the path ends before one.
// EACCES when its target is not UTF-8. Opens the path at most eight times, whatever its length.
HostResult<std::optional<LinkBeneath>> find_link(const Target& target);

// Where `path` leads when all its links are followed; the last component only with `last`. The answer is a guest path
// again, to be located again: a link may lead below another grant. EACCES for a link that is absolute or leads above
// the directory that was granted, and for more than kMaxLinksFollowed (path_walk.h). Below a grant without links it is `path`.
enum class LastComponent : uint8_t { kFollow, kKeep };
HostResult<Components> follow_links(Roots& roots, Components path, LastComponent last);

// What a program may write into a link that it makes in a directory `depth` levels below the granted one: UTF-8 without
// NUL, relative, not above the granted directory, and with ".." only at its beginning. EACCES or EINVAL.
HostResult<void> check_new_target(std::string_view target, size_t depth, const std::string& text);

// Held from a look at where a link stands, or is moved to, until that is done: other Membranes that are granted the same
// directory take it, too, so none moves a directory in between. EHOST when another program holds it for a second.
class MoveLock {
 public:
  static HostResult<MoveLock> take(const Root& root);

 private:
  Fd directory_;  // which flock() locks
};

// Whether a directory may be moved so that what is in it lies `depth` levels below the granted one, nearer than now: ENOTSUP when a
// link in it would then lead out that does not now, or when it has more than kMaxMovedEntries files and directories.
inline constexpr size_t kMaxMovedEntries = 10'000;
HostResult<void> check_moved_links(const Target& directory, size_t depth);

}  // namespace membrane::host
