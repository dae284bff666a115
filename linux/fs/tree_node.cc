#include "linux/fs/tree_node.h"

#include <linux/fs.h>
#include <sys/xattr.h>

#include <algorithm>

#include "linux/files/devices.h"
#include "linux/files/pipe.h"

namespace membrane::linux {
namespace {

// What the heap holds: for a name of a directory or of an attribute, besides the name; and for a node.
constexpr uint64_t kEntryBytes = 224, kNodeBytes = sizeof(TreeNode) + sizeof(Entries) + 96;
constexpr uint32_t kMostHardLinks = 65000;
constexpr size_t kMostAttributeBytes = 65536;  // for a node, and for a value

uint64_t cost_of(std::string_view name) { return kEntryBytes + name.size(); }

}  // namespace

TreeNode::TreeNode(std::shared_ptr<Tree> tree, uint64_t number, const NewNode& what)
    : tree_(std::move(tree)),
      number_(number),
      special_(what.special),
      mode_(what.mode),
      uid_(what.uid),
      gid_(what.gid),
      is_from_image_(false),
      target_(what.target) {
  accessed_ = modified_ = changed_ = created_ = tree_->now();
  if (is_directory()) {
    parent_ = number;
    links_ = 2;
    entries_ = std::make_unique<Entries>();
  }
}

TreeNode::TreeNode(std::shared_ptr<Tree> tree, uint64_t number, const LayerInode& inode)
    : tree_(std::move(tree)),
      number_(number),
      parent_(uint64_t{inode.parent} + 1),
      special_(inode.at),
      mode_(inode.mode),
      uid_(inode.uid),
      gid_(inode.gid),
      links_(std::max(inode.links, 1u)),
      is_from_image_(true) {
  accessed_ = modified_ = changed_ =
      created_ = {inode.modified_s, std::min<int64_t>(inode.modified_ns, 999'999'999)};
}

TreeNode::~TreeNode() {
  tree_->forget(number_);
  tree_->account()->give(charged_bytes_, charged_nodes_);
}

std::optional<LayerInode> TreeNode::inode() const {
  const auto& image = tree_->options().image;
  return is_from_image_ && image ? image->inode(static_cast<uint32_t>(number_ - 1)) : std::nullopt;
}

FileSystemRoom TreeNode::room() {
  const Account& account = *tree_->account();
  return {account.bytes(), account.bytes() - account.used_bytes(), account.nodes(),
          account.nodes() - account.used_nodes()};
}

Attributes TreeNode::attributes() {
  Attributes facts{.device = tree_->options().device,
                   .number = number_,
                   .mode = mode_,
                   .links = links_,
                   .uid = uid_,
                   .gid = gid_,
                   .accessed = accessed_,
                   .modified = modified_,
                   .changed = changed_,
                   .created = created_};
  switch (mode_ & S_IFMT) {
    case S_IFDIR: facts.size = kPageBytes; break;
    case S_IFCHR:
    case S_IFBLK: facts.special = special_; break;
    case S_IFREG:
      if (content_) {
        facts.size = content_->size();
        facts.blocks = content_->allocated() / 512;
      } else if (const auto from = inode()) {
        facts.size = from->size;
        facts.blocks = (from->size + kPageBytes - 1) / kPageBytes * (kPageBytes / 512);
      }
      break;
    case S_IFLNK:
      if (const auto from = inode()) facts.size = from->size;
      else facts.size = target_.size();
      break;
    default: break;
  }
  if (copy_of_ == nullptr) return facts;
  Attributes shown = copy_of_->attributes();
  shown.size = facts.size;
  shown.blocks = facts.blocks;
  return shown;
}

void TreeNode::touch(bool is_content) {
  changed_ = tree_->now();
  if (is_content) modified_ = changed_;
  tree_->keep(*this);
}

Done TreeNode::change(const AttributeChange& change) {
  if (copy_of_ != nullptr) return copy_of_->change(change);
  if (change.mode) mode_ = (mode_ & S_IFMT) | (*change.mode & 07777);
  if (change.uid) uid_ = *change.uid;
  if (change.gid) gid_ = *change.gid;
  touch(false);
  if (change.accessed) accessed_ = *change.accessed;
  if (change.modified) modified_ = *change.modified;
  return {};
}

// -- directories

Entries& TreeNode::entries() {
  if (entries_) return *entries_;
  entries_ = std::make_unique<Entries>();
  if (const auto from = inode()) {
    const Layer& image = *tree_->options().image;
    for (uint64_t index = 0;; ++index) {
      const auto each = image.child(*from, index);
      if (!each) break;
      const auto child = image.inode(each->inode);
      if (child && entries_->find(each->name) == nullptr)
        entries_->add(each->name, uint64_t{each->inode} + 1,
                      static_cast<uint8_t>((child->mode & S_IFMT) >> 12));
    }
  }
  tree_->keep(*this);
  return *entries_;
}

Try<std::shared_ptr<TreeNode>> TreeNode::child(std::string_view name) {
  if (!is_directory()) return err(ENOTDIR);
  uint64_t number = 0;
  if (entries_) {
    const Entries::Entry* const entry = entries_->find(name);
    if (entry == nullptr) return err(ENOENT);
    number = entry->number;
  } else {
    const auto from = inode();
    const auto found = from ? tree_->options().image->find(*from, name) : std::nullopt;
    if (!found) return err(ENOENT);
    number = uint64_t{*found} + 1;
  }
  auto node = tree_->node(number);
  // A directory of a damaged image could be its own ancestor.
  if (!node || number == number_ || (node->is_directory() && node->parent_ != number_)) return err(EIO);
  if (node->is_directory() && node->is_from_image_ && is_from_image_ && !entries_ && node->number_ <= number_)
    return err(EIO);
  return node;
}

Try<NodeRef> TreeNode::look_up(std::string_view name) { return child(name); }

NodeRef TreeNode::parent() {
  if (!is_directory() || links_ == 0) return nullptr;
  return parent_ == number_ ? shared_from_this() : NodeRef(tree_->node(parent_));
}

bool TreeNode::is_empty() {
  if (entries_) return entries_->size() == 0;
  const auto from = inode();
  return !from || from->size == 0;
}

Done TreeNode::check_new(std::string_view name) {
  if (!is_directory()) return err(ENOTDIR);
  if (name.empty() || name == "." || name == "..") return err(EEXIST);
  if (name.size() > 255) return err(ENAMETOOLONG);
  if (links_ == 0) return err(ENOENT);
  const auto there = child(name);
  if (there) return err(EEXIST);
  return there.error() == ENOENT ? Done() : err(there.error());
}

void TreeNode::add_entry(std::string_view name, TreeNode& node) {
  entries().add(name, node.number_, node.dirent_type());
  charged_bytes_ += cost_of(name);
  if (node.is_directory()) {
    node.parent_ = number_;
    ++links_;
  }
  touch(true);
}

void TreeNode::remove_entry(std::string_view name, TreeNode& node) {
  entries().remove(name);
  const uint64_t cost = std::min(cost_of(name), charged_bytes_);  // names from the image were never charged
  charged_bytes_ -= cost;
  tree_->account()->give(cost);
  if (node.is_directory()) --links_;
  touch(true);
}

void TreeNode::lose_link(uint64_t links) {
  links_ = links_ > links ? links_ - static_cast<uint32_t>(links) : 0;
  changed_ = tree_->now();
  if (links_ == 0) tree_->drop(*this);
  else tree_->keep(*this);
}

Try<NodeRef> TreeNode::create(std::string_view name, const NewNode& what) {
  MEMBRANE_TRY(check_new(name));
  MEMBRANE_TRY(tree_->account()->take(cost_of(name) + kNodeBytes + what.target.size(), 1));
  NewNode with = what;
  if ((mode_ & S_ISGID) != 0) {
    with.gid = gid_;
    if ((what.mode & S_IFMT) == S_IFDIR) with.mode |= S_ISGID;
  }
  const auto made = tree_->make(with);
  made->charged_bytes_ = kNodeBytes + what.target.size();
  made->charged_nodes_ = 1;
  add_entry(name, *made);
  tree_->keep(*made);
  return made;
}

Try<NodeRef> TreeNode::create_nameless(const NewNode& what) {
  if (!is_directory()) return err(ENOTDIR);
  MEMBRANE_TRY(tree_->account()->take(kNodeBytes, 1));
  const auto made = tree_->make(what);
  made->charged_bytes_ = kNodeBytes;
  made->charged_nodes_ = 1;
  made->links_ = 0;
  made->is_nameless_ = true;
  made->copy_of_ = what.copy_of;
  return made;
}

Done TreeNode::link(std::string_view name, const NodeRef& target) {
  auto* const node = dynamic_cast<TreeNode*>(target.get());
  if (node == nullptr || node->tree_ != tree_) return err(EXDEV);
  if (node->is_directory()) return err(EPERM);
  MEMBRANE_TRY(check_new(name));
  if (node->links_ == 0 && !node->is_nameless_) return err(ENOENT);
  if (node->links_ >= kMostHardLinks) return err(EMLINK);
  MEMBRANE_TRY(tree_->account()->take(cost_of(name)));
  ++node->links_;
  node->is_nameless_ = false;
  node->touch(false);
  add_entry(name, *node);
  return {};
}

Done TreeNode::unlink(std::string_view name) {
  MEMBRANE_ASSIGN(const auto node, child(name));
  if (node->is_directory()) return err(EISDIR);
  remove_entry(name, *node);
  node->lose_link(1);
  return {};
}

Done TreeNode::remove_directory(std::string_view name) {
  MEMBRANE_ASSIGN(const auto node, child(name));
  if (!node->is_directory()) return err(ENOTDIR);
  if (!node->is_empty()) return err(ENOTEMPTY);
  node->entries();  // so that the image's entries do not reappear
  remove_entry(name, *node);
  node->lose_link(node->links_);
  return {};
}

Done TreeNode::check_move(TreeNode& node, TreeNode& to, const std::shared_ptr<TreeNode>& over) {
  if (to.links_ == 0) return err(ENOENT);
  if (node.is_directory()) {
    for (std::shared_ptr<TreeNode> at = std::static_pointer_cast<TreeNode>(to.shared_from_this());;) {
      if (at.get() == &node) return err(EINVAL);
      if (at->parent_ == at->number_) break;
      at = tree_->node(at->parent_);
      if (!at) return err(EIO);
    }
    if (over && !over->is_directory()) return err(ENOTDIR);
    if (over && !over->is_empty()) return err(ENOTEMPTY);
  } else if (over && over->is_directory()) {
    return err(EISDIR);
  }
  return {};
}

void TreeNode::exchange(std::string_view name, TreeNode& node, TreeNode& to, std::string_view new_name,
                        TreeNode& other) {
  entries().replace(name, other.number_, other.dirent_type());
  to.entries().replace(new_name, node.number_, node.dirent_type());
  if (node.is_directory()) {
    node.parent_ = to.number_;
    --links_;
    ++to.links_;
  }
  if (other.is_directory()) {
    other.parent_ = number_;
    --to.links_;
    ++links_;
  }
  touch(true);
  to.touch(true);
  node.touch(false);
  other.touch(false);
}

Done TreeNode::rename(std::string_view name, Node& to_node, std::string_view new_name, unsigned flags) {
  auto* const to = dynamic_cast<TreeNode*>(&to_node);
  if (to == nullptr || to->tree_ != tree_) return err(EXDEV);
  if ((flags & ~unsigned{RENAME_NOREPLACE | RENAME_EXCHANGE}) != 0 ||
      flags == (RENAME_NOREPLACE | RENAME_EXCHANGE))
    return err(EINVAL);
  MEMBRANE_ASSIGN(const auto node, child(name));
  if (new_name.size() > 255) return err(ENAMETOOLONG);
  const auto found = to->child(new_name);
  if (!found && found.error() != ENOENT) return err(found.error());
  const auto over = found ? *found : nullptr;
  if (over && (flags & RENAME_NOREPLACE) != 0) return err(EEXIST);
  if ((flags & RENAME_EXCHANGE) != 0) {
    if (!over) return err(ENOENT);
    MEMBRANE_TRY(check_move(*node, *to, nullptr));
    MEMBRANE_TRY(to->check_move(*over, *this, nullptr));
    if (over != node) exchange(name, *node, *to, new_name, *over);
    return {};
  }
  if (over == node) return {};
  MEMBRANE_TRY(check_move(*node, *to, over));
  MEMBRANE_TRY(tree_->account()->take(cost_of(new_name)));
  if (over) {
    if (over->is_directory()) over->entries();
    to->remove_entry(new_name, *over);
    over->lose_link(over->is_directory() ? over->links_ : 1);
  }
  remove_entry(name, *node);
  to->add_entry(new_name, *node);
  node->touch(false);
  return {};
}

Done TreeNode::list(int64_t position, const std::function<bool(const DirectoryEntry&)>& add) {
  if (!is_directory()) return err(ENOTDIR);
  if (entries_) {
    for (auto at = entries_->by_position().upper_bound(position); at != entries_->by_position().end(); ++at)
      if (!add({at->second.name, at->second.number, at->second.type, at->first})) break;
    return {};
  }
  const auto from = inode();
  if (!from || position < 0) return {};
  const Layer& image = *tree_->options().image;
  for (auto index = static_cast<uint64_t>(position);; ++index) {
    const auto each = image.child(*from, index);
    if (!each) return {};
    const auto inode = image.inode(each->inode);
    const auto type = static_cast<uint8_t>(inode ? (inode->mode & S_IFMT) >> 12 : 0);
    if (!add({each->name, uint64_t{each->inode} + 1, type, static_cast<int64_t>(index) + 1})) return {};
  }
}

// -- regular files

Try<Content*> TreeNode::content() {
  if (content_) return content_.get();
  if (is_directory()) return err(EISDIR);
  if ((mode_ & S_IFMT) != S_IFREG) return err(EINVAL);
  if (const auto from = inode()) {
    const auto bytes = tree_->options().image->content(*from);
    if (!bytes) return err(EIO);
    content_ = std::make_unique<Content>(tree_->account(), tree_->options().image, *bytes, from->at);
  } else {
    content_ = std::make_unique<Content>(tree_->account());
  }
  return content_.get();
}

Try<size_t> TreeNode::read(uint64_t offset, std::span<std::byte> to) {
  MEMBRANE_ASSIGN(Content * bytes, content());
  return bytes->read(offset, to);
}

Try<size_t> TreeNode::write(uint64_t offset, std::span<const std::byte> from) {
  MEMBRANE_ASSIGN(Content * bytes, content());
  auto wrote = bytes->write(offset, from);
  if (wrote && *wrote > 0) touch(true);
  return wrote;
}

Done TreeNode::resize(uint64_t size) {
  MEMBRANE_ASSIGN(Content * bytes, content());
  MEMBRANE_TRY(bytes->resize(size));
  touch(true);
  return {};
}

Done TreeNode::allocate(int mode, uint64_t offset, uint64_t length) {
  MEMBRANE_ASSIGN(Content * bytes, content());
  tree_->keep(*this);
  MEMBRANE_TRY(bytes->allocate(mode, offset, length));
  touch(true);
  return {};
}

Try<uint64_t> TreeNode::seek_data(uint64_t offset, bool hole) {
  MEMBRANE_ASSIGN(Content * bytes, content());
  return bytes->seek_data(offset, hole);
}

Try<Backing> TreeNode::mapping(uint64_t offset, uint64_t /*length*/, bool is_shared) {
  if ((mode_ & S_IFMT) != S_IFREG) return err(ENODEV);
  MEMBRANE_ASSIGN(Content * bytes, content());
  auto backing = bytes->mapping(offset, is_shared);
  if (!bytes->is_base()) tree_->keep(*this);
  return backing;
}

// -- links, attributes, special files

Try<std::string> TreeNode::target() {
  if ((mode_ & S_IFMT) != S_IFLNK) return err(EINVAL);
  const auto from = inode();
  if (!from) return target_;
  const auto in_image = tree_->options().image->target(*from);
  if (!in_image) return err(EIO);
  return std::string(*in_image);
}

TreeNode::Xattrs& TreeNode::xattrs() {
  if (xattrs_) return *xattrs_;
  xattrs_ = std::make_unique<Xattrs>();
  if (const auto from = inode())
    for (const auto& [name, value] : tree_->options().image->attributes(*from)) xattrs_->emplace(name, value);
  return *xattrs_;
}

Try<std::string> TreeNode::attribute(std::string_view name) {
  const auto found = xattrs().find(name);
  if (found == xattrs().end()) return err(ENODATA);
  return found->second;
}

Done TreeNode::set_attribute(std::string_view name, std::string_view value, int flags) {
  const bool is_plain = is_directory() || (mode_ & S_IFMT) == S_IFREG;
  if (name.starts_with("user.")) {
    if (!is_plain) return err(EPERM);
  } else if (!name.starts_with("security.") && !name.starts_with("trusted.")) {
    return err(EOPNOTSUPP);
  }
  if (name.size() > 255) return err(ERANGE);
  if (value.size() > kMostAttributeBytes) return err(E2BIG);
  const auto found = xattrs().find(name);
  const bool is_there = found != xattrs().end();
  if (is_there && (flags & XATTR_CREATE) != 0) return err(EEXIST);
  if (!is_there && (flags & XATTR_REPLACE) != 0) return err(ENODATA);
  uint64_t name_bytes = is_there ? 0 : name.size() + 1;
  for (const auto& [each, its_value] : xattrs()) name_bytes += each.size() + 1;
  if (name_bytes > kMostAttributeBytes) return err(ENOSPC);
  // The charge of what is replaced is returned; what came from the image was never charged.
  const uint64_t cost = kEntryBytes + name.size() + value.size();
  MEMBRANE_TRY(tree_->account()->take(cost));
  charged_bytes_ += cost;
  if (is_there) MEMBRANE_TRY(remove_attribute(name));
  xattrs().emplace(name, value);
  touch(false);
  return {};
}

Done TreeNode::remove_attribute(std::string_view name) {
  const auto found = xattrs().find(name);
  if (found == xattrs().end()) return err(ENODATA);
  const uint64_t cost = std::min(kEntryBytes + name.size() + found->second.size(), charged_bytes_);
  charged_bytes_ -= cost;
  tree_->account()->give(cost);
  xattrs_->erase(found);
  touch(false);
  return {};
}

Try<std::vector<std::string>> TreeNode::attribute_names() {
  std::vector<std::string> names;
  for (const auto& [name, value] : xattrs()) names.push_back(name);
  return names;
}

Try<std::shared_ptr<File>> TreeNode::open(Caller& caller, int flags) {
  switch (mode_ & S_IFMT) {
    case S_IFIFO: return open_fifo(pipe_, shared_from_this(), flags);
    case S_IFCHR: {
      const auto& devices = tree_->options().devices;
      if (!devices) return err(ENXIO);
      return devices->open(special_, caller, shared_from_this(), flags);
    }
    case S_IFBLK:
    case S_IFSOCK: return err(ENXIO);
    default: return std::shared_ptr<File>();
  }
}

}  // namespace membrane::linux
