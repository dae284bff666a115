// Reads little-endian numbers from untrusted bytes. Once bytes are missing, all further reads return zero or empty,
// and ok() is false: one check at the end is enough.
//
// Threads: belongs to one thread; the bytes must outlive it.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <span>

namespace membrane {

static_assert(std::endian::native == std::endian::little);

class NumberReader {
 public:
  explicit NumberReader(std::span<const uint8_t> bytes) : left_(bytes) {}

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] std::span<const uint8_t> left() const { return left_; }
  void fail() {
    ok_ = false;
    left_ = {};
  }

  std::span<const uint8_t> take(uint64_t count) {
    if (!ok_ || count > left_.size()) {
      fail();
      return {};
    }
    const auto taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }
  template <std::integral T>
  T number() {
    T value = 0;
    if (const auto from = take(sizeof value); ok_) std::memcpy(&value, from.data(), sizeof value);
    return value;
  }
  // One byte: 0 or 1.
  bool flag() {
    const auto byte = number<uint8_t>();
    if (byte > 1) fail();
    return byte == 1;
  }

 private:
  std::span<const uint8_t> left_;
  bool ok_ = true;
};

}  // namespace membrane
