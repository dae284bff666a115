// A directory of the host for each test, granted through the real broker and its gate.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "host/broker_gate.h"
#include "host/local_broker.h"
#include "wasi/program_testing.h"

namespace membrane::wasi {

class HostWorld {
 public:
  HostWorld() {
    // A file system in memory is enough, and faster.
    std::string name = (std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp") +
                       std::string("/membrane_wasi_XXXXXX");
    root = mkdtemp(name.data());
    std::filesystem::create_directory(root / "inside");
    std::filesystem::create_directory(root / "outside");
    put("outside/secret", "the secret");
  }
  HostWorld(const HostWorld&) = delete;
  HostWorld& operator=(const HostWorld&) = delete;
  ~HostWorld() { std::filesystem::remove_all(root); }

  policy::FsGrant& allow(const std::string& guest, const std::string& host, policy::FsMode mode) {
    policy::FsGrant grant;
    grant.guest = guest;
    grant.host = (root / host).string();
    grant.mode = mode;
    return policy.fs.emplace_back(grant);
  }
  // Call after setting the grants. One per test.
  Config config() {
    local = std::make_unique<host::LocalBroker>(policy, budget, nullptr, nullptr);
    gate.emplace(host::BrokerGate::to_world(*local, &budget, &journal));
    Config config;
    config.policy = &policy;
    config.world.broker = &*gate;
    return config;
  }

  void put(const std::string& name, const std::string& text) { std::ofstream(root / name) << text; }
  [[nodiscard]] std::string got(const std::string& name) const {
    std::ostringstream out;
    out << std::ifstream(root / name).rdbuf();
    return out.str();
  }
  [[nodiscard]] bool is_outside_untouched() const {
    const auto begin = std::filesystem::directory_iterator(root / "outside");
    return got("outside/secret") == "the secret" &&
           std::distance(begin, std::filesystem::directory_iterator()) == 1;
  }

  std::filesystem::path root;
  policy::Policy policy;
  policy::Budget budget;
  host::Journal journal;
  std::unique_ptr<host::LocalBroker> local;
  std::optional<host::BrokerGate> gate;
};

}  // namespace membrane::wasi
