#include "linux/kernel/shared_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "linux/files/anonymous_node.h"

namespace membrane::linux {

SharedMemory::SharedMemory(int fd, std::string description)
    : fd_(fd),
      description_(std::move(description)),
      node_(make_anonymous_node(AnonymousDevice::kMemory, S_IFREG | 0600)) {}

SharedMemory::~SharedMemory() { close(fd_); }

uint64_t SharedMemory::resident_bytes() const {
  struct stat status = {};
  return fstat(fd_, &status) == 0 ? static_cast<uint64_t>(status.st_blocks) * 512 : 0;
}

Try<std::shared_ptr<SharedMemory>> SharedMemories::make(uint64_t length, std::string description) {
  const int fd = memfd_create("shared", MFD_CLOEXEC);
  if (fd < 0) return err(ENOMEM);
  auto made = std::make_shared<SharedMemory>(fd, std::move(description));
  if (ftruncate(fd, static_cast<off_t>(length)) != 0) return err(ENOMEM);
  made_.push_back(made);
  return made;
}

uint64_t SharedMemories::resident_bytes() {
  uint64_t bytes = 0;
  std::erase_if(made_, [&bytes](const std::weak_ptr<SharedMemory>& each) {
    const auto memory = each.lock();
    if (memory != nullptr) bytes += memory->resident_bytes();
    return memory == nullptr;
  });
  return bytes;
}

}  // namespace membrane::linux
