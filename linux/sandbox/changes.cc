#include "linux/sandbox/changes.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "linux/fs/tree_node.h"

namespace membrane::linux {
namespace {

constexpr size_t kMostTextBytes = 64u << 20;  // of all paths
constexpr size_t kPiece = 256u << 10;

std::unexpected<Error> damaged() {
  return fail(ErrorCode::kInvalidInput, "the image of the sandbox is damaged");
}

std::unexpected<Error> not_a_tree() {
  return fail(ErrorCode::kInvalidInput, "the sandbox's root is not a file tree");
}

bool is_covered(const std::vector<NodeRef>& covered, uint64_t number, const std::shared_ptr<Tree>& tree) {
  return std::ranges::any_of(covered, [&](const NodeRef& each) {
    const auto* const node = dynamic_cast<const TreeNode*>(each.get());
    return node != nullptr && node->tree() == tree && node->number() == number;
  });
}

// -- changes ----------------------------------------------------------------------------------------------------------

// A name in a directory: its inode in the image, and its current node.
struct Name {
  std::string name;
  std::optional<uint32_t> before;
  std::optional<uint64_t> now;
  std::optional<LayerInode> inode = {};  // of `before`
};

class Comparison {
 public:
  Comparison(std::shared_ptr<TreeNode> root, const std::vector<NodeRef>& covered)
      : tree_(root->tree()),
        image_(tree_->options().image.get()),
        covered_(covered),
        root_(std::move(root)) {}

  Result<std::vector<ChangedPath>> run() {
    if (image_ != nullptr) {
      const auto inode = image_->inode(0);
      if (!inode) return damaged();
      MEMBRANE_ASSIGN(const bool is_other, differs(*root_, *inode));
      if (is_other) MEMBRANE_TRY(add("/", Change::kModified, root_->attributes().mode));
      MEMBRANE_TRY(enter(0, root_));
    } else {
      MEMBRANE_TRY(enter(std::nullopt, root_));
    }
    while (!levels_.empty()) {
      Level& level = levels_.back();
      path_.resize(level.path_bytes);
      if (level.next == level.names.size()) {
        levels_.pop_back();
        continue;
      }
      const Name name = std::move(level.names[level.next++]);
      path_ += '/';
      path_ += name.name;
      MEMBRANE_TRY(compare(level.node, name));
    }
    return std::move(changes_);
  }

 private:
  struct Level {
    std::shared_ptr<TreeNode> node;
    std::vector<Name> names;
    size_t next = 0, path_bytes = 0;
  };

  Status add(const std::string& path, Change change, uint32_t mode) {
    bytes_ += path.size() + 64;
    if (bytes_ > kMostTextBytes)
      return fail(ErrorCode::kTooLong, "more has changed in the sandbox than can be listed",
                  "Save the sandbox as an image, or remove what is not needed.");
    changes_.push_back({path, change, mode});
    return {};
  }

  // The names of an image's directory. A name that a damaged image repeats is listed once.
  Status list_before(uint32_t number, std::vector<Name>& names) {
    const auto inode = image_->inode(number);
    if (!inode) return damaged();
    for (uint64_t index = 0; index < inode->size; ++index) {
      const auto child = image_->child(*inode, index);
      if (!child || ++entries_ > image_->entry_count()) return damaged();
      auto below = image_->inode(child->inode);
      if (!below) return damaged();
      if (S_ISDIR(below->mode) && (child->inode <= number || below->parent != number)) return damaged();
      names.push_back({std::string(child->name), child->inode, std::nullopt, below});
    }
    return {};
  }

  // `before`: the directory of the image, for one that was there.
  Status enter(std::optional<uint32_t> before, const std::shared_ptr<TreeNode>& node) {
    std::vector<Name> was;
    if (before) MEMBRANE_TRY(list_before(*before, was));
    std::vector<Name> names;
    uint64_t listed = 0;
    const uint64_t most = (image_ == nullptr ? 0 : image_->entry_count()) + tree_->account()->used_bytes();
    bool is_sound = true;
    const auto done = node->list(0, [&](const DirectoryEntry& entry) {
      is_sound = ++listed <= most;
      if (is_sound) names.push_back({std::string(entry.name), std::nullopt, entry.number});
      return is_sound;
    });
    if (!done || !is_sound) return damaged();
    std::ranges::sort(names, {}, &Name::name);
    std::vector<Name> all;
    all.reserve(std::max(was.size(), names.size()));
    auto a = was.begin();
    for (Name& now : names) {
      for (; a != was.end() && a->name < now.name; ++a) all.push_back(std::move(*a));
      if (a != was.end() && a->name == now.name) {
        now.before = a->before;
        now.inode = a->inode;
        ++a;
      }
      all.push_back(std::move(now));
    }
    for (; a != was.end(); ++a) all.push_back(std::move(*a));
    levels_.push_back({node, std::move(all), 0, path_.size()});
    return {};
  }

