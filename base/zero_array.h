// A zero-initialised array that only uses memory for the pages that are touched: for tables of which most elements
// are never accessed.
//
// Ownership: owns its elements, which must be trivially destructible and valid as zeroes. Threads: as a vector.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace membrane {

template <typename T>
class ZeroArray {
 public:
  ZeroArray() = default;
  // Throws std::bad_alloc like new.
  explicit ZeroArray(size_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    constexpr size_t kLeastMappedBytes = 256u << 10;  // below this the heap has memory at hand
    const size_t bytes = count * sizeof(T);
    if (count == 0) return;
    if (bytes < kLeastMappedBytes) {
      elements_ = {static_cast<T*>(std::calloc(count, sizeof(T))), Free{0}};
    } else {
      void* const at =
          mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      elements_ = {at == MAP_FAILED ? nullptr : static_cast<T*>(at), Free{bytes}};
    }
    if (elements_ == nullptr) throw std::bad_alloc();
  }

  [[nodiscard]] T* get() const { return elements_.get(); }
  T& operator[](size_t index) const { return elements_[index]; }

 private:
  struct Free {
    size_t mapped_bytes = 0;  // 0 when allocated on the heap
    void operator()(T* elements) const {
      if (mapped_bytes != 0) munmap(elements, mapped_bytes);
      else std::free(elements);
    }
  };
  std::unique_ptr<T[], Free> elements_;
};

}  // namespace membrane
