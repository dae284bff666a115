// The network use of a build's instructions (image_build.h): the hosts they reached, what would allow what
// was refused, and which of their grants go into the keys of layers.
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
  uint64_t calls = 0;  // requests, encrypted connections, and refusals
  uint64_t refused = 0;
  uint64_t bytes_in = 0, bytes_out = 0;
};

// Sorted by name.
std::vector<ContactedHost> contacted_hosts(const std::vector<sandbox::HostCallRecord>& calls);
// A hint that says what would allow the refused calls; "" if there were none.
std::string how_to_allow(const std::vector<sandbox::HostCallRecord>& calls);

// The same grants in any order give the same words.
std::vector<std::string> words_of(const std::vector<policy::HttpGrant>& grants);
// The grants of this machine itself, by an address or as localhost. If no grant reaches it, a program's
// attempt goes unnoticed: the sandbox's own loopback answers.
std::vector<policy::HttpGrant> loopback_grants(const std::vector<policy::HttpGrant>& grants);

}  // namespace membrane::computers
