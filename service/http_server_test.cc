// Tests that need a clock faster than a client can wait, or a look inside; see attacks/client_attack_test.py
// for the rest.
#include "service/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <string>
#include <thread>
#include <vector>

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

// Sends a byte of a body whenever nothing has arrived for some milliseconds. Returns whether that ends before
// the body does.
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
  HttpServerOptions options;
  options.body_timeout = std::chrono::milliseconds(100);
  auto server = HttpServer::listen(options, application);
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

// Answers on demand.
class Waits final : public HttpApplication {
 public:
  Admission admit(const RequestHead&) override { return {}; }
  void handle(Request, Reply reply) override { came_.set_value(std::move(reply)); }
  Reply request() { return came_.get_future().get(); }

 private:
  std::promise<Reply> came_;
};

TEST(HttpServerThreads, ADrainWaitsForItsRelease) {
  Swallows application;
  auto server = HttpServer::listen({}, application);
  ASSERT_TRUE(server);
  std::atomic<bool> is_released = false;
  std::thread runs([&] {
    (*server)->run();
    EXPECT_TRUE(is_released);
  });
  (*server)->drain({.patience = std::chrono::hours(1), .holds = true});
  is_released = true;
  (*server)->release();
  runs.join();
}

TEST(HttpServerThreads, ADrainThatIsLateHurriesWhatItWaitsForAndSendsItsAnswer) {
  Waits application;
  auto server = HttpServer::listen({}, application);
  ASSERT_TRUE(server);
  std::thread runs([&] { (*server)->run(); });
  const int connection = connect_to((*server)->port());
  const std::string request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  EXPECT_EQ(send(connection, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  const Reply reply = application.request();
  (*server)->drain({.hurry = [&] { reply({.status = 204}); }, .last_patience = std::chrono::hours(1)});
  std::string answer;
  char piece[4096];
  for (ssize_t got = 0; (got = recv(connection, piece, sizeof piece, 0)) > 0;)
    answer.append(piece, static_cast<size_t>(got));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 204")) << answer;
  close(connection);
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

TEST(HttpServerThreads, ARefusedRequestHoldsItsConnectionForNoLongTime) {
  Streams application;
  HttpServerOptions options;
  options.refused_body_timeout = std::chrono::milliseconds(100);
  auto server = HttpServer::listen(options, application);
  ASSERT_TRUE(server);
  std::thread runs([&] { (*server)->run(); });
  const int connection = connect_to((*server)->port());
  EXPECT_TRUE(is_cut_off(connection, "PUT /refused HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n"));
  close(connection);
  (*server)->stop();
  runs.join();
}

// What the answer held was once freed twice, only with g++: seen under ThreadSanitizer, whose build uses g++.
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

// Until the other side closes; "" when it has reset the connection.
std::string all_from(int connection) {
  std::string all;
  char piece[4096];
  ssize_t got = 0;
  while ((got = recv(connection, piece, sizeof piece, 0)) > 0) all.append(piece, static_cast<size_t>(got));
  return got < 0 ? "" : all;
}

// Answers with a body that never produces bytes, and asks whether the client is connected.
class Silent final : public HttpApplication {
 public:
  Admission admit(const RequestHead&) override { return {}; }
  void handle(Request request, Reply reply) override {
    request.presence->when_gone([] {});
    reply({.status = 200, .source = std::make_shared<Source>(abandoned)});
  }
  std::promise<void> abandoned;

 private:
  class Source final : public BodySource {
   public:
    explicit Source(std::promise<void>& abandoned) : abandoned_(abandoned) {}
    Piece next(size_t, std::function<void()>) override { return {}; }
    void abandon() override { abandoned_.set_value(); }

   private:
    std::promise<void>& abandoned_;
  };
};

TEST(HttpServerThreads, AStreamOfAClientThatHasGoneEndsBeforeAnythingIsSent) {
  Silent application;
  HttpServerOptions options;
  options.keep_alive_every = std::chrono::hours(1);
  auto server = HttpServer::listen(options, application);
  ASSERT_TRUE(server);
  std::thread runs([&] { (*server)->run(); });
  const int connection = connect_to((*server)->port());
  const std::string request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  EXPECT_EQ(send(connection, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  char byte = 0;
  EXPECT_EQ(recv(connection, &byte, 1, 0), 1);  // its head
  close(connection);
  application.abandoned.get_future().wait();
  (*server)->stop();
  runs.join();
}

// Answers each request with a stream that ends at once, and records the callers.
class KeepsWhoAsked final : public HttpApplication {
 public:
  Admission admit(const RequestHead&) override { return {}; }
  void handle(Request request, Reply reply) override {
    presences.push_back(request.presence);
    reply({.status = 200, .source = std::make_shared<Source>()});
  }

  std::vector<std::shared_ptr<Presence>> presences;

 private:
  class Source final : public BodySource {
    Piece next(size_t, std::function<void()>) override { return {.bytes = "all", .is_end = true}; }
  };
};

// As above: nothing that the answer holds is released once too often.
TEST(HttpServerThreads, AStreamLeavesWhatItWasGivenToItsOwners) {
  KeepsWhoAsked application;
  auto server = HttpServer::listen({}, application);
  ASSERT_TRUE(server);
  std::thread runs([&] { (*server)->run(); });
  const int connection = connect_to((*server)->port());
  const std::string requests =
      "GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(send(connection, requests.data(), requests.size(), 0), static_cast<ssize_t>(requests.size()));
  const std::string answers = all_from(connection);
  EXPECT_TRUE(answers.ends_with("0\r\n\r\n")) << answers;
  close(connection);
  (*server)->stop();
  runs.join();
  server->reset();
  ASSERT_EQ(application.presences.size(), 2u);
  for (const auto& each : application.presences) EXPECT_EQ(each.use_count(), 1);
}

TEST(HttpServerThreads, AConnectionTooManyIsToldSo) {
  Swallows application;
  HttpServerOptions options;
  options.most_connections = 2;
  auto server = HttpServer::listen(options, application);
  ASSERT_TRUE(server);
  std::thread runs([&] { (*server)->run(); });
  const int first = connect_to((*server)->port()), second = connect_to((*server)->port());
  for (int i = 0; i < 10; ++i) {
    const int third = connect_to((*server)->port());
    // Before the answer is read, so that the server has something unread when it answers.
    const std::string request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n" + std::string(100'000, 'x');
    EXPECT_EQ(send(third, request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    shutdown(third, SHUT_WR);
    const std::string answer = all_from(third);
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ")) << answer;
    EXPECT_NE(answer.find("\r\nRetry-After: "), std::string::npos);
    close(third);
  }
  close(first);
  close(second);
  (*server)->stop();
  runs.join();
}

TEST(HttpServerThreads, ManyConnectionsTooManyAreClosed) {
  Swallows application;
  HttpServerOptions options;
  options.most_connections = 0;
  auto server = HttpServer::listen(options, application);
  ASSERT_TRUE(server);
  std::thread runs([&] { (*server)->run(); });
  std::vector<int> all;
  for (int i = 0; i < 300; ++i) all.push_back(connect_to((*server)->port()));
  for (const int each : all) {
    const std::string answer = all_from(each);
    EXPECT_TRUE(answer.empty() || answer.starts_with("HTTP/1.1 503 ")) << answer;
    close(each);
  }
  (*server)->stop();
  runs.join();
}

// Admits bodies of the tenant in the path, and never answers them.
class Holds final : public HttpApplication {
 public:
  Admission admit(const RequestHead& head) override {
    return {.most_body_bytes = 1'000, .tenant = head.segments.at(0)};
  }
  void handle(Request request, Reply reply) override {
    if (request.segments.size() > 1) reply({.status = 200, .body = std::string(500, 'x')});
    else held_.push_back(std::move(reply));
  }
  // Before the server ends: a reply must not outlive it.
  void forget() { held_.clear(); }

 private:
  std::vector<Reply> held_;
};

TEST(HttpServerThreads, BodiesOfATenantAreBoundedTogether) {
  Holds application;
  HttpServerOptions options;
  options.most_held_bytes = 1'000;
  auto server = HttpServer::listen(options, application);
  ASSERT_TRUE(server);
  std::thread runs([&] { (*server)->run(); });
  const auto ask = [&](const std::string& path, const std::string& rest) {
    const int connection = connect_to((*server)->port());
    const std::string request = "PUT " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + rest;
    EXPECT_EQ(send(connection, request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    return connection;
  };
  const auto answer = [&](const std::string& path, const std::string& rest) {
    const int connection = ask(path, rest);
    const std::string all = read_all(connection);
    close(connection);
    return all.substr(0, all.find("\r\n"));
  };
  const std::string small(10, 'x'), chunk = "258\r\n" + std::string(600, 'x') + "\r\n0\r\n\r\n";
  const int waits = ask("/a", "Content-Length: 700\r\n\r\n" + std::string(700, 'x'));
  // Waits until the server has it: a small request's answer follows its admission on the same thread.
  EXPECT_NE(answer("/b/now", "Content-Length: 0\r\n\r\n").find("200"), std::string::npos);
  EXPECT_NE(answer("/a/now", "Content-Length: 400\r\n\r\n" + std::string(400, 'x')).find("429"),
            std::string::npos);
  EXPECT_NE(answer("/a/now", "Transfer-Encoding: chunked\r\n\r\n" + chunk).find("429"), std::string::npos);
  EXPECT_NE(answer("/a/now", "Content-Length: 10\r\n\r\n" + small).find("429"),
            std::string::npos);  // its answer
  EXPECT_NE(answer("/b/now", "Content-Length: 400\r\n\r\n" + std::string(400, 'x')).find("200"),
            std::string::npos);
  close(waits);
  (*server)->stop();
  runs.join();
  application.forget();
}

}  // namespace
}  // namespace membrane::service
