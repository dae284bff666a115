// Messages of NETLINK_ROUTE (rtnetlink): what is asked, and what is answered. Threads: any.
#pragma once

#include <linux/netlink.h>

#include <cstddef>
#include <span>
#include <vector>

#include "linux/abi/answer.h"
#include "linux/files/network.h"

namespace membrane::linux {

// The messages that answer one request, without NLMSG_DONE: of RTM_GETLINK, RTM_GETADDR and RTM_GETROUTE, all of a kind (NLM_F_DUMP) or
// one. `body` is what follows the header. `port` is the asker's. Errors: those that NLMSG_ERROR tells.
Try<std::vector<std::byte>> answer_route_request(const nlmsghdr& request, std::span<const std::byte> body,
                                                 uint32_t port, const Network* network);

}  // namespace membrane::linux
