// HTTP/1.1 as programs of a Linux sandbox speak it over a connection: each request is read, handed to the egress, which decides
// and sends it, and answered. Nothing of a program's framing reaches a server: a request is recreated from what it means.
//
//   - the Host of a request is the host that the connection was made to, or it is refused (421);
//   - a refusal of the egress is an answer with its reason as text: 403 for what no grant allows;
//   - 503 where more bodies are held than there is room for;
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
  // Decides, sends and answers a request (host/broker.h). What is not handed on in pieces is asked for before it is held.
  std::function<host::HostResult<host::HttpResponse>(host::HttpRequest,
                                                     const std::function<bool(uint64_t bytes)>& may_hold)>
      send;
  uint64_t most_body_bytes = 0;  // of one request
  // That bodies may take yet, of all connections: those of requests, and those of answers that are held as a whole until the program
  // has read them.
  std::atomic<uint64_t>* room = nullptr;
  std::atomic<uint64_t>* answer_room = nullptr;
};

void serve_http(Stream& stream, const Origin& origin, const HttpService& service);

}  // namespace membrane::computers
