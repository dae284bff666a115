// One HTTP exchange with one server at addresses that somebody else has checked: sent by
// libcurl, bounded in bytes and time. Decides nothing, follows no redirect, knows no policy.
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

// Borrowed for the exchange.
struct Exchange {
  const policy::Url& url;
  const std::vector<policy::Address>& addresses;  // for a name: what it resolved to; not empty
  const std::string& method;
  const Headers& headers;  // checked: no control characters, nothing of the connection
  const std::string& body;
  uint64_t max_response_bytes = 0;  // after decompression; headers have a limit of their own
  std::atomic<uint64_t>* room =
      nullptr;  // that bodies may take yet, shared with other exchanges; null: as much as they like
  // Takes the body piece by piece, with the head; false ends the exchange. Null: it is gathered. With it, the deadline is for
  // connecting and for each silence of the server's.
  std::function<bool(const RawResponse& head, std::string_view piece)> take_piece;
  std::function<bool(uint64_t bytes)> may_hold;  // so many bytes more, without take_piece; null: yes
  const Deadline& deadline;                      // of this exchange
  const Deadline& run;                           // of the run as a whole: the later one, or the same
  policy::Budget& budget;                        // bytes_in is taken as they come
};

class HttpClient {
 public:
  static constexpr uint64_t kMaxHeaderBytes = 64 << 10;  // of a response, with trailers and 1xx

  // EHOST when libcurl cannot be had.
  static HostResult<std::unique_ptr<HttpClient>> create();
  virtual ~HttpClient() = default;

  // An error has `acted` when a server was reached, or may have been.
  virtual HostResult<RawResponse> send(const Exchange& exchange) = 0;
};

}  // namespace membrane::host
