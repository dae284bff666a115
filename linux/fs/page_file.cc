#include "linux/fs/page_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace membrane::linux {

Try<std::shared_ptr<const PageFile>> PageFile::map(int file) {
  std::shared_ptr<PageFile> made(new PageFile);
  struct stat status = {};
  if (fstat(file, &status) != 0) return err(errno);
  if (!S_ISREG(status.st_mode) || status.st_size <= 0) return err(EINVAL);
  made->fd_ = fcntl(file, F_DUPFD_CLOEXEC, 0);
  if (made->fd_ < 0) return err(errno);
  const auto length = static_cast<size_t>(status.st_size);
  void* const at = mmap(nullptr, length, PROT_READ, MAP_SHARED, made->fd_, 0);
  if (at == MAP_FAILED) return err(errno);
  made->bytes_ = {static_cast<const std::byte*>(at), length};
  return made;
}

PageFile::~PageFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (fd_ >= 0) close(fd_);
}

}  // namespace membrane::linux
