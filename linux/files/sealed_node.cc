#include "linux/files/sealed_node.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>

#include "linux/files/regular_file.h"

namespace membrane::linux {
namespace {

constexpr uint32_t kFutureWrite = 0x10, kExecutable = 0x20;  // F_SEAL_FUTURE_WRITE, F_SEAL_EXEC
constexpr uint32_t kAll =
    F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | kFutureWrite | kExecutable;
constexpr uint32_t kNoExecutable = 8, kIsExecutable = 0x10;  // MFD_NOEXEC_SEAL, MFD_EXEC
constexpr size_t kMostName = 249;

}  // namespace

SealedNode::SealedNode(NodeRef content, std::string name, uint32_t seals)
    : content_(std::move(content)), name_(std::move(name)), seals_(seals) {}

Done SealedNode::add_seals(uint32_t seals, bool has_writable_mapping) {
  if ((seals & ~kAll) != 0) return err(EINVAL);
  if (has(F_SEAL_SEAL)) return err(EPERM);
  if ((seals & F_SEAL_WRITE) != 0 && !has(F_SEAL_WRITE) && has_writable_mapping) return err(EBUSY);
  // A file that is sealed against changes of its executable bits, and has such bits, cannot be written at
  // all.
  if ((seals & kExecutable) != 0 && (attributes().mode & 0111) != 0)
    seals |= F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | kFutureWrite;
  seals_ |= seals;
  return {};
}

bool SealedNode::may_be_mapped_writable() const { return !has(F_SEAL_WRITE | kFutureWrite); }

Done SealedNode::change(const AttributeChange& change) {
  if (change.mode && has(kExecutable) && ((*change.mode ^ attributes().mode) & 0111) != 0) return err(EPERM);
  return content_->change(change);
}

Try<size_t> SealedNode::write(uint64_t offset, std::span<const std::byte> from) {
  if (has(F_SEAL_WRITE | kFutureWrite)) return err(EPERM);
  const uint64_t size = attributes().size;
  if (has(F_SEAL_GROW) && (offset > size || from.size() > size - offset)) {
    // Linux writes nothing to the page that contains the end; here, what fits is written.
    if (offset >= size) return err(EPERM);
    from = from.first(size - offset);
  }
  return content_->write(offset, from);
}

Done SealedNode::resize(uint64_t size) {
  const uint64_t before = attributes().size;
  if (size < before && has(F_SEAL_SHRINK)) return err(EPERM);
  if (size > before && has(F_SEAL_GROW)) return err(EPERM);
  return content_->resize(size);
}

Done SealedNode::allocate(int mode, uint64_t offset, uint64_t length) {
  const bool changes_bytes = (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) != 0;
  if (changes_bytes && has(F_SEAL_WRITE | kFutureWrite)) return err(EPERM);
  const uint64_t size = attributes().size;
  const bool is_beyond = offset > size || length > size - offset;
  if (has(F_SEAL_GROW) && is_beyond && (mode & FALLOC_FL_KEEP_SIZE) == 0) return err(EPERM);
  return content_->allocate(mode, offset, length);
}

namespace {

// Like a regular file, but with its own name in /proc and only the mappings that its seals allow.
class MemoryFile final : public File {
 public:
  MemoryFile(std::shared_ptr<SealedNode> sealed, int with_flags)
      : sealed_(sealed), file_(std::make_shared<RegularFile>(sealed, with_flags)), node_(sealed) {
    flags = with_flags;
  }
  [[nodiscard]] const NodeRef& node() const override { return node_; }
  [[nodiscard]] std::string description() const override {
    return "/memfd:" + sealed_->name() + " (deleted)";
  }
  Try<size_t> read(Caller& caller, Buffer& to) override { return with_flags().read(caller, to); }
  Try<size_t> write(Caller& caller, Buffer& from) override { return with_flags().write(caller, from); }
  Try<size_t> read_at(Caller& caller, Buffer& to, uint64_t offset) override {
    return with_flags().read_at(caller, to, offset);
  }
  Try<size_t> write_at(Caller& caller, Buffer& from, uint64_t offset) override {
    return with_flags().write_at(caller, from, offset);
  }
  Try<uint64_t> seek(int64_t offset, int whence) override { return with_flags().seek(offset, whence); }
  Try<int64_t> ioctl(Caller& caller, uint64_t request, uint64_t argument) override {
    return with_flags().ioctl(caller, request, argument);
  }
  Done truncate(uint64_t size) override { return with_flags().truncate(size); }
  Done sync() override { return {}; }
  Try<Backing> mapping(uint64_t offset, uint64_t length, bool is_shared, int protection) override {
    if (is_shared && (protection & PROT_WRITE) != 0 && !sealed_->may_be_mapped_writable()) return err(EPERM);
    return with_flags().mapping(offset, length, is_shared, protection);
  }

 private:
  RegularFile& with_flags() {
    file_->flags = flags;  // which fcntl() may have changed
    return *file_;
  }
  const std::shared_ptr<SealedNode> sealed_;
  const std::shared_ptr<RegularFile> file_;
  const NodeRef node_;
};

}  // namespace

FileRef open_memory_file(std::shared_ptr<SealedNode> node, int flags) {
  return std::make_shared<MemoryFile>(std::move(node), flags);
}

Try<FileRef> make_memory_file(std::string_view name, uint32_t flags,
                              const std::function<Try<NodeRef>(uint32_t mode)>& make_content) {
  if ((flags & ~(MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExecutable | kIsExecutable)) != 0) return err(EINVAL);
  const bool is_executable = (flags & kNoExecutable) == 0;
  if (!is_executable && (flags & kIsExecutable) != 0) return err(EINVAL);
  if (name.size() > kMostName) return err(EINVAL);
  MEMBRANE_ASSIGN(NodeRef content, make_content(is_executable ? 0777 : 0666));
  uint32_t seals = (flags & MFD_ALLOW_SEALING) != 0 || !is_executable ? 0 : F_SEAL_SEAL;
  if (!is_executable) seals |= kExecutable;
  auto node = std::make_shared<SealedNode>(std::move(content), std::string(name), seals);
  return std::make_shared<MemoryFile>(std::move(node), O_RDWR);
}

}  // namespace membrane::linux
