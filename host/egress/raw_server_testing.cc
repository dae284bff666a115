#include "host/egress/raw_server_testing.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace membrane::host {
namespace {

size_t content_length(const std::string& head) {
  const size_t at = head.find("Content-Length: ");
  return at == std::string::npos ? 0
                                 : static_cast<size_t>(std::strtoull(head.c_str() + at + 16, nullptr, 10));
}

void must(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::abort();
}

}  // namespace

std::string RawConnection::read_request() {
  std::string request;
  size_t wanted = std::string::npos;
  char buffer[4096];
  while (request.size() < wanted) {
    const ssize_t got = recv(fd_, buffer, sizeof buffer, 0);
    if (got <= 0) return request;
    request.append(buffer, static_cast<size_t>(got));
    const size_t end = request.find("\r\n\r\n");
    if (wanted == std::string::npos && end != std::string::npos) wanted = end + 4 + content_length(request);
  }
  return request;
}

bool RawConnection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return true;
}

void RawConnection::wait_for_close() {
  char buffer[4096];
  while (recv(fd_, buffer, sizeof buffer, 0) > 0) {}
}

void RawConnection::drip(char byte) {
  pollfd state{fd_, POLLIN, 0};
  while (send({&byte, 1})) {
    if (poll(&state, 1, 5) > 0) return;  // the client has closed, for it has nothing to say
  }
}

RawServer::RawServer(Handler handler) : handler_(std::move(handler)) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  must(listener_ >= 0, "socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  must(bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0, "bind");
  must(listen(listener_, 16) == 0, "listen");
  must(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0, "getsockname");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { run(); });
}

RawServer::~RawServer() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    shutdown(listener_, SHUT_RDWR);
    if (open_ >= 0) shutdown(open_, SHUT_RDWR);
  }
  thread_.join();
  close(listener_);
}

void RawServer::run() {
  for (;;) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    {
      const std::lock_guard lock(mutex_);
      if (stopped_ || fd < 0) {
        if (fd >= 0) close(fd);
        return;
      }
      open_ = fd;
    }
    RawConnection connection(fd);
    const std::string request = connection.read_request();
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    handler_(connection, request);
    const std::lock_guard lock(mutex_);
    open_ = -1;
    close(fd);
  }
}

std::string RawServer::url(std::string_view path) const {
  return "http://127.0.0.1:" + std::to_string(port_) + std::string(path);
}

std::vector<std::string> RawServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

std::string http_response(std::string_view status, std::string_view headers, std::string_view body) {
  return "HTTP/1.1 " + std::string(status) + "\r\n" + std::string(headers) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

}  // namespace membrane::host
