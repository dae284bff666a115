#include "host/egress/resolver.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

namespace membrane::host {
namespace {

using policy::Address;

// Shared by the caller and the thread, whichever lives longer.
struct Lookup {
  std::mutex mutex;
  std::condition_variable done_changed;
  bool done = false;
  std::vector<Address> addresses;
};

std::atomic<int> pending{0};

std::vector<Address> addresses_of(const addrinfo* list) {
  std::vector<Address> out;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    Address address;
    if (at->ai_family == AF_INET) {
      std::array<uint8_t, 4> bytes;
      std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in*>(at->ai_addr)->sin_addr, bytes.size());
      address = Address::v4(bytes);
    } else if (at->ai_family == AF_INET6) {
      std::array<uint8_t, 16> bytes;
      std::memcpy(bytes.data(), &reinterpret_cast<const sockaddr_in6*>(at->ai_addr)->sin6_addr, bytes.size());
      address = Address::v6(bytes);
    } else {
      continue;
    }
    if (std::find(out.begin(), out.end(), address) == out.end()) out.push_back(address);
  }
  return out;
}

void look_up(const std::string& host, Lookup& lookup) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  std::vector<Address> found;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &list) == 0) {
    found = addresses_of(list);
    freeaddrinfo(list);
  }
  const std::lock_guard lock(lookup.mutex);
  lookup.addresses = std::move(found);
  lookup.done = true;
  lookup.done_changed.notify_all();
}

}  // namespace

HostResult<std::vector<Address>> SystemResolver::resolve(const std::string& host, uint64_t timeout_ms) {
  if (pending.fetch_add(1) >= kMaxPending) {
    pending.fetch_sub(1);
    return refuse(Errno::kHost, "The name service does not answer: too many look-ups are waiting for it.");
  }
  auto lookup = std::make_shared<Lookup>();
  try {
    std::thread([lookup, host] {
      look_up(host, *lookup);
      pending.fetch_sub(1);
    }).detach();
  } catch (const std::system_error&) {
    pending.fetch_sub(1);
    return refuse(Errno::kHost, "No thread could be started to look up the name.");
  }
  constexpr uint64_t kLongestMs = 3'600'000;
  std::unique_lock lock(lookup->mutex);
  const auto limit = std::chrono::milliseconds(std::min(timeout_ms, kLongestMs));
  if (!lookup->done_changed.wait_for(lock, limit, [&] { return lookup->done; }))
    return refuse(Errno::kTimedOut, "The name service did not answer in time for " + host + ".");
  if (lookup->addresses.empty()) return refuse(Errno::kConnection, "The name " + host + " has no address.");
  return std::move(lookup->addresses);
}

}  // namespace membrane::host
