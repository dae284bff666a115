// Numbers, texts and tables in the state of a kept sandbox (docs/sandbox-format.md): little-endian,
// fixed-width, unpadded. One function `transfer(State& state, Thing& thing)` writes a thing with a
// StateWriter and reads it with a StateReader, so that the two cannot differ.
//
// The input is foreign: after the first error a reader returns zeros and empty texts, and is_good() is false.
// Callers check what the numbers mean. Threads: one.
#pragma once

#include <time.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace membrane::linux {

static_assert(std::endian::native == std::endian::little);

template <typename T>
concept StateNumber = std::is_integral_v<T> || std::is_enum_v<T>;

class StateWriter {
 public:
  static constexpr bool kReads = false;
  static constexpr bool is_good() { return true; }

  template <StateNumber T>
  void operator()(const T& value) {
    put(std::as_bytes(std::span(&value, 1)));
  }
  void operator()(const std::string& text) {
    (*this)(static_cast<uint32_t>(text.size()));
    put(std::as_bytes(std::span(text)));
  }
  void operator()(const timespec& time) {
    (*this)(int64_t{time.tv_sec});
    (*this)(int64_t{time.tv_nsec});
  }
  // Bytes without structure.
  void blob(std::span<const std::byte> bytes) {
    (*this)(static_cast<uint32_t>(bytes.size()));
    put(bytes);
  }
  // A structure of the system call interface, byte for byte.
  template <typename T>
  void raw(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    put(std::as_bytes(std::span(&value, 1)));
  }
  void put(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class StateReader {
 public:
  static constexpr bool kReads = true;
  static constexpr size_t kMostText = 1u << 20;

  explicit StateReader(std::span<const std::byte> bytes) : left_(bytes) {}
  [[nodiscard]] bool is_good() const { return is_good_; }
  [[nodiscard]] bool is_at_end() const { return left_.empty(); }
  // Marks the state as damaged: nothing more is read.
  void refuse() {
    is_good_ = false;
    left_ = {};
  }
  void require(bool condition) {
    if (!condition) refuse();
  }

  template <StateNumber T>
  void operator()(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      uint8_t byte = 0;
      take(std::as_writable_bytes(std::span(&byte, 1)));
      require(byte <= 1);
      value = byte == 1;
    } else {
      take(std::as_writable_bytes(std::span(&value, 1)));
    }
  }
  void operator()(std::string& text) {
    const size_t size = length(kMostText);
    text.resize(size);
    take(std::as_writable_bytes(std::span(text)));
  }
  void operator()(timespec& time) {
    int64_t seconds = 0, nanoseconds = 0;
    (*this)(seconds);
    (*this)(nanoseconds);
    require(nanoseconds >= 0 && nanoseconds < 1'000'000'000);
    if (is_good_) time = {.tv_sec = seconds, .tv_nsec = nanoseconds};
  }
  void blob(std::vector<std::byte>& bytes, size_t most) {
    bytes.resize(length(most));
    take(bytes);
  }
  template <typename T>
  void raw(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    take(std::as_writable_bytes(std::span(&value, 1)));
  }
  template <typename T>
  T get() {
    T value{};
    (*this)(value);
    return value;
  }
  // The number of things that follow, each of at least `least_bytes`, so there are never more than the state
  // can hold.
  size_t count(size_t least_bytes, size_t most = SIZE_MAX) {
    const auto number = get<uint32_t>();
    require(number <= most && number <= left_.size() / least_bytes);
    return is_good_ ? number : 0;
  }

 private:
  size_t length(size_t most) {
    const auto number = get<uint32_t>();
    require(number <= most && number <= left_.size());
    return is_good_ ? number : 0;
  }
  void take(std::span<std::byte> to) {
    if (to.size() > left_.size()) refuse();
    if (!is_good_) {
      if (!to.empty()) std::memset(to.data(), 0, to.size());
      return;
    }
    if (!to.empty()) std::memcpy(to.data(), left_.data(), to.size());
    left_ = left_.subspan(to.size());
  }

  std::span<const std::byte> left_;
  bool is_good_ = true;
};

template <typename State>
constexpr bool kReads = std::remove_reference_t<State>::kReads;

// A value that may be missing.
template <typename State, typename T>
void transfer_optional(State& state, std::optional<T>& value) {
  bool is_there = value.has_value();
  state(is_there);
  if (!is_there) {
    value.reset();
    return;
  }
  if (!value) value.emplace();
  state(*value);
}

}  // namespace membrane::linux
