// HTTP/1.1 as spoken by programs of a Linux sandbox: each request is read, passed to the egress, which
// decides and sends it, and answered. Nothing of a program's framing reaches a server: each request is
// rebuilt from its meaning.
//
//   - the Host of a request must be the host that the connection was made to, or the request is refused
//     (421);
//   - a refusal of the egress is an answer with its reason as text: 403 for what no grant allows;
//   - 503 where there is no room for more bodies;
//   - headers of a connection (Connection, Upgrade, Transfer-Encoding, …) apply to this connection and are
//     not forwarded.
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

// The target of a connection.
struct Origin {
  std::string scheme;  // "http", "https"
  std::string host;    // lower case; an address of IPv6 without brackets
  uint16_t port = 0;
};

struct HttpService {
  // Decides, sends and answers a request (host/broker.h). Answers that are not streamed are charged before
  // they are held.
  std::function<host::HostResult<host::HttpResponse>(host::HttpRequest,
                                                     const std::function<bool(uint64_t bytes)>& may_hold)>
      send;
  uint64_t most_body_bytes = 0;  // of one request
  // The room left for bodies, of all connections: request bodies, and answers that are held as a whole until
  // the program has read them.
  std::atomic<uint64_t>* room = nullptr;
  std::atomic<uint64_t>* answer_room = nullptr;
};

void serve_http(Stream& stream, const Origin& origin, const HttpService& service);

}  // namespace membrane::computers
