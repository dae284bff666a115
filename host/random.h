// Random bytes as a grant describes them.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/random_stream.h"
#include "host/errno.h"
#include "host/sources.h"
#include "policy/policy.h"

namespace membrane::host {

// The implementation of Broker::random_bytes: the kernel's entropy when the grant is for real randomness, else the
// stream whose key is the grant's seed; or the embedder's replacements.
class RandomSource {
 public:
  // `sources` is borrowed, and may be null.
  explicit RandomSource(const policy::RandomGrant& grant, const Sources* sources = nullptr);

  static constexpr uint32_t kMaxBytes = 1u << 20;  // per call; more is E2BIG
  HostResult<std::string> bytes(uint32_t count);
  // How many bytes of the seeded stream have been taken; and continues after that many.
  [[nodiscard]] uint64_t position() const { return stream_.position(); }
  void go_to(uint64_t position) { stream_ = RandomStream(stream_.key(), position); }

 private:
  bool real_;
  const Sources* sources_;
  RandomStream stream_;
};

}  // namespace membrane::host
