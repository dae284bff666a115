#include "wasi/path_walk.h"

#include <algorithm>
#include <ranges>

#include "base/utf8.h"
#include "host/files/path_walk.h"

namespace membrane::wasi {
namespace {

class Walk {
 public:
  Walk(const FileTree& tree, const Place& from, LastLink last, const HostPaths& host, uint64_t& steps)
      : tree_(tree), last_(last), host_(host), steps_(steps), way_{from} {}

  Answer<Walked> go(std::string_view path) {
    push(path);
    while (!names_.empty()) {
      const std::string name = std::move(names_.back());
      names_.pop_back();
      if (link_names_ && names_.size() < *link_names_) link_names_.reset();
      const bool is_last = names_.empty();
      if (is_last && name != "." && name != "..") {
        auto done = finish(name);
        if (!done) return fail(done.error());
        if (*done) return std::move(**done);
        continue;
      }
      if (auto stepped = step(name); !stepped) return fail(stepped.error());
    }
    if (auto there = is_directory(way_.back()); !there) return fail(there.error());
    return Walked{.directory = {}, .name = {}, .found = way_.back(), .wants_directory = true};
  }

 private:
  // Pushes the names of a path, the first on top; a path that ends in "/" must end in a directory.
  void push(std::string_view path) {
    const bool ends = names_.empty();
    std::vector<std::string> names;
    bool slash = path.ends_with('/');
    for (const auto part : std::views::split(path, '/'))
      if (const std::string_view name(part.begin(), part.end()); !name.empty()) names.emplace_back(name);
    if (names.empty()) names.emplace_back(".");
    if (ends) wants_directory_ = wants_directory_ || slash;
    // The target of a link in the middle must be a directory, or the walk ends there.
    steps_ += names.size();
    names_.insert(names_.end(), names.rbegin(), names.rend());
  }

  Done is_directory(const Place& place) const {
    if (place.is_host()) return host_.has_directory(place.host);
    return tree_.directory(place.inode) != nullptr ? Done() : fail(Errno::kNotdir);
  }

  // Enters the directory `name`, goes up, or follows a link.
  Done step(const std::string& name) {
    if (name == ".") return {};
    if (name == "..") return up();
    auto next = child(name);
    if (!next) return fail(next.error());
    if (!*next) return fail(Errno::kNoent);
    const auto target = target_of(**next);
    if (!target) return fail(target.error());
    if (*target) return follow(**target, (*next)->is_host());
    if (!(*next)->is_host() && tree_.directory((*next)->inode) == nullptr) return fail(Errno::kNotdir);
    way_.push_back(std::move(**next));
    return {};
  }

  Done up() {
    if (auto there = is_directory(way_.back()); !there) return there;
    if (way_.size() == 1) return fail(Errno::kNotcapable);
    if (link_names_ && way_.back().is_host() && way_.back().host == link_root_)
      return fail(Errno::kNotcapable);
    way_.pop_back();
    return {};
  }

  // Handles the last name. Returns nothing if it was a link, and the walk continues.
  Answer<std::optional<Walked>> finish(const std::string& name) {
    auto next = child(name);
    if (!next) return fail(next.error());
    auto target = *next ? target_of(**next) : std::nullopt;
    if (!target) return fail(target.error());
    const bool is_host = *next && (*next)->is_host();
    if (*target && (last_ == LastLink::kFollow || (wants_directory_ && last_ == LastLink::kKeep))) {
      if (auto followed = follow(**target, is_host); !followed) return fail(followed.error());
      return std::nullopt;
    }
    const bool is_behind_root =
        is_host && way_.back() == Place{FileTree::kRoot, {}} && tree_.child(FileTree::kRoot, name) == 0;
    Walked walked{is_behind_root ? Place{} : way_.back(), name, std::move(*next), wants_directory_};
    if (is_host) walked.host_link = std::move(*target);
    return walked;
  }

