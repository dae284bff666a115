// A file, or a part of one, mapped for reading.
//
// Ownership: the mapping lives as long as the object. Threads: any; it is immutable.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <span>

namespace membrane {

class FileMapping {
 public:
  // `offset` is a multiple of the page size. Empty when the system refuses; errno says why.
  FileMapping(int file, uint64_t offset, size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    void* const got = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, static_cast<off_t>(offset));
    if (got != MAP_FAILED) at_ = static_cast<const uint8_t*>(got);
  }
  ~FileMapping() {
    if (at_ != nullptr) munmap(const_cast<uint8_t*>(at_), bytes_);
  }
  FileMapping(const FileMapping&) = delete;
  FileMapping& operator=(const FileMapping&) = delete;

  [[nodiscard]] std::span<const uint8_t> bytes() const { return {at_, at_ == nullptr ? 0 : bytes_}; }

 private:
  const uint8_t* at_ = nullptr;
  size_t bytes_;
};

}  // namespace membrane
