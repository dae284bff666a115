// The egress against a real server: what is granted is sent, answered and paid for.
#include "host/egress/http_egress.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <vector>

#include "host/egress/http_egress_testing.h"

namespace membrane::host {
namespace {

using policy::Resource;

// -- granted requests ---------------------------------------------------------------------------------------------

TEST_F(Egress, FetchesWhatIsGranted) {
  RawServer server(
      answer(http_response("200 OK", "Content-Type: text/plain\r\nX-A: 1\r\nx-a: 2\r\n", "hello")));
  allow(server);
  const auto response = get(server.url("/a?b=c#d"), {{"X-Mine", "yes"}, {"X-Empty", ""}});
  ASSERT_TRUE(response) << response.error().reason;
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->body, "hello");
  EXPECT_EQ(response->final_url, server.url("/a?b=c"));
  EXPECT_EQ(response->headers,
            (Headers{{"content-type", "text/plain"}, {"x-a", "1"}, {"x-a", "2"}, {"content-length", "5"}}));
  const std::string request = server.requests().at(0);
  EXPECT_EQ(first_line(request), "GET /a?b=c HTTP/1.1");
  EXPECT_TRUE(contains(request, "Host: 127.0.0.1:" + std::to_string(server.port()) + "\r\n")) << request;
  EXPECT_TRUE(contains(request, "X-Mine: yes\r\n"));
  EXPECT_TRUE(contains(request, "X-Empty:\r\n"));
}

TEST_F(Egress, SendsEveryMethodAndItsBody) {
  RawServer server([](RawConnection& connection, const std::string& request) {
    const bool head = request.starts_with("HEAD");
    connection.send(head ? "HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n"
                         : http_response("200 OK", "", request.substr(request.find("\r\n\r\n") + 4)));
  });
  const std::vector<std::string> methods = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
  allow(server, methods);
  for (const std::string& method : methods) {
    const bool with_body = method != "GET" && method != "HEAD";
    const auto response = send({method, server.url("/x"), {}, with_body ? "body\0of it" : ""});
    ASSERT_TRUE(response) << method << " " << response.error().reason;
    EXPECT_EQ(response->body, with_body ? "body" : "") << method;
    EXPECT_EQ(first_line(server.requests().back()), method + " /x HTTP/1.1");
  }
  ASSERT_TRUE(send({"POST", server.url("/x"), {}, ""}));
  EXPECT_TRUE(contains(server.requests().back(), "Content-Length: 0\r\n")) << server.requests().back();
}

TEST_F(Egress, SendsThePathThatWasDecidedOn) {
  RawServer server(hello());
  allow(server);
  const std::pair<const char*, const char*> kCases[] = {
      {"/a//b", "/a//b"},
      {"/%41%7e", "/%41%7e"},
      {"/a/%2e%2e/b", "/b"},
      {"/a;b=c", "/a;b=c"},
      {"/g%2Fp", "/g%2Fp"},
      {"/?", "/?"},
      {"/?a=%0A&b=+|[]", "/?a=%0A&b=+|[]"},
      {"?q", "/?q"},
      {"", "/"},
  };
  for (const auto& [written, sent] : kCases) {
    const auto response = get(server.url(written));
    ASSERT_TRUE(response) << written << " " << response.error().reason;
    EXPECT_EQ(first_line(server.requests().back()), "GET " + std::string(sent) + " HTTP/1.1") << written;
  }
}

TEST_F(Egress, GivesErrorStatusesAsAnswers) {
  RawServer server(answer(http_response("404 Not Found", "", "no")));
  allow(server);
  const auto response = get(server.url("/"));
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 404);
}

TEST_F(Egress, DialsTheAddressThatItChecked) {
  RawServer server(hello());
  allow(named("papers.test", server, "/*")).addresses = {"127.0.0.1"};
  resolver.answers["papers.test"] = {{"127.0.0.1"}};
  const auto response = get(named("PAPERS.test", server, "/"));
  ASSERT_TRUE(response) << response.error().reason;
  EXPECT_TRUE(contains(server.requests().at(0), "Host: papers.test:"));
  EXPECT_EQ(resolver.asked, std::vector<std::string>{"papers.test"});
}

TEST_F(Egress, FollowsGrantedRedirects) {
  RawServer server([&](RawConnection& connection, const std::string& request) {
    if (request.starts_with("GET /a "))
      connection.send(http_response("302 Found", "Location: b\r\n", "ignored"));
    else if (request.starts_with("GET /b "))
      connection.send(http_response("301 Moved", "Location: /c?q#f\r\n", ""));
    else connection.send(http_response("200 OK", "", "end"));
  });
  allow(server);
  const auto response = get(server.url("/a"));
  ASSERT_TRUE(response) << response.error().reason;
  EXPECT_EQ(response->body, "end");
  EXPECT_EQ(response->final_url, server.url("/c?q"));
}

