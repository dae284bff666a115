// The egress against a real server on the loopback that responds as each test needs. Most tests try to get around
// the grants.
#include "host/egress/http_egress.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "host/egress/raw_server_testing.h"

namespace membrane::host {
namespace {

using policy::Address;
using policy::Budget;
using policy::HttpGrant;
using policy::Resource;

// Answers from a script: the n-th lookup of a name gets the n-th answer, further ones the last.
class ScriptedResolver final : public Resolver {
 public:
  std::map<std::string, std::vector<std::vector<std::string>>> answers;
  std::vector<std::string> asked;
  std::mutex mutex;

  HostResult<std::vector<Address>> resolve(const std::string& host, uint64_t) override {
    const std::lock_guard lock(mutex);
    const auto times = static_cast<size_t>(std::count(asked.begin(), asked.end(), host));
    asked.push_back(host);
    const auto found = answers.find(host);
    if (found == answers.end()) return refuse(Errno::kConnection, "The name " + host + " has no address.");
    std::vector<Address> out;
    for (const std::string& text : found->second[std::min(times, found->second.size() - 1)])
      out.push_back(Address::parse(text).value());
    return out;
  }
};

class Egress : public testing::Test {
 protected:
  HttpGrant& allow(const std::string& url, std::vector<std::string> methods = {"GET"}) {
    HttpGrant grant;
    grant.methods = std::move(methods);
    grant.url = url;
    grant.timeout_ms = 600'000;  // long enough for any machine
    return grants.emplace_back(grant);
  }
  // A grant for every path of the server, by its address.
  HttpGrant& allow(const RawServer& server, std::vector<std::string> methods = {"GET"}) {
    return allow(server.url("/*"), std::move(methods));
  }
  // "http://name:PORT" + path for a name that the resolver knows.
  static std::string named(const std::string& name, const RawServer& server, const std::string& path) {
    return "http://" + name + ":" + std::to_string(server.port()) + path;
  }

  HttpEgress& open() {
    if (!egress) {
      auto made = HttpEgress::create(
          grants, budget, run, resolver,
          [this](const std::string& name) -> std::optional<std::string> {
            const auto found = secrets.find(name);
            if (found == secrets.end()) return std::nullopt;
            return found->second;
          },
          watch);
      EXPECT_TRUE(made) << made.error().to_string();
      egress = std::move(*made);
    }
    return *egress;
  }
  HostResult<HttpResponse> send(const HttpRequest& request) { return open().send(request); }
  HostResult<HttpResponse> get(const std::string& url, const Headers& headers = {}) {
    return send({"GET", url, headers, ""});
  }

