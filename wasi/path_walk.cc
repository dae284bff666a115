#include "wasi/path_walk.h"

#include <algorithm>
#include <ranges>

#include "base/utf8.h"

namespace membrane::wasi {
namespace {

class Walk {
 public:
  Walk(const FileTree& tree, const Place& from, LastLink last, const HasDirectory& has_directory,
       uint64_t& steps)
      : tree_(tree), last_(last), has_directory_(has_directory), steps_(steps), way_{from} {}

  Answer<Walked> go(std::string_view path) {
    push(path);
    while (!names_.empty()) {
      const std::string name = std::move(names_.back());
      names_.pop_back();
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
  // The names of a path, the first on top; one that ends in "/" ends in a directory.
  void push(std::string_view path) {
    const bool ends = names_.empty();
    std::vector<std::string> names;
    bool slash = path.ends_with('/');
    for (const auto part : std::views::split(path, '/'))
      if (const std::string_view name(part.begin(), part.end()); !name.empty()) names.emplace_back(name);
    if (names.empty()) names.emplace_back(".");
    if (ends) wants_directory_ = wants_directory_ || slash;
    // What a link in the middle leads to is a directory or the way ends there.
    steps_ += names.size();
    names_.insert(names_.end(), names.rbegin(), names.rend());
  }

  Done is_directory(const Place& place) const {
    if (place.is_host()) return has_directory_(place.host);
    return tree_.directory(place.inode) != nullptr ? Done() : fail(Errno::kNotdir);
  }

  // Into the directory `name`, up, or to where a link leads.
  Done step(const std::string& name) {
    if (name == ".") return {};
    if (name == "..") return up();
    auto next = child(name);
    if (!next) return fail(next.error());
    if (!*next) return fail(Errno::kNoent);
    if (const std::string* target = target_of(**next)) return follow(*target);
    if (!(*next)->is_host() && tree_.directory((*next)->inode) == nullptr) return fail(Errno::kNotdir);
    way_.push_back(std::move(**next));
    return {};
  }

  Done up() {
    if (auto there = is_directory(way_.back()); !there) return there;
    if (way_.size() == 1) return fail(Errno::kNotcapable);
    way_.pop_back();
    return {};
  }

  // The last name. Nothing: it was a link, and the walk goes on.
  Answer<std::optional<Walked>> finish(const std::string& name) {
    auto next = child(name);
    if (!next) return fail(next.error());
    const std::string* target = *next ? target_of(**next) : nullptr;
    if (target != nullptr && (last_ == LastLink::kFollow || (wants_directory_ && last_ == LastLink::kKeep))) {
      if (auto followed = follow(*target); !followed) return fail(followed.error());
      return std::nullopt;
    }
    return Walked{way_.back(), name, std::move(*next), wants_directory_};
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
    if (inode == 0) return std::nullopt;
    if (const auto* mount = std::get_if<Mount>(&tree_.find(inode)->is)) return Place{0, mount->guest};
    return Place{inode, {}};
  }

  const std::string* target_of(const Place& place) const {
    const Node* node = place.is_host() ? nullptr : tree_.find(place.inode);
    const auto* symlink = node == nullptr ? nullptr : std::get_if<Symlink>(&node->is);
    return symlink == nullptr ? nullptr : &symlink->target;
  }

  Done follow(const std::string& target) {
    if (++followed_ > kMaxLinksFollowed) return fail(Errno::kLoop);
    if (target.starts_with('/')) {
      if (way_.front() != Place{FileTree::kRoot, {}}) return fail(Errno::kNotcapable);
      way_.resize(1);
    }
    push(target);
    return {};
  }

  const FileTree& tree_;
  const LastLink last_;
  const HasDirectory& has_directory_;
  uint64_t& steps_;
  std::vector<Place> way_;          // from the descriptor's directory to where the walk stands
  std::vector<std::string> names_;  // that are left, the next on top
  bool wants_directory_ = false;
  uint32_t followed_ = 0;
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
                    const HasDirectory& has_directory, uint64_t& steps) {
  if (auto checked = check_path(path); !checked) return fail(checked.error());
  if (path.starts_with('/')) return fail(Errno::kNotcapable);
  return Walk(tree, from, last, has_directory, steps).go(path);
}

}  // namespace membrane::wasi
