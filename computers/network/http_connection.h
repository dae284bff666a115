// HTTP/1.1 as programs of a Linux sandbox speak it over a connection: each request is read, handed to the egress, which decides
// and sends it, and answered. Nothing of a program's framing reaches a server: a request is made anew from what it means.
//
//   - the Host of a request is the host that the connection was made to, or it is refused (421);
//   - a refusal of the egress is an answer with its reason as text: 403 for what no grant allows;
//   - what belongs to a connection (Connection, Upgrade, Transfer-Encoding, …) is this connection's, and goes no further.
//
// Threads: one for each connection.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "computers/network/stream.h"
#include "host/broker.h"

namespace membrane::computers {

// What a connection was made to.
struct Origin {
  std::string scheme;  // "http", "https"
  std::string host;    // lower case; an address of IPv6 without brackets
  uint16_t port = 0;
};

struct HttpService {
  // Decides, sends and answers a request (host/broker.h).
  std::function<host::HostResult<host::HttpResponse>(host::HttpRequest)> send;
  uint64_t most_body_bytes = 0;           // of one request
  std::atomic<uint64_t>* room = nullptr;  // that bodies of requests may take yet, of all connections
};

void serve_http(Stream& stream, const Origin& origin, const HttpService& service);

}  // namespace membrane::computers
