// Character devices by number: /dev/null and the like, /dev/tty. File systems ask Devices when a node of type
// S_IFCHR is opened.
// Threads: the kernel's thread.
#pragma once

#include <functional>
#include <map>

#include "linux/abi/entropy.h"
#include "linux/files/file.h"

namespace membrane::linux {

// The number of a device with a small major and minor, as in makedev().
constexpr uint64_t device_number(uint32_t major, uint32_t minor) { return (uint64_t{major} << 8) | minor; }
constexpr uint64_t kNullDevice = device_number(1, 3), kZeroDevice = device_number(1, 5),
                   kFullDevice = device_number(1, 7), kRandomDevice = device_number(1, 8),
                   kUrandomDevice = device_number(1, 9), kTtyDevice = device_number(5, 0),
                   kPtmxDevice = device_number(5, 2);

class Devices {
 public:
  using Opener = std::function<Try<FileRef>(Caller&, const NodeRef&, int flags)>;
  // Includes the devices of this file: null, zero, full, random, urandom, tty.
  explicit Devices(const std::shared_ptr<Entropy>& entropy = std::make_shared<Entropy>());
  void add(uint64_t number, Opener opener) { openers_[number] = std::move(opener); }
  // Errors: ENXIO for a number that no device has.
  [[nodiscard]] Try<FileRef> open(uint64_t number, Caller& caller, const NodeRef& node, int flags) const;

 private:
  std::map<uint64_t, Opener> openers_;
};

}  // namespace membrane::linux