  Status compare(const std::shared_ptr<TreeNode>& directory, const Name& name) {
    if (!name.now) return add(path_, Change::kRemoved, name.inode->mode);
    const bool is_same_node = name.before && *name.now == uint64_t{*name.before} + 1;
    if (is_same_node && !tree_->changed_node(*name.now) && !S_ISDIR(name.inode->mode)) return {};
    if (!name.before && is_covered(covered_, *name.now, tree_)) return {};
    const auto found = directory->look_up(name.name);
    const auto node = found ? std::dynamic_pointer_cast<TreeNode>(*found) : nullptr;
    if (node == nullptr) return damaged();
    const uint32_t mode = node->attributes().mode;
    if (!name.before) {
      MEMBRANE_TRY(add(path_, Change::kAdded, mode));
      return S_ISDIR(mode) ? enter(std::nullopt, node) : Status();
    }
    MEMBRANE_ASSIGN(const bool is_other, differs(*node, *name.inode));
    if (is_other) MEMBRANE_TRY(add(path_, Change::kModified, mode));
    if (!S_ISDIR(mode)) return {};
    return enter(S_ISDIR(name.inode->mode) ? name.before : std::nullopt, node);
  }

  Result<bool> differs(TreeNode& node, const LayerInode& inode) {
    const Attributes now = node.attributes();
    if (now.mode != inode.mode || now.uid != inode.uid || now.gid != inode.gid) return true;
    switch (now.mode & S_IFMT) {
      case S_IFREG: {
        const auto is_other = has_other_content(node, inode, now.size);
        if (!is_other || *is_other) return is_other;
        break;
      }
      case S_IFLNK: {
        const auto target = image_->target(inode);
        if (!target) return damaged();
        if (node.target().value_or("") != *target) return true;
        break;
      }
      case S_IFCHR:
      case S_IFBLK:
        if (now.special != inode.at) return true;
        break;
      default: break;
    }
    return has_other_attributes(node, inode);
  }

  Result<bool> has_other_content(TreeNode& node, const LayerInode& inode, uint64_t size) {
    if (size != inode.size) return true;
    const auto of_node = node.image_inode();
    if (of_node && of_node->at == inode.at && node.has_image_content()) return false;
    const auto before = image_->content(inode);
    if (!before) return damaged();
    buffer_.resize(kPiece);
    for (uint64_t at = 0; at < size;) {
      const auto got = node.read(at, buffer_);
      if (!got || *got == 0) return fail(ErrorCode::kUnavailable, path_ + " cannot be read");
      if (std::memcmp(buffer_.data(), before->data() + at, std::min<uint64_t>(*got, size - at)) != 0)
        return true;
      at += *got;
    }
    return false;
  }

  Result<bool> has_other_attributes(TreeNode& node, const LayerInode& inode) {
    std::map<std::string, std::string> before;
    for (const auto& [name, value] : image_->attributes(inode)) before.emplace(name, value);
    const auto names = node.attribute_names();
    if (!names || names->size() != before.size()) return true;
    return !std::ranges::all_of(*names, [&](const std::string& name) {
      const auto found = before.find(name);
      return found != before.end() && node.attribute(name).value_or("") == found->second;
    });
  }

  const std::shared_ptr<Tree> tree_;
  const Layer* const image_;
  const std::vector<NodeRef>& covered_;
  const std::shared_ptr<TreeNode> root_;
  std::vector<Level> levels_;
  std::string path_;
  std::vector<ChangedPath> changes_;
  std::vector<std::byte> buffer_;
  size_t bytes_ = 0;
  uint64_t entries_ = 0;
};

std::shared_ptr<TreeNode> tree_node_of(const NodeRef& node) {
  return std::dynamic_pointer_cast<TreeNode>(node);
}

// -- the tree as an image ---------------------------------------------------------------------------------------------

class NodeContents final : public LayerContents {
 public:
  NodeContents(NodeRef node, std::string path) : node_(std::move(node)), path_(std::move(path)) {}
  [[nodiscard]] Result<size_t> read(uint64_t offset, std::span<std::byte> to) const override {
    const auto got = node_->read(offset, to);
    if (!got) return fail(ErrorCode::kUnavailable, path_ + ": " + std::strerror(got.error()));
    return *got;
  }

