// Where a sandbox's random bytes come from: the host, or a stream of a seed, which is the same in every run.
//
// Threads: the kernel's one.
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
  // False when the host gives none.
  [[nodiscard]] bool fill(std::span<std::byte> bytes);
  // The stream as it stands; nullptr for the host's.
  [[nodiscard]] const RandomStream* stream() const { return stream_ ? &*stream_ : nullptr; }
  void go_on_from(const RandomStream& stream) { stream_ = stream; }

 private:
  std::optional<RandomStream> stream_;
};

}  // namespace membrane::linux
