#include "linux/fs/paths.h"

#include <unistd.h>

#include <algorithm>

namespace membrane::linux {

bool Credentials::is_in(uint32_t group) const {
  return fsgid == group || std::ranges::find(groups, group) != groups.end();
}

Location::~Location() {
  LocationRef next = std::move(parent);
  while (next && next.use_count() == 1) {
    // This is the last reference, and locations are never created const.
    LocationRef above = std::move(const_cast<Location&>(*next).parent);
    next = std::move(above);
  }
}

void Mounts::add(const Node& directory, NodeRef root) {
  mounts_.emplace_back(directory.shared_from_this(), std::move(root));
}

NodeRef Mounts::over(const NodeRef& node) const {
  NodeRef top = node;
  // In the order in which they were made, so that a mount over a mount's root is found too.
  for (const auto& [directory, root] : mounts_)
    if (directory.get() == top.get()) top = root;
  return top;
}

Done may(const Credentials& who, const Attributes& attributes, int wanted) {
  const uint32_t mode = attributes.mode;
  if (who.is_root()) {
    if ((wanted & X_OK) != 0 && (mode & S_IFMT) != S_IFDIR && (mode & 0111) == 0) return err(EACCES);
    return {};
  }
  const uint32_t allowed = who.fsuid == attributes.uid ? mode >> 6
                           : who.is_in(attributes.gid) ? mode >> 3
                                                       : mode;
  const auto asked = static_cast<uint32_t>(wanted & (R_OK | W_OK | X_OK));
  if ((allowed & asked) != asked) return err(EACCES);
  return {};
}

Done may_remove(const Credentials& who, const Attributes& directory, const Attributes& child) {
  MEMBRANE_TRY(may(who, directory, W_OK | X_OK));
  const bool is_sticky = (directory.mode & S_ISVTX) != 0;
  if (is_sticky && !who.is_root() && who.fsuid != child.uid && who.fsuid != directory.uid) return err(EPERM);
  return {};
}

namespace {

std::optional<std::string> name_in(Node& directory, const Node& child) {
  const uint64_t number = const_cast<Node&>(child).attributes().number;
  std::optional<std::string> name;
  int64_t position = 0;
  const auto listed = directory.list(position, [&](const DirectoryEntry& entry) {
    if (entry.number != number) return true;
    name = entry.name;
    return false;
  });
  return listed ? name : std::nullopt;
}

// Returns the directory that holds `at` now, and its name there. A directory may have been renamed since it
// was reached: then its nodes are more current than the names that were walked.
struct Above {
  LocationRef directory;
  std::string name;
  bool is_removed = false;
};

// From the node of a directory up to the root of its file system, or to a location that is already known.
LocationRef rebuild(NodeRef directory, const Location& known) {
  std::vector<NodeRef> chain;
  LocationRef base;
  while (directory && !base) {
    for (const Location* at = &known; at->parent && !base; at = at->parent.get())
      if (at->parent->node == directory) base = at->parent;
    if (base) break;
    chain.push_back(directory);
    NodeRef above = directory->parent();
    if (!above || above == directory) {  // the root of a file system: where the chain that was walked has it
      for (const Location* at = &known; at && !base; at = at->parent.get())
        if (!at->parent) base = std::make_shared<Location>(Location{directory, nullptr, ""});
      chain.pop_back();
      break;
    }
    directory = std::move(above);
  }
  for (auto node = chain.rbegin(); node != chain.rend() && base; ++node)
    base = std::make_shared<Location>(Location{*node, base, name_in(*base->node, **node).value_or("")});
  return base;
}

LocationRef directory_above(const Location& at) {
  const NodeRef now = at.node->parent();
  if (!at.parent || !now || now == at.node || now == at.parent->node) return at.parent;
  LocationRef moved = rebuild(now, at);
  return moved ? moved : at.parent;
}

Above above(const Location& at) {
  LocationRef directory = directory_above(at);
  if (!directory || at.node->parent() == at.node) return {directory, at.name};  // the root of a file system
  const auto found = directory->node->look_up(at.name);
  if (found && *found == at.node) return {directory, at.name};
  auto name = name_in(*directory->node, *at.node);
  return {directory, name.value_or(at.name), !name};
}

}  // namespace

std::string path_of(const Place& place, const Location& location) {
  std::vector<std::string> names;
  bool is_removed = false;
  const Location* at = &location;
  std::vector<LocationRef> held;
  while (at->node != place.root->node && at->parent) {
    Above up = above(*at);
    is_removed = is_removed || up.is_removed;
    names.push_back(std::move(up.name));
    at = up.directory.get();
    held.push_back(std::move(up.directory));
  }
  std::string path = at->node == place.root->node ? "" : "(unreachable)";
  for (auto name = names.rbegin(); name != names.rend(); ++name) path += "/" + *name;
  if (path.empty() || path == "(unreachable)") path += "/";
  if (is_removed) path += " (deleted)";
  return path;
}

namespace {

// One walk: its position, the rest of the path, and how many links it has followed.
class Walk {
 public:
  Walk(const Mounts& mounts, const Place& place, const Credentials& who, const WalkOptions& options)
      : mounts_(mounts), place_(place), who_(who), options_(options) {}

