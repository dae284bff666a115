// MCP's Streamable HTTP, without an HTTP library: what comes with a request, and what is to be answered.
//
//   POST     a message. The answer is JSON, or, once there is something to be said before it, a stream of events (SSE)
//            that ends with it.
//   DELETE   ends what an initialize began (revisions with a handshake); GET is not offered.
//
// Revisions with a handshake: an initialize is given a name (Mcp-Session-Id), by which later requests find what was
// agreed, and a cancellation finds its call. A client that does not send it is served all the same. Revision 2026-07-28 has
// none of this; there, the headers that repeat the message must agree with it.
//
// What was read in a conversation (Caller::flows) is of the handshake, and of the client where a request belongs to none.
//
// A browser's page that was not meant to is kept out by its Origin, and by the Host that it believes in.
//
// Threads: any.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mcp/server.h"

namespace membrane::mcp {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;  // names in any case

struct HttpRequest {
  std::string method;
  HttpHeaders headers;
  std::string body;
  std::string tenant = {};               // of whom the transport found the request to be from
  std::vector<std::string> scopes = {};  // as Caller's
  std::string client = {};               // of the tenant's: who shows the same token
};

struct HttpReply {
  int status = 200;
  HttpHeaders headers;  // with Content-Type, where there is a body
  std::string body;
  // The head of a stream and all before this went to the sink: the body is its last piece.
  bool is_streamed = false;
};

// The head of a stream's answer, whose status is 200.
HttpHeaders event_stream_headers();

class HttpCall {
 public:
  virtual ~HttpCall() = default;
  // Whether it may take long.
  [[nodiscard]] virtual bool runs_program() const = 0;
  // Whether answer() only gives what was found when the request was read.
  [[nodiscard]] virtual bool is_answered() const = 0;
  // The client has gone. From any thread.
  virtual void cancel() = 0;
  // Once. `stream` is called on this thread with pieces of a stream of events; the head is to be sent before the first.
  virtual HttpReply answer(const std::function<void(std::string_view piece)>& stream) = 0;
};

struct HttpOptions {
  // Besides those of loopback (localhost, 127.0.0.1, [::1]), at any port.
  std::vector<std::string> hosts;    // "sandbox.example.org"
  std::vector<std::string> origins;  // "https://chat.example.org"
  // Whose state is kept; of a tenant, and of all. The one that was used longest ago gives way.
  size_t most_handshakes_of_tenant = 128, most_handshakes = 1'024;
  // Clients whose conversation is known. The one that was here longest ago gives way.
  size_t most_clients = 4'096;
};

class HttpEndpoint {
 public:
  // Borrowed.
  HttpEndpoint(const Server& server, HttpOptions options);
  ~HttpEndpoint();
  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;

  // Whether a page of this origin may use the server.
  [[nodiscard]] bool lets_in(std::string_view origin) const;
  // The endpoint must outlive the call.
  std::unique_ptr<HttpCall> receive(HttpRequest request);

  class Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace membrane::mcp
