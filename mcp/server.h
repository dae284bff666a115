// MCP's protocol, without a transport: a message comes as text, and what goes back is text.
//
//   transport ─▶ Server::receive(text, envelope) ─▶ Call ─▶ answer() ─▶ Reply ─▶ transport
//                                                            └─▶ envelope.notify (progress, log messages)
//
// Both eras of the protocol are spoken, on the same connection if a client likes: requests that say their revision in
// _meta (2026-07-28) need nothing before them; others follow a handshake (initialize), whose state is the Peer's.
//
// A transport makes a Peer for each connection. It receives messages in their order, on one thread, so that a
// cancellation finds the call that it is for; it may answer calls on any thread, also several at once. A call that runs a
// program takes as long as the policy's limits let it: a transport that reads on meanwhile answers it on another thread.
//
// Nothing that a client sends makes it crash, hang, or take more than the limits of message.h.
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
  size_t most_calls = 32;  // of one peer, under way at once
};

// Of HTTP: headers that repeat what stands in the message (2026-07-28), as they came; nothing where there was none.
struct MirroredHeaders {
  std::optional<std::string> protocol_version, method, name;
};

// What one connection has agreed on, and the calls that are under way on it. Threads: any.
class Peer {
 public:
  Peer();
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // Ends what is under way, soon: the client has gone. Nothing is answered any more.
  void cancel_all();

  class Impl;
  [[nodiscard]] Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// What a transport knows of a message.
struct Envelope {
  std::shared_ptr<Peer> peer;
  std::string tenant = {};
  std::vector<std::string> scopes = {};  // these two as Caller's
  std::shared_ptr<host::Flows> flows = nullptr;
  std::optional<MirroredHeaders> headers = {};  // of HTTP
  // Sends a notification that belongs to the call, before its answer: one message, on one line. On the thread that
  // answers the call; null: there are none.
  std::function<void(std::string_view json)> notify = {};
};

struct Reply {
  std::string json;           // on one line; "": there is nothing to be sent, or nobody wants it any more
  int http_status = 200;      // 202 where there is nothing to be sent
  bool is_handshake = false;  // the answer of an initialize that was accepted
};

class Call {
 public:
  virtual ~Call() = default;
  // Whether it may take long. All other calls are answered at once.
  [[nodiscard]] virtual bool runs_program() const = 0;
  // Whether answer() only gives what was found when the message was read.
  [[nodiscard]] virtual bool is_answered() const = 0;
  // Ends it, soon; answer() gives no answer then. From any thread.
  virtual void cancel() = 0;
  // Once.
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

  // What is said of a message that is too long to be received.
  static Reply too_long(size_t most_bytes);

  class Impl;

 private:
  std::unique_ptr<const Impl> impl_;
};

}  // namespace membrane::mcp
