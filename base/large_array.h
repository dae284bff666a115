// An array whose pages are all there from the start: for tables that are filled at once, where the faults for their
// pages, one by one, would cost more than filling them.
//
// Ownership: owns its elements, which must not need more than to be forgotten when they go. Threads: as a vector.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

namespace membrane {

template <typename T>
class LargeArray {
 public:
  LargeArray() = default;
  // Value-initialised. Throws std::bad_alloc as new does.
  explicit LargeArray(size_t count) {
    static_assert(std::is_default_constructible_v<T>);
    if (count == 0) return;
    const size_t bytes = count * sizeof(T);
    constexpr size_t kLeastBytes = 256u << 10;  // with less, the heap has pages at hand
    elements_ = bytes >= kLeastBytes ? mapped(count)
                                     : std::unique_ptr<T[], Free>(static_cast<T*>(::operator new(bytes)),
                                                                  Free{count, nullptr, 0});
    std::uninitialized_value_construct_n(elements_.get(), count);
  }

  [[nodiscard]] T* get() const { return elements_.get(); }
  T& operator[](size_t index) const { return elements_[index]; }
  explicit operator bool() const { return elements_ != nullptr; }

 private:
  struct Free {
    size_t count = 0;
    void* mapping = nullptr;
    size_t mapped_bytes = 0;
    void operator()(T* elements) const {
      if constexpr (!std::is_trivially_destructible_v<T>) std::destroy_n(elements, count);
      if (mapping != nullptr) munmap(mapping, mapped_bytes);
      else ::operator delete(elements);
    }
  };

  // In huge pages, where the system has them and the array is worth one.
  static std::unique_ptr<T[], Free> mapped(size_t count) {
    constexpr size_t kHuge = 2u << 20;
    const size_t bytes = count * sizeof(T);
    const bool is_huge = bytes >= kHuge;
    const size_t whole = is_huge ? (bytes + kHuge - 1) / kHuge * kHuge + kHuge : bytes;
    void* const at =
        mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    auto begin = reinterpret_cast<uintptr_t>(at);
    if (is_huge) {
      begin = (begin + kHuge - 1) / kHuge * kHuge;
      madvise(reinterpret_cast<void*>(begin), whole - kHuge, MADV_HUGEPAGE);
    }
#ifdef MADV_POPULATE_WRITE
    madvise(reinterpret_cast<void*>(begin), bytes, MADV_POPULATE_WRITE);  // a hint
#endif
    return {reinterpret_cast<T*>(begin), Free{count, at, whole}};
  }
  std::unique_ptr<T[], Free> elements_;
};

}  // namespace membrane
