// A vector of trivial values that does not allocate while it is small. For scratch stacks in code that runs in
// nanoseconds, where one allocation would dominate.
//
// Threads: like std::vector.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace membrane {

template <typename T, size_t kInline>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  InlineVector() = default;
  InlineVector(const InlineVector&) = delete;
  InlineVector& operator=(const InlineVector&) = delete;

  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] size_t capacity() const { return capacity_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] T* data() { return data_; }
  [[nodiscard]] const T* data() const { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }

  void clear() { size_ = 0; }
  void pop_back() { --size_; }
  void push_back(const T& value) {
    const T copy = value;  // may be an element of this vector, which may move
    if (size_ == capacity_) [[unlikely]]
      reserve(capacity_ * 2);
    data_[size_++] = copy;
  }
  // Constructs the element in its place: what is built elsewhere in parts, and copied as a whole, waits for the parts.
  // `arguments` are no elements of this vector.
  template <typename... Arguments>
  T& emplace_back(Arguments&&... arguments) {
    if (size_ == capacity_) [[unlikely]]
      reserve(capacity_ * 2);
    return *std::construct_at(data_ + size_++, std::forward<Arguments>(arguments)...);
  }
  // New elements are not initialised.
  void resize(size_t size) {
    reserve(size);
    size_ = size;
  }
  void reserve(size_t capacity) {
    if (capacity <= capacity_) return;
    auto grown = std::make_unique_for_overwrite<T[]>(capacity);
    std::copy_n(data_, size_, grown.get());
    heap_ = std::move(grown);
    data_ = heap_.get();
    capacity_ = capacity;
  }

 private:
  T inline_[kInline];
  std::unique_ptr<T[]> heap_;
  T* data_ = inline_;
  size_t size_ = 0;
  size_t capacity_ = kInline;
};

}  // namespace membrane
