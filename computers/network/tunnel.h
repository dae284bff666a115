// Connects a program's encrypted connection with one to its host: bytes are forwarded unseen.
//
// Each side has a bounded buffer: a side that does not read stops the other from sending. Bytes are charged
// to the budget's bytes_out and bytes_in before they are forwarded.
//
// Threads: the caller's; several may run at the same time.
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

// Connects to the first of the addresses that answers. Errors: ECONNECT, ETIMEDOUT, EHOST.
host::HostResult<linux::HostFile> dial(const std::vector<policy::Address>& addresses, uint16_t port,
                                       const host::Deadline& deadline, const Stop& stop);

struct TunnelEnd {
  uint64_t bytes_in = 0, bytes_out = 0;  // to the program, from it
  std::optional<host::HostError> error;  // nothing when both sides have ended it
};
// `first`: bytes of the program's that were already read. Runs until both sides have closed, one is lost, or
// everything is to stop. `name`: the server's; EACCES if the program names another one.
TunnelEnd relay(SocketStream& program, std::string_view first, const std::string& name,
                const linux::HostFile& server, policy::Budget& budget, const Stop& stop);

}  // namespace membrane::computers