  Done begin(const LocationRef& from, std::string_view path) {
    if (path.empty()) return err(ENOENT);
    if (path.size() >= kMostPathBytes) return err(ENAMETOOLONG);
    base_ = from;
    root_ = options_.in_root ? from : place_.root;
    at_ = from;
    rest_ = path;
    return go_to_root_if_absolute();
  }

  // Walks to the end. With `stops_at_last` it stops before the last part, which it stores in last().
  Done run(bool stops_at_last) {
    while (next_part()) {
      if (part_.size() > kMostNameBytes) return err(ENAMETOOLONG);
      if (at_->node->type() != S_IFDIR) return err(ENOTDIR);
      if (!who_.is_root()) MEMBRANE_TRY(may(who_, at_->node->attributes(), X_OK));
      if (is_last_ && stops_at_last) return {};
      MEMBRANE_TRY(enter());
    }
    if (has_slash_ && at_->node->type() != S_IFDIR) return err(ENOTDIR);
    return {};
  }

  [[nodiscard]] const LocationRef& at() const { return at_; }
  [[nodiscard]] const std::string& last() const { return part_; }
  [[nodiscard]] bool has_slash() const { return has_slash_; }

 private:
  Done go_to_root_if_absolute() {
    if (!rest_.starts_with('/')) return {};
    if (options_.beneath) return err(EXDEV);
    at_ = root_;
    return {};
  }

  bool next_part() {
    const size_t begin = rest_.find_first_not_of('/', position_);
    if (begin == std::string::npos) return false;
    const size_t end = std::min(rest_.find('/', begin), rest_.size());
    part_ = rest_.substr(begin, end - begin);
    position_ = end;
    is_last_ = rest_.find_first_not_of('/', end) == std::string::npos;
    has_slash_ = is_last_ && end < rest_.size();
    return true;
  }

  Done enter() {
    if (part_ == ".") return {};
    if (part_ == "..") return go_up();
    MEMBRANE_ASSIGN(NodeRef child, at_->node->look_up(part_));
    child = mounts_.over(child);
    const bool follows = !is_last_ || options_.follows_last || has_slash_;
    if (child->type() == S_IFLNK && (follows || (options_.no_links && !is_last_))) return follow(*child);
    at_ = std::make_shared<Location>(Location{std::move(child), at_, part_});
    return {};
  }

  Done go_up() {
    if (options_.beneath && at_->node == base_->node) return err(EXDEV);
    if (at_->node == root_->node || at_->node == place_.root->node) return {};
    if (LocationRef up = directory_above(*at_)) at_ = std::move(up);
    return {};
  }

  Done follow(Node& link) {
    if (options_.no_links || ++links_ > kMostLinks) return err(ELOOP);
    MEMBRANE_ASSIGN(LocationRef there, link.jump());
    if (there) {
      if (options_.no_magic_links) return err(ELOOP);
      if (options_.beneath || options_.in_root) return err(EXDEV);
      at_ = std::move(there);
      return {};
    }
    MEMBRANE_ASSIGN(std::string target, link.target());
    if (target.empty()) return err(ENOENT);
    if (target.size() >= kMostPathBytes) return err(ENAMETOOLONG);
    rest_ = std::move(target) + rest_.substr(position_);
    position_ = 0;
    return go_to_root_if_absolute();
  }

  const Mounts& mounts_;
  const Place& place_;
  const Credentials& who_;
  const WalkOptions& options_;
  LocationRef base_, root_, at_;
  std::string rest_;
  size_t position_ = 0;
  std::string part_;
  bool is_last_ = false, has_slash_ = false;
  int links_ = 0;
};

}  // namespace

Try<LocationRef> walk(const Mounts& mounts, const Place& place, const LocationRef& from,
                      std::string_view path, const Credentials& who, const WalkOptions& options) {
  Walk walk(mounts, place, who, options);
  MEMBRANE_TRY(walk.begin(from, path));
  MEMBRANE_TRY(walk.run(false));
  if (options.wants_directory && walk.at()->node->type() != S_IFDIR) return err(ENOTDIR);
  return walk.at();
}

Try<Parent> walk_to_parent(const Mounts& mounts, const Place& place, const LocationRef& from,
                           std::string_view path, const Credentials& who) {
  const WalkOptions options;
  Walk walk(mounts, place, who, options);
  MEMBRANE_TRY(walk.begin(from, path));
  MEMBRANE_TRY(walk.run(true));
  if (walk.last().empty()) return Parent{walk.at(), ".", true};  // "/"
  return Parent{walk.at(), walk.last(), walk.has_slash()};
}

}  // namespace membrane::linux
