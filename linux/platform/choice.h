// Which platforms this machine has, and which of them is the faster one.
#pragma once

#include <string>
#include <vector>

namespace membrane::linux {

struct PlatformDescription {
  std::string name;  // "trap", "kvm"
  bool is_usable = false;
  std::string why_not;     // if it is not
  double call_us = 0;      // what a guest's system call costs, measured: to the kernel process and back
  bool is_chosen = false;  // where none is demanded
  std::string reason;      // of the choice
};

// All that exist. Starts and measures each: some ten milliseconds.
std::vector<PlatformDescription> describe_platforms();

// "trap" or "kvm": the one for who demands none. It is found once for a process; only where the processor itself has
// machines, by measuring.
const std::string& fastest_platform();

}  // namespace membrane::linux
