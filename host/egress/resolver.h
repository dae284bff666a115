// Resolves a host name to addresses. The egress resolves names itself, so that it can check every answer before it
// connects, and connect exactly to what it checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/errno.h"
#include "policy/address.h"

namespace membrane::host {

// Threads: any; concurrent calls are allowed.
class Resolver {
 public:
  virtual ~Resolver() = default;
  // All addresses of `host`, in the order to try; not empty. ECONNECT when there are none, ETIMEDOUT when there is
  // no answer within `timeout_ms`.
  virtual HostResult<std::vector<policy::Address>> resolve(const std::string& host, uint64_t timeout_ms) = 0;
};

// The system's resolver (getaddrinfo). It cannot be interrupted, so it runs in a thread that is abandoned when it
// takes too long; at most kMaxPending of those exist at a time. Threads: any.
class SystemResolver final : public Resolver {
 public:
  static constexpr int kMaxPending = 32;
  HostResult<std::vector<policy::Address>> resolve(const std::string& host, uint64_t timeout_ms) override;
};

}  // namespace membrane::host
