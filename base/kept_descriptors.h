// Descriptors that this process needs while it runs guests: those of mapped images and of executable memory. Code
// that closes all other descriptors asks here which to keep.
//
// Threads: any.
#pragma once

#include <mutex>
#include <set>
#include <vector>

namespace membrane {

class KeptDescriptors {
 public:
  static KeptDescriptors& instance() {
    static auto* const all = new KeptDescriptors;  // outlives every owner, including static ones
    return *all;
  }
  void add(int number) {
    const std::lock_guard lock(mutex_);
    if (number >= 0) numbers_.insert(number);
  }
  void remove(int number) {
    const std::lock_guard lock(mutex_);
    numbers_.erase(number);
  }
  [[nodiscard]] std::vector<int> numbers() {
    const std::lock_guard lock(mutex_);
    return {numbers_.begin(), numbers_.end()};
  }

 private:
  std::mutex mutex_;
  std::set<int> numbers_;
};

}  // namespace membrane