 private:
  const NodeRef node_;
  const std::string path_;
};

class Copying {
 public:
  Copying(std::shared_ptr<TreeNode> root, const std::vector<NodeRef>& covered)
      : tree_(root->tree()), image_(tree_->options().image), covered_(covered), root_(std::move(root)) {}

  Result<LayerTree> run() {
    MEMBRANE_TRY(layers_.put("", item_of("/", root_)));
    MEMBRANE_TRY(enter(root_));
    while (!levels_.empty()) {
      Level& level = levels_.back();
      path_.resize(level.path_bytes);
      if (level.next == level.names.size()) {
        levels_.pop_back();
        continue;
      }
      const std::string name = std::move(level.names[level.next++]);
      path_ += '/';
      path_ += name;
      const auto found = level.node->look_up(name);
      const auto node = found ? tree_node_of(*found) : nullptr;
      if (node == nullptr) return damaged();
      MEMBRANE_TRY(put(node));
    }
    return std::move(layers_);
  }

 private:
  struct Level {
    std::shared_ptr<TreeNode> node;
    std::vector<std::string> names;
    size_t next = 0, path_bytes = 0;
  };

  Status enter(const std::shared_ptr<TreeNode>& node) {
    std::vector<std::string> names;
    const uint64_t most = (image_ ? image_->entry_count() : 0) + tree_->account()->used_bytes();
    const auto done = node->list(0, [&](const DirectoryEntry& entry) {
      names.emplace_back(entry.name);
      return names.size() <= most;
    });
    if (!done || names.size() > most) return damaged();
    std::ranges::sort(names);
    levels_.push_back({node, std::move(names), 0, path_.size()});
    return {};
  }

  Status put(const std::shared_ptr<TreeNode>& node) {
    const Attributes facts = node->attributes();
    if (S_ISSOCK(facts.mode)) return {};
    if (!node->image_inode() && is_covered(covered_, node->number(), tree_)) return {};
    if (path_.size() >= 4096)
      return fail(ErrorCode::kTooLong,
                  "a path of the sandbox is too long for an image: " + path_.substr(0, 200));
    if (!S_ISDIR(facts.mode) && facts.links > 1) {
      const auto [first, is_new] = linked_.emplace(node->number(), path_);
      if (!is_new) return layers_.put_link(path_, first->second);
    }
    MEMBRANE_TRY(layers_.put(path_, item_of(path_, node)));
    return S_ISDIR(facts.mode) ? enter(node) : Status();
  }

  LayerItem item_of(const std::string& path, const std::shared_ptr<TreeNode>& node) const {
    const Attributes facts = node->attributes();
    LayerItem item = {.mode = facts.mode,
                      .uid = facts.uid,
                      .gid = facts.gid,
                      .modified = facts.modified,
                      .special = facts.special};
    if (const auto names = node->attribute_names())
      for (const std::string& name : *names)
        item.attributes.emplace(name, node->attribute(name).value_or(""));
    if (S_ISLNK(facts.mode)) item.target = node->target().value_or("");
    if (!S_ISREG(facts.mode)) return item;
    item.size = facts.size;
    if (const auto inode = node->image_inode(); inode && node->has_image_content()) {
      item.holder = image_;
      item.fd = image_->fd();
      item.at = inode->at;
    } else {
      item.contents = std::make_shared<NodeContents>(node, path);
    }
    return item;
  }

  const std::shared_ptr<Tree> tree_;
  const std::shared_ptr<const Layer> image_;
  const std::vector<NodeRef>& covered_;
  const std::shared_ptr<TreeNode> root_;
  std::vector<Level> levels_;
  std::string path_;
  std::unordered_map<uint64_t, std::string> linked_;  // the first path of what has several
  LayerTree layers_;
};

// The public root pointer does not own the node.
std::shared_ptr<TreeNode> root_of(const NodeRef& root) {
  auto* const node = dynamic_cast<TreeNode*>(root.get());
  return node == nullptr ? nullptr : node->tree()->node(node->number());
}

}  // namespace

Result<std::vector<ChangedPath>> changes_of(const NodeRef& root, const std::vector<NodeRef>& covered) {
  const auto node = root_of(root);
  if (node == nullptr) return not_a_tree();
  return Comparison(node, covered).run();
}

Result<LayerTree> layer_tree_of(const NodeRef& root, const std::vector<NodeRef>& covered) {
  const auto node = root_of(root);
  if (node == nullptr) return not_a_tree();
  return Copying(node, covered).run();
}

}  // namespace membrane::linux
