// memfd: a nameless file whose content can be sealed. The file system provides the node that holds the
// content. Threads: the kernel's thread.
#pragma once

#include <functional>

#include "linux/files/file.h"

namespace membrane::linux {

class SealedNode final : public Node {
 public:
  // `content` is a regular file's. `name` is for /proc.
  SealedNode(NodeRef content, std::string name, uint32_t seals);
  [[nodiscard]] uint32_t seals() const { return seals_; }
  // F_ADD_SEALS. `has_writable_mapping`: whether any process has a shared writable mapping of it; the kernel
  // knows. Errors: EINVAL; EPERM with F_SEAL_SEAL; EBUSY for F_SEAL_WRITE while such a mapping exists.
  Done add_seals(uint32_t seals, bool has_writable_mapping);
  [[nodiscard]] const std::string& name() const { return name_; }

  [[nodiscard]] Attributes attributes() override { return content_->attributes(); }
  Done change(const AttributeChange& change) override;
  Try<size_t> read(uint64_t offset, std::span<std::byte> to) override { return content_->read(offset, to); }
  // Errors beyond those of the content: EPERM.
  Try<size_t> write(uint64_t offset, std::span<const std::byte> from) override;
  Done resize(uint64_t size) override;
  Done allocate(int mode, uint64_t offset, uint64_t length) override;
  Try<uint64_t> seek_data(uint64_t offset, bool hole) override { return content_->seek_data(offset, hole); }
  Try<Backing> mapping(uint64_t offset, uint64_t length, bool is_shared) override {
    return content_->mapping(offset, length, is_shared);
  }
  // Whether a shared mapping may be writable, now or after mprotect(): not with F_SEAL_WRITE or
  // F_SEAL_FUTURE_WRITE.
  [[nodiscard]] bool may_be_mapped_writable() const;

  [[nodiscard]] const NodeRef& content() const { return content_; }

 private:
  [[nodiscard]] bool has(uint32_t seal) const { return (seals_ & seal) != 0; }
  const NodeRef content_;
  const std::string name_;
  uint32_t seals_;
};

// Another open file of a memfd.
FileRef open_memory_file(std::shared_ptr<SealedNode> node, int flags);

// memfd_create(). `make_content` creates an empty regular file of a given mode, charged like any other.
// `flags`: MFD_CLOEXEC (which belongs to the descriptor), MFD_ALLOW_SEALING, MFD_NOEXEC_SEAL, MFD_EXEC.
// Errors: EINVAL for others and for a name of more than 249 bytes.
Try<FileRef> make_memory_file(std::string_view name, uint32_t flags,
                              const std::function<Try<NodeRef>(uint32_t mode)>& make_content);

}  // namespace membrane::linux
