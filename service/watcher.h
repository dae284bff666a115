// What Sandboxes queries and reports while it works: quotas, records on disk, metrics, the audit log. It is
// optional; each function does nothing unless it is overridden.
//
// Threads: any. Nothing here may call Sandboxes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/policy.h"
#include "sandbox/report/report.h"
#include "service/actor.h"
#include "service/errors.h"
#include "service/quotas.h"

namespace membrane::service {

struct SandboxInfo;
struct KeptSandbox;

enum class EndReason : uint8_t { kKilled, kExpired, kIdle };

// One exec, after its end.
struct ExecFacts {
  Actor actor;  // who asked for it
  std::string sandbox, template_name, exec;
  uint64_t waited_us = 0;  // before it began
  uint64_t ran_us = 0;
  uint64_t most_egress_bytes = 0;  // its policy's limit
  uint64_t held_fuel = 0;          // that hold_fuel() gave
};

class Watcher {
 public:
  virtual ~Watcher() = default;

  // Called under locks of Sandboxes: must be quick.
  [[nodiscard]] virtual Quotas quotas_of(const std::string& /*tenant*/) { return {}; }
  // Before an exec is queued. Errors: kQuotaExceeded; kTooManyRequests while running execs hold what is left.
  virtual Answer<void> may_exec(const std::string& /*tenant*/) { return {}; }
  // Before one begins: the fuel that it may use, of the `wanted` that its policy allows, which is held for it
  // until exec_ended(). Nothing: no quota bounds it. Errors: those of may_exec().
  virtual Answer<std::optional<uint64_t>> hold_fuel(const std::string& /*tenant*/, uint64_t /*wanted*/) {
    return std::nullopt;
  }

  // Before the sandbox, or its change, is published: an error undoes it.
  // `snapshot`: the id of the one that it was made from; "": none.
  virtual Answer<void> created(const Actor& /*actor*/, const SandboxInfo& /*sandbox*/,
                               const policy::Policy& /*policy*/, const std::string& /*snapshot*/,
                               uint64_t /*took_us*/) {
    return {};
  }
  virtual Answer<void> changed(const std::string& /*tenant*/, const SandboxInfo& /*sandbox*/) { return {}; }
  // It is in images from now on, or has changed there. It may already have ended; then it stays ended.
  virtual Answer<void> kept(const KeptSandbox& /*sandbox*/) { return {}; }
  // It is in memory again, and its images are released.
  virtual Answer<void> resumed(const std::string& /*sandbox*/) { return {}; }
  virtual void ended(const Actor& /*actor*/, const std::string& /*sandbox*/, EndReason /*why*/) {}
  virtual void exec_ended(const ExecFacts& /*facts*/, const sandbox::Report& /*report*/) {}
  // Anything else that belongs into the audit log. It is written when this returns. Errors: those of the log.
  virtual Answer<void> acted(const Actor& /*actor*/, std::string_view /*event*/,
                             const std::map<std::string, std::string>& /*fields*/) {
    return {};
  }

  // For a sandbox that no longer exists: why, as far as it is known; otherwise "".
  [[nodiscard]] virtual std::string why_gone(const std::string& /*tenant*/, const std::string& /*sandbox*/) {
    return {};
  }
};

}  // namespace membrane::service
