// MCP's Streamable HTTP, without an HTTP library: interprets requests and produces answers.
//
//   POST     a message. The answer is JSON or, once something must be sent before it, a stream of events
//   (SSE) that ends with it.
//   DELETE   ends the state of an initialize (revisions with a handshake); GET is not offered.
//
// Revisions with a handshake: an initialize is given a name (Mcp-Session-Id), with which later requests refer
// to its state, and a cancellation finds its call. A client that does not send it is served, too.
// Revision 2026-07-28 has none of this; its headers, which repeat parts of the message, must agree with it.
//
// The flows of a conversation (Caller::flows) belong to the handshake, or to the client if a request belongs
// to none.
//
// The Origin and Host headers keep out web pages that may not use the server.
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

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;  // names are case-insensitive

struct HttpRequest {
  std::string method;
  HttpHeaders headers;
  std::string body;
  std::string tenant = {};               // the tenant that the transport identified
  std::vector<std::string> scopes = {};  // as Caller's
  std::string client = {};               // a client of the tenant, identified by its token
};

struct HttpReply {
  int status = 200;
  HttpHeaders headers;  // with Content-Type if there is a body
  std::string body;
  // The head of a stream and all before this went to the sink: the body is its last piece.
  bool is_streamed = false;
};

// The head of a streamed answer, whose status is 200.
HttpHeaders event_stream_headers();

class HttpCall {
 public:
  virtual ~HttpCall() = default;
  // Whether it may take long.
  [[nodiscard]] virtual bool runs_program() const = 0;
  // Whether answer() only returns what was determined when the request was read.
  [[nodiscard]] virtual bool is_answered() const = 0;
  // The client has gone. From any thread.
  virtual void cancel() = 0;
  // Call it once. It calls `stream` on this thread with pieces of a stream of events; send the head before
  // the first.
  virtual HttpReply answer(const std::function<void(std::string_view piece)>& stream) = 0;
};

struct HttpOptions {
  // In addition to those of loopback (localhost, 127.0.0.1, [::1]), at any port.
  std::vector<std::string> hosts;    // "sandbox.example.org"
  std::vector<std::string> origins;  // "https://chat.example.org"
  // The limits for kept states, of a tenant and in total. The least recently used one is dropped.
  size_t most_handshakes_of_tenant = 128, most_handshakes = 1'024;
  // The limit for known clients' conversations. The least recently used one is dropped.
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
