// Who may write a shared node in place: the owner whose number the node has.
//
// A fork gives new numbers to both sides, so that shared nodes belong to neither, and are copied by the first side
// that writes. Reference counts are not consulted, so sides on different threads need no lock.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>

namespace membrane::wasi {

using Owner = uint64_t;
inline constexpr Owner kNobody = 0;  // of images

inline Owner new_owner() {
  static std::atomic<uint64_t> last{kNobody};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace membrane::wasi
