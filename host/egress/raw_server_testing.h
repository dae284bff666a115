// A server on the loopback that sends exactly the bytes that a test needs, valid or not.
//
// Threads: the handler runs on the server's own thread, one connection after the other; requests() may be called
// from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace membrane::host {

class RawConnection {
 public:
  explicit RawConnection(int fd) : fd_(fd) {}

  // The next request: its head, and as much body as its Content-Length says; "" at the end.
  std::string read_request();
  // False when the client has gone.
  bool send(std::string_view bytes);
  // Blocks until the client closes: makes a test slow without sleeping.
  void wait_for_close();
  // Sends `byte` repeatedly, a few milliseconds apart, until the client closes.
  void drip(char byte);

 private:
  int fd_;
};

class RawServer {
 public:
  using Handler = std::function<void(RawConnection& connection, const std::string& request)>;

  // Calls `handler` for each request that arrives, then closes the connection.
  explicit RawServer(Handler handler);
  ~RawServer();
  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;

  [[nodiscard]] uint16_t port() const { return port_; }
  // "http://127.0.0.1:PORT" + path.
  [[nodiscard]] std::string url(std::string_view path = "/") const;
  [[nodiscard]] std::vector<std::string> requests() const;

 private:
  void run();

  Handler handler_;
  int listener_ = -1;
  uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  int open_ = -1;  // the connection being served
  bool stopped_ = false;
  std::thread thread_;
};

// A whole response with the right Content-Length.
std::string http_response(std::string_view status, std::string_view headers, std::string_view body);

}  // namespace membrane::host
