// The node of a file that has no name in any directory: a pipe, a socket, an eventfd. It serves fstat() and
// /proc.
#pragma once

#include "linux/fs/node.h"

namespace membrane::linux {

// The Linux devices of such nodes; each kind counts as a file system of its own.
enum class AnonymousDevice : uint64_t { kPipes = 0xd, kSockets = 8, kOthers = 0xe, kMemory = 1 };

class AnonymousNode final : public Node {
 public:
  // `mode` includes the file type; a type of 0 is that of an eventfd and the like.
  AnonymousNode(AnonymousDevice device, uint32_t mode, const Credentials& owner);
  [[nodiscard]] Attributes attributes() override { return attributes_; }
  Done change(const AttributeChange& change) override;
  // Opens the node through /proc/PID/fd; without an opener that is ENXIO.
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

// Node numbers, unique in this process.
uint64_t next_node_number();
// Marks the numbers up to `last` as taken by the nodes of a restored sandbox.
void take_node_numbers(uint64_t last);
[[nodiscard]] timespec real_time();

}  // namespace membrane::linux
