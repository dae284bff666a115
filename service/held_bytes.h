// How many bytes the service holds in its memory for each of its tenants, against a bound: bodies of requests and their
// answers, code and input that wait, output that is kept. A tenant that holds too much is refused; others do not notice.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "service/errors.h"

namespace membrane::service {

class HeldBytes {
 public:
  explicit HeldBytes(uint64_t most_of_each) : most_of_each_(most_of_each) {}

  // Some of an owner's bytes, which it holds until the Hold ends. One that was made without an owner counts nothing.
  //
  // Threads: one at a time.
  class Hold {
   public:
    Hold() = default;
    Hold(std::shared_ptr<HeldBytes> in, std::string owner) : in_(std::move(in)), owner_(std::move(owner)) {}
    ~Hold() { shrink(bytes_); }
    Hold(Hold&& from) noexcept { swap(from); }
    Hold& operator=(Hold&& from) noexcept {
      Hold taken(std::move(from));
      swap(taken);
      return *this;
    }

    // Errors: kTooManyRequests when the owner would hold more than the bound; then all is as before.
    Answer<void> try_grow(uint64_t bytes);
    // Whatever the bound is: for what is bounded otherwise.
    void grow(uint64_t bytes);
    void shrink(uint64_t bytes);
    // At least, and at most, so many in all. Errors: as try_grow().
    Answer<void> try_reach(uint64_t bytes) {
      return bytes > bytes_ ? try_grow(bytes - bytes_) : Answer<void>();
    }
    void shrink_to(uint64_t bytes) {
      if (bytes < bytes_) shrink(bytes_ - bytes);
    }

    [[nodiscard]] uint64_t bytes() const { return bytes_; }

   private:
    void swap(Hold& other) noexcept {
      std::swap(in_, other.in_);
      std::swap(owner_, other.owner_);
      std::swap(bytes_, other.bytes_);
    }

    std::shared_ptr<HeldBytes> in_;
    std::string owner_;
    uint64_t bytes_ = 0;
  };

  [[nodiscard]] uint64_t of(const std::string& owner) const;
  [[nodiscard]] uint64_t most_of_each() const { return most_of_each_; }

 private:
  const uint64_t most_of_each_;
  mutable std::mutex mutex_;               // guards what follows
  std::map<std::string, uint64_t> bytes_;  // by owner; of those that hold some
};

}  // namespace membrane::service
