// The interned string literals of a program, laid out as a data segment.
//
// In memory a string is its length in bytes as a u32, little endian, followed by the bytes; each begins at a
// multiple of 4. Equal literals share one address.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace membrane::lang {

class StringPool {
 public:
  // The first address available for strings.
  void set_base(uint32_t base) { base_ = (base + 3) & ~3u; }
  uint32_t intern(std::string_view bytes) {
    const auto [entry, is_new] = offsets_.try_emplace(std::string(bytes), 0);
    if (!is_new) return base_ + entry->second;
    data_.resize((data_.size() + 3) & ~size_t{3});
    entry->second = static_cast<uint32_t>(data_.size());
    for (unsigned shift = 0; shift < 32; shift += 8)
      data_.push_back(static_cast<char>(bytes.size() >> shift));
    data_ += bytes;
    return base_ + entry->second;
  }

  [[nodiscard]] bool empty() const { return data_.empty(); }
  [[nodiscard]] const std::string& data() const { return data_; }
  [[nodiscard]] uint64_t base() const { return base_; }
  [[nodiscard]] uint64_t end() const { return uint64_t{base_} + data_.size(); }

 private:
  uint32_t base_ = 0;
  std::string data_;
  std::unordered_map<std::string, uint32_t> offsets_;
};

}  // namespace membrane::lang
