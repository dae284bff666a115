// The node of a file that no directory has a name for: a pipe, a socket, an eventfd. It is there for fstat() and /proc.
#pragma once

#include "linux/fs/node.h"

namespace membrane::linux {

// Devices of Linux that such nodes are on; each kind counts as a file system of its own.
enum class AnonymousDevice : uint64_t { kPipes = 0xd, kSockets = 8, kOthers = 0xe, kMemory = 1 };

class AnonymousNode final : public Node {
 public:
  // `mode`: with its type; 0 in its place is what eventfd and such have.
  AnonymousNode(AnonymousDevice device, uint32_t mode, const Credentials& owner);
  [[nodiscard]] Attributes attributes() override { return attributes_; }
  Done change(const AttributeChange& change) override;
  // What opening it by /proc/PID/fd gives; ENXIO without one.
  using Opener = std::function<Try<std::shared_ptr<File>>(const NodeRef& node, int flags)>;
  void set_opener(Opener opener) { opener_ = std::move(opener); }
  Try<std::shared_ptr<File>> open(Caller& caller, int flags) override;

 private:
  friend class FileState;  // linux/kept/file_state.h
  Attributes attributes_;
  Opener opener_;
};

std::shared_ptr<AnonymousNode> make_anonymous_node(AnonymousDevice device, uint32_t mode,
                                                   const Credentials& owner = {});
// "pipe:[12]", with the number of the node.
std::string anonymous_name(std::string_view kind, Node& node);

// Numbers for nodes, none twice in this process.
uint64_t next_node_number();
// Those up to it are taken, by nodes of a sandbox that was kept.
void take_node_numbers(uint64_t last);
[[nodiscard]] timespec real_time();

}  // namespace membrane::linux
