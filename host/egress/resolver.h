// From a host name to addresses. The egress resolves names itself, so that it can check
// every answer before anything is dialled, and dial exactly what it checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/errno.h"
#include "policy/address.h"

namespace membrane::host {

// Threads: several may call at the same time.
class Resolver {
 public:
  virtual ~Resolver() = default;
  // All addresses of `host`, in the order to try; not empty. ECONNECT when there are none,
  // ETIMEDOUT when there is no answer within `timeout_ms`.
  virtual HostResult<std::vector<policy::Address>> resolve(const std::string& host, uint64_t timeout_ms) = 0;
};

// The system's resolver (getaddrinfo). It cannot be interrupted, so it runs in a thread that
// is left behind when it takes too long; at most kMaxPending of those live at a time.
// Threads: any number may call.
class SystemResolver final : public Resolver {
 public:
  static constexpr int kMaxPending = 32;
  HostResult<std::vector<policy::Address>> resolve(const std::string& host, uint64_t timeout_ms) override;
};

}  // namespace membrane::host
