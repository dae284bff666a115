#include "linux/kept/tree_state.h"

#include <unistd.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace membrane::linux {
namespace {

constexpr uint64_t kMostPageNumber = kMostFileBytes / kPageBytes;
constexpr uint64_t kHoleBytes = 64;  // as content.cc charges it
constexpr uint64_t kLastNumber = uint64_t{1} << 62;
constexpr size_t kMostAttribute = 65536;

constexpr uint64_t pages_of(uint64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes; }

bool is_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte each) { return each == std::byte{}; });
}

// Runs of numbers, with the position of their pages in the file.
struct Run {
  uint64_t first = 0, pages = 0, at = 0;
};
class Runs {
 public:
  void add(uint64_t page, uint64_t at) {
    if (!all.empty() && all.back().first + all.back().pages == page &&
        (at == 0 || all.back().at + all.back().pages * kPageBytes == at))
      ++all.back().pages;
    else all.push_back({page, 1, at});
  }
  std::vector<Run> all;
};

}  // namespace

// -- contents

// The pages of a content that differ from the image, one after another.
class ContentPages {
 public:
  ContentPages(Content& content, std::span<const std::byte> image, PageWriter& pages)
      : content_(content), image_(image), pages_(pages) {}

  void write() {
    if (content_.file_ >= 0) write_file();
    else write_pages();
  }
  Runs data, holes;

 private:
  void add(uint64_t page, std::span<const std::byte> bytes) {
    data.add(page, pages_.end());
    pages_.add(bytes);
  }

  // Kept pages that have not changed since, and the changed ones.
  void write_pages() {
    auto run = content_.kept_.begin();
    auto own = content_.pages_.begin();
    uint64_t page = 0;
    const uint64_t end = pages_of(content_.size_);
    for (;;) {
      while (run != content_.kept_.end() && run->first + run->second.pages <= page) ++run;
      const uint64_t next_kept = run == content_.kept_.end() ? end : std::max(run->first, page);
      const uint64_t next_own = own == content_.pages_.end() ? end : own->first;
      page = std::min(next_kept, next_own);
      if (page >= end) return;
      if (next_own <= next_kept) {
        if (own->second) add(page, *own->second);
        else if (page < pages_of(content_.base_size_)) holes.add(page, 0);
        ++own;
      } else if (const auto bytes = content_.base_page(page); !bytes.empty()) {
        add(page, bytes);
      }
      ++page;
    }
  }

  [[nodiscard]] bool is_as_in_image(uint64_t page, std::span<const std::byte> bytes) const {
    const uint64_t begin = page * kPageBytes, end = std::min<uint64_t>(image_.size(), content_.size_);
    if (begin >= end) return false;
    const uint64_t there = std::min(kPageBytes, end - begin);
    return std::ranges::equal(bytes.first(there), image_.subspan(begin, there)) &&
           is_zero(bytes.subspan(there));
  }

  // For a memfd: its data, except what is the same in the image.
  void write_file() {
    constexpr uint64_t kPiece = 64;
    std::vector<std::byte> piece(kPiece * kPageBytes);
    const uint64_t end = pages_of(content_.size_),
                   image_end = pages_of(std::min<uint64_t>(image_.size(), content_.size_));
    uint64_t page = 0;
    const auto skip_to = [&](uint64_t next) {
      for (; page < std::min(next, image_end); ++page) holes.add(page, 0);
      page = std::max(page, next);
    };
    while (page < end) {
      const off_t at = lseek(content_.file_, static_cast<off_t>(page * kPageBytes), SEEK_DATA);
      if (at < 0) return skip_to(end);
      skip_to(static_cast<uint64_t>(at) / kPageBytes);
      const off_t hole = lseek(content_.file_, at, SEEK_HOLE);
      const uint64_t data_end = hole < 0 ? end : std::min(end, pages_of(static_cast<uint64_t>(hole)));
      while (page < data_end) {
        const uint64_t count = std::min(kPiece, data_end - page);
        const auto room = std::span(piece).first(count * kPageBytes);
        const ssize_t got =
            pread(content_.file_, room.data(), room.size(), static_cast<off_t>(page * kPageBytes));
        std::ranges::fill(room.subspan(got < 0 ? 0 : static_cast<size_t>(got)), std::byte{});
        for (uint64_t i = 0; i < count; ++i, ++page) {
          const auto bytes = room.subspan(i * kPageBytes, kPageBytes);
          if (!is_as_in_image(page, bytes)) add(page, bytes);
        }
      }
    }
  }

