// One HTTP exchange with one server at addresses that the caller has checked: sent by libcurl, bounded in bytes and
// time. Decides nothing, follows no redirect, knows no policy.
//
// What holds of every exchange:
//   - only the given addresses are dialled, by a pinned name and, as a second wall, by a
//     check of each socket before it is opened;
//   - no proxy, no cookie, no stored credential, no protocol but HTTP and HTTPS, no HTTP/0.9;
//   - certificates are verified against the system's authorities;
//   - the body is counted after decompression, chunk by chunk, before it is kept;
//   - bytes_in pays for what came over the connection (interim answers, chunk framing, trailers and compressed bytes
//     included; not what TLS adds) or for what was unpacked from it, whichever is more.
//
// Needs libcurl. Threads: one at a time. Connections are kept open between exchanges.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "host/broker.h"
#include "host/deadline.h"
#include "host/errno.h"
#include "policy/address.h"
#include "policy/budget.h"
#include "policy/url.h"

namespace membrane::host {

struct RawResponse {
  int status = 0;
  Headers headers;  // names in lower case; all of them, in order
  std::string body;
};

// Borrowed during the exchange.
struct Exchange {
  const policy::Url& url;
  const std::vector<policy::Address>& addresses;  // for a name: its resolved addresses; not empty
  const std::string& method;
  const Headers& headers;  // checked: no control characters, no connection headers
  const std::string& body;
  uint64_t max_response_bytes = 0;  // after decompression; headers have their own limit
  std::atomic<uint64_t>* room =
      nullptr;  // remaining bytes for bodies, shared with other exchanges; null: unlimited
  // Receives the body piece by piece, with the head; false ends the exchange. Null: the body is collected. If set,
  // the deadline applies to connecting and to each silence of the server.
  std::function<bool(const RawResponse& head, std::string_view piece)> take_piece;
  std::function<bool(uint64_t bytes)>
      may_hold;              // asks for this many more bytes, without take_piece; null: yes
  const Deadline& deadline;  // for this exchange
  const Deadline& run;       // for the run as a whole: later, or the same
  policy::Budget& budget;    // bytes_in is taken as bytes arrive
};

class HttpClient {
 public:
  static constexpr uint64_t kMaxHeaderBytes = 64 << 10;  // per response, with trailers and 1xx

  // EHOST when libcurl is not available.
  static HostResult<std::unique_ptr<HttpClient>> create();
  virtual ~HttpClient() = default;

  // An error has `acted` set when a server was reached, or may have been.
  virtual HostResult<RawResponse> send(const Exchange& exchange) = 0;
};

}  // namespace membrane::host
