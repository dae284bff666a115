// Writes and reads the nodes of a tree that differ from its image, for the state of a kept sandbox. Threads:
// the kernel's thread.
#pragma once

#include <memory>
#include <vector>

#include "linux/fs/tree_node.h"
#include "linux/kept/page_writer.h"
#include "linux/kept/state_bytes.h"

namespace membrane::linux {

class ContentState {
 public:
  static void write(Content& content, std::span<const std::byte> image, StateWriter& state,
                    PageWriter& pages);
  // Reads over the image's bytes. Charges the content. Errors: the reader's; ENOSPC.
  static Done read(Content& content, StateReader& state, const std::shared_ptr<const PageFile>& file);
};

class TreeState {
 public:
  // nullptr for nodes of other file systems.
  static Tree* tree_of(Node* node);

  // `with_nameless`: includes nodes without a name, such as those of open files.
  static void write(Tree& tree, bool with_nameless, StateWriter& state, PageWriter& pages);
  // Restores the tree as it was written: its earlier contents are removed, but nodes that already exist stay
  // the same objects. Nodes without a name last as long as `held`. Errors: the reader's; ENOSPC for more than
  // the tree may have.
  static Done read(Tree& tree, StateReader& state, const std::shared_ptr<const PageFile>& file,
                   std::vector<NodeRef>& held);

  // The pipe of an open FIFO; nullptr for other nodes.
  static std::weak_ptr<Pipe>* pipe_of(Node& node);
  // nullptr when there is none.
  static NodeRef find(Tree& tree, uint64_t number) { return tree.node(number); }

 private:
  template <typename State>
  static void transfer_facts(State& state, TreeNode& node);
  static void write_node(TreeNode& node, StateWriter& state, PageWriter& pages);
  static Done read_node(TreeNode& node, StateReader& state, const std::shared_ptr<const PageFile>& file);
  static void read_entries(TreeNode& node, StateReader& state);
  static Done check(Tree& tree, const std::vector<std::shared_ptr<TreeNode>>& nodes);
};

}  // namespace membrane::linux
