// An HTTP/1.1 server for an HttpApplication, on Boost.Beast: connections, TLS, keep-alive, limits, timeouts,
// streamed bodies, and an orderly shutdown.
//
// Guarantees, whatever a client sends: a malformed, too large or too slow message is answered with 4xx in the
// service's form, if an answer can still be sent, and the connection is closed; a client that does not read
// is disconnected after `write_timeout`; one connection holds at most its headers, its admitted body and its
// answer.
//
// Threads: one thread calls run(), which starts no other; any may call drain(), release() and stop(), even
// from a handler.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "service/http.h"

namespace membrane::service {

struct HttpServerOptions {
  std::string address = "127.0.0.1";  // an address, not a name
  uint16_t port = 0;                  // 0: any that is free
  std::string tls_certificate_file;   // PEM, with its chain; "" for HTTP without TLS
  std::string tls_key_file;
  uint32_t most_connections = 1'000;
  uint32_t most_header_bytes = 32u << 10;
  uint64_t most_held_bytes = 256u << 20;  // of a tenant's request bodies, and of answers being sent
  // The limit for a tenant's unanswered requests: three quarters of the connections.
  [[nodiscard]] size_t most_requests_of_each() const { return most_connections - most_connections / 4; }
  // The limit including DELETE requests, so that a tenant can always free resources.
  [[nodiscard]] size_t most_with_deletes_of_each() const { return most_connections - most_connections / 8; }
  std::chrono::milliseconds idle_timeout = std::chrono::seconds(75);         // between two requests
  std::chrono::milliseconds header_timeout = std::chrono::seconds(10);       // for a whole request head
  std::chrono::milliseconds body_timeout = std::chrono::seconds(30);         // for each 64 KiB of a body
  std::chrono::milliseconds refused_body_timeout = std::chrono::seconds(2);  // for all of an unread body
  std::chrono::milliseconds write_timeout = std::chrono::seconds(30);        // for each 64 KiB of an answer
  std::chrono::milliseconds keep_alive_every = std::chrono::seconds(15);     // BodySource::keep_alive()
};

struct DrainOptions {
  std::chrono::milliseconds patience = {};  // for answering requests
  // Called on the server's thread when that time is over and requests are left: ends what they wait for. May
  // be null.
  std::function<void()> hurry = {};
  std::chrono::milliseconds last_patience = {};  // for the answers after that
  bool holds = false;                            // run() waits for release(), within the same bounds
};

class HttpServer {
 public:
  // Listens. `application` is borrowed, and must outlive the server. Errors: kInvalidArgument for an invalid
  // address and for certificates; kUnavailable for what the system refuses.
  static Result<std::unique_ptr<HttpServer>> listen(HttpServerOptions options, HttpApplication& application);
  ~HttpServer();

  [[nodiscard]] uint16_t port() const;
  [[nodiscard]] bool has_tls() const;
  // Serves until it is drained or stopped.
  void run();
  // Accepts no more connections, lets those with a request finish it, and closes the others; those left at
  // the end are cut off. run() returns after the last.
  void drain(DrainOptions options);
  void release();
  void stop();

  // Calls `task` on the server's thread periodically until it ends.
  void every(std::chrono::milliseconds interval, std::function<void()> task);
  // Calls `then` on the server's thread when the process gets SIGINT or SIGTERM.
  void on_signal(std::function<void()> then);

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace membrane::service
