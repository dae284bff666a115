// The network interfaces of a sandbox as its programs see them: the loopback and, with a network (network.h),
// one more whose address programs take to be the sandbox's own. None of them can be changed. Threads: any.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "linux/files/file.h"
#include "linux/files/network.h"

namespace membrane::linux {

struct Interface {
  int index = 0;
  std::string_view name;
  uint32_t flags = 0;     // IFF_…, as netlink reports them
  uint16_t hardware = 0;  // ARPHRD_…
  uint32_t mtu = 0;
  std::array<uint8_t, 6> hardware_address = {}, hardware_broadcast = {};
  std::array<uint8_t, 4> address = {}, broadcast = {};  // IPv4; a broadcast of zeros: none
  uint8_t prefix = 0;
  bool has_loopback_v6 = false;  // ::1
  [[nodiscard]] bool is_loopback() const { return has_loopback_v6; }
};

// `network` may be null.
std::span<const Interface> interfaces(const Network* network);
// nullptr when there is none.
const Interface* find_interface(const Network* network, int index);
const Interface* find_interface(const Network* network, std::string_view name);

// SIOCGIFCONF and the like. Requests that would change an interface are EPERM. Errors: ENOTTY, ENODEV,
// EFAULT, EADDRNOTAVAIL.
Try<int64_t> interface_request(Caller& caller, const Network* network, bool is_inet, uint64_t request,
                               uint64_t argument);

}  // namespace membrane::linux
