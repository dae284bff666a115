// The source of a sandbox's random bytes: the host, or a seeded stream that is the same in every run.
//
// Threads: the kernel's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/random_stream.h"

namespace membrane::linux {

class Entropy {
 public:
  Entropy() = default;  // the host's
  explicit Entropy(uint64_t seed) : stream_(RandomStream(RandomStream::key_of(seed))) {}
  // False when the host provides none.
  [[nodiscard]] bool fill(std::span<std::byte> bytes);
  // The stream in its current state; nullptr for the host's entropy.
  [[nodiscard]] const RandomStream* stream() const { return stream_ ? &*stream_ : nullptr; }
  void go_on_from(const RandomStream& stream) { stream_ = stream; }

 private:
  std::optional<RandomStream> stream_;
};

}  // namespace membrane::linux
