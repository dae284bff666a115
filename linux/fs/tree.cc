#include "linux/fs/tree.h"

#include "linux/fs/tree_node.h"

namespace membrane::linux {

Tree::Tree(TreeOptions options)
    : options_(std::move(options)),
      account_(std::make_shared<Account>(options_.most_bytes, options_.most_nodes)),
      next_number_((options_.image ? options_.image->inode_count() : 0) + uint64_t{1}) {}

timespec Tree::now() const {
  if (options_.now) return options_.now();
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return now;
}

void Tree::clamp_times(timespec latest) {
  const auto clamp = [&latest](timespec& time) {
    if (time.tv_sec > latest.tv_sec || (time.tv_sec == latest.tv_sec && time.tv_nsec > latest.tv_nsec))
      time = latest;
  };
  for (const auto& [number, slot] : slots_) {
    if (!slot.kept) continue;
    TreeNode& node = *slot.kept;
    for (timespec* const each : {&node.accessed_, &node.modified_, &node.changed_, &node.created_})
      clamp(*each);
  }
}

std::shared_ptr<TreeNode> Tree::node(uint64_t number) {
  const auto slot = slots_.find(number);
  if (slot != slots_.end())
    if (auto there = slot->second.node.lock()) return there;
  if (!options_.image || number == 0 || number > options_.image->inode_count()) return nullptr;
  const auto inode = options_.image->inode(static_cast<uint32_t>(number - 1));
  if (!inode) return nullptr;
  auto made = std::make_shared<TreeNode>(shared_from_this(), number, *inode);
  slots_[number].node = made;
  return made;
}

std::shared_ptr<TreeNode> Tree::make(const NewNode& what) {
  const uint64_t number = next_number_++;
  auto made = std::make_shared<TreeNode>(shared_from_this(), number, what);
  slots_[number].node = made;
  return made;
}

void Tree::keep(TreeNode& node) {
  if (node.links_ == 0) return;
  Slot& slot = slots_[node.number()];
  if (!slot.kept) slot.kept = std::static_pointer_cast<TreeNode>(node.shared_from_this());
}

void Tree::drop(TreeNode& node) {
  const auto slot = slots_.find(node.number());
  if (slot == slots_.end()) return;
  const auto gone = std::move(slot->second.kept);  // its destructor removes the slot
  slot->second.kept = nullptr;
}

void Tree::clear() {
  std::vector<std::shared_ptr<TreeNode>> kept;
  for (auto& [number, slot] : slots_)
    if (slot.kept) kept.push_back(std::move(slot.kept));
  options_.image = nullptr;  // no more look-ups
}

const Entries::Entry* Entries::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &by_position_.at(found->second);
}

void Entries::add(std::string_view name, uint64_t number, uint8_t type) {
  const int64_t position = next_++;
  const auto [at, added] = by_position_.emplace(position, Entry{std::string(name), number, type});
  by_name_.emplace(at->second.name, position);
}

void Entries::replace(std::string_view name, uint64_t number, uint8_t type) {
  Entry& entry = by_position_.at(by_name_.at(name));
  entry.number = number;
  entry.type = type;
}

void Entries::remove(std::string_view name) {
  const auto found = by_name_.find(name);
  const int64_t position = found->second;
  by_name_.erase(found);
  by_position_.erase(position);
}

NodeRef make_tree(TreeOptions options) {
  const bool has_image = options.image != nullptr;
  const uint32_t mode = S_IFDIR | (options.root_mode & 07777);
  const auto tree = std::make_shared<Tree>(std::move(options));
  const auto root = has_image ? tree->node(1) : tree->make({.mode = mode});
  tree->keep(*root);
  // The nodes hold their tree, which holds nodes: the root that is handed out breaks the cycle.
  return {root.get(), [tree, root](Node*) { tree->clear(); }};
}

std::optional<TreeUsage> usage_of(const Node& node) {
  const auto* const there = dynamic_cast<const TreeNode*>(&node);
  if (there == nullptr) return std::nullopt;
  const Account& account = *there->tree()->account();
  return TreeUsage{account.bytes(),      account.used_bytes(), account.nodes(),
                   account.used_nodes(), account.refusals(),   account.heap_bytes()};
}

void clamp_times(const Node& node, timespec latest) {
  if (const auto* const there = dynamic_cast<const TreeNode*>(&node)) there->tree()->clamp_times(latest);
}

}  // namespace membrane::linux
