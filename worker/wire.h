// Values as bytes, between a worker and the process that supervises it.
//
//   Writer out;  out.put(request);
//   Reader in(bytes);  auto request = in.get<host::HttpRequest>();  if (!in.is_done()) …
//
// Numbers are little-endian and of fixed size, a count precedes a string or a list, a byte an optional value.
// A struct is its fields, which wire_fields() lists (wire_types.h). Both sides are one build, so there is no
// version.
//
// The reader trusts nothing. Each element of a list is read before memory for the next is allocated, so that
// allocations are bounded by the input; and since an empty element takes more memory than its bytes, the
// number of elements is limited too. Types do not nest recursively, so parsing does not recurse.
//
// Threads: one.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace membrane::worker {

template <typename T>
concept WireNumber = std::is_arithmetic_v<T> || std::is_enum_v<T>;
// An enumeration whose values go from 0 to wire_last(T()).
template <typename T>
concept BoundedEnum = std::is_enum_v<T> && requires(T value) { wire_last(value); };

class Writer {
 public:
  template <WireNumber T>
  void put(T value) {
    if constexpr (std::same_as<T, bool>) {
      out_ += value ? '\1' : '\0';
    } else {
      std::array<char, sizeof value> bytes;
      std::memcpy(bytes.data(), &value, sizeof value);
      out_.append(bytes.data(), bytes.size());
    }
  }
  void put(std::string_view text) {
    put(static_cast<uint64_t>(text.size()));
    out_ += text;
  }
  void put(const std::string& text) { put(std::string_view(text)); }
  void put(const char* text) { put(std::string_view(text)); }
  void put(const std::vector<uint8_t>& bytes) {
    put(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  template <typename T>
  void put(const std::vector<T>& values) {
    put(static_cast<uint64_t>(values.size()));
    for (const T& value : values) put(value);
  }
  template <size_t kCount>
  void put(const std::array<uint8_t, kCount>& bytes) {
    out_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  template <typename T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <typename A, typename B>
  void put(const std::pair<A, B>& value) {
    put(value.first);
    put(value.second);
  }
  template <typename T, typename E>
  void put(const std::expected<T, E>& value) {
    put(value.has_value());
    if (!value) put(value.error());
    else if constexpr (!std::is_void_v<T>) put(*value);
  }
  template <typename T>
    requires requires(T& value) { wire_fields(value); }
  void put(const T& value) {
    std::apply([this](const auto&... field) { (put(field), ...); }, wire_fields(const_cast<T&>(value)));
  }

  [[nodiscard]] const std::string& bytes() const { return out_; }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  [[nodiscard]] bool ok() const { return ok_; }
  // Everything was read and valid.
  [[nodiscard]] bool is_done() const { return ok_ && left_.empty(); }

  // The limit for all lists together, except those of bytes.
  static constexpr uint64_t kMostElements = 1'000'000;

  // After a failure, everything reads as empty.
  template <typename T>
  T get() {
    T value{};
    read(value);
    return value;
  }

  template <WireNumber T>
  void read(T& value) {
    if constexpr (std::same_as<T, bool>) {
      const std::string_view byte = take(1);
      if (ok_ && static_cast<unsigned char>(byte[0]) > 1) fail();
      value = ok_ && byte[0] != 0;
    } else if (const std::string_view bytes = take(sizeof value); ok_) {
      std::memcpy(&value, bytes.data(), sizeof value);
      if constexpr (BoundedEnum<T>)
        if (value > wire_last(value)) {
          value = T();
          fail();
        }
    }
  }
  void read(std::string_view& text) { text = take(get<uint64_t>()); }
  void read(std::string& text) { text = take(get<uint64_t>()); }
  void read(std::vector<uint8_t>& bytes) {
    const std::string_view text = take(get<uint64_t>());
    bytes.assign(text.begin(), text.end());
  }
  template <typename T>
  void read(std::vector<T>& values) {
    const auto count = get<uint64_t>();
    if (count > left_.size() || count > elements_left_) return fail();  // each has a byte at least
    elements_left_ -= count;
    for (uint64_t i = 0; i < count && ok_; ++i) values.push_back(get<T>());
  }
  template <size_t kCount>
  void read(std::array<uint8_t, kCount>& bytes) {
    if (const std::string_view taken = take(kCount); ok_) std::memcpy(bytes.data(), taken.data(), kCount);
  }
  template <typename T>
  void read(std::optional<T>& value) {
    if (get<bool>()) value = get<T>();
  }
  template <typename A, typename B>
  void read(std::pair<A, B>& value) {
    read(value.first);
    read(value.second);
  }
  template <typename T, typename E>
  void read(std::expected<T, E>& value) {
    if (!get<bool>()) value = std::unexpected(get<E>());
    else if constexpr (!std::is_void_v<T>) value = get<T>();
  }
  template <typename T>
    requires requires(T& value) { wire_fields(value); }
  void read(T& value) {
    std::apply([this](auto&... field) { (read(field), ...); }, wire_fields(value));
  }

 private:
  void fail() {
    ok_ = false;
    left_ = {};
  }
  std::string_view take(uint64_t count) {
    if (!ok_ || count > left_.size()) {
      fail();
      return {};
    }
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }

  std::string_view left_;
  uint64_t elements_left_ = kMostElements;
  bool ok_ = true;
};

// The values one after another.
template <typename... Values>
std::string bytes_of(const Values&... values) {
  Writer out;
  (out.put(values), ...);
  return out.take();
}

}  // namespace membrane::worker