  Content& content_;
  const std::span<const std::byte> image_;
  PageWriter& pages_;
};

void ContentState::write(Content& content, std::span<const std::byte> image, StateWriter& state,
                         PageWriter& pages) {
  ContentPages changed(content, image, pages);
  changed.write();
  state(content.size_);
  state(content.file_ < 0 ? content.base_size_ : std::min<uint64_t>(image.size(), content.size_));
  for (const Runs* const runs : {&changed.data, &changed.holes}) {
    state(static_cast<uint32_t>(runs->all.size()));
    for (const Run& run : runs->all) {
      state(run.first);
      state(run.pages);
      if (runs == &changed.data) state(run.at);
    }
  }
}

Done ContentState::read(Content& content, StateReader& state, const std::shared_ptr<const PageFile>& file) {
  const auto size = state.get<uint64_t>(), base_size = state.get<uint64_t>();
  state.require(size <= kMostFileBytes && base_size <= std::min<uint64_t>(size, content.base_.size()));
  Content::KeptRuns kept;
  std::vector<Run> holes;
  uint64_t charge = 0, data_end = 0, hole_end = 0;
  for (size_t left = state.count(24); left > 0; --left) {
    const auto first = state.get<uint64_t>(), count = state.get<uint64_t>(), at = state.get<uint64_t>();
    const uint64_t most = file ? file->bytes().size() / kPageBytes : 0;
    state.require(first >= data_end && first < kMostPageNumber && count > 0 && count <= most &&
                  at % kPageBytes == 0 && at / kPageBytes <= most - count && first + count <= pages_of(size));
    if (!state.is_good()) return err(EINVAL);
    data_end = first + count;
    charge += count * kPageBytes;
    kept.emplace(first, Content::KeptRun{count, at});
  }
  for (size_t left = state.count(16); left > 0; --left) {
    const auto first = state.get<uint64_t>(), count = state.get<uint64_t>();
    // Holes are recorded only over what the image has.
    state.require(first >= hole_end && count > 0 && count <= pages_of(base_size) &&
                  first <= pages_of(base_size) - count);
    if (!state.is_good()) return err(EINVAL);
    hole_end = first + count;
    charge += count * kHoleBytes;
    holes.push_back({first, count, 0});
  }
  MEMBRANE_TRY(content.account_->take(charge));
  content.charged_ = charge;
  for (const Run& run : holes)
    for (uint64_t page = run.first; page < run.first + run.pages; ++page)
      content.pages_.emplace(page, nullptr);
  // A page is recorded once: where there is a hole, there are no bytes.
  for (const auto& [first, run] : kept) {
    const auto hole = content.pages_.lower_bound(first);
    if (hole != content.pages_.end() && hole->first < first + run.pages) {
      state.refuse();
      return err(EINVAL);
    }
  }
  content.size_ = size;
  content.base_size_ = base_size;
  content.kept_end_ = kept.empty() ? 0 : size;
  content.kept_file_ = kept.empty() ? nullptr : file;
  content.kept_ = std::move(kept);
  return {};
}

// -- nodes

Tree* TreeState::tree_of(Node* node) {
  auto* const there = dynamic_cast<TreeNode*>(node);
  return there == nullptr ? nullptr : there->tree_.get();
}

std::weak_ptr<Pipe>* TreeState::pipe_of(Node& node) {
  auto* const there = dynamic_cast<TreeNode*>(&node);
  return there == nullptr || (there->mode_ & S_IFMT) != S_IFIFO ? nullptr : &there->pipe_;
}

template <typename State>
void TreeState::transfer_facts(State& state, TreeNode& node) {
  state(node.parent_);
  state(node.special_);
  state(node.mode_);
  state(node.uid_);
  state(node.gid_);
  state(node.links_);
  state(node.is_from_image_);
  state(node.is_nameless_);
  state(node.accessed_);
  state(node.modified_);
  state(node.changed_);
  state(node.created_);
  state(node.target_);
}

