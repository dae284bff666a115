// A program's encrypted connection and one to the host that it is for: bytes go to and fro, seen by nobody.
//
// Both sides are bounded by a buffer each: who does not read stops the other's sending. The budget's bytes_out and bytes_in are taken
// before bytes are handed on.
//
// Threads: the caller's; several at the same time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "computers/network/stream.h"
#include "host/deadline.h"
#include "host/errno.h"
#include "policy/address.h"
#include "policy/budget.h"

namespace membrane::computers {

// To the first of the addresses that answers. Errors: ECONNECT, ETIMEDOUT, EHOST.
host::HostResult<linux::HostFile> dial(const std::vector<policy::Address>& addresses, uint16_t port,
                                       const host::Deadline& deadline, const Stop& stop);

struct TunnelEnd {
  uint64_t bytes_in = 0, bytes_out = 0;  // to the program, from it
  std::optional<host::HostError> error;  // nothing when both sides have ended it
};
// `first`: what was read of the program's already. Until both sides have ended, one is gone, or everything is to stop.
// `name`: of the server; the program says to it that it means another: EACCES.
TunnelEnd relay(SocketStream& program, std::string_view first, const std::string& name,
                const linux::HostFile& server, policy::Budget& budget, const Stop& stop);

}  // namespace membrane::computers
