// The nodes of a tree (tree.h), and the tree that they are in. Threads: the kernel's thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "linux/fs/content.h"
#include "linux/fs/tree.h"

namespace membrane::linux {

class Pipe;  // linux/files/pipe.h
class TreeNode;

// Nodes by number. A node of the image has the number of its inode plus one; others follow.
class Tree : public std::enable_shared_from_this<Tree> {
 public:
  explicit Tree(TreeOptions options);

  // nullptr for a node that is damaged in the image.
  std::shared_ptr<TreeNode> node(uint64_t number);
  std::shared_ptr<TreeNode> make(const NewNode& what);  // charged already
  void keep(TreeNode& node);                            // it has changed
  void drop(TreeNode& node);                            // it has lost its last name
  void forget(uint64_t number) { slots_.erase(number); }
  void clear();  // releases nodes that only the tree holds
  // Whether the node differs from the image.
  [[nodiscard]] bool changed_node(uint64_t number) const {
    const auto slot = slots_.find(number);
    return slot != slots_.end() && slot->second.kept != nullptr;
  }

  void clamp_times(timespec latest);  // of changed nodes

  [[nodiscard]] timespec now() const;
  [[nodiscard]] const TreeOptions& options() const { return options_; }
  [[nodiscard]] const std::shared_ptr<Account>& account() const { return account_; }

 private:
  friend class TreeState;  // linux/kept/tree_state.h
  struct Slot {
    std::weak_ptr<TreeNode> node;
    std::shared_ptr<TreeNode> kept;
  };
  TreeOptions options_;
  std::shared_ptr<Account> account_;
  std::unordered_map<uint64_t, Slot> slots_;
  uint64_t next_number_;
};

// The entries of a changed directory. An unchanged one is read from the image.
class Entries {
 public:
  struct Entry {
    std::string name;
    uint64_t number = 0;
    uint8_t type = 0;  // DT_*
  };
  [[nodiscard]] const Entry* find(std::string_view name) const;
  void add(std::string_view name, uint64_t number, uint8_t type);  // not there yet
  // Replaces the entry of that name.
  void replace(std::string_view name, uint64_t number, uint8_t type);
  void remove(std::string_view name);
  [[nodiscard]] size_t size() const { return by_position_.size(); }
  [[nodiscard]] const std::map<int64_t, Entry>& by_position() const { return by_position_; }

 private:
  friend class TreeState;
  std::map<int64_t, Entry> by_position_;  // from 1 on
  std::unordered_map<std::string_view, int64_t> by_name_;
  int64_t next_ = 1;
};

class TreeNode final : public Node {
 public:
  TreeNode(std::shared_ptr<Tree> tree, uint64_t number, const NewNode& what);
  TreeNode(std::shared_ptr<Tree> tree, uint64_t number, const LayerInode& inode);
  ~TreeNode() override;

  Attributes attributes() override;
  FileSystemRoom room() override;
  Done change(const AttributeChange& change) override;
  Try<NodeRef> look_up(std::string_view name) override;
  Try<NodeRef> create(std::string_view name, const NewNode& what) override;
  Done link(std::string_view name, const NodeRef& target) override;
  Done unlink(std::string_view name) override;
  Done remove_directory(std::string_view name) override;
  Done rename(std::string_view name, Node& to, std::string_view new_name, unsigned flags) override;
  Try<NodeRef> create_nameless(const NewNode& what) override;
  Done list(int64_t position, const std::function<bool(const DirectoryEntry&)>& add) override;
  NodeRef parent() override;
  Try<size_t> read(uint64_t offset, std::span<std::byte> to) override;
  Try<size_t> write(uint64_t offset, std::span<const std::byte> from) override;
  Done resize(uint64_t size) override;
  Done allocate(int mode, uint64_t offset, uint64_t length) override;
  Try<uint64_t> seek_data(uint64_t offset, bool hole) override;
  Try<Backing> mapping(uint64_t offset, uint64_t length, bool is_shared) override;
  Try<std::string> target() override;
  Try<std::string> attribute(std::string_view name) override;
  Done set_attribute(std::string_view name, std::string_view value, int flags) override;
  Done remove_attribute(std::string_view name) override;
  Try<std::vector<std::string>> attribute_names() override;
  Try<std::shared_ptr<File>> open(Caller& caller, int flags) override;

  [[nodiscard]] const std::shared_ptr<Tree>& tree() const { return tree_; }
  [[nodiscard]] uint64_t number() const { return number_; }
  [[nodiscard]] std::optional<LayerInode> image_inode() const { return inode(); }  // which it was
  // For a file of the image: whether it still has the image's bytes.
  [[nodiscard]] bool has_image_content() const {
    return is_from_image_ && (content_ == nullptr || content_->is_base());
  }

 private:
  friend class Tree;
  friend class TreeState;
  using Xattrs = std::map<std::string, std::string, std::less<>>;

  [[nodiscard]] bool is_directory() const { return (mode_ & S_IFMT) == S_IFDIR; }
  [[nodiscard]] uint8_t dirent_type() const { return static_cast<uint8_t>((mode_ & S_IFMT) >> 12); }
  [[nodiscard]] std::optional<LayerInode> inode() const;
  Done check_new(std::string_view name);  // checks that an entry may be added
  Entries& entries();                     // to be changed
  Try<std::shared_ptr<TreeNode>> child(std::string_view name);
  [[nodiscard]] bool is_empty();
  void touch(bool is_content);  // sets the times changed and modified
  void add_entry(std::string_view name, TreeNode& node);
  void remove_entry(std::string_view name, TreeNode& node);
  void lose_link(uint64_t links);
  Done check_move(TreeNode& node, TreeNode& to, const std::shared_ptr<TreeNode>& over);
  void exchange(std::string_view name, TreeNode& node, TreeNode& to, std::string_view new_name,
                TreeNode& other);
  Try<Content*> content();
  Xattrs& xattrs();

  std::shared_ptr<Tree> tree_;
  uint64_t number_, parent_ = 0, special_ = 0;
  uint32_t mode_, uid_, gid_, links_ = 1;
  bool is_from_image_, is_nameless_ = false;
  NodeRef copy_of_;  // NewNode::copy_of
  uint64_t charged_bytes_ = 0, charged_nodes_ = 0;
  timespec accessed_ = {}, modified_ = {}, changed_ = {}, created_ = {};
  std::string target_;
  std::weak_ptr<Pipe> pipe_;  // for an open FIFO
  std::unique_ptr<Content> content_;
  std::unique_ptr<Entries> entries_;
  std::unique_ptr<Xattrs> xattrs_;
};

}  // namespace membrane::linux
