#include "linux/files/interfaces.h"

#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace membrane::linux {
namespace {

constexpr uint32_t kLowerUp = 0x10000;  // IFF_LOWER_UP, which <net/if.h> lacks

constexpr std::array<Interface, 2> kInterfaces = {{
    {.index = 1,
     .name = "lo",
     .flags = IFF_UP | IFF_LOOPBACK | IFF_RUNNING | kLowerUp,
     .hardware = ARPHRD_LOOPBACK,
     .mtu = 65536,
     .address = {127, 0, 0, 1},
     .prefix = 8,
     .has_loopback_v6 = true},
    {.index = 2,
     .name = "eth0",
     .flags = IFF_UP | IFF_BROADCAST | IFF_RUNNING | IFF_MULTICAST | kLowerUp,
     .hardware = ARPHRD_ETHER,
     .mtu = 1500,
     .hardware_address = {2, 0, 198, 18, 0, 1},
     .hardware_broadcast = {255, 255, 255, 255, 255, 255},
     .address = kOwnAddress,
     .broadcast = {198, 19, 255, 255},
     .prefix = 15},
}};

void set_address(ifreq& wish, const std::array<uint8_t, 4>& address) {
  sockaddr_in record = {};
  record.sin_family = AF_INET;
  std::memcpy(&record.sin_addr, address.data(), address.size());
  std::memcpy(&wish.ifr_addr, &record, sizeof record);
}

void set_name(ifreq& wish, std::string_view name) {
  std::memset(wish.ifr_name, 0, sizeof wish.ifr_name);
  std::memcpy(wish.ifr_name, name.data(), std::min(name.size(), sizeof wish.ifr_name - 1));
}

std::array<uint8_t, 4> mask_of(uint8_t prefix) {
  const uint32_t mask = ~uint32_t{0} << (32 - prefix);
  return {static_cast<uint8_t>(mask >> 24), static_cast<uint8_t>(mask >> 16), static_cast<uint8_t>(mask >> 8),
          static_cast<uint8_t>(mask)};
}

// As many whole records as the caller has room for.
Try<int64_t> list(Caller& caller, const Network* network, uint64_t argument) {
  MEMBRANE_ASSIGN(auto room, caller.get<ifconf>(argument));
  const auto all = interfaces(network);
  const auto at = reinterpret_cast<uint64_t>(room.ifc_buf);
  if (at == 0) {
    room.ifc_len = static_cast<int>(all.size() * sizeof(ifreq));
  } else {
    const size_t fits = room.ifc_len < 0 ? 0 : static_cast<size_t>(room.ifc_len) / sizeof(ifreq);
    const size_t count = std::min(fits, all.size());
    for (size_t i = 0; i < count; ++i) {
      ifreq record = {};
      set_name(record, all[i].name);
      set_address(record, all[i].address);
      MEMBRANE_TRY(caller.put(at + i * sizeof record, record));
    }
    room.ifc_len = static_cast<int>(count * sizeof(ifreq));
  }
  MEMBRANE_TRY(caller.put(argument, room));
  return 0;
}

Done tell(const Interface& of, uint64_t request, bool is_inet, ifreq& wish) {
  switch (request) {
    case SIOCGIFADDR:
    case SIOCGIFDSTADDR:
      if (!is_inet) return err(ENOTTY);
      set_address(wish, of.address);
      return {};
    case SIOCGIFNETMASK:
      if (!is_inet) return err(ENOTTY);
      set_address(wish, mask_of(of.prefix));
      return {};
    case SIOCGIFBRDADDR:
      if (!is_inet) return err(ENOTTY);
      set_address(wish, of.broadcast);
      return {};
    case SIOCGIFFLAGS: wish.ifr_flags = static_cast<short>(of.flags & 0xffff); return {};
    case SIOCGIFINDEX: wish.ifr_ifindex = of.index; return {};
    case SIOCGIFMTU: wish.ifr_mtu = static_cast<int>(of.mtu); return {};
    case SIOCGIFMETRIC: wish.ifr_metric = 0; return {};
    case SIOCGIFTXQLEN: wish.ifr_qlen = 1000; return {};
    case SIOCGIFMAP: wish.ifr_map = {}; return {};
    case SIOCGIFHWADDR:
      wish.ifr_hwaddr = {};
      wish.ifr_hwaddr.sa_family = of.hardware;
      std::memcpy(wish.ifr_hwaddr.sa_data, of.hardware_address.data(), of.hardware_address.size());
      return {};
    default: return err(ENOTTY);
  }
}

bool would_change(uint64_t request) {
  switch (request) {
    case SIOCADDRT:
    case SIOCDELRT:
    case SIOCSIFNAME:
    case SIOCSIFFLAGS:
    case SIOCSIFADDR:
    case SIOCSIFDSTADDR:
    case SIOCSIFBRDADDR:
    case SIOCSIFNETMASK:
    case SIOCSIFMETRIC:
    case SIOCSIFMTU:
    case SIOCSIFHWADDR:
    case SIOCSIFTXQLEN:
    case SIOCDIFADDR: return true;
    default: return false;
  }
}

}  // namespace

std::span<const Interface> interfaces(const Network* network) {
  return std::span(kInterfaces).first(network == nullptr ? 1 : 2);
}

const Interface* find_interface(const Network* network, int index) {
  const auto all = interfaces(network);
  const auto found = std::ranges::find(all, index, &Interface::index);
  return found == all.end() ? nullptr : &*found;
}

const Interface* find_interface(const Network* network, std::string_view name) {
  const auto all = interfaces(network);
  const auto found = std::ranges::find(all, name, &Interface::name);
  return found == all.end() ? nullptr : &*found;
}

Try<int64_t> interface_request(Caller& caller, const Network* network, bool is_inet, uint64_t request,
                               uint64_t argument) {
  if (would_change(request)) return err(EPERM);
  if (request == SIOCGIFCONF) return list(caller, network, argument);
  if (request < SIOCGIFNAME || request > SIOCGIFMAP + 0x20) return err(ENOTTY);
  MEMBRANE_ASSIGN(auto wish, caller.get<ifreq>(argument));
  const Interface* found;
  if (request == SIOCGIFNAME) {
    found = find_interface(network, wish.ifr_ifindex);
    if (found == nullptr) return err(ENODEV);
    set_name(wish, found->name);
  } else {
    const std::string_view name(wish.ifr_name, strnlen(wish.ifr_name, sizeof wish.ifr_name));
    found = find_interface(network, name);
    ifreq answer = wish;
    if (const Done shown = tell(found != nullptr ? *found : kInterfaces[0], request, is_inet, answer); !shown)
      return err(shown.error());
    if (found == nullptr) return err(ENODEV);
    wish = answer;
  }
  MEMBRANE_TRY(caller.put(argument, wish));
  return 0;
}

}  // namespace membrane::linux