  std::vector<HttpGrant> grants;
  Budget budget;
  Deadline run{budget};
  ScriptedResolver resolver;
  std::map<std::string, std::string> secrets;
  EgressWatch* watch = nullptr;
  std::unique_ptr<HttpEgress> egress;
};

void expect_refused(const HostResult<HttpResponse>& result, Errno code, std::string_view reason) {
  ASSERT_FALSE(result) << "answered " << result->status << " " << result->body.substr(0, 100);
  EXPECT_EQ(result.error().code, code) << name_of(result.error().code) << ": " << result.error().reason;
  EXPECT_NE(result.error().reason.find(reason), std::string::npos) << result.error().reason;
}

RawServer::Handler answer(std::string bytes) {
  return
      [bytes = std::move(bytes)](RawConnection& connection, const std::string&) { connection.send(bytes); };
}
RawServer::Handler hello() { return answer(http_response("200 OK", "", "hello")); }
RawServer::Handler redirect(const std::string& status, const std::string& location) {
  return answer(http_response(status, "Location: " + location + "\r\n", ""));
}
std::string first_line(const std::string& request) { return request.substr(0, request.find("\r\n")); }
bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// -- answers in pieces -------------------------------------------------------------

TEST_F(Egress, HandsOnAnAnswerAsItComes) {
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

// -- traces ----------------------------------------------------------------------

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

// -- several at once -------------------------------------------------------------

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

// -- granted requests ------------------------------------------------------------

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

std::string chunk(const std::string& extension, const std::string& bytes) {
  char size[16];
  std::snprintf(size, sizeof size, "%zx", bytes.size());
  return size + extension + "\r\n" + bytes + "\r\n";
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

// -- requests that are not granted -------------------------------------------------

TEST_F(Egress, RefusesWithoutAnyGrantAndAsksNoNameServer) {
  expect_refused(get("https://example.org/"), Errno::kAccess, "No grant allows GET https://example.org/");
  EXPECT_EQ(get("https://example.org/").error().grant, "--allow 'http:GET:https://example.org/*'");
  EXPECT_FALSE(get("https://example.org/").error().acted);
  EXPECT_TRUE(resolver.asked.empty());
}

TEST_F(Egress, RefusesAnotherMethod) {
  RawServer server(hello());
  allow(server);
  expect_refused(send({"POST", server.url("/"), {}, "x"}), Errno::kAccess, "granted for other methods");
  expect_refused(send({"get", server.url("/"), {}, ""}), Errno::kAccess, "No grant");
  expect_refused(send({"CONNECT", server.url("/"), {}, ""}), Errno::kAccess, "No grant");
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(Egress, RefusesMethodsThatSmuggle) {
  RawServer server(hello());
  allow(server);
  for (const char* method :
       {"", "GET /admin HTTP/1.1\r\nX:", "GET\r\n", "G ET", "GET\t", "GETGETGETGETGETGET"})
    expect_refused(send({method, server.url("/"), {}, ""}), Errno::kInvalid, "method is malformed");
  expect_refused(send({"GET", server.url("/"), {}, "GET /admin HTTP/1.1\r\n\r\n"}), Errno::kInvalid,
                 "no body");
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(Egress, RefusesMethodOverrides) {
  RawServer server(hello());
  allow(server);
  for (const char* name :
       {"X-HTTP-Method-Override", "x-http-method", "X-Method-Override", "X_HTTP_Method_Override"})
    expect_refused(get(server.url("/"), {{name, "DELETE"}}), Errno::kInvalid, "belongs to the connection");
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(Egress, RefusesPathOverrides) {
  RawServer server(hello());
  allow(server.url("/v1/*"));
  for (const char* name : {"X-Original-URL", "x-rewrite-url", "X_Original_URL", "X-Original-Uri",
                           "X.Original.Uri", "X-Forwarded-For", "x_forwarded_host", "X-Forwarded-Prefix",
                           "Forwarded", "Via", "X-Real-IP", "X-Envoy-Original-Path", "X-Accel-Redirect",
                           "X-Host", "X-Rewrite-Uri", "X-Original-Method", "True-Client-IP"})
    expect_refused(get(server.url("/v1/"), {{name, "/admin"}}), Errno::kInvalid, name);
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(Egress, RefusesAnotherPort) {
  RawServer server(hello()), other(hello());
  allow(server);
  expect_refused(get(other.url("/")), Errno::kAccess, "No grant");
  EXPECT_TRUE(other.requests().empty());
}

TEST_F(Egress, RefusesAnotherScheme) {
  RawServer server(hello());
  allow(server);
  expect_refused(get("https://127.0.0.1:" + std::to_string(server.port()) + "/"), Errno::kAccess, "No grant");
}

TEST_F(Egress, RefusesPathsThatClimbOut) {
  RawServer server(hello());
  allow(server.url("/v1/*"));
  for (const char* path : {"/v1/../admin", "/v1/%2e%2e/admin", "/v1/..%2fadmin", "/v1/%252e%252e%252fadmin",
                           "/v1/..;/admin", "/v1/%2e%2e%5cadmin", "/V1/x", "/admin", "/v1", "//v1/x"})
    expect_refused(get(server.url(path)), Errno::kAccess, "No grant");
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(Egress, RefusesBackslashesSpacesAndLineBreaksInUrls) {
  RawServer server(hello());
  allow(server);
  for (const char* path :
       {"/a\\b", "/a b", "/a\r\nX-Injected: 1", "/a\nb", "/a\tb", "/\x01", "/%0d%0aX", "/%00", "/%zz"})
    expect_refused(get(server.url(path)), Errno::kInvalid, "The URL");
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(Egress, RefusesUserInformation) {
  RawServer server(hello());
  allow(server);
  const std::string host = "127.0.0.1:" + std::to_string(server.port());
  for (const std::string& url :
       {"http://user@" + host + "/", "http://user:pass@" + host + "/", "http://" + host + "@evil.test/",
        "http://" + host + "%40evil.test@" + host + "/", "http://@" + host + "/"})
    expect_refused(get(url), Errno::kInvalid, "user information");
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(Egress, RefusesOtherSchemes) {
  allow("https://example.org/*");
  for (const char* url :
       {"file:///etc/passwd", "ftp://example.org/", "gopher://127.0.0.1:11211/_x", "dict://127.0.0.1/",
        "ldap://example.org/", "javascript:alert(1)", "//example.org/", "example.org/", ""})
    expect_refused(get(url), Errno::kInvalid, "The URL");
}

TEST_F(Egress, RefusesVeryLongUrls) {
  allow("https://example.org/*");
  expect_refused(get("https://example.org/" + std::string(9000, 'a')), Errno::kTooBig, "longer than");
}

// -- hosts and addresses ----------------------------------------------------------------

TEST_F(Egress, NumericSpellingsOfLoopbackNeedItsGrant) {
  allow("http://example.org/*");
  for (const char* host :
       {"127.0.0.1", "0x7f.1", "2130706433", "017700000001", "127.1", "0x7f000001", "127.0.0.1.", "[::1]",
        "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]", "0", "0.0.0.0"})
    expect_refused(get("http://" + std::string(host) + "/"), Errno::kAccess, "No grant");
}

TEST_F(Egress, NumericSpellingsOfMetadataNeedItsGrant) {
  allow("http://example.org/*");
  for (const char* host :
       {"169.254.169.254", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "169.254.43518",
        "[::ffff:169.254.169.254]", "[fd00:ec2::254]", "[64:ff9b::a9fe:a9fe]"})
    expect_refused(get("http://" + std::string(host) + "/latest/meta-data/"), Errno::kAccess, "No grant");
}

TEST_F(Egress, RefusesHostsThatAreNeitherNamesNorAddresses) {
  allow("http://example.org/*");
  for (const char* host :
       {"1.2.3.4.5", "0x7f000001.", "256.256.256.256", "[fe80::1%25eth0]", "[::1", "a..b", ".a", "a,b", "%00",
        "a%2fb", "127.0.0.1%00.example.org", "ex\xc3\xa4mple.org", "\xe2\x91\xa0.org"})
    expect_refused(get("http://" + std::string(host) + "/"), Errno::kInvalid, "URL");
}

TEST_F(Egress, PunycodeLookalikesAreOtherHosts) {
  allow("http://apple.com/*");
  expect_refused(get("http://xn--80ak6aa92e.com/"), Errno::kAccess, "No grant");
}

TEST_F(Egress, AnAddressGrantsOnlyItself) {
  RawServer server(hello());
  allow(server);
  const std::string port = std::to_string(server.port());
  expect_refused(get("http://127.0.0.2:" + port + "/"), Errno::kAccess, "No grant");
  expect_refused(get("http://localhost:" + port + "/"), Errno::kAccess, "No grant");
  expect_refused(get("http://[::1]:" + port + "/"), Errno::kAccess, "No grant");
  expect_refused(get("http://[::ffff:127.0.0.1]:" + port + "/"), Errno::kAccess, "No grant");
  EXPECT_TRUE(get("http://0x7f.1:" + port + "/"));  // the same address in another notation
}

TEST_F(Egress, RefusesNamesThatResolveToPrivateAddresses) {
  const std::pair<const char*, const char*> kCases[] = {
      {"10.0.0.5", "private"},         {"172.16.3.4", "private"},    {"192.168.1.1", "private"},
      {"127.0.0.1", "loopback"},       {"127.8.9.10", "loopback"},   {"0.0.0.0", "unspecified"},
      {"100.64.1.1", "carrier-grade"}, {"224.0.0.251", "multicast"}, {"255.255.255.255", "reserved"},
      {"198.18.0.1", "benchmarking"},  {"::1", "loopback"},          {"::", "unspecified"},
      {"fe80::1", "link-local"},       {"fc00::1", "unique local"},  {"ff02::1", "multicast"},
      {"169.254.1.1", "link-local"},   {"fec0::1", "site-local"},
  };
  allow("http://inside.test/*");
  for (const auto& [address, kind] : kCases) {
    resolver.answers["inside.test"] = {{address}};
    const auto result = get("http://inside.test/");
    expect_refused(result, Errno::kAccess, kind);
    EXPECT_TRUE(contains(result.error().grant, std::string("addresses = [\"") + address))
        << result.error().grant;
  }
}

TEST_F(Egress, RefusesNamesThatResolveToMetadata) {
  allow("http://inside.test/*");
  for (const char* address : {"169.254.169.254", "fd00:ec2::254", "::ffff:169.254.169.254", "100.100.100.200",
                              "168.63.129.16", "64:ff9b::a9fe:a9fe"}) {
    resolver.answers["inside.test"] = {{address}};
    expect_refused(get("http://inside.test/"), Errno::kAccess, "cloud metadata");
  }
}

TEST_F(Egress, RefusesAddressesThatCarryAnotherInside) {
  allow("http://inside.test/*");
  for (const char* address : {"::ffff:10.0.0.1", "2002:7f00:1::", "2001:0:7f00:1::1", "64:ff9b::7f00:1",
                              "64:ff9b:1::1", "::127.0.0.1"}) {
    resolver.answers["inside.test"] = {{address}};
    expect_refused(get("http://inside.test/"), Errno::kAccess, "not a public address");
  }
}

TEST_F(Egress, OneBadAnswerAmongManyRefusesAll) {
  allow("http://mixed.test/*");
  resolver.answers["mixed.test"] = {{"93.184.216.34", "2606:2800::1", "10.0.0.1"}};
  expect_refused(get("http://mixed.test/"), Errno::kAccess, "10.0.0.1");
}

TEST_F(Egress, ARebindingNameIsCheckedAtEveryCall) {
  RawServer server(hello());
  allow(named("rebind.test", server, "/*")).addresses = {"127.0.0.1"};
  resolver.answers["rebind.test"] = {{"127.0.0.1"}, {"127.0.0.2"}, {"10.0.0.1"}};
  EXPECT_TRUE(get(named("rebind.test", server, "/")));
  expect_refused(get(named("rebind.test", server, "/")), Errno::kAccess, "127.0.0.2");
  expect_refused(get(named("rebind.test", server, "/")), Errno::kAccess, "10.0.0.1");
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST_F(Egress, ARebindingNameIsCheckedAtEveryRedirect) {
  RawServer server(redirect("302 Found", "/again"));
  allow(named("rebind.test", server, "/*")).addresses = {"127.0.0.1"};
  resolver.answers["rebind.test"] = {{"127.0.0.1"}, {"169.254.169.254"}};
  expect_refused(get(named("rebind.test", server, "/")), Errno::kAccess, "cloud metadata");
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST_F(Egress, ARangeDoesNotGrantMetadata) {
  allow("http://inside.test/*").addresses = {"169.254.0.0/16", "0.0.0.0/0"};
  resolver.answers["inside.test"] = {{"169.254.169.254"}};
  expect_refused(get("http://inside.test/"), Errno::kAccess, "cloud metadata");
}

TEST_F(Egress, ANameForLoopbackNeedsAddresses) {
  RawServer server(hello());
  allow(named("localhost", server, "/*"));
  resolver.answers["localhost"] = {{"127.0.0.1"}};
  expect_refused(get(named("localhost", server, "/")), Errno::kAccess, "loopback");
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(Egress, AProxyOfTheEnvironmentIsNotUsed) {
  RawServer server(hello()), proxy(hello());
  allow(server);
  const std::string url = proxy.url("");
  for (const char* name : {"http_proxy", "all_proxy", "ALL_PROXY", "HTTP_PROXY"})
    setenv(name, url.c_str(), 1);
  EXPECT_TRUE(get(server.url("/")));
  for (const char* name : {"http_proxy", "all_proxy", "ALL_PROXY", "HTTP_PROXY"}) unsetenv(name);
  EXPECT_TRUE(proxy.requests().empty());
}

// -- redirects ----------------------------------------------------------------------------

TEST_F(Egress, RefusesRedirectsToAnotherHost) {
  RawServer server(redirect("302 Found", "https://evil.test/x"));
  allow(server);
  const auto result = get(server.url("/"));
  expect_refused(result, Errno::kAccess, "redirects to what no grant allows: GET https://evil.test/x");
  EXPECT_TRUE(result.error().acted) << "the first request has left";
  EXPECT_TRUE(resolver.asked.empty());
}

TEST_F(Egress, RefusesRedirectsToAnotherPort) {
  RawServer other(hello());
  RawServer server(redirect("307 Temporary Redirect", other.url("/")));
  allow(server);
  expect_refused(get(server.url("/")), Errno::kAccess, "redirects");
  EXPECT_TRUE(other.requests().empty());
}

TEST_F(Egress, RefusesRedirectsToAnotherScheme) {
  for (const char* target :
       {"file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1:25/_x", "javascript:x"}) {
    RawServer server(redirect("302 Found", target));
    grants.clear();
    egress.reset();
    allow(server);
    expect_refused(get(server.url("/")), Errno::kProtocol, "redirects to something that is not accepted");
  }
}

TEST_F(Egress, RefusesRedirectsToMetadata) {
  RawServer server(redirect("301 Moved", "http://169.254.169.254/latest/meta-data/iam/"));
  allow(server);
  expect_refused(get(server.url("/")), Errno::kAccess, "169.254.169.254");
}

TEST_F(Egress, RefusesRedirectsToMetadataInDisguise) {
  for (const char* target :
       {"http://0xa9fea9fe/", "http://[::ffff:a9fe:a9fe]/", "//169.254.169.254/", "http://2852039166/"}) {
    RawServer server(redirect("302 Found", target));
    grants.clear();
    egress.reset();
    allow(server);
    expect_refused(get(server.url("/")), Errno::kAccess, "redirects");
  }
}

TEST_F(Egress, RefusesRedirectsToUserInformation) {
  RawServer server([](RawConnection& connection, const std::string& request) {
    const size_t host = request.find("Host: ") + 6;
    const std::string self = request.substr(host, request.find("\r\n", host) - host);
    connection.send(http_response("302 Found", "Location: http://u:p@" + self + "/x\r\n", ""));
  });
  allow(server);
  expect_refused(get(server.url("/")), Errno::kProtocol, "user information");
}

TEST_F(Egress, RefusesRedirectsOutOfThePath) {
  RawServer server(redirect("302 Found", "../admin"));
  allow(server.url("/v1/*"));
  expect_refused(get(server.url("/v1/x")), Errno::kAccess, "/admin");
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST_F(Egress, RefusesARedirectWhoseMethodIsNotGranted) {
  RawServer server(redirect("303 See Other", "/x"));
  allow(server, {"POST"});
  expect_refused(send({"POST", server.url("/"), {}, "x"}), Errno::kAccess, "GET");
}

TEST_F(Egress, RedirectsKeepOrDropTheBodyAsTheyShould) {
  for (const auto& [status, method] : {std::pair("301 x", "GET"),
                                       {"302 x", "GET"},
                                       {"303 x", "GET"},
                                       {"307 x", "POST"},
                                       {"308 x", "POST"}}) {
    RawServer server([&, code = std::string(status)](RawConnection& connection, const std::string& request) {
      if (request.starts_with("POST /a ")) connection.send(http_response(code, "Location: /b\r\n", ""));
      else connection.send(http_response("200 OK", "", ""));
    });
    grants.clear();
    egress.reset();
    allow(server, {"GET", "POST"});
    ASSERT_TRUE(send({"POST", server.url("/a"), {{"Content-Type", "text/x"}}, "payload"}));
    const std::string last = server.requests().at(1);
    EXPECT_EQ(first_line(last), std::string(method) + " /b HTTP/1.1") << status;
    EXPECT_EQ(contains(last, "payload"), std::string(method) == "POST") << status;
    EXPECT_EQ(contains(last, "Content-Type"), std::string(method) == "POST") << status;
  }
}

TEST_F(Egress, EachServerThatWasReachedIsHeardOf) {
  std::vector<std::string> heard;
  bool follows = true;
  const auto ask = [&](const std::string& url) {
    heard.clear();
    return send({"GET", url, {}, "", [&](const HttpHop& hop) {
                   heard.push_back(hop.method + " " + hop.url);
                   return follows;
                 }});
  };
  RawServer last(hello()), cut([](RawConnection&, const std::string&) {});
  std::string target;
  RawServer server([&](RawConnection& connection, const std::string&) {
    connection.send(http_response("302 Found", "Location: " + target + "\r\n", ""));
  });
  allow(server);
  allow(last);
  allow(cut);
  allow("http://gone.test/*");
  allow("http://127.0.0.1:1/*");
  const std::string first = "GET " + server.url("/");
  target = last.url("/x");
  EXPECT_TRUE(ask(server.url("/")));
  EXPECT_EQ(heard, (std::vector<std::string>{first, "GET " + last.url("/x")}));
  target = "http://gone.test/";
  expect_refused(ask(server.url("/")), Errno::kConnection, "gone.test");
  EXPECT_EQ(heard, std::vector<std::string>{first});
  target = "http://127.0.0.1:1/";
  expect_refused(ask(server.url("/")), Errno::kConnection, "");
  EXPECT_EQ(heard, std::vector<std::string>{first}) << "nobody is there";
  target = "http://u:p@h/";
  EXPECT_FALSE(ask(server.url("/")));
  EXPECT_EQ(heard, std::vector<std::string>{first});
  EXPECT_FALSE(ask(cut.url("/")));
  EXPECT_EQ(heard, std::vector<std::string>{"GET " + cut.url("/")});
  EXPECT_FALSE(ask("http://gone.test/"));
  EXPECT_TRUE(heard.empty());
  follows = false;
  target = last.url("/x");
  EXPECT_EQ(ask(server.url("/"))->status, 302);
  EXPECT_EQ(heard, std::vector<std::string>{first});
}

TEST_F(Egress, WhatIsHeardOfHasNoSecretInIt) {
  RawServer server([](RawConnection& connection, const std::string& request) {
    connection.send(request.starts_with("GET / ")
                        ? http_response("302 Found", "Location: /the-secret-key\r\n", "")
                        : http_response("200 OK", "", ""));
  });
  allow(server).headers = {{"X-Key", {.text = "", .secret = "KEY"}}};
  secrets["KEY"] = "the-secret-key";
  std::vector<std::string> heard;
  ASSERT_TRUE(send({"GET", server.url("/"), {}, "", [&](const HttpHop& hop) {
                      heard.push_back(hop.url);
                      return true;
                    }}));
  EXPECT_EQ(heard, (std::vector<std::string>{server.url("/"), server.url("/**************")}));
}

TEST_F(Egress, RefusesEndlessRedirects) {
  RawServer server(redirect("302 Found", "/again"));
  allow(server).max_redirects = 3;
  expect_refused(get(server.url("/")), Errno::kQuota, "more than 3 times");
  EXPECT_EQ(server.requests().size(), 4u);
}

TEST_F(Egress, WithoutRedirectsTheProgramGetsTheAnswerItself) {
  RawServer server(redirect("302 Found", "https://evil.test/"));
  allow(server).max_redirects = 0;
  const auto response = get(server.url("/"));
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 302);
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST_F(Egress, AChangeOfTheProtocolIsRefused) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nbytes");
    connection.wait_for_close();
  });
  allow(server);
  expect_refused(get(server.url("/")), Errno::kProtocol, "changes the protocol");
}

TEST_F(Egress, RedirectsWithControlCharactersAreRefused) {
  RawServer server(redirect("302 Found", "/a\x01b"));
  allow(server);
  expect_refused(get(server.url("/")), Errno::kProtocol, "control character");
}

// -- secrets ------------------------------------------------------------------------------------

TEST_F(Egress, SecretsAreAddedAndComeBackAsAsterisks) {
  RawServer server([](RawConnection& connection, const std::string& request) {
    connection.send(http_response("200 OK", "X-Echo: <sekret-key-123>\r\n", request + "|sekret-key-123|"));
  });
  allow(server).headers = {{"Authorization", {"Bearer ", "KEY"}}};
  secrets["KEY"] = "sekret-key-123";
  const auto response = get(server.url("/"));
  ASSERT_TRUE(response) << response.error().reason;
  EXPECT_TRUE(contains(server.requests().at(0), "Authorization: Bearer sekret-key-123\r\n"));
  EXPECT_FALSE(contains(response->body, "sekret")) << response->body;
  EXPECT_TRUE(contains(response->body, "|**************|"));
  EXPECT_EQ(response->headers.at(0).second, "<**************>");
}

TEST_F(Egress, SecretsAreAlsoHiddenWhenPercentEncodedOrInTheFinalUrl) {
  RawServer server([](RawConnection& connection, const std::string& request) {
    if (request.starts_with("GET /a "))
      connection.send(http_response("302 x", "Location: /b?k=se%2Fkret%3D123\r\n", ""));
    else connection.send(http_response("200 OK", "", "k=se%2Fkret%3D123"));
  });
  allow(server).headers = {{"X-Key", {"", "KEY"}}};
  secrets["KEY"] = "se/kret=123";
  const auto response = get(server.url("/a"));
  ASSERT_TRUE(response) << response.error().reason;
  EXPECT_FALSE(contains(response->body, "kret"));
  EXPECT_FALSE(contains(response->final_url, "kret")) << response->final_url;
}

TEST_F(Egress, SecretsAreHiddenHoweverTheyAreEscaped) {
  const std::vector<std::string> spellings = {
      "se/kret\\=\"12",        "se%2fkret%5c%3d%2212",   "se%2Fkret%5C=%2212",
      "%73e/%6bret%5c%3D\"12", R"(se\/kret\u005c=\"12)", R"(se\u002Fkret\u005C\u003d\u002212)"};
  RawServer server([&](RawConnection& connection, const std::string&) {
    std::string body;
    for (const std::string& spelling : spellings) body += "<" + spelling + ">";
    connection.send(http_response("200 OK", "", body + "<se%2kret><se/kret\\=\"1%3"));
  });
  allow(server).headers = {{"X-Key", {"", "KEY"}}};
  secrets["KEY"] = spellings[0];
  const auto response = get(server.url("/"));
  ASSERT_TRUE(response) << response.error().reason;
  std::string hidden;
  for (const std::string& spelling : spellings) hidden += "<" + std::string(spelling.size(), '*') + ">";
  EXPECT_EQ(response->body, hidden + "<se%2kret><se/kret\\=\"1%3");
}

// Base64 of JSON, in lines, as a JSON string, in pieces of one to seven bytes.
TEST_F(Egress, SecretsAreHiddenWhereverChunksCutThem) {
  const std::string in_base64 = "eyJrIjoic2VcL2tyZXQ9XCI" + std::string("\\r\\n") + "xMiJ9";
  RawServer server([&](RawConnection& connection, const std::string&) {
    const std::string body = "<" + in_base64 + "><se%5C%2Fkret%3D%5C%2212>";
    std::string answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (size_t at = 0, size = 1; at < body.size(); at += size, size = size % 7 + 1)
      answer += chunk("", body.substr(at, size));
    connection.send(answer + "0\r\n\r\n");
  });
  allow(server).headers = {{"X-Key", {"", "KEY"}}};
  secrets["KEY"] = "se/kret=\"12";
  const auto response = get(server.url("/"));
  ASSERT_TRUE(response) << response.error().reason;
  EXPECT_EQ(response->body, "<eyJrIjoi" + std::string(22, '*') + "J9><" + std::string(23, '*') + ">");
}

// Masking counts against the run's time as well.
TEST_F(Egress, AnAnswerThatIsNotMaskedInTimeIsNotGiven) {
  RawServer server([&](RawConnection& connection, const std::string&) {
    run.set_end(Deadline::Clock::now());
    connection.send(http_response("200 OK", "", std::string(1 << 20, 'x')));
  });
  allow(server).headers = {{"X-Key", {"", "KEY"}}};
  secrets["KEY"] = "sekret-key-123";
  expect_refused(get(server.url("/")), Errno::kBudget, "time");
}

TEST_F(Egress, SecretsDoNotFollowARedirectToAnotherGrant) {
  RawServer other(hello());
  RawServer server(redirect("307 x", other.url("/take")));
  allow(server).headers = {{"Authorization", {"Bearer ", "KEY"}}};
  allow(other);
  secrets["KEY"] = "sekret-key-123";
  ASSERT_TRUE(get(server.url("/")));
  EXPECT_TRUE(contains(server.requests().at(0), "sekret"));
  EXPECT_FALSE(contains(other.requests().at(0), "sekret")) << other.requests().at(0);
}

TEST_F(Egress, SecretsDoNotStandInTheReasonOfARefusal) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send(
        http_response("302 x", "Location: https://sekret-key-123.evil.test/sekret-key-123\r\n", ""));
  });
  allow(server).headers = {{"Authorization", {"Bearer ", "KEY"}}};
  secrets["KEY"] = "sekret-key-123";
  const auto result = get(server.url("/"));
  expect_refused(result, Errno::kAccess, "redirects");
  EXPECT_FALSE(contains(result.error().reason + result.error().grant, "sekret")) << result.error().reason;
}

TEST_F(Egress, TheProgramsCredentialsDoNotFollowARedirectToAnotherOrigin) {
  RawServer other(hello());
  RawServer server(redirect("302 x", other.url("/")));
  allow(server);
  allow(other);
  ASSERT_TRUE(get(server.url("/"), {{"authorization", "mine"}, {"Cookie", "mine"}, {"X-Other", "kept"}}));
  const std::string second = other.requests().at(0);
  EXPECT_FALSE(contains(second, "mine")) << second;
  EXPECT_TRUE(contains(second, "X-Other: kept"));
}

TEST_F(Egress, TheGrantsHeadersTakeThePlaceOfTheProgramsOwn) {
  RawServer server(hello());
  allow(server).headers = {{"Authorization", {"Bearer ", "KEY"}}};
  secrets["KEY"] = "sekret-key-123";
  grants[0].headers.push_back({"X-Role", {"reader", ""}});
  for (const char* name : {"authorization", "X-Role", "x_role", "X_ROLE", "X.Role", "x~role"}) {
    EXPECT_TRUE(get(server.url("/"), {{name, "of the program"}, {"X-Other", "kept"}}));
    const std::string request = server.requests().back();
    EXPECT_TRUE(contains(request, "Authorization: Bearer sekret-key-123\r\nX-Role: reader\r\n")) << request;
    EXPECT_TRUE(contains(request, "X-Other: kept\r\n")) << request;
    EXPECT_FALSE(contains(request, "of the program")) << request;
  }
}

// A grant belongs to its owner, who may know what the proxy before the server needs.
TEST_F(Egress, AGrantMaySetWhatServersRouteBy) {
  RawServer server(hello());
  allow(server).headers = {{"X-Forwarded-Proto", {"https", ""}}};
  ASSERT_TRUE(get(server.url("/")));
  EXPECT_TRUE(contains(server.requests().at(0), "X-Forwarded-Proto: https\r\n"));
}

TEST_F(Egress, ASecretCannotBeReadInPieces) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send(http_response("206 Partial Content", "Content-Range: bytes 0-6/14\r\n", "sekret-"));
  });
  allow(server.url("/key/*")).headers = {{"Authorization", {"Bearer ", "KEY"}}};
  allow(server.url("/open/*"));  // on the same server, which may show there what it was sent elsewhere
  secrets["KEY"] = "sekret-key-123";
  for (const char* path : {"/key/a", "/open/a"}) {
    for (const char* name : {"Range", "range", "If-Range", "Request-Range", "if_range"})
      expect_refused(get(server.url(path), {{name, "bytes=0-6"}}), Errno::kInvalid, "in pieces");
    expect_refused(get(server.url(path)), Errno::kProtocol, "part of the resource");
  }
  EXPECT_EQ(server.requests().size(), 2u);
}

TEST_F(Egress, PartsCanBeAskedForWhereNoSecretIsSent) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send(http_response("206 Partial Content", "Content-Range: bytes 0-3/14\r\n", "part"));
  });
  allow(server);
  allow("https://elsewhere.example/*").headers = {{"Authorization", {"Bearer ", "KEY"}}};
  const auto response = get(server.url("/"), {{"Range", "bytes=0-3"}});
  ASSERT_TRUE(response) << response.error().reason;
  EXPECT_EQ(response->body, "part");
}

TEST_F(Egress, AMissingSecretIsNotSentAsNothing) {
  RawServer server(hello());
  allow(server).headers = {{"Authorization", {"Bearer ", "KEY"}}};
  expect_refused(get(server.url("/")), Errno::kHost, "KEY of the grant is not set");
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(Egress, SecretsThatCannotBeKeptAreNotSent) {
  RawServer server(hello());
  allow(server).headers = {{"Authorization", {"", "KEY"}}};
  for (const char* value : {"short", "", "with\r\nX-Injected: 1"}) {
    secrets["KEY"] = value;
    expect_refused(get(server.url("/")), Errno::kHost, "secret KEY");
  }
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(Egress, CookiesAreNeitherKeptNorShown) {
  RawServer server(answer(http_response(
      "200 OK", "Set-Cookie: a=b\r\nSet-Cookie2: c=d\r\nProxy-Authenticate: x\r\nAlt-Svc: h3=x\r\n", "")));
  allow(server);
  const auto response = get(server.url("/"));
  ASSERT_TRUE(response);
  EXPECT_EQ(response->headers, (Headers{{"content-length", "0"}}));
  ASSERT_TRUE(get(server.url("/")));
  EXPECT_FALSE(contains(server.requests().at(1), "Cookie"));
}

// -- the program's requests --------------------------------------------------------------------

TEST_F(Egress, RefusesLineBreaksInHeaders) {
  RawServer server(hello());
  allow(server);
  for (const char* value : {"a\r\nX-Injected: 1", "a\nb", "a\rb", "a\x01", "a\x7f"})
    expect_refused(get(server.url("/"), {{"X-A", value}}), Errno::kInvalid, "line break");
  expect_refused(get(server.url("/"), {{"X-A", std::string("a\0b", 3)}}), Errno::kInvalid, "line break");
  for (const char* name : {"", "X-A: b\r\nX-Injected", "X A", "X:A", "X-A\r\n", "\xc3\xa4"})
    expect_refused(get(server.url("/"), {{name, "x"}}), Errno::kInvalid, "name is malformed");
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(Egress, RefusesHeadersOfTheConnection) {
  RawServer server(hello());
  allow(server);
  for (const char* name : {"Host", "hOsT", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive",
                           "TE", "Trailer", "Upgrade", "Expect", "Proxy-Authorization", "Proxy-Connection",
                           "Accept-Encoding", "HTTP2-Settings", "Content_Length", "Transfer_Encoding"})
    expect_refused(get(server.url("/"), {{name, "x"}}), Errno::kInvalid, "belongs to the connection");
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(Egress, RefusesTooManyHeaders) {
  RawServer server(hello());
  allow(server);
  expect_refused(get(server.url("/"), Headers(HttpEgress::kMaxRequestHeaders + 1, {"X-A", "b"})),
                 Errno::kTooBig, "too many headers");
}

TEST_F(Egress, RefusesRequestsLargerThanTheGrant) {
  RawServer server(hello());
  allow(server, {"POST"}).max_request_bytes = 100;
  expect_refused(send({"POST", server.url("/"), {}, std::string(101, 'x')}), Errno::kTooBig, "max_request");
  expect_refused(send({"POST", server.url("/"), {{"X-A", std::string(101, 'x')}}, ""}), Errno::kTooBig,
                 "max_request");
  EXPECT_TRUE(send({"POST", server.url("/"), {}, "x"}));
}

TEST_F(Egress, RefusesBeyondTheBudgetOfBytesOut) {
  RawServer server(hello());
  allow(server);
  budget.set(Resource::kBytesOut, 10);
  expect_refused(get(server.url("/")), Errno::kBudget, "bytes to the world");
  EXPECT_EQ(budget.left(Resource::kBytesOut), 10u);
  EXPECT_TRUE(server.requests().empty());
}

// -- the server's responses --------------------------------------------------------------------

TEST_F(Egress, CutsAnAnnouncedOversizeBody) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
    connection.wait_for_close();
  });
  allow(server).max_response_bytes = 1000;
  expect_refused(get(server.url("/")), Errno::kTooBig, "max_response");
}

TEST_F(Egress, CutsAnEndlessBody) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\n\r\n");
    const std::string chunk(4096, 'x');
    while (connection.send(chunk)) {}
  });
  allow(server).max_response_bytes = 100'000;
  expect_refused(get(server.url("/")), Errno::kTooBig, "max_response");
}

TEST_F(Egress, CutsAnEndlessChunkedBody) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    while (connection.send("5\r\nhello\r\n")) {}
  });
  allow(server).max_response_bytes = 10'000;
  expect_refused(get(server.url("/")), Errno::kTooBig, "max_response");
}

