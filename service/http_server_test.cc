// What needs a clock that runs faster than a client can wait, or a look from inside; attacks/client_attack_test.py has the rest.
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

class Pieces final : public BodySource {
 public:
  Piece next(size_t, std::function<void()>) override { return {"piece", ++count_ == 3}; }

 private:
  int count_ = 0;
};

// Answers with a body that comes in pieces, before or after the request's body is read.
class Streams final : public HttpApplication {
 public:
  Admission admit(const RequestHead& head) override {
    if (head.target != "/refused") return {};
    return {.refusal = Response{.source = std::make_shared<Pieces>()}};
  }
  void handle(Request, Reply reply) override { reply({.source = std::make_shared<Pieces>()}); }
};

std::string read_all(int connection) {
  std::string all;
  char piece[4096];
  for (ssize_t got = 0; (got = recv(connection, piece, sizeof piece, 0)) > 0;)
    all.append(piece, static_cast<size_t>(got));
  return all;
}

// What the answer held was once freed twice, in the code of g++ alone: seen under ThreadSanitizer, whose build is g++'s.
TEST(HttpServerThreads, ABodyInPiecesIsWrittenForARefusalToo) {
  Streams application;
  auto server = HttpServer::listen({}, application);
  ASSERT_TRUE(server);
  std::thread runs([&] { (*server)->run(); });
  for (const std::string target : {"/", "/refused", "/refused", "/"}) {
    const int connection = connect_to((*server)->port());
    const std::string request = "GET " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    EXPECT_EQ(send(connection, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
    EXPECT_NE(read_all(connection).find("5\r\npiece\r\n0\r\n"), std::string::npos);
    close(connection);
  }
  (*server)->stop();
  runs.join();
}

}  // namespace
}  // namespace membrane::service