  Answer<std::optional<Place>> child(const std::string& name) const {
    if (name.size() > kMaxNameBytes) return fail(Errno::kNametoolong);
    const Place& at = way_.back();
    if (at.is_host()) {
      if (at.host.size() + 1 + name.size() > kMaxPathBytes) return fail(Errno::kNametoolong);
      return Place{0, at.host + "/" + name};
    }
    if (tree_.directory(at.inode) == nullptr) return fail(Errno::kNotdir);
    const Inode inode = tree_.child(at.inode, name);
    if (inode == 0 && at.inode == FileTree::kRoot && tree_.has_root_mount()) return Place{0, "/" + name};
    if (inode == 0) return std::nullopt;
    if (const auto* mount = std::get_if<Mount>(&tree_.find(inode)->is)) return Place{0, mount->guest};
    return Place{inode, {}};
  }

  // The target of a link; nothing when the place is not a link.
  Answer<std::optional<std::string>> target_of(const Place& place) {
    if (place.is_host()) return host_target_of(place.host);
    const Node* node = tree_.find(place.inode);
    const auto* symlink = node == nullptr ? nullptr : std::get_if<Symlink>(&node->is);
    return symlink == nullptr ? std::nullopt : std::optional(symlink->target);
  }

  // One request to the host answers for all the names up to the next "..".
  Answer<std::optional<std::string>> host_target_of(const std::string& path) {
    const bool is_known = link_.path == path || (asked_ && is_at_or_above(path, *asked_));
    if (!is_known) {
      std::string ahead = path;
      for (const std::string& name : names_ | std::views::reverse) {
        if (name == ".." || ahead.size() + 1 + name.size() > kMaxPathBytes) break;
        if (name != ".") ahead += "/" + name;
      }
      auto found = host_.find_link(ahead);
      if (!found) return fail(found.error());
      link_ = std::move(*found);
      // Paths after a link are looked up when the walk gets there.
      asked_ = link_.path.empty() ? ahead : link_.path;
    }
    return link_.path == path ? std::optional(link_.target) : std::nullopt;
  }

  static bool is_at_or_above(std::string_view above, std::string_view path) {
    return path.starts_with(above) && (path.size() == above.size() || path[above.size()] == '/');
  }

  Done follow(const std::string& target, bool is_host) {
    if (++followed_ > host::kMaxLinksFollowed) return fail(Errno::kLoop);
    if (target.empty()) return fail(Errno::kNoent);
    if (target.starts_with('/')) {
      if (is_host) return fail(Errno::kNotcapable);
      if (way_.front() != Place{FileTree::kRoot, {}}) return fail(Errno::kNotcapable);
      way_.resize(1);
    }
    if (is_host) {
      if (!link_names_)
        link_names_ = names_.size();  // otherwise the remaining names of an outer link stay bound as well
      link_root_ = host_.grant_root(link_.path);
    }
    push(target);
    return {};
  }

  const FileTree& tree_;
  const LastLink last_;
  const HostPaths& host_;
  uint64_t& steps_;
  std::vector<Place> way_;          // from the descriptor's directory to the current place of the walk
  std::vector<std::string> names_;  // remaining names, the next on top
  bool wants_directory_ = false;
  uint32_t followed_ = 0;
  host::LinkOnPath link_;  // the last link of the host that was found
  std::optional<size_t>
      link_names_;  // while more than this many names remain, the next one comes from a link of the host
  std::string link_root_;             // the guest path that such a name must not lead above
  std::optional<std::string> asked_;  // the host's path up to which link_ is the only link
};

}  // namespace

Done check_path(std::string_view path) {
  if (path.empty()) return fail(Errno::kNoent);
  if (path.size() > kMaxPathBytes) return fail(Errno::kNametoolong);
  if (path.find('\0') != std::string_view::npos) return fail(Errno::kInval);
  if (!is_utf8(path)) return fail(Errno::kIlseq);
  return {};
}

Answer<Walked> walk(const FileTree& tree, const Place& from, std::string_view path, LastLink last,
                    const HostPaths& host, uint64_t& steps) {
  if (auto checked = check_path(path); !checked) return fail(checked.error());
  if (path.starts_with('/')) return fail(Errno::kNotcapable);
  return Walk(tree, from, last, host, steps).go(path);
}

}  // namespace membrane::wasi
