// Memory that several processes may map and that is not a file: MAP_SHARED | MAP_ANONYMOUS, System V
// segments. Threads: the kernel's thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "linux/files/file.h"

namespace membrane::linux {

class SharedMemory final : public File {
 public:
  SharedMemory(int fd, std::string description);  // takes ownership of the descriptor
  ~SharedMemory() override;
  [[nodiscard]] const NodeRef& node() const override { return node_; }
  [[nodiscard]] std::string description() const override { return description_; }
  [[nodiscard]] int fd() const { return fd_; }
  Try<Backing> mapping(uint64_t offset, uint64_t, bool, int) override {
    return Backing{.fd = fd_, .offset = offset, .is_shared = true};
  }
  // Bytes of touched pages.
  [[nodiscard]] uint64_t resident_bytes() const;

 private:
  const int fd_;
  const std::string description_;
  const NodeRef node_;
};

// All shared memory of a kernel.
class SharedMemories {
 public:
  // Errors: ENOMEM.
  Try<std::shared_ptr<SharedMemory>> make(uint64_t length, std::string description = "/dev/zero (deleted)");
  [[nodiscard]] uint64_t resident_bytes();

 private:
  std::vector<std::weak_ptr<SharedMemory>> made_;
};

}  // namespace membrane::linux
