// A vector, or read-only elements in a mapped file.
//
// Ownership: the vector's own elements, or a view kept alive by their mapping. Threads: as a vector.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace membrane {

template <typename T>
class MappedVector {
 public:
  MappedVector() = default;
  MappedVector(std::vector<T> elements) : own_(std::move(elements)) {}  // NOLINT(google-explicit-constructor)
  MappedVector(std::span<const T> elements, std::shared_ptr<const void> owner)
      : there_(elements), owner_(std::move(owner)) {}

  [[nodiscard]] const T* data() const { return there_.empty() ? own_.data() : there_.data(); }
  [[nodiscard]] size_t size() const { return there_.empty() ? own_.size() : there_.size(); }
  [[nodiscard]] bool empty() const { return size() == 0; }
  [[nodiscard]] const T* begin() const { return data(); }
  [[nodiscard]] const T* end() const { return data() + size(); }
  [[nodiscard]] const T& operator[](size_t index) const { return data()[index]; }
  [[nodiscard]] const T& front() const { return *begin(); }
  [[nodiscard]] const T& back() const { return *(end() - 1); }

  // The vector to fill. Only valid if it owns its elements.
  [[nodiscard]] std::vector<T>& own() { return own_; }

 private:
  std::vector<T> own_;
  std::span<const T> there_;
  std::shared_ptr<const void> owner_;
};

}  // namespace membrane
