// What needs a clock that runs faster than a client can wait; attacks/client_attack_test.py has the rest.
#include "service/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

namespace membrane::service {
namespace {

class Swallows final : public HttpApplication {
 public:
  Admission admit(const RequestHead&) override { return {.most_body_bytes = 100u << 20}; }
  void handle(Request, Reply reply) override { reply({.status = 204}); }
};

int connect_to(uint16_t port) {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return made;
}

// Sends a byte of a body whenever nothing has come for some milliseconds. Whether that ends before the body does.
bool is_cut_off(int connection, const std::string& head) {
  EXPECT_EQ(send(connection, head.data(), head.size(), 0), static_cast<ssize_t>(head.size()));
  pollfd waited{connection, POLLIN, 0};
  constexpr int kMany = 10'000, kStepMs = 5;
  for (int count = 0; count < kMany; ++count)
    if (poll(&waited, 1, kStepMs) != 0 || send(connection, "x", 1, MSG_NOSIGNAL) != 1) return true;
  return false;
}

TEST(HttpServerThreads, ABodyThatDripsIsCutOff) {
  Swallows application;
  auto server = HttpServer::listen({.body_timeout = std::chrono::milliseconds(100)}, application);
  ASSERT_TRUE(server);
  std::thread runs([&] { (*server)->run(); });
  for (const char* const body :
       {"Content-Length: 1000000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n10;"}) {
    const int connection = connect_to((*server)->port());
    EXPECT_TRUE(is_cut_off(connection, std::string("PUT / HTTP/1.1\r\nHost: x\r\n") + body));
    close(connection);
  }
  (*server)->stop();
  runs.join();
}

}  // namespace
}  // namespace membrane::service
