// MCP over HTTP for tests with clients of others: HttpEndpoint and the backend of this process after a small HTTP/1.1 server
// on loopback, one thread a connection, one request each.
//
//   mcp_http      prints its URL, and ends with its input

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <future>
#include <string>
#include <string_view>
#include <thread>

#include "base/text.h"
#include "mcp/http.h"
#include "mcp/local_backend.h"
#include "sandbox/languages.h"

namespace {

using membrane::mcp::HttpHeaders;

void send_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(file, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

std::string head_of(int status, const HttpHeaders& headers) {
  std::string head = "HTTP/1.1 " + std::to_string(status) + " Status\r\nConnection: close\r\n";
  for (const auto& [name, value] : headers) head += name + ": " + value + "\r\n";
  return head + "\r\n";
}

// False for a connection that is closed before its request is whole.
bool read_request(int file, membrane::mcp::HttpRequest& request) {
  std::string text;
  size_t head_end = std::string::npos, body_bytes = 0;
  while (head_end == std::string::npos || text.size() < head_end + 4 + body_bytes) {
    char bytes[16384];
    const ssize_t got = recv(file, bytes, sizeof bytes, 0);
    if (got <= 0) return false;
    text.append(bytes, static_cast<size_t>(got));
    if (head_end != std::string::npos) continue;
    head_end = text.find("\r\n\r\n");
    if (head_end == std::string::npos) continue;
    request.method = text.substr(0, text.find(' '));
    for (size_t at = text.find("\r\n") + 2; at < head_end;) {
      const size_t end = text.find("\r\n", at), colon = text.find(':', at);
      request.headers.emplace_back(text.substr(at, colon - at), text.substr(colon + 1, end - colon - 1));
      at = end + 2;
      const auto& [name, value] = request.headers.back();
      if (membrane::lower_case(name) == "content-length") body_bytes = std::stoul(value);
    }
  }
  request.body = text.substr(head_end + 4, body_bytes);
  return true;
}

void serve(membrane::mcp::HttpEndpoint& endpoint, int file) {
  membrane::mcp::HttpRequest request;
  if (read_request(file, request)) {
    const auto call = endpoint.receive(std::move(request));
    auto answered = std::async(std::launch::async, [&] {
      bool is_begun = false;
      const auto reply = call->answer([&](std::string_view piece) {
        if (!std::exchange(is_begun, true))
          send_all(file, head_of(200, membrane::mcp::event_stream_headers()));
        send_all(file, piece);
      });
      if (!reply.is_streamed) {
        HttpHeaders headers = reply.headers;
        headers.emplace_back("Content-Length", std::to_string(reply.body.size()));
        send_all(file, head_of(reply.status, headers));
      }
      send_all(file, reply.body);
      shutdown(file, SHUT_RDWR);
    });
    pollfd poll_for = {.fd = file, .events = POLLIN | POLLRDHUP, .revents = 0};
    poll(&poll_for, 1, -1);  // until the answer is sent, or the client has gone
    call->cancel();
    answered.wait();
  }
  close(file);
}

}  // namespace

int main() {
  using namespace membrane;
  std::signal(SIGPIPE, SIG_IGN);
  static sandbox::Languages languages(
      {.cache_directory = sandbox::Languages::default_cache_directory(), .on_progress = nullptr});
  mcp::LocalOptions options;
  options.policy.limits = policy::language_limits();
  options.languages = mcp::installed_languages();
  options.open = [](const std::string& package, std::string_view) {
    return languages.open_for_session(package);
  };
  static const mcp::Server server(mcp::local_backend(std::move(options)), {.version = "test"});
  static mcp::HttpEndpoint endpoint(server, {});

  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener, any, size) != 0 || listen(listener, 64) != 0 || getsockname(listener, any, &size) != 0)
    return 3;
  std::printf("http://127.0.0.1:%d/mcp\n", ntohs(address.sin_port));
  std::fflush(stdout);
  std::thread([listener] {
    for (;;) {
      const int file = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (file >= 0) std::thread(serve, std::ref(endpoint), file).detach();
    }
  }).detach();
  char byte;
  while (read(0, &byte, 1) > 0) continue;
  std::_Exit(0);
}
