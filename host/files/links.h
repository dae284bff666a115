// Symbolic links below a granted directory, for grants that have links: found and read here, followed by the caller
// one at a time. Opening is done by beneath.h, which refuses a link that is swapped in afterwards.
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
  size_t index = 0;  // index of the component that is the link
  std::string target;
};

// The first link in `beneath`, including its last component. Nothing when there is none, or the path ends before
// one. EACCES when its target is not UTF-8. Opens the path at most eight times, whatever its length.
HostResult<std::optional<LinkBeneath>> find_link(const Target& target);

// The path after all links in `path` are followed; the last component only with kFollow. The result is a guest path,
// to be located again: a link may lead below another grant. EACCES for a link that is absolute or leads above the
// granted directory, and for more than kMaxLinksFollowed (path_walk.h). Below a grant without links the result is
// `path`.
enum class LastComponent : uint8_t { kFollow, kKeep };
HostResult<Components> follow_links(Roots& roots, Components path, LastComponent last);

// Checks the target of a new link in a directory `depth` levels below the granted one: UTF-8 without NUL, relative,
// not above the granted directory, and with ".." only at its beginning. EACCES or EINVAL.
HostResult<void> check_new_target(std::string_view target, size_t depth, const std::string& text);

// Held from examining where a link is, or is moved to, until the operation is done: other Membrane processes with
// the same granted directory take it, too, so that none moves a directory in between. EHOST when another program
// holds it for a second.
class MoveLock {
 public:
  static HostResult<MoveLock> take(const Root& root);

 private:
  Fd directory_;  // which flock() locks
};

// Whether a directory may be moved to `depth` levels below the granted one, nearer than now: ENOTSUP when a link in
// it would then lead out that does not now, or when it has more than kMaxMovedEntries files and directories.
inline constexpr size_t kMaxMovedEntries = 10'000;
HostResult<void> check_moved_links(const Target& directory, size_t depth);

}  // namespace membrane::host