TEST_F(Egress, TakesABodyOfExactlyTheLimit) {
  RawServer server(answer(http_response("200 OK", "", std::string(1000, 'x'))));
  allow(server).max_response_bytes = 1000;
  ASSERT_TRUE(get(server.url("/")));
  grants[0].max_response_bytes = 999;
  egress.reset();
  expect_refused(get(server.url("/")), Errno::kTooBig, "max_response");
}

// Deflate by hand: a literal zero byte, then matches of 258 at distance 1, 13 bits each.
std::string deflate_zeros(size_t matches) {
  std::string out;
  uint32_t bits = 0, held = 0;
  const auto put = [&](uint32_t value, int count) {  // least significant bit first
    for (int i = 0; i < count; ++i) {
      held |= ((value >> i) & 1) << bits++;
      if (bits == 8) out += static_cast<char>(held), held = bits = 0;
    }
  };
  const auto code = [&](uint32_t value, int count) {  // Huffman codes: most significant bit first
    for (int i = count - 1; i >= 0; --i) put((value >> i) & 1, 1);
  };
  put(1, 1), put(1, 2);                                            // the last block, fixed codes
  code(0x30, 8);                                                   // literal 0
  for (size_t i = 0; i < matches; ++i) code(0xc5, 8), code(0, 5);  // length 258, distance 1
  code(0, 7), put(0, 7);                                           // the end, and padding
  return out;
}