void TreeState::write_node(TreeNode& node, StateWriter& state, PageWriter& pages) {
  state(node.number_);
  transfer_facts(state, node);
  state(node.charged_bytes_);
  state(node.charged_nodes_);
  const bool has_entries = node.entries_ != nullptr;
  state(has_entries);
  if (has_entries) {
    state(node.entries_->next_);
    state(static_cast<uint32_t>(node.entries_->by_position_.size()));
    for (const auto& [position, entry] : node.entries_->by_position_) {
      state(position);
      state(entry.number);
      state(entry.type);
      state(entry.name);
    }
  }
  const bool has_attributes = node.xattrs_ != nullptr;
  state(has_attributes);
  if (has_attributes) {
    state(static_cast<uint32_t>(node.xattrs_->size()));
    for (const auto& [name, value] : *node.xattrs_) {
      state(name);
      state(value);
    }
  }
  const bool has_content = node.content_ != nullptr && !node.content_->is_base();
  state(has_content);
  if (!has_content) return;
  std::span<const std::byte> image;
  if (const auto inode = node.inode())
    image = node.tree_->options().image->content(*inode).value_or(std::span<const std::byte>());
  ContentState::write(*node.content_, image, state, pages);
}

void TreeState::write(Tree& tree, bool with_nameless, StateWriter& state, PageWriter& pages) {
  std::vector<std::shared_ptr<TreeNode>> nodes;
  for (const auto& [number, slot] : tree.slots_) {
    auto node = slot.kept ? slot.kept : slot.node.lock();
    if (node && (slot.kept || (with_nameless && node->links_ == 0))) nodes.push_back(std::move(node));
  }
  std::ranges::sort(nodes, {}, [](const auto& node) { return node->number_; });
  state(tree.next_number_);
  state(static_cast<uint32_t>(nodes.size()));
  for (const auto& node : nodes) write_node(*node, state, pages);
}

void TreeState::read_entries(TreeNode& node, StateReader& state) {
  node.entries_ = std::make_unique<Entries>();
  Entries& entries = *node.entries_;
  const auto next = state.get<int64_t>();
  state.require(next >= 1);
  int64_t last = 0;
  for (size_t left = state.count(8 + 8 + 1 + 4); left > 0; --left) {
    const auto position = state.get<int64_t>();
    const auto number = state.get<uint64_t>();
    const auto type = state.get<uint8_t>();
    const auto name = state.get<std::string>();
    state.require(position > last && position < next && number != 0 && type <= 15 && !name.empty() &&
                  name.size() <= 255 && name != "." && name != ".." && name.find('/') == name.npos &&
                  name.find('\0') == name.npos && entries.find(name) == nullptr);
    if (!state.is_good()) return;
    last = entries.next_ = position;
    entries.add(name, number, type);
  }
  entries.next_ = next;
}

Done TreeState::read_node(TreeNode& node, StateReader& state, const std::shared_ptr<const PageFile>& file) {
  Tree& tree = *node.tree_;
  node.content_.reset();
  node.entries_.reset();
  node.xattrs_.reset();
  transfer_facts(state, node);
  const uint32_t type = node.mode_ & S_IFMT;
  constexpr uint32_t kTypes[] = {S_IFREG, S_IFDIR, S_IFLNK, S_IFCHR, S_IFBLK, S_IFIFO, S_IFSOCK};
  const uint64_t inodes = tree.options_.image ? tree.options_.image->inode_count() : 0;
  const auto inode = node.inode();
  state.require(std::ranges::find(kTypes, type) != std::end(kTypes) &&
                (node.mode_ & ~(S_IFMT | 07777)) == 0 && node.is_from_image_ == (node.number_ <= inodes) &&
                (!node.is_from_image_ || (inode && (inode->mode & S_IFMT) == type)));
  const auto bytes = state.get<uint64_t>(), nodes = state.get<uint64_t>();
  if (!state.is_good()) return err(EINVAL);
  MEMBRANE_TRY(tree.account_->take(bytes, nodes));
  node.charged_bytes_ = bytes;
  node.charged_nodes_ = nodes;
  const bool has_entries = state.get<bool>();
  state.require(type == S_IFDIR ? has_entries || node.is_from_image_ : !has_entries);
  if (has_entries && state.is_good()) read_entries(node, state);
  if (state.get<bool>()) {
    node.xattrs_ = std::make_unique<TreeNode::Xattrs>();
    for (size_t left = state.count(8); left > 0; --left) {
      const auto name = state.get<std::string>();
      const auto value = state.get<std::string>();
      state.require(!name.empty() && name.size() <= 255 && value.size() <= kMostAttribute);
      if (state.is_good()) node.xattrs_->emplace(name, value);
    }
  }
  const bool has_content = state.get<bool>();
  state.require(!has_content || type == S_IFREG);
  if (!state.is_good()) return err(EINVAL);
  if (!has_content) return {};
  const auto made = node.content();
  if (!made) {
    state.refuse();
    return err(EINVAL);
  }
  return ContentState::read(**made, state, file);
}

