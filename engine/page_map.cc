#include "engine/page_map.h"

#include <fcntl.h>
#include <unistd.h>

#include "engine/region_pool.h"

namespace membrane::engine {

PageMap::PageMap() : file_(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) {}

PageMap::~PageMap() {
  if (file_ >= 0) close(file_);
}

bool PageMap::read(const uint8_t* address, std::span<uint64_t> entries) const {
  if (file_ < 0) return false;
  const uint64_t page = reinterpret_cast<uint64_t>(address) / system_page_bytes();
  return pread(file_, entries.data(), entries.size_bytes(), static_cast<off_t>(page * sizeof(uint64_t))) ==
         static_cast<ssize_t>(entries.size_bytes());
}

}  // namespace membrane::engine
