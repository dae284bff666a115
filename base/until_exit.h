// Keeps an object until the process ends, because destroying it would only cost time. The object stays reachable, so
// leak checkers do not report it. Any thread may call.

#ifndef MEMBRANE_BASE_UNTIL_EXIT_H_
#define MEMBRANE_BASE_UNTIL_EXIT_H_

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace membrane {

inline void keep_shared_until_exit(std::shared_ptr<void> what) {
  static auto* const mutex = new std::mutex;
  static auto* const kept = new std::vector<std::shared_ptr<void>>;
  const std::lock_guard lock(*mutex);
  kept->push_back(std::move(what));
}

template <typename T>
T& keep_until_exit(std::unique_ptr<T> what) {
  T& kept = *what;
  keep_shared_until_exit(std::move(what));
  return kept;
}

}  // namespace membrane

#endif  // MEMBRANE_BASE_UNTIL_EXIT_H_
