// Which platforms this machine has, and which of them is faster.
#pragma once

#include <string>
#include <vector>

namespace membrane::linux {

struct PlatformDescription {
  std::string name;  // "trap", "kvm"
  bool is_usable = false;
  std::string why_not;     // if it is not
  double call_us = 0;      // measured cost of a guest's system call, including the return
  bool is_chosen = false;  // the default
  std::string reason;      // of the choice
};

// All platforms. Starts and measures each, in some ten milliseconds.
std::vector<PlatformDescription> describe_platforms();

// "trap" or "kvm": the platform to use when none is demanded. It is determined once per process, and measured
// only where the processor has hardware virtualization.
const std::string& fastest_platform();

}  // namespace membrane::linux
