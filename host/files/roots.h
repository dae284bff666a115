// The granted directories, open, and the lookup of the one for a guest path.
//
// Shared by access to whole files (file_access.h) and to open ones (file_handles.h), so that the quotas of a grant
// count both.
//
// Threads: one at a time.
#pragma once

#include <sys/stat.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "host/broker/broker.h"
#include "host/broker/guest_path.h"
#include "host/files/beneath.h"
#include "policy/policy.h"

namespace membrane::host {

// A grant with its directory open and its quotas counted.
struct Root {
  const policy::FsGrant& grant;
  Components guest;
  Fd directory;
  std::string file;  // if a single file is granted: its name in `directory`
  uint64_t written_bytes = 0;
  uint64_t made = 0;  // files and directories
  // Hard links that this run created, by device and inode: names of a file in addition to others'.
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> links_made = {};

  [[nodiscard]] bool is_file() const { return !file.empty(); }
  // Whether writing to the file would change it under a name that this run did not create.
  [[nodiscard]] bool has_foreign_names(const struct stat& info) const;
  void note_link(const struct stat& info);
  void forget_link(const struct stat& info);  // one of its names has been removed
};

// A guest path that was decided: its path beneath a root.
struct Target {
  Root& root;
  Components beneath;  // empty: the granted directory itself
  std::string text;    // in the program's form

  // Relative to the root's directory, for open_beneath.
  [[nodiscard]] std::string path() const {
    std::string out;
    for (const std::string& component : beneath) out += (out.empty() ? "" : "/") + component;
    return out;
  }
  // A single file is opened by its name only; a link in its place is refused.
  [[nodiscard]] Symlinks links() const { return root.is_file() ? Symlinks::kNone : Symlinks::kBeneath; }
};

class Roots {
 public:
  // ENOENT when a granted directory or file does not exist; ENOTSUP if check_kernel() fails.
  static HostResult<std::unique_ptr<Roots>> open(const std::vector<policy::FsGrant>& grants);

  // The target of a path, if the grant that covers it allows `mode`. EACCES, with the flag that would allow it.
  HostResult<Target> locate(const Components& path, policy::FsMode mode);
  // Names directly in the guest directory `path` that exist because of grants at or below them.
  [[nodiscard]] std::vector<std::string> granted_in(const Components& path) const;

 private:
  explicit Roots(std::vector<policy::FsGrant> grants) : grants_(std::move(grants)) {}

  const std::vector<policy::FsGrant> grants_;  // the roots refer to these
  std::vector<Root> roots_;
};

// The same for all names of a file; never 0. Not a secret: its device and inode can be computed from it.
uint64_t file_id_of(const struct stat& info);
// Converts an errno of the system about `text`.
HostError errno_of(const std::string& text);
// The same failure, with the program's form of the path.
HostError error_at_path(HostError error, const std::string& path, const std::string& text);
// For reading: links are followed if they stay beneath.
HostResult<Fd> open_target(const Target& target, int flags);
// A regular file or a directory; below a grant with links also a symbolic link; else EACCES.
HostResult<struct stat> inspect_entry(const Fd& fd, const Target& target);
// A regular file or a directory, else EACCES.
HostResult<struct stat> inspect(const Fd& fd, const std::string& text);

}  // namespace membrane::host