TEST_F(Egress, CutsADecompressionBomb) {
  const std::string bomb = deflate_zeros(400'000);  // 650 kB that would be 103 MB
  ASSERT_LT(bomb.size(), 1u << 20);
  for (const std::string& encoding : {std::string("deflate"), std::string("gzip")}) {
    const std::string head =
        encoding == "gzip" ? std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10) : std::string("\x78\x01");
    RawServer server(answer(http_response("200 OK", "Content-Encoding: " + encoding + "\r\n", head + bomb)));
    grants.clear();
    egress.reset();
    budget.set(Resource::kBytesIn, 10 << 20);
    allow(server).max_response_bytes = 1 << 20;
    expect_refused(get(server.url("/")), Errno::kTooBig, "after decompression");
    EXPECT_GE(budget.left(Resource::kBytesIn), (9u << 20) - 4096) << "counted past the limit";
  }
}

TEST_F(Egress, RefusesAMalformedEncoding) {
  RawServer server(answer(http_response("200 OK", "Content-Encoding: gzip\r\n", "this is no gzip at all")));
  allow(server);
  expect_refused(get(server.url("/")), Errno::kProtocol, "malformed");
}

TEST_F(Egress, CutsOversizeHeaders) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\n");
    while (connection.send("X-A: " + std::string(1000, 'x') + "\r\n")) {}
  });
  allow(server);
  expect_refused(get(server.url("/")), Errno::kTooBig, "headers");
}

