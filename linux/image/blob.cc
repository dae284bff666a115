#include "linux/image/blob.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/private_file.h"
#include "base/sha256.h"

namespace membrane::linux {

Result<size_t> Blob::read(uint64_t offset, std::span<std::byte> to) const {
  if (offset >= size) return size_t{0};
  to = to.first(std::min<uint64_t>(to.size(), size - offset));
  const ssize_t got = pread(fd, to.data(), to.size(), static_cast<off_t>(at + offset));
  if (got < 0) return refused_by_system("read", "a file of an image");
  return static_cast<size_t>(got);
}

Result<Blob> blob_of(int fd, const std::string& path) {
  struct Closer {
    int fd;
    ~Closer() { close(fd); }
  };
  Blob blob{.holder = std::make_shared<Closer>(fd), .fd = fd};
  struct stat status = {};
  if (fstat(fd, &status) != 0) return refused_by_system("read", path);
  if (!S_ISREG(status.st_mode)) return fail(ErrorCode::kInvalidArgument, path + " is not a regular file");
  blob.size = static_cast<uint64_t>(status.st_size);
  return blob;
}

Result<Blob> open_blob(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
    return fail(ErrorCode::kNotFound, "there is no file " + path);
  if (fd < 0) return refused_by_system("open", path);
  return blob_of(fd, path);
}

Result<std::string> text_of(const Blob& blob, uint64_t most_bytes) {
  if (blob.size > most_bytes) return fail(ErrorCode::kTooLong, "a file of the image is too long");
  std::string text(blob.size, '\0');
  size_t done = 0;
  while (done < text.size()) {
    MEMBRANE_ASSIGN(const size_t got, blob.read(done, std::as_writable_bytes(std::span(text).subspan(done))));
    if (got == 0) return fail(ErrorCode::kInvalidInput, "a file of the image shrank while it was read");
    done += got;
  }
  return text;
}

Result<std::string> digest_of(const Blob& blob) {
  MEMBRANE_ASSIGN(Sha256 digest, Sha256::begin());
  std::vector<std::byte> buffer(1u << 20);
  for (uint64_t done = 0; done < blob.size;) {
    MEMBRANE_ASSIGN(const size_t got, blob.read(done, buffer));
    if (got == 0) break;
    digest.add({reinterpret_cast<const char*>(buffer.data()), got});
    done += got;
  }
  return digest.finish();
}

}  // namespace membrane::linux
