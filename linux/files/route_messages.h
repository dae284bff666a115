// Messages of NETLINK_ROUTE (rtnetlink): requests and their answers. Threads: any.
#pragma once

#include <linux/netlink.h>

#include <cstddef>
#include <span>
#include <vector>

#include "linux/abi/answer.h"
#include "linux/files/network.h"

namespace membrane::linux {

// The messages that answer one request, without NLMSG_DONE: RTM_GETLINK, RTM_GETADDR and RTM_GETROUTE, for
// all objects of a kind (NLM_F_DUMP) or one. `body` follows the header. `port` is the sender's. Errors: those
// that NLMSG_ERROR reports.
Try<std::vector<std::byte>> answer_route_request(const nlmsghdr& request, std::span<const std::byte> body,
                                                 uint32_t port, const Network* network);

}  // namespace membrane::linux
