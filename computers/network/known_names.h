// The addresses of hosts that a sandbox's programs have just used. A program that makes many concurrent
// requests to a host would query the name service as often, and lose some of the answers.
//
// Threads: any number may call.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "host/egress/resolver.h"

namespace membrane::computers {

class KnownNames final : public host::Resolver {
 public:
  static constexpr std::chrono::seconds kKnownFor{10};
  static constexpr size_t kMostNames = 256;

  explicit KnownNames(host::Resolver& resolver) : resolver_(resolver) {}
  // Returns what was found within the last seconds, or else what the resolver finds; it is asked once at a
  // time for each host. Its errors are not remembered, but go to all callers that wait for the same answer.
  host::HostResult<std::vector<policy::Address>> resolve(const std::string& host,
                                                         uint64_t timeout_ms) override;

 private:
  using Clock = std::chrono::steady_clock;
  using Addresses = host::HostResult<std::vector<policy::Address>>;
  struct Name {
    bool is_asked = false;
    std::optional<Addresses> found;
    Clock::time_point found_at;
  };
  void make_room();

  host::Resolver& resolver_;
  std::mutex mutex_;  // of what follows
  std::condition_variable answered_;
  std::map<std::string, Name> names_;
};

}  // namespace membrane::computers
