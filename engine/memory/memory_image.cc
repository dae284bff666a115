#include "engine/memory/memory_image.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#include "base/kept_descriptors.h"
#include "base/write_at.h"
#include "engine/memory/region_pool.h"

namespace membrane::engine {

std::shared_ptr<const MemoryImage> MemoryImage::create(uint64_t bytes, std::span<const MemoryPart> parts) {
  const uint64_t page = system_page_bytes();
  const uint64_t size = (bytes + page - 1) / page * page;
  if (size == 0) return nullptr;
  const std::shared_ptr<MemoryImage> image(new MemoryImage);
  image->file_ = memfd_create("membrane-image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (image->file_ < 0 || ftruncate(image->file_, static_cast<off_t>(size)) != 0) return nullptr;
  for (const MemoryPart& part : parts)
    if (part.first > bytes || part.second.size() > bytes - part.first ||
        !write_at(image->file_, part.first, part.second))
      return nullptr;
  // From here on it cannot be changed, not even by this process.
  if (fcntl(image->file_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
    return nullptr;
  return image->map(size) ? image : nullptr;
}

std::shared_ptr<const MemoryImage> MemoryImage::of_file(int file, uint64_t offset, uint64_t bytes) {
  const std::shared_ptr<MemoryImage> image(new MemoryImage);
  image->file_ = fcntl(file, F_DUPFD_CLOEXEC, 0);
  image->offset_ = offset;
  return image->file_ >= 0 && image->map(bytes) ? image : nullptr;
}

bool MemoryImage::map(uint64_t bytes) {
  static std::atomic<uint64_t> last_number{0};
  void* const content =
      mmap(nullptr, bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, file_, static_cast<off_t>(offset_));
  if (content == MAP_FAILED) return false;
  content_ = {static_cast<const uint8_t*>(content), bytes};
  KeptDescriptors::instance().add(file_);
  number_ = ++last_number;
  return true;
}

MemoryImage::~MemoryImage() {
  if (number_ != 0) RegionPool::instance().forget(number_);
  if (content_.data() != nullptr) munmap(const_cast<uint8_t*>(content_.data()), content_.size());
  if (file_ < 0) return;
  KeptDescriptors::instance().remove(file_);
  close(file_);
}

bool MemoryImage::map_at(uint8_t* base) const {
  return mmap(base, content_.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file_,
              static_cast<off_t>(offset_)) != MAP_FAILED;
}

void MemoryImage::learn(std::span<const MemoryRange> changed) const {
  constexpr size_t kMostRanges = 1024;
  const std::lock_guard lock(mutex_);
  if (!changed_.empty() || changed.size() > kMostRanges) return;
  changed_.assign(changed.begin(), changed.end());
}

std::vector<MemoryRange> MemoryImage::learned() const {
  const std::lock_guard lock(mutex_);
  return changed_;
}

void MemoryImage::populate(uint8_t* base) const {
#ifdef MADV_POPULATE_WRITE
  // A hint: if an older kernel refuses, the pages are made when they are changed.
  for (const auto& [offset, bytes] : learned()) madvise(base + offset, bytes, MADV_POPULATE_WRITE);
#else
  static_cast<void>(base);
#endif
}

}  // namespace membrane::engine
