// What the instructions of a build (image_build.h) do with the network: whom they reached, what would allow what was refused, and what
// of their grants is in the keys of layers.
//
// Threads: pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policy/policy.h"
#include "sandbox/report.h"

namespace membrane::computers {

struct ContactedHost {
  std::string host;    // "example.org", "localhost:8000"
  uint64_t calls = 0;  // requests, encrypted connections, and what was refused
  uint64_t refused = 0;
  uint64_t bytes_in = 0, bytes_out = 0;
};

// By name.
std::vector<ContactedHost> contacted_hosts(const std::vector<sandbox::HostCallRecord>& calls);
// What would allow what was refused, as a hint; "" where nothing was.
std::string how_to_allow(const std::vector<sandbox::HostCallRecord>& calls);

// The same grants in any order give the same words.
std::vector<std::string> words_of(const std::vector<policy::HttpGrant>& grants);
// Those of this machine itself, by an address or as localhost. Where none reaches it, nobody hears that a program has tried: the
// sandbox's own loopback has answered.
std::vector<policy::HttpGrant> loopback_grants(const std::vector<policy::HttpGrant>& grants);

}  // namespace membrane::computers