TEST_F(Egress, CutsEndlessInterimResponses) {
  RawServer server([](RawConnection& connection, const std::string&) {
    while (connection.send("HTTP/1.1 103 Early Hints\r\nX-A: b\r\n\r\n")) {}
  });
  allow(server);
  expect_refused(get(server.url("/")), Errno::kTooBig, "headers");
}

TEST_F(Egress, CutsEndlessTrailers) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n");
    while (connection.send("X-A: " + std::string(1000, 'x') + "\r\n")) {}
  });
  allow(server);
  expect_refused(get(server.url("/")), Errno::kTooBig, "headers");
}

TEST_F(Egress, TrailersAreNotShown) {
  RawServer server(
      answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Late: y\r\nLocation: "
             "/z\r\n\r\n"));
  allow(server);
  const auto response = get(server.url("/"));
  ASSERT_TRUE(response) << response.error().reason;
  EXPECT_EQ(response->body, "x");
  EXPECT_TRUE(response->headers.empty());
}

TEST_F(Egress, CutsASlowBody) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    connection.wait_for_close();
  });
  allow(server).timeout_ms = 100;
  expect_refused(get(server.url("/")), Errno::kTimedOut, "did not answer in time");
}

TEST_F(Egress, CutsADrippingBody) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\n\r\n");
    connection.drip('x');
  });
  allow(server).timeout_ms = 100;
  expect_refused(get(server.url("/")), Errno::kTimedOut, "did not answer in time");
}