TEST_F(Egress, UnpacksAndHidesTheEncoding) {
  // "hello" as a zlib stream of one stored block.
  const std::string packed("\x78\x01\x01\x05\x00\xfa\xffhello\x06\x2c\x02\x15", 16);
  RawServer server(answer(http_response("200 OK", "Content-Encoding: deflate\r\n", packed)));
  allow(server);
  const auto response = get(server.url("/"));
  ASSERT_TRUE(response) << response.error().reason;
  EXPECT_EQ(response->body, "hello");
  EXPECT_TRUE(response->headers.empty());
}

// Each compression expands its content by up to a thousand, in one read.
TEST_F(Egress, RefusesAnswersThatArePackedMoreThanOnce) {
  for (const char* headers :
       {"Content-Encoding: deflate, deflate\r\n", "Content-Encoding: gzip\r\ncontent-encoding: DEFLATE\r\n",
        "Transfer-Encoding: gzip, chunked\r\nContent-Encoding: gzip\r\n",
        "Content-Encoding: gzip,,identity,gzip,gzip,gzip\r\n"}) {
    RawServer server(answer("HTTP/1.1 200 OK\r\n" + std::string(headers) + "\r\n"));
    allow(server);
    expect_refused(get(server.url("/")), Errno::kProtocol, "compressed more than once");
    egress.reset();
  }
}

TEST_F(Egress, TheMostExactGrantRules) {
  RawServer server(answer(http_response("200 OK", "", std::string(100, 'x'))));
  allow(server).max_response_bytes = 10;
  allow(server.url("/big/*")).max_response_bytes = 1000;
  EXPECT_TRUE(get(server.url("/big/x")));
  expect_refused(get(server.url("/small")), Errno::kTooBig, "max_response");
}

TEST_F(Egress, CountsBytesAgainstTheBudgetExactly) {
  RawServer server(hello());
  allow(server);
  budget.set(Resource::kBytesIn, 1000);
  budget.set(Resource::kBytesOut, 1000);
  const std::string url = server.url("/");
  ASSERT_TRUE(get(url, {{"A", "bc"}}));
  EXPECT_EQ(1000 - budget.left(Resource::kBytesOut), 3 + url.size() + 3);
  EXPECT_EQ(1000 - budget.left(Resource::kBytesIn), http_response("200 OK", "", "hello").size());
}

