// Counts the bytes that the service holds in memory for each tenant, against a limit: bodies of requests and
// answers, waiting code and input, kept output. A tenant that holds too much is refused; others are not
// affected.
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

  // A part of an owner's bytes, held until the Hold is destroyed. A Hold without an owner counts nothing.
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

    // Errors: kTooManyRequests when the owner would exceed the limit; then nothing has changed.
    Answer<void> try_grow(uint64_t bytes);
    // Ignores the limit: for what is limited otherwise.
    void grow(uint64_t bytes);
    void shrink(uint64_t bytes);
    // Grows to at least, or shrinks to at most, this total. Errors: those of try_grow().
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
  std::map<std::string, uint64_t> bytes_;  // by owner; only those that hold some
};

}  // namespace membrane::service