TEST_F(Egress, CutsSlowHeaders) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\nX-A: ");
    connection.drip('x');
  });
  allow(server).timeout_ms = 100;
  expect_refused(get(server.url("/")), Errno::kTimedOut, "did not answer in time");
}

TEST_F(Egress, CutsAServerThatNeverAnswers) {
  RawServer server([](RawConnection& connection, const std::string&) { connection.wait_for_close(); });
  allow(server).timeout_ms = 100;
  expect_refused(get(server.url("/")), Errno::kTimedOut, "did not answer in time");
}

TEST_F(Egress, TheTimeoutIsOneForAllRedirects) {
  RawServer server([](RawConnection& connection, const std::string& request) {
    if (request.starts_with("GET /a ")) connection.send(http_response("302 x", "Location: /b\r\n", ""));
    else connection.wait_for_close();
  });
  allow(server.url("/a")).timeout_ms = 100;
  allow(server.url("/b")).timeout_ms = 3'600'000;
  expect_refused(get(server.url("/a")), Errno::kTimedOut, "did not answer in time");
}

TEST_F(Egress, TheRunsTimeBoundsACall) {
  Budget& shared = budget;
  RawServer server([&shared](RawConnection& connection, const std::string&) {
    // Starts here, so that the request has arrived however slow the machine is.
    shared.set_deadline(std::chrono::steady_clock::now() + std::chrono::milliseconds(100));
    connection.wait_for_close();
  });
  allow(server).timeout_ms = 3'600'000;
  expect_refused(get(server.url("/")), Errno::kBudget, "run's time");
  expect_refused(get(server.url("/")), Errno::kBudget, "run's time");
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST_F(Egress, TheRunsEndBoundsACallUnderASharedBudget) {
  RawServer server([](RawConnection& connection, const std::string&) { connection.wait_for_close(); });
  allow(server).timeout_ms = 3'600'000;
  run.set_end(std::chrono::steady_clock::now() + std::chrono::milliseconds(100));
  expect_refused(get(server.url("/")), Errno::kBudget, "run's time");
}

TEST_F(Egress, ACancelledRunEndsItsCall) {
  std::atomic<bool> cancel = false;
  RawServer server([&cancel](RawConnection& connection, const std::string&) {
    cancel = true;
    connection.wait_for_close();
  });
  allow(server).timeout_ms = 3'600'000;
  run.set_cancel(&cancel);
  expect_refused(get(server.url("/")), Errno::kBudget, "run's time");
}

TEST_F(Egress, TheOwnerCanCutACallShort) {
  Budget& shared = budget;
  RawServer server([&shared](RawConnection& connection, const std::string&) {
    shared.set_deadline(std::chrono::steady_clock::now());
    connection.send("HTTP/1.1 200 OK\r\n\r\n");
    connection.drip('x');
  });
  allow(server).timeout_ms = 3'600'000;
  expect_refused(get(server.url("/")), Errno::kBudget, "run's time");
}

TEST_F(Egress, StopsAtTheBudgetOfBytesIn) {
  RawServer server(answer(http_response("200 OK", "", std::string(100'000, 'x'))));
  allow(server);
  budget.set(Resource::kBytesIn, 50'000);
  expect_refused(get(server.url("/")), Errno::kBudget, "bytes from the world");
}

TEST_F(Egress, RefusesATruncatedBody) {
  RawServer server(answer("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this"));
  allow(server);
  expect_refused(get(server.url("/")), Errno::kProtocol, "malformed");
}

TEST_F(Egress, RefusesATruncatedChunkedBody) {
  RawServer server(answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel"));
  allow(server);
  expect_refused(get(server.url("/")), Errno::kProtocol, "malformed");
}

TEST_F(Egress, RefusesNonsenseChunks) {
  for (const char* body : {"zz\r\nhello\r\n", "-5\r\nhello\r\n", "ffffffffffffffffffff\r\nx",
                           "5\r\nhelloXX0\r\n\r\n", "\r\n\r\n"}) {
    RawServer server(answer(std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n") + body));
    grants.clear();
    egress.reset();
    allow(server);
    const auto result = get(server.url("/"));
    ASSERT_FALSE(result) << body;
    EXPECT_TRUE(result.error().code == Errno::kProtocol || result.error().code == Errno::kConnection)
        << body << result.error().reason;
  }
}

TEST_F(Egress, RefusesWhatIsNoHttp) {
  for (const char* bytes : {"SSH-2.0-OpenSSH_9.2\r\n", "220 mail ESMTP\r\n", "<html>HTTP/0.9</html>", "",
                            "HTTP/9.9 200 OK\r\n\r\n", "HTTP/1.1 abc\r\n\r\n"}) {
    RawServer server(answer(bytes));
    grants.clear();
    egress.reset();
    allow(server);
    const auto result = get(server.url("/"));
    ASSERT_FALSE(result) << bytes;
    EXPECT_EQ(result.error().code, Errno::kProtocol) << bytes << ": " << result.error().reason;
  }
}

TEST_F(Egress, RefusesSplitAndMalformedResponseHeaders) {
  for (const std::string& line :
       {std::string("X-A: b\rX-Injected: c"), std::string("no colon here"), std::string("X A: b"),
        std::string(": empty"), std::string("X-A: \x01"), std::string("X-A: a\0b", 8)}) {
    RawServer server(answer("HTTP/1.1 200 OK\r\n" + line + "\r\nContent-Length: 0\r\n\r\n"));
    grants.clear();
    egress.reset();
    allow(server);
    const auto result = get(server.url("/"));
    ASSERT_FALSE(result) << line;
    EXPECT_EQ(result.error().code, Errno::kProtocol) << line << result.error().reason;
  }
}

TEST_F(Egress, ContradictingLengthsDoNotLetTheNextAnswerBeForged) {
  RawServer server(
      answer("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 50\r\n\r\nhelloHTTP/1.1 200 "
             "OK\r\nContent-Length: 6\r\n\r\nforged"));
  allow(server);
  for (int i = 0; i < 2; ++i) {
    const auto result = get(server.url("/"));
    if (result) {
      EXPECT_EQ(result->body, "hello");
    }
  }
}

TEST_F(Egress, SurplusBytesAfterAnAnswerAreNotTheNextAnswer) {
  RawServer server(answer(http_response("200 OK", "", "hello") + http_response("200 OK", "", "forged")));
  allow(server);
  for (int i = 0; i < 3; ++i) {
    const auto result = get(server.url("/"));
    ASSERT_TRUE(result) << result.error().reason;
    EXPECT_EQ(result->body, "hello");
  }
}

TEST_F(Egress, AClosedPortIsAConnectionError) {
  std::string url;
  {
    RawServer gone(hello());
    url = gone.url("/");
    allow(gone);
  }
  expect_refused(get(url), Errno::kConnection, "connection failed");
}

TEST_F(Egress, AServerWithoutTlsIsNoSecureServer) {
  RawServer server(
      [](RawConnection& connection, const std::string&) { connection.send("HTTP/1.1 200 OK\r\n\r\nplain"); });
  const std::string url = "https://127.0.0.1:" + std::to_string(server.port());
  allow(url + "/*").timeout_ms = 2'000;
  const auto result = get(url + "/");
  ASSERT_FALSE(result);
  EXPECT_TRUE(result.error().code == Errno::kConnection || result.error().code == Errno::kTimedOut)
      << result.error().reason;
}

// `openssl s_server` with a certificate that it made itself, on a port of its own choice.
class SelfSignedServer {
 public:
  explicit SelfSignedServer(const std::string& folder) {
    const std::string key = folder + "/key.pem", certificate = folder + "/certificate.pem";
    const std::string make =
        "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=127.0.0.1 "
        "-addext subjectAltName=IP:127.0.0.1 -keyout " +
        key + " -out " + certificate + " 2>/dev/null";
    if (std::system(make.c_str()) != 0) return;  // NOLINT(cert-env33-c): the command is the test's own
    const std::string serve = "exec openssl s_server -accept 127.0.0.1:0 -www -naccept 1 -key " + key +
                              " -cert " + certificate + " 2>&1";
    pipe_ = popen(serve.c_str(), "r");  // NOLINT(cert-env33-c): these too
    char line[256];
    while (pipe_ != nullptr && port_ == 0 && std::fgets(line, sizeof line, pipe_) != nullptr)
      if (std::string_view(line).starts_with("ACCEPT 127.0.0.1:"))
        port_ = static_cast<int>(std::strtol(line + 17, nullptr, 10));
  }
  ~SelfSignedServer() {
    if (pipe_ != nullptr) pclose(pipe_);  // it ends by itself after the one connection
  }
  SelfSignedServer(const SelfSignedServer&) = delete;
  SelfSignedServer& operator=(const SelfSignedServer&) = delete;
  [[nodiscard]] int port() const { return port_; }

 private:
  FILE* pipe_ = nullptr;
  int port_ = 0;
};

TEST_F(Egress, ACertificateThatNobodyVouchesForIsRefused) {
  char folder[] = "/tmp/membrane_tls_XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  {
    const SelfSignedServer server(folder);
    ASSERT_NE(server.port(), 0) << "the openssl command is needed";
    const std::string url = "https://127.0.0.1:" + std::to_string(server.port());
    allow(url + "/*");
    expect_refused(get(url + "/"), Errno::kConnection, "No secure connection");
  }
  std::filesystem::remove_all(folder);
}

TEST(SystemResolver, FindsTheLoopbackAndSaysWhenThereIsNone) {
  SystemResolver resolver;
  const auto found = resolver.resolve("localhost", 10'000);
  ASSERT_TRUE(found) << found.error().reason;
  for (const Address& address : *found) EXPECT_EQ(policy::special_kind(address), "loopback");
  const auto none = resolver.resolve("no.such.host.invalid", 10'000);
  ASSERT_FALSE(none);
  EXPECT_TRUE(none.error().code == Errno::kConnection || none.error().code == Errno::kTimedOut);
}

}  // namespace
}  // namespace membrane::host
