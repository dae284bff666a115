// A table from inode numbers to nodes: a tree of pages that copies share until one of them writes. Copying it copies
// one pointer; a write copies the pages on its path (owner.h).
//
// Threads: a table is used by one thread; copies may be used on other threads concurrently.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "wasi/files/owner.h"

namespace membrane::wasi {

using Inode = uint64_t;

// Node must be copyable and have a member `Owner owner`.
template <typename Node>
class NodeTable {
  static constexpr unsigned kBits = 6, kLevels = 5;
  static constexpr size_t kWidth = size_t{1} << kBits;

 public:
  static constexpr Inode kMost = Inode{1} << (kBits * kLevels);

  // Null when there is none.
  [[nodiscard]] const Node* find(Inode inode) const {
    if (inode >= kMost) return nullptr;
    const Page* page = root_.get();
    for (unsigned level = kLevels - 1; page != nullptr && level > 0; --level)
      page = static_cast<const Page*>(page->slots[slot_of(inode, level)].get());
    return page == nullptr ? nullptr : static_cast<const Node*>(page->slots[slot_of(inode, 0)].get());
  }
  // For writing by `owner`. Null when there is none.
  [[nodiscard]] Node* find_to_write(Inode inode, Owner owner) {
    const Node* node = find(inode);
    if (node == nullptr) return nullptr;
    if (node->owner == owner) return const_cast<Node*>(node);
    auto copy = std::make_shared<Node>(*node);
    copy->owner = owner;
    Node* written = copy.get();
    slot_to_write(inode, owner) = std::move(copy);
    return written;
  }
  Node& insert(Inode inode, Node node, Owner owner) {
    node.owner = owner;
    auto made = std::make_shared<Node>(std::move(node));
    Node& written = *made;
    slot_to_write(inode, owner) = std::move(made);
    return written;
  }
  void erase(Inode inode, Owner owner) {
    if (find(inode) != nullptr) erase_in(root_, inode, kLevels - 1, owner);
  }
  // Calls `each` for the nodes that `other` does not share.
  template <typename Each>
  void for_each_unlike(const NodeTable& other, Each each) const {
    walk(root_.get(), other.root_.get(), kLevels - 1, 0, each);
  }

 private:
  struct Page {
    Owner owner = kNobody;
    std::array<std::shared_ptr<void>, kWidth> slots;  // pages, or nodes on the last level
  };

  static constexpr size_t slot_of(Inode inode, unsigned level) {
    return static_cast<size_t>(inode >> (kBits * level)) & (kWidth - 1);
  }
  static Page& own(std::shared_ptr<Page>& page, Owner owner) {
    if (page == nullptr || page->owner != owner) {
      page = page == nullptr ? std::make_shared<Page>() : std::make_shared<Page>(*page);
      page->owner = owner;
    }
    return *page;
  }
  static Page& own_child(std::shared_ptr<void>& slot, Owner owner) {
    auto page = std::static_pointer_cast<Page>(slot);
    Page& owned = own(page, owner);
    slot = std::move(page);
    return owned;
  }
  std::shared_ptr<void>& slot_to_write(Inode inode, Owner owner) {
    Page* page = &own(root_, owner);
    for (unsigned level = kLevels - 1; level > 0; --level)
      page = &own_child(page->slots[slot_of(inode, level)], owner);
    return page->slots[slot_of(inode, 0)];
  }
  // Removes pages that become empty, so that released numbers take no memory.
  static void erase_in(std::shared_ptr<Page>& page, Inode inode, unsigned level, Owner owner) {
    Page& owned = own(page, owner);
    std::shared_ptr<void>& slot = owned.slots[slot_of(inode, level)];
    if (level == 0) {
      slot.reset();
    } else {
      auto child = std::static_pointer_cast<Page>(slot);
      erase_in(child, inode, level - 1, owner);
      slot = std::move(child);
    }
    for (const auto& left : owned.slots)
      if (left != nullptr) return;
    page.reset();
  }
  template <typename Each>
  static void walk(const Page* page, const Page* other, unsigned level, Inode first, Each& each) {
    if (page == nullptr || page == other) return;
    for (size_t i = 0; i < kWidth; ++i) {
      const void* mine = page->slots[i].get();
      const void* theirs = other == nullptr ? nullptr : other->slots[i].get();
      if (mine == nullptr || mine == theirs) continue;
      const Inode inode = first + (static_cast<Inode>(i) << (kBits * level));
      if (level == 0) each(inode, *static_cast<const Node*>(mine));
      else walk(static_cast<const Page*>(mine), static_cast<const Page*>(theirs), level - 1, inode, each);
    }
  }

  std::shared_ptr<Page> root_;
};

}  // namespace membrane::wasi
