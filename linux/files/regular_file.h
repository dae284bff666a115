// Open regular files and directories: a node, and the position of the next read or write. Threads: the
// kernel's thread.
#pragma once

#include "linux/files/file.h"
#include "linux/fs/paths.h"

namespace membrane::linux {

// The most bytes that one call moves, as on Linux.
constexpr size_t kMostBytesOfCall = 0x7ffff000;

// The text that /proc/PID/fd shows: the path from the outermost root, with " (deleted)" when the node has no
// links. "" without a location.
std::string description_of(const std::shared_ptr<const Location>& location, Node& node);

class RegularFile final : public File {
 public:
  // `flags` are those of open().
  RegularFile(NodeRef node, int with_flags);
  [[nodiscard]] const NodeRef& node() const override { return node_; }
  [[nodiscard]] std::string description() const override { return description_of(location, *node_); }
  Try<size_t> read(Caller& caller, Buffer& to) override;
  Try<size_t> write(Caller& caller, Buffer& from) override;
  Try<size_t> read_at(Caller& caller, Buffer& to, uint64_t offset) override;
  Try<size_t> write_at(Caller& caller, Buffer& from, uint64_t offset) override;
  Try<uint64_t> seek(int64_t offset, int whence) override;
  Try<int64_t> ioctl(Caller& caller, uint64_t request, uint64_t argument) override;
  Done truncate(uint64_t size) override;
  Done sync() override { return {}; }
  Try<Backing> mapping(uint64_t offset, uint64_t length, bool is_shared, int protection) override;
  [[nodiscard]] uint64_t offset() const { return offset_; }

 private:
  Try<size_t> write_from(Caller& caller, Buffer& from, uint64_t offset);
  NodeRef node_;
  uint64_t offset_ = 0;
};

// "." and ".." come first.
class DirectoryFile final : public File {
 public:
  DirectoryFile(NodeRef node, int with_flags);
  [[nodiscard]] const NodeRef& node() const override { return node_; }
  [[nodiscard]] std::string description() const override { return description_of(location, *node_); }
  Try<size_t> read(Caller&, Buffer&) override { return err(EISDIR); }
  Try<uint64_t> seek(int64_t offset, int whence) override;
  Done list(const std::function<bool(const DirectoryEntry&)>& add) override;
  Done sync() override { return {}; }

 private:
  NodeRef node_;
  int64_t position_ = 0;  // 0 and 1 are "." and ".."; then the node's position plus 2
};

// The file for an opened node: a RegularFile, a DirectoryFile, or whatever the node itself creates. Sets the
// flags. The caller has checked permissions and truncates. Errors: ENXIO for nodes that cannot be opened
// (sockets); ELOOP for symbolic links.
Try<FileRef> open_node(Caller& caller, const NodeRef& node, int flags);

}  // namespace membrane::linux
