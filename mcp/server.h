// MCP's protocol, without a transport: messages and answers are text.
//
//   transport ─▶ Server::receive(text, envelope) ─▶ Call ─▶ answer() ─▶ Reply ─▶ transport
//                                                            └─▶ envelope.notify (progress, log messages)
//
// Both eras of the protocol are supported, even on the same connection: requests that name their revision in
// _meta (2026-07-28) need nothing before them; others follow a handshake (initialize), whose state is in the
// Peer.
//
// A transport creates a Peer for each connection. It receives messages in order, on one thread, so that a
// cancellation finds its call; it may answer calls on any thread, also several at once. A call that runs a
// program takes as long as the policy's limits allow: a transport that keeps reading answers it on another
// thread.
//
// Nothing that a client sends makes it crash, hang, or exceed the limits of message.h.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mcp/backend.h"

namespace membrane::mcp {

struct ServerOptions {
  std::string name = "membrane";
  std::string version;
  size_t most_calls = 32;  // in progress at once, per peer
};

// For HTTP: headers that repeat parts of the message (2026-07-28), unmodified; nothing if absent.
struct MirroredHeaders {
  std::optional<std::string> protocol_version, method, name;
};

// The state of one connection, and its calls in progress. Threads: any.
class Peer {
 public:
  Peer();
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // Cancels the calls in progress: the client has gone. Nothing is answered any more.
  void cancel_all();

  class Impl;
  [[nodiscard]] Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// What a transport knows about a message.
struct Envelope {
  std::shared_ptr<Peer> peer;
  std::string tenant = {};
  std::string client = {};
  std::vector<std::string> scopes = {};  // these three as in Caller
  std::shared_ptr<host::Flows> flows = nullptr;
  std::optional<MirroredHeaders> headers = {};  // of HTTP
  // Sends a notification that belongs to the call, before its answer: one message, on one line. Called on the
  // thread that answers the call; null: none are sent.
  std::function<void(std::string_view json)> notify = {};
};

struct Reply {
  std::string json;           // on one line; "": there is nothing to send, or nobody needs it any more
  int http_status = 200;      // 202 if there is nothing to send
  bool is_handshake = false;  // the answer to an accepted initialize
};

class Call {
 public:
  virtual ~Call() = default;
  // Whether it may take long. All other calls are answered at once.
  [[nodiscard]] virtual bool runs_program() const = 0;
  // Whether answer() only returns what was determined when the message was read.
  [[nodiscard]] virtual bool is_answered() const = 0;
  // Cancels it; answer() then gives no answer. From any thread.
  virtual void cancel() = 0;
  // Call it once.
  virtual Reply answer() = 0;
};

class Server {
 public:
  Server(std::shared_ptr<Backend> backend, ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Reads a message. The server must outlive the call.
  std::unique_ptr<Call> receive(std::string_view text, Envelope envelope) const;

  // The answer to a message that is too long to be received.
  static Reply too_long(size_t most_bytes);

  class Impl;

 private:
  std::unique_ptr<const Impl> impl_;
};

}  // namespace membrane::mcp
