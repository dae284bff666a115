// Access to a program's memory for WASI calls: every range is checked, and no sum wraps around.
//
// Threads: one at a time; valid as long as Guest::memory().
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "wasi/types.h"

namespace membrane::wasi {

class Memory {
 public:
  explicit Memory(std::span<uint8_t> bytes) : bytes_(bytes) {}

  [[nodiscard]] uint64_t size() const { return bytes_.size(); }

  [[nodiscard]] Answer<std::span<uint8_t>> bytes(uint32_t at, uint32_t size) const {
    if (uint64_t{at} + size > bytes_.size()) return fail(Errno::kFault);
    return bytes_.subspan(at, size);
  }
  [[nodiscard]] Answer<std::string_view> text(uint32_t at, uint32_t size) const {
    const auto found = bytes(at, size);
    if (!found) return fail(found.error());
    return std::string_view(reinterpret_cast<const char*>(found->data()), found->size());
  }
  template <typename T>
  [[nodiscard]] Answer<T> read(uint32_t at) const {
    const auto from = bytes(at, sizeof(T));
    if (!from) return fail(from.error());
    T value;
    std::memcpy(&value, from->data(), sizeof value);
    return value;
  }
  template <typename T>
  [[nodiscard]] Done write(uint32_t at, T value) const {
    const auto to = bytes(at, sizeof(T));
    if (!to) return fail(to.error());
    std::memcpy(to->data(), &value, sizeof value);
    return {};
  }

  // The pieces of memory that a list of (pointer, length) names. EINVAL for too many, or for more bytes than the
  // memory has, which only overlapping pieces can reach.
  [[nodiscard]] Answer<std::vector<std::span<uint8_t>>> pieces(uint32_t at, uint32_t count) const;

 private:
  std::span<uint8_t> bytes_;
};

// Writes the fields of a structure in the program's memory, by their offsets.
class StructWriter {
 public:
  explicit StructWriter(std::span<uint8_t> bytes) : bytes_(bytes) {
    std::memset(bytes.data(), 0, bytes.size());
  }
  template <typename T>
  void put(size_t offset, T value) {
    std::memcpy(bytes_.data() + offset, &value, sizeof value);
  }

 private:
  std::span<uint8_t> bytes_;
};

uint64_t total_bytes(std::span<const std::span<uint8_t>> pieces);

}  // namespace membrane::wasi