// All bytes from the network are paid for, whatever HTTP does with them.
TEST_F(Egress, CountsTheBytesOnTheWireExactly) {
  const std::string interim = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
  const std::string answers[] = {
      interim + interim + http_response("200 OK", "", "hello"),
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(";x=" + std::string(300, 'y'), "hel") +
          chunk(";z", "lo") + "0;last\r\nX-Trailer: " + std::string(200, 't') + "\r\n\r\n",
      "HTTP/1.0 200 OK\r\n\r\nhello",
  };
  for (const std::string& bytes : answers) {
    RawServer server(answer(bytes));
    grants.clear();
    egress.reset();
    allow(server);
    budget.set(Resource::kBytesIn, 10'000);
    const auto response = get(server.url("/"));
    ASSERT_TRUE(response) << response.error().reason;
    EXPECT_EQ(response->body, "hello");
    EXPECT_EQ(10'000 - budget.left(Resource::kBytesIn), bytes.size()) << bytes;
  }
}

TEST_F(Egress, EndlessFramingStopsAtTheBudgetOfBytesIn) {
  std::atomic<size_t> sent = 0;
  const auto flood = [&sent](std::string head, std::string piece) {
    return [&sent, head = std::move(head), piece = std::move(piece)](RawConnection& connection,
                                                                     const std::string&) {
      connection.send(head);
      while (connection.send(piece)) sent += piece.size();
    };
  };
  const std::string chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string gzip = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n";
  const std::vector<RawServer::Handler> floods = {
      flood(chunked + "5;x=", std::string(4096, 'y')),                  // a chunk's extension
      flood(chunked, chunk(";" + std::string(1000, 'y'), "x")),         // many of them
      flood(chunked + "1\r\nx\r\n0\r\nX-A: ", std::string(4096, 'y')),  // a trailer
      flood(gzip + std::string("\x1f\x8b\x08\x08\0\0\0\0\0\x03", 10),
            std::string(4096, 'n')),  // gzip: a name
      flood(gzip + std::string("\x1f\x8b\x08\x10\0\0\0\0\0\x03", 10), std::string(4096, 'c')),  // a comment
      flood(gzip + std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10), std::string(4096, '\0')),  // empty blocks
      flood("", "HTTP/1.1 102 Processing\r\n\r\n"),
      flood("HTTP/1.1 200 OK\r\n", "X-A: b\r\n"),
      flood("HTTP/1.1 200 OK\r\nX-A: ", std::string(4096, 'y')),
  };
  for (size_t i = 0; i < floods.size(); ++i) {
    RawServer server(floods[i]);
    grants.clear();
    egress.reset();
    allow(server).timeout_ms = 3'600'000;
    budget.set(Resource::kBytesIn, 4 << 10);
    sent = 0;
    const auto response = get(server.url("/"));
    ASSERT_FALSE(response) << i;
    EXPECT_TRUE(response.error().code == Errno::kBudget || response.error().code == Errno::kProtocol ||
                response.error().code == Errno::kTooBig)
        << i << " " << name_of(response.error().code) << ": " << response.error().reason;
    EXPECT_LT(sent, size_t{16} << 20) << i;  // the maximum in the system's buffers
  }
}

// -- answers in pieces --------------------------------------------------------------------------------------------

TEST_F(Egress, PassesOnAnAnswerAsItComes) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: b\r\nSet-Cookie: c=d\r\n\r\n5\r\nhello\r\n");
    connection.send("6\r\n world\r\n0\r\n\r\n");
  });
  allow(server).max_redirects = 0;
  std::string body;
  int status = 0, heard = 0;
  HttpRequest request = {"GET", server.url("/"), {}, ""};
  request.hear = [&](const HttpHop&) { return ++heard > 0; };
  request.take_piece = [&](const HttpResponse& head, std::string_view piece) {
    EXPECT_EQ(heard, 1);
    EXPECT_EQ(head.headers, (Headers{{"x-a", "b"}}));
    status = head.status;
    body += piece;
    return true;
  };
  const auto answer = send(request);
  ASSERT_TRUE(answer) << answer.error().reason;
  EXPECT_EQ(body, "hello world");
  EXPECT_EQ(status, 200);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "");
  EXPECT_EQ(heard, 1);
}

TEST_F(Egress, EndsAnExchangeWhosePiecesNobodyTakes) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nhello");
    connection.drip('x');
  });
  allow(server).max_redirects = 0;
  HttpRequest request = {"GET", server.url("/"), {}, ""};
  request.take_piece = [](const HttpResponse&, std::string_view) { return false; };
  expect_refused(send(request), Errno::kConnection, "no longer takes");
}