Done TreeState::read(Tree& tree, StateReader& state, const std::shared_ptr<const PageFile>& file,
                     std::vector<NodeRef>& held) {
  const uint64_t inodes = tree.options_.image ? tree.options_.image->inode_count() : 0;
  const auto next = state.get<uint64_t>();
  state.require(next > inodes && next <= kLastNumber);
  // Nodes that no longer exist, or will be read, are not charged any more.
  std::unordered_map<uint64_t, std::shared_ptr<TreeNode>> before;
  for (auto& [number, slot] : tree.slots_)
    if (auto node = slot.kept ? std::exchange(slot.kept, nullptr) : slot.node.lock())
      before[number] = std::move(node);
  for (const auto& [number, node] : before) {
    tree.account_->give(node->charged_bytes_, node->charged_nodes_);
    node->charged_bytes_ = node->charged_nodes_ = 0;
  }
  std::vector<std::shared_ptr<TreeNode>> nodes;
  uint64_t last = 0;
  for (size_t left = state.count(8 + 110); left > 0; --left) {
    const auto number = state.get<uint64_t>();
    state.require(number > last && number < next);
    if (!state.is_good()) return err(EINVAL);
    last = number;
    auto& node = nodes.emplace_back();
    if (const auto there = before.find(number); there != before.end()) node = there->second;
    else node = std::make_shared<TreeNode>(tree.shared_from_this(), number, NewNode{});
    tree.slots_[number].node = node;
    MEMBRANE_TRY(read_node(*node, state, file));
    if (node->links_ == 0) held.push_back(node);
    else tree.slots_[number].kept = node;
  }
  if (!state.is_good()) return err(EINVAL);
  tree.next_number_ = next;
  return check(tree, nodes);
}

// Every directory that was read leads up to the root, which is its own parent; names refer to existing nodes.
Done TreeState::check(Tree& tree, const std::vector<std::shared_ptr<TreeNode>>& nodes) {
  const uint64_t inodes = tree.options_.image ? tree.options_.image->inode_count() : 0;
  std::unordered_map<uint64_t, const TreeNode*> by_number;
  for (const auto& node : nodes) by_number[node->number_] = node.get();
  constexpr uint64_t root = 1;
  const auto* const top = by_number.contains(root) ? by_number[root] : nullptr;
  if (top == nullptr || !top->is_directory() || top->parent_ != root || top->links_ == 0) return err(EINVAL);
  std::unordered_set<uint64_t> leads_up = {root};
  for (const auto& node : nodes) {
    if (node->entries_)
      for (const auto& [position, entry] : node->entries_->by_position_)
        if (entry.number > inodes && !by_number.contains(entry.number)) return err(EINVAL);
    if (!node->is_directory() || node->links_ == 0) continue;
    std::vector<uint64_t> way;
    for (uint64_t at = node->number_; !leads_up.contains(at);) {
      way.push_back(at);
      if (way.size() > nodes.size() + inodes) return err(EINVAL);
      const auto found = by_number.find(at);
      if (found != by_number.end()) {
        if (!found->second->is_directory() || found->second->links_ == 0) return err(EINVAL);
        at = found->second->parent_;
        continue;
      }
      const auto inode =
          at != 0 && at <= inodes ? tree.options_.image->inode(static_cast<uint32_t>(at - 1)) : std::nullopt;
      if (!inode || (inode->mode & S_IFMT) != S_IFDIR) return err(EINVAL);
      at = uint64_t{inode->parent} + 1;
    }
    leads_up.insert(way.begin(), way.end());
  }
  return {};
}

}  // namespace membrane::linux
