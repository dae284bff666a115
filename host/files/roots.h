// The granted directories, open, and which of them a guest path belongs to.
//
// Shared by what reads and writes whole files (file_access.h) and what works on open ones (file_handles.h), so
// that the quotas of a grant count both.
//
// Threads: one at a time.
#pragma once

#include <sys/stat.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "host/broker.h"
#include "host/files/beneath.h"
#include "host/files/guest_path.h"
#include "policy/policy.h"

namespace membrane::host {

// A grant made ready: its directory is open, its quotas are counted.
struct Root {
  const policy::FsGrant& grant;
  Components guest;
  Fd directory;
  std::string file;  // when a single file is granted: its name in `directory`
  uint64_t written_bytes = 0;
  uint64_t made = 0;  // files and directories
  // Hard links that this run made, by device and inode: names that a file has more than others gave it.
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> links_made = {};

  [[nodiscard]] bool is_file() const { return !file.empty(); }
  // Whether writing to the file changes it under a name that this run did not give it.
  [[nodiscard]] bool has_foreign_names(const struct stat& info) const;
  void note_link(const struct stat& info);
  void forget_link(const struct stat& info);  // one of its names is gone
};

// A guest path, decided: what it is beneath a root.
struct Target {
  Root& root;
  Components beneath;  // empty: the granted directory itself
  std::string text;    // as the program would write it

  // Relative to the root's directory, for open_beneath.
  [[nodiscard]] std::string path() const {
    std::string out;
    for (const std::string& component : beneath) out += (out.empty() ? "" : "/") + component;
    return out;
  }
  // A single file is opened by its name alone; a link in its place is not it.
  [[nodiscard]] Symlinks links() const { return root.is_file() ? Symlinks::kNone : Symlinks::kBeneath; }
};

class Roots {
 public:
  // ENOENT when a granted directory or file does not exist; ENOTSUP where check_kernel() says so.
  static HostResult<std::unique_ptr<Roots>> open(const std::vector<policy::FsGrant>& grants);

  // What a path is, when the grant that rules it allows `mode`. EACCES, with the flag that would allow it.
  HostResult<Target> locate(const Components& path, policy::FsMode mode);
  // Names directly in the guest directory `path` that exist because something is granted at or below them.
  [[nodiscard]] std::vector<std::string> granted_in(const Components& path) const;

 private:
  explicit Roots(std::vector<policy::FsGrant> grants) : grants_(std::move(grants)) {}

  const std::vector<policy::FsGrant> grants_;  // the roots refer to these
  std::vector<Root> roots_;
};

// The same for all names of a file; never 0. Not a secret: its device and inode can be computed from it.
uint64_t file_id_of(const struct stat& info);
// The errno of the system about `text`, in our words.
HostError errno_of(const std::string& text);
// The same failure, told with the path as the program knows it.
HostError told_as(HostError error, const std::string& path, const std::string& text);
// Reading's way: links are followed that stay beneath.
HostResult<Fd> open_target(const Target& target, int flags);
// A regular file or a directory; below a grant with links also a symbolic link; else EACCES.
HostResult<struct stat> inspect_entry(const Fd& fd, const Target& target);
// A regular file or a directory, else EACCES.
HostResult<struct stat> inspect(const Fd& fd, const std::string& text);

}  // namespace membrane::host