TEST_F(Egress, BoundsAnAnswerInPiecesToo) {
  RawServer server(answer("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + std::string(5000, 'x')));
  allow(server).max_redirects = 0;
  grants.back().max_response_bytes = 1000;
  size_t taken = 0;
  HttpRequest request = {"GET", server.url("/"), {}, ""};
  request.take_piece = [&](const HttpResponse&, std::string_view piece) {
    return (taken += piece.size()) > 0;
  };
  expect_refused(send(request), Errno::kTooBig, "max_response");
  EXPECT_LE(taken, 1000u);
}

TEST_F(Egress, GathersWhatMustBeThereAsAWhole) {
  RawServer server(hello());
  allow(server);  // it follows redirects
  HttpRequest request = {"GET", server.url("/"), {}, ""};
  request.take_piece = [](const HttpResponse&, std::string_view) { return false; };
  EXPECT_EQ(send(request)->body, "hello");
  egress = nullptr;
  grants.back().max_redirects = 0;
  grants.back().headers = {{"Authorization", {.text = "", .secret = "KEY"}}};
  secrets["KEY"] = "hello-hello";
  EXPECT_EQ(send(request)->body, "hello");
}

// -- several at once ----------------------------------------------------------------------------------------------

// Servers that respond only when as many requests are in progress as there are servers.
class Together {
 public:
  explicit Together(size_t count) : all_here_(static_cast<std::ptrdiff_t>(count)) {
    for (size_t i = 0; i < count; ++i) {
      const auto serve = [this, i](RawConnection& connection, const std::string&) {
        all_here_.arrive_and_wait();
        connection.send(http_response("200 OK", "", "page " + std::to_string(i)));
      };
      servers_.push_back(std::make_unique<RawServer>(serve));
    }
  }
  [[nodiscard]] const RawServer& operator[](size_t i) const { return *servers_[i]; }

 private:
  std::latch all_here_;
  std::vector<std::unique_ptr<RawServer>> servers_;
};

TEST_F(Egress, ParallelRequestsAreUnderWayTogether) {
  const Together servers(kMaxHttpAtOnce);
  std::vector<HttpRequest> requests;
  for (size_t i = 0; i < kMaxHttpAtOnce; ++i) {
    allow(servers[i]);
    requests.push_back({"GET", servers[i].url("/"), {}, ""});
  }
  const auto answers = open().send_many(requests);
  ASSERT_EQ(answers.size(), requests.size());
  for (size_t i = 0; i < answers.size(); ++i) {
    ASSERT_TRUE(answers[i]) << answers[i].error().reason;
    EXPECT_EQ(answers[i]->body, "page " + std::to_string(i)) << "in the order of the requests";
  }
}

TEST_F(Egress, ParallelRequestsFailEachByItself) {
  RawServer server([](RawConnection& connection, const std::string& request) {
    connection.send(request.starts_with("GET /away")
                        ? http_response("302 Found", "Location: http://169.254.169.254/\r\n", "")
                        : http_response("200 OK", "", "key-0123456789"));
  });
  allow(server).headers = {{"Authorization", {"Bearer ", "KEY"}}};
  secrets["KEY"] = "key-0123456789";
  std::vector<HttpRequest> requests;
  for (int i = 0; i < 30; ++i) requests.push_back({"GET", server.url("/" + std::to_string(100 + i)), {}, ""});
  requests[3].url = "http://elsewhere.example/";
  requests[4].url = server.url("/away");
  requests[5].method = "POST";
  const auto answers = open().send_many(requests);
  for (size_t i = 0; i < answers.size(); ++i) {
    if (i >= 3 && i <= 5) {
      expect_refused(answers[i], Errno::kAccess, i == 4 ? "redirects" : "");
      continue;
    }
    ASSERT_TRUE(answers[i]) << answers[i].error().reason;
    EXPECT_EQ(answers[i]->body, "**************") << "what hides secrets is each thread's own";
  }
}

TEST_F(Egress, ParallelRequestsShareTheBudgetOfBytes) {
  RawServer server(hello());
  allow(server);
  const std::vector<HttpRequest> requests(20, {"GET", server.url("/"), {}, ""});
  budget.set(Resource::kBytesIn, 1'000'000);
  ASSERT_TRUE(open().send(requests[0]));
  const uint64_t of_one = 1'000'000 - budget.left(Resource::kBytesIn);
  budget.set(Resource::kBytesIn, of_one * 7);
  size_t answered = 0;
  for (const auto& answer : open().send_many(requests)) {
    answered += answer ? 1 : 0;
    if (!answer) {
      EXPECT_EQ(answer.error().code, Errno::kBudget);
    }
  }
  EXPECT_LE(answered, 7u);
}

// -- traces -------------------------------------------------------------------------------------------------------

struct Noting final : EgressWatch {
  uint64_t leaves(std::string_view method, std::string_view host, std::string& traceparent) override {
    said.push_back(std::string(method) + " " + std::string(host));
    traceparent = "00-trace-" + std::to_string(said.size());
    return said.size();
  }
  void is_over(uint64_t number, int status) override {
    said.push_back(std::to_string(number) + " was answered by " + std::to_string(status));
  }
  std::vector<std::string> said;
};

TEST_F(Egress, IsTracedAsItsGrantSays) {
  for (const bool is_carried : {false, true}) {
    std::string seen;
    RawServer server([&](RawConnection& connection, const std::string& request) {
      seen = request;
      connection.send(http_response("200 OK", "", "hello"));
    });
    Noting noting;
    watch = &noting;
    egress = nullptr;
    grants.clear();
    allow(server);
    grants.back().traceparent = is_carried;
    ASSERT_TRUE(get(server.url("/secret-path?of=the-program"), {{"Traceparent", "00-own-0"}}));
    EXPECT_EQ(contains(seen, "traceparent: 00-trace-1"), is_carried) << seen;
    EXPECT_EQ(contains(seen, "00-own-0"), !is_carried) << seen;
    ASSERT_EQ(noting.said.size(), 2u);
    EXPECT_TRUE(noting.said[0].starts_with("GET 127.0.0.1:")) << noting.said[0];
    EXPECT_FALSE(contains(noting.said[0], "secret-path"));
    EXPECT_EQ(noting.said[1], "1 was answered by 200");
    egress = nullptr;
  }
}

}  // namespace
}  // namespace membrane::host
