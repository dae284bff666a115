// The owner's side of a sandbox's network, against servers on the loopback. The test plays a kernel process,
// including a hostile one.
#include "computers/network/gateway.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <map>

#include "computers/network/client_hello_testing.h"
#include "computers/network/tls_client_testing.h"
#include "host/egress/raw_server_testing.h"

namespace membrane::computers {
namespace {

using host::RawConnection;
using host::RawServer;
using linux::HostFile;
using linux::NetworkEvent;
using linux::NetworkMessage;

class Names final : public host::Resolver {
 public:
  std::map<std::string, std::string> addresses;
  host::HostResult<std::vector<policy::Address>> resolve(const std::string& name, uint64_t) override {
    const auto found = addresses.find(name);
    if (found == addresses.end()) return host::refuse(host::Errno::kConnection, "The name has no address.");
    return std::vector{policy::Address::parse(found->second).value()};
  }
};

// A program's end of a connection.
class Program {
 public:
  explicit Program(HostFile socket) : socket_(std::move(socket)) {}
  bool send(std::string_view bytes) {
    return ::send(socket_.number(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  void end() { ::shutdown(socket_.number(), SHUT_WR); }
  [[nodiscard]] int descriptor() const { return socket_.number(); }
  std::string read_all() {
    std::string all;
    std::array<char, 4096> piece;
    for (ssize_t got; (got = ::recv(socket_.number(), piece.data(), piece.size(), 0)) > 0;)
      all.append(piece.data(), static_cast<size_t>(got));
    return all;
  }
  // Reads up to and including these bytes; less at the end.
  std::string read_until(std::string_view last) {
    std::string all;
    for (char byte = 0; !all.ends_with(last) && ::recv(socket_.number(), &byte, 1, 0) == 1;) all += byte;
    return all;
  }

 private:
  HostFile socket_;
};

class GatewayTest : public ::testing::Test {
 protected:
  policy::HttpGrant& allow(std::vector<std::string> methods, const std::string& url) {
    policy::HttpGrant grant;
    grant.methods = std::move(methods);
    grant.url = url;
    grant.timeout_ms = 600'000;
    return options_.grants.emplace_back(grant);
  }
  policy::HttpGrant& allow_connect(const std::string& host, const RawServer& server) {
    return allow({"CONNECT"}, "https://" + host + ":" + std::to_string(server.port()) + "/*");
  }
  // One request, encrypted under the certificates that the sandbox is told to trust; "" if the connection
  // fails.
  std::string encrypted(const std::string& host, const RawServer& server, const std::string& text,
                        const TlsClient::Wishes& wishes = {}) {
    return encrypted(host, server.port(), text, wishes);
  }
  std::string encrypted(const std::string& host, uint16_t port, const std::string& text,
                        TlsClient::Wishes wishes = {}) {
    const Program program = connect(host, port);
    wishes.trusted = options_.authority->certificate().value();
    if (wishes.server.empty()) wishes.server = host;
    TlsClient client(program.descriptor(), wishes);
    tls_error_ = client.error();
    return client.send(text) ? client.read_all() : "";
  }
  void open() {
    options_.resolver = &names_;
    options_.secrets = [](const std::string&) -> std::optional<std::string> { return "secret-secret"; };
    auto made = Gateway::create(options_);
    ASSERT_TRUE(made) << made.error().to_string();
    gateway_ = std::move(*made);
    kernel_ = HostFile(dup(gateway_->socket()));
    gateway_->begin();
  }
  bool tell(NetworkMessage message, std::string_view host, int descriptor = -1) {
    message.host_bytes = static_cast<uint16_t>(host.size());
    std::ranges::copy(host.substr(0, sizeof message.host), message.host);
    return linux::send_message(kernel_.number(), std::as_bytes(std::span(&message, 1)),
                               std::span(&descriptor, descriptor >= 0 ? 1u : 0u));
  }
  Program connect(const std::string& host, uint16_t port) {
    std::array<int, 2> ends = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    const HostFile theirs(ends[1]);
    EXPECT_TRUE(tell({.event = NetworkEvent::kConnecting, .port = port}, host, theirs.number()));
    return Program(HostFile(ends[0]));
  }
  // Connected to a server of echo_twice() that is granted as a whole; its first answer was read.
  Program open_tunnel(const RawServer& server) {
    allow_connect("127.0.0.1", server);
    open();
    Program program = connect("127.0.0.1", server.port());
    EXPECT_TRUE(program.send(client_hello(std::nullopt) + "\r\n\r\n"));
    EXPECT_EQ(program.read_until("."), "one.");
    return program;
  }
  std::string request(const std::string& host, const RawServer& server, const std::string& text) {
    Program program = connect(host, server.port());
    EXPECT_TRUE(program.send(text));
    program.end();
    return program.read_all();
  }
  sandbox::HostCallRecord only_call() {
    gateway_->end();
    auto account = gateway_->take_account();
    EXPECT_EQ(account.calls.size(), 1u);
    return account.calls.empty() ? sandbox::HostCallRecord() : account.calls.front();
  }

  GatewayOptions options_ = {.grants = {}, .limits = {}, .authority = std::make_shared<Authority>()};
  std::string tls_error_;
  Names names_;
  std::unique_ptr<Gateway> gateway_;
  HostFile kernel_;
};

RawServer::Handler hello() {
  return [](RawConnection& connection, const std::string&) {
    connection.send(host::http_response("200 OK", "", "hello"));
  };
}
std::string get(const RawServer& server, const std::string& host) {
  return "GET /a HTTP/1.1\r\nHost: " + host + ":" + std::to_string(server.port()) +
         "\r\nConnection: close\r\n\r\n";
}
// Returns what it is sent, preceded by a word.
RawServer::Handler echo() {
  return [](RawConnection& connection, const std::string& bytes) { connection.send("echo:" + bytes); };
}
// Answers twice over one connection, and then waits.
RawServer::Handler echo_twice() {
  return [](RawConnection& connection, const std::string&) {
    connection.send("one.");
    if (!connection.read_request().empty()) connection.send("two.");
    connection.wait_for_close();
  };
}
const std::string kAccessDenied("\x15\x03\x03\x00\x02\x02\x31", 7);

TEST_F(GatewayTest, ListsReachableHosts) {
  allow({"GET"}, "https://*.example.org/*");
  allow({"GET"}, "http://localhost:8000/*");
  open();
  linux::NetworkGreeting greeting;
  HostFile file;
  ASSERT_TRUE(
      linux::receive_message(kernel_.number(), std::as_writable_bytes(std::span(&greeting, 1)), &file));
  std::string text(greeting.hosts_bytes, '\0');
  ASSERT_EQ(pread(file.number(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  EXPECT_EQ(text, "*.example.org 443\nlocalhost 8000\n127.0.0.1 8000\n::1 8000\n");
  text.resize(greeting.certificate_bytes);
  ASSERT_EQ(pread(file.number(), text.data(), text.size(), greeting.hosts_bytes),
            static_cast<ssize_t>(text.size()));
  EXPECT_EQ(text, options_.authority->certificate().value());
}

TEST_F(GatewayTest, GreetsLaterOnRequest) {
  allow({"GET"}, "https://example.org/*");
  options_.greets_later = true;
  open();
  std::array<char, 1> byte;
  EXPECT_EQ(::recv(kernel_.number(), byte.data(), byte.size(), MSG_PEEK | MSG_DONTWAIT), -1);
  ASSERT_TRUE(gateway_->greet());
  linux::NetworkGreeting greeting;
  ASSERT_TRUE(linux::receive_message(kernel_.number(), std::as_writable_bytes(std::span(&greeting, 1))));
  EXPECT_GT(greeting.certificate_bytes, 0u);
}

TEST_F(GatewayTest, SendsNoCertificateWhereNoneIsNeeded) {
  allow({"CONNECT", "GET"}, "https://example.org/*");
  allow({"GET"}, "http://example.org/a");
  open();
  linux::NetworkGreeting greeting;
  ASSERT_TRUE(linux::receive_message(kernel_.number(), std::as_writable_bytes(std::span(&greeting, 1))));
  EXPECT_EQ(greeting.certificate_bytes, 0u);
  allow({"GET"}, "https://example.org/a");
  ASSERT_TRUE(gateway_->set_grants(options_.grants, nullptr));
  ASSERT_TRUE(linux::receive_message(kernel_.number(), std::as_writable_bytes(std::span(&greeting, 1))));
  EXPECT_GT(greeting.certificate_bytes, 0u);
}

TEST_F(GatewayTest, SendsWhatIsGranted) {
  const RawServer server(hello());
  allow({"GET"}, server.url("/*"));
  open();
  const std::string answer = request("127.0.0.1", server, get(server, "127.0.0.1"));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_TRUE(answer.ends_with("\r\n\r\nhello")) << answer;
  const auto call = only_call();
  EXPECT_EQ(call.name, "http.request");
  EXPECT_EQ(call.arguments, "GET, " + server.url("/a"));
  EXPECT_EQ(call.bytes_in, 5u);
  EXPECT_EQ(call.error, "");
}

TEST_F(GatewayTest, RefusesWhatIsNotWithCauseAndFix) {
  const RawServer server(hello());
  allow({"GET"}, server.url("/b/*"));
  open();
  const std::string answer = request("127.0.0.1", server, get(server, "127.0.0.1"));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 403 Forbidden\r\n")) << answer;
  EXPECT_TRUE(answer.contains("membrane: to allow it: --allow 'http:GET:http://127.0.0.1:")) << answer;
  EXPECT_TRUE(server.requests().empty());
  const auto call = only_call();
  EXPECT_FALSE(call.allowed);
  EXPECT_EQ(call.error, "EACCES");
}

TEST_F(GatewayTest, RefusesRequestsForAnotherHost) {
  const RawServer server(hello());
  allow({"GET"}, server.url("/*"));
  open();
  EXPECT_TRUE(request("127.0.0.1", server, get(server, "other.example.org")).starts_with("HTTP/1.1 421 "));
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(GatewayTest, AddsSecrets) {
  const RawServer server(hello());
  allow({"GET"}, server.url("/*")).headers = {{"Authorization", {.text = "Bearer ", .secret = "KEY"}}};
  open();
  const std::string answer = request("127.0.0.1", server, get(server, "127.0.0.1"));
  EXPECT_TRUE(answer.ends_with("hello")) << answer;
  ASSERT_EQ(server.requests().size(), 1u);
  EXPECT_TRUE(server.requests()[0].contains("Authorization: Bearer secret-secret"));
}

TEST_F(GatewayTest, SendsRequestsOfOneConnectionOneAfterTheOther) {
  const RawServer server(hello());
  allow({"GET", "POST"}, server.url("/*"));
  open();
  const std::string host = "Host: 127.0.0.1:" + std::to_string(server.port()) + "\r\n";
  const std::string answer =
      request("127.0.0.1", server,
              "POST /a HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" +
                  "GET /b HTTP/1.1\r\n" + host + "\r\n" + "HEAD /c HTTP/1.1\r\n" + host + "\r\n");
  EXPECT_TRUE(answer.contains("403 Forbidden")) << answer;  // of HEAD
  ASSERT_EQ(server.requests().size(), 2u);
  EXPECT_TRUE(server.requests()[0].ends_with("\r\n\r\nabc"));
  EXPECT_TRUE(server.requests()[0].contains("Content-Length: 3\r\n"));
}

TEST_F(GatewayTest, AnswersOtherProtocolsThanHttp) {
  const RawServer server(hello());
  allow({"GET"}, server.url("/*"));
  open();
  EXPECT_TRUE(request("127.0.0.1", server, "SSH-2.0-x\r\n\r\n").starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(
      request("127.0.0.1", server, "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n").starts_with("HTTP/1.1 4"));
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(GatewayTest, OnlyLooksWhereThatIsWanted) {
  const RawServer server(hello());
  allow({"GET"}, server.url("/*"));
  options_.only_looks = true;
  open();
  EXPECT_FALSE(gateway_->was_asked());
  EXPECT_EQ(connect("127.0.0.1", server.port()).read_all(), "");
  EXPECT_TRUE(gateway_->was_asked());
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(GatewayTest, AnOwnersSandboxesShareABoundOfConnections) {
  const RawServer server(hello());
  allow({"GET"}, server.url("/*"));
  options_.connections = std::make_shared<ConnectionBound>(1);
  open();
  {
    const Program idle = connect("127.0.0.1", server.port());
    EXPECT_EQ(connect("127.0.0.1", server.port()).read_all(), "");
    const auto calls = gateway_->take_account().calls;
    ASSERT_EQ(calls.size(), 1u);
    EXPECT_EQ(calls[0].name, "http.connect");
    EXPECT_FALSE(calls[0].allowed);
    EXPECT_TRUE(calls[0].reason.contains("1 connection open")) << calls[0].reason;
  }
  // The idle connection releases its slot once its thread has seen the end.
  std::string answer;
  while (answer.empty()) {
    Program program = connect("127.0.0.1", server.port());
    program.send(get(server, "127.0.0.1"));
    program.end();
    answer = program.read_all();
  }
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 ")) << answer;
}

TEST_F(GatewayTest, ReadsEverythingBeforeItEnds) {
  for (int i = 0; i < 100; ++i) {
    open();
    ASSERT_TRUE(tell({.event = NetworkEvent::kRefusedName}, "example.org"));
    ASSERT_TRUE(tell({.event = NetworkEvent::kRefusedHost, .port = 80}, "192.0.2.1"));
    gateway_->end();
    EXPECT_TRUE(gateway_->was_asked());
    ASSERT_EQ(gateway_->take_account().calls.size(), 2u);
  }
}

TEST_F(GatewayTest, HandsAnEncryptedConnectionToItsHost) {
  // The ClientHello does not end like an HTTP head: the server handles it once the program has closed its
  // side.
  const RawServer server(echo());
  allow_connect("example.test", server).addresses = {"127.0.0.1"};
  names_.addresses["example.test"] = "127.0.0.1";
  open();
  const std::string bytes = client_hello("example.test") + "\r\n\r\n";
  EXPECT_EQ(request("example.test", server, bytes), "echo:" + bytes);
  const auto call = only_call();
  EXPECT_EQ(call.name, "http.connect");
  EXPECT_EQ(call.arguments, "https://example.test:" + std::to_string(server.port()));
  EXPECT_EQ(call.error, "");
  EXPECT_EQ(call.bytes_out, bytes.size());
  EXPECT_EQ(call.bytes_in, bytes.size() + 5);
}

// -- connections that are decrypted

TEST_F(GatewayTest, HoldsEncryptedRequestsToGrants) {
  const RawServer server(echo());
  const std::string url = "https://example.test:" + std::to_string(server.port());
  allow({"GET"}, url + "/b/*").addresses = {"127.0.0.1"};
  names_.addresses["example.test"] = "127.0.0.1";
  open();
  const std::string answer = encrypted("example.test", server, get(server, "example.test"));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 403 Forbidden\r\n")) << answer << tls_error_;
  EXPECT_TRUE(answer.contains("membrane: to allow it: --allow 'http:GET:" + url + "/*'")) << answer;
  EXPECT_TRUE(server.requests().empty());
  const auto call = only_call();
  EXPECT_EQ(call.name, "http.request");
  EXPECT_EQ(call.arguments, "GET, " + url + "/a");
  EXPECT_EQ(call.error, "EACCES");
}

// Nobody listens at the port; the program learns so inside its connection.
TEST_F(GatewayTest, SendsEncryptedRequestsThatAreGranted) {
  const HostFile taken(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at = {
      .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t size = sizeof at;
  ASSERT_EQ(::bind(taken.number(), reinterpret_cast<const sockaddr*>(&at), size), 0);
  ASSERT_EQ(::getsockname(taken.number(), reinterpret_cast<sockaddr*>(&at), &size), 0);
  const uint16_t port = ntohs(at.sin_port);
  const std::string url = "https://127.0.0.1:" + std::to_string(port) + "/a";
  allow({"GET"}, url);
  open();
  const std::string answer = encrypted(
      "127.0.0.1", port,
      "GET /a HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) + "\r\nConnection: close\r\n\r\n");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 502 ")) << answer << tls_error_;
  const auto call = only_call();
  EXPECT_EQ(call.name, "http.request");
  EXPECT_EQ(call.arguments, "GET, " + url);
  EXPECT_EQ(call.error, "ECONNECT");
}

TEST_F(GatewayTest, AGrantOfAllConnectionsGivesNoMoreThanASingleOneOfTheHost) {
  const RawServer server(echo());
  allow_connect("127.0.0.1", server);
  allow({"GET"}, "https://127.0.0.1:" + std::to_string(server.port()) + "/b");
  open();
  EXPECT_TRUE(encrypted("127.0.0.1", server, get(server, "127.0.0.1")).starts_with("HTTP/1.1 403 "));
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(GatewayTest, DecryptsOnlyForTheNameOfTheHost) {
  const RawServer server(echo());
  allow({"GET"}, "https://example.test:" + std::to_string(server.port()) + "/*").addresses = {"127.0.0.1"};
  names_.addresses["example.test"] = "127.0.0.1";
  open();
  EXPECT_EQ(encrypted("example.test", server, get(server, "example.test"), {.server = "other.test"}), "");
  EXPECT_EQ(tls_error_, "tlsv1 alert access denied");
  EXPECT_EQ(encrypted("example.test", server, get(server, "example.test"), {.sends_name = false}), "");
  EXPECT_EQ(tls_error_, "tlsv1 alert access denied");
}

TEST_F(GatewayTest, DecryptsOnlyHttp1) {
  const RawServer server(echo());
  allow({"GET"}, "https://127.0.0.1:" + std::to_string(server.port()) + "/b");
  open();
  const auto ask = [&](std::string_view protocols) {
    return encrypted("127.0.0.1", server, get(server, "127.0.0.1"), {.protocols = protocols});
  };
  EXPECT_TRUE(ask({"\x02h2\x08http/1.1", 12}).starts_with("HTTP/1.1 403 "));
  EXPECT_TRUE(ask("").starts_with("HTTP/1.1 403 "));
  EXPECT_EQ(ask({"\x02h2", 3}), "");
  EXPECT_EQ(tls_error_, "tlsv1 alert no application protocol");
}

TEST_F(GatewayTest, ReportsProgramsThatDoNotTrustIt) {
  const RawServer server(echo());
  allow({"GET"}, "https://127.0.0.1:" + std::to_string(server.port()) + "/b");
  open();
  Program program = connect("127.0.0.1", server.port());
  EXPECT_FALSE(TlsClient(program.descriptor(), {.trusted = "", .server = "127.0.0.1"}).is_open());
  program.read_all();  // until the owner has heard of it
  Program silent = connect("127.0.0.1", server.port());
  ASSERT_TRUE(silent.send(client_hello(std::nullopt)));
  EXPECT_NE(silent.read_all(), "");  // an alert: it offers no way to agree on keys
  gateway_->end();
  const auto account = gateway_->take_account();
  ASSERT_EQ(account.calls.size(), 2u);
  for (const auto& call : account.calls) {
    EXPECT_EQ(call.name, "http.connect");
    EXPECT_EQ(call.error, "EPROTO");
  }
  EXPECT_TRUE(std::ranges::any_of(account.calls, [](const auto& each) {
    return each.reason.contains("unknown ca; it uses its own certificates: add /sys/membrane/ca.pem to them");
  }));
}

TEST_F(GatewayTest, DecryptedConnectionsAreCalls) {
  const RawServer server(echo());
  allow({"GET"}, "https://127.0.0.1:" + std::to_string(server.port()) + "/b");
  options_.limits.host_calls = 3;
  open();
  EXPECT_TRUE(encrypted("127.0.0.1", server, get(server, "127.0.0.1")).starts_with("HTTP/1.1 403 "));
  EXPECT_TRUE(encrypted("127.0.0.1", server, get(server, "127.0.0.1")).starts_with("HTTP/1.1 429 "));
  EXPECT_EQ(encrypted("127.0.0.1", server, get(server, "127.0.0.1")), "");
}

TEST_F(GatewayTest, CutsATunnelWhenRequestsOfItsHostAreGrantedSingly) {
  const RawServer server(echo_twice());
  Program program = open_tunnel(server);
  allow({"GET"}, "https://127.0.0.1:" + std::to_string(server.port()) + "/b");
  ASSERT_TRUE(gateway_->set_grants(options_.grants, nullptr));
  EXPECT_EQ(program.read_all(), "");
  EXPECT_TRUE(encrypted("127.0.0.1", server, get(server, "127.0.0.1")).starts_with("HTTP/1.1 403 "));
}

// -- connections that are not

TEST_F(GatewayTest, RefusesANameThatIsNotTheHosts) {
  const RawServer server(echo());
  allow_connect("example.test", server).addresses = {"127.0.0.1"};
  names_.addresses["example.test"] = "127.0.0.1";
  open();
  EXPECT_EQ(request("example.test", server, client_hello("other.test")), kAccessDenied);
  EXPECT_EQ(request("example.test", server, client_hello(std::nullopt)), kAccessDenied);
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(GatewayTest, RefusesAnAddressThatIsNotPublic) {
  const RawServer server(echo());
  allow_connect("example.test", server);
  names_.addresses["example.test"] = "127.0.0.1";
  open();
  EXPECT_EQ(request("example.test", server, client_hello("example.test")), kAccessDenied);
  EXPECT_TRUE(server.requests().empty());
  EXPECT_TRUE(only_call().reason.contains("not a public address"));
}

TEST_F(GatewayTest, EndsAConnectionThatIsTooMuch) {
  const RawServer server(echo());
  allow_connect("127.0.0.1", server);
  options_.limits.bytes_out = 10;
  open();
  EXPECT_EQ(request("127.0.0.1", server, client_hello(std::nullopt)), "");
  const auto call = only_call();
  EXPECT_EQ(call.error, "EBUDGET");
  EXPECT_EQ(call.bytes_out, 0u);
}

TEST_F(GatewayTest, RefusedConnectionsAreCallsToo) {
  const RawServer server(echo());
  allow_connect("127.0.0.1", server);
  options_.limits.host_calls = 2;
  open();
  EXPECT_EQ(request("127.0.0.1", server, client_hello("other.test")), kAccessDenied);
  EXPECT_EQ(request("127.0.0.1", server, client_hello("other.test")), kAccessDenied);
  EXPECT_NE(request("127.0.0.1", server, client_hello("other.test")), kAccessDenied);
}

TEST_F(GatewayTest, RenewsItsBudget) {
  const RawServer server(hello());
  allow({"GET"}, server.url("/*"));
  options_.limits.host_calls = 1;
  open();
  EXPECT_TRUE(request("127.0.0.1", server, get(server, "127.0.0.1")).starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(request("127.0.0.1", server, get(server, "127.0.0.1")).starts_with("HTTP/1.1 429 "));
  gateway_->renew(options_.limits);
  EXPECT_TRUE(request("127.0.0.1", server, get(server, "127.0.0.1")).starts_with("HTTP/1.1 200 "));
}

TEST_F(GatewayTest, HoldsToOtherGrants) {
  const RawServer server(hello());
  allow({"GET"}, server.url("/*"));
  open();
  EXPECT_TRUE(request("127.0.0.1", server, get(server, "127.0.0.1")).starts_with("HTTP/1.1 200 "));
  ASSERT_TRUE(gateway_->set_grants({}, nullptr));
  EXPECT_TRUE(request("127.0.0.1", server, get(server, "127.0.0.1")).starts_with("HTTP/1.1 403 "));
}

TEST_F(GatewayTest, HoldsRequestsOfAnOpenConnectionToOtherGrants) {
  const RawServer server(hello());
  allow({"GET"}, server.url("/*"));
  open();
  const std::string rest = " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(server.port()) + "\r\n\r\n";
  Program program = connect("127.0.0.1", server.port());
  ASSERT_TRUE(program.send("GET /b/c" + rest));
  EXPECT_TRUE(program.read_until("hello").starts_with("HTTP/1.1 200 "));
  options_.grants.front().url = server.url("/b/*");
  ASSERT_TRUE(gateway_->set_grants(options_.grants, nullptr));
  ASSERT_TRUE(program.send("GET /a" + rest));
  program.end();
  EXPECT_TRUE(program.read_all().starts_with("HTTP/1.1 403 "));
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST_F(GatewayTest, CutsAnEncryptedConnectionThatIsGrantedNoMore) {
  const RawServer server(echo_twice());
  Program program = open_tunnel(server);
  ASSERT_TRUE(gateway_->set_grants(options_.grants, nullptr));
  ASSERT_TRUE(program.send("more\r\n\r\n"));
  EXPECT_EQ(program.read_until("."), "two.");
  options_.grants.front().methods = {"GET"};
  ASSERT_TRUE(gateway_->set_grants(options_.grants, nullptr));
  EXPECT_EQ(program.read_all(), "");
  const auto call = only_call();
  EXPECT_EQ(call.error, "ECANCELED");
  EXPECT_EQ(call.bytes_in, 8u);
}

TEST_F(GatewayTest, CutsAnEncryptedConnectionToAnAddressThatIsGrantedNoMore) {
  const RawServer server(echo_twice());
  allow_connect("example.test", server).addresses = {"127.0.0.1"};
  names_.addresses["example.test"] = "127.0.0.1";
  open();
  Program program = connect("example.test", server.port());
  ASSERT_TRUE(program.send(client_hello("example.test") + "\r\n\r\n"));
  EXPECT_EQ(program.read_until("."), "one.");
  options_.grants.front().addresses.clear();
  ASSERT_TRUE(gateway_->set_grants(options_.grants, nullptr));
  EXPECT_EQ(program.read_all(), "");
}

TEST_F(GatewayTest, CutsAnAnswerThatIsGrantedNoMore) {
  const RawServer server([](RawConnection& connection, const std::string&) {
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello");
    connection.wait_for_close();
  });
  allow({"GET"}, server.url("/*"));
  open();
  Program program = connect("127.0.0.1", server.port());
  ASSERT_TRUE(program.send(get(server, "127.0.0.1")));
  EXPECT_TRUE(program.read_until("hello").starts_with("HTTP/1.1 200 "));
  ASSERT_TRUE(gateway_->set_grants({}, nullptr));
  EXPECT_EQ(program.read_all(), "");
  EXPECT_EQ(only_call().error, "ECANCELED");
}

// Where secrets are hidden, answers are buffered whole in the owner's memory.
TEST_F(GatewayTest, HoldsNoMoreOfAnswersThanItHasRoomFor) {
  constexpr size_t kBytes = 3u << 20;  // more than a socket takes
  const RawServer server([](RawConnection& connection, const std::string&) {
    connection.send(host::http_response("200 OK", "", std::string(kBytes, 'x')));
  });
  allow({"GET"}, server.url("/*")).headers = {{"Authorization", {.text = "Bearer ", .secret = "KEY"}}};
  options_.limits.memory_bytes = 4u << 20;
  open();
  Program slow = connect("127.0.0.1", server.port());
  ASSERT_TRUE(slow.send(get(server, "127.0.0.1")));
  EXPECT_TRUE(slow.read_until("\r\n\r\n").starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(request("127.0.0.1", server, get(server, "127.0.0.1")).starts_with("HTTP/1.1 503 "));
  EXPECT_EQ(slow.read_all().size(), kBytes);
  // Its room is released after the connection has ended; the program learns of the end earlier.
  std::string answer;
  do answer = request("127.0.0.1", server, get(server, "127.0.0.1"));
  while (answer.starts_with("HTTP/1.1 503 "));
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 "));
}

TEST_F(GatewayTest, CountsWhatTheKernelProcessRefused) {
  open();
  ASSERT_TRUE(tell({.event = NetworkEvent::kRefusedName}, "example.org"));
  ASSERT_TRUE(tell({.event = NetworkEvent::kRefusedName}, "example.org"));
  ASSERT_TRUE(tell({.event = NetworkEvent::kRefusedHost, .port = 443}, "192.0.2.1"));
  std::vector<sandbox::HostCallRecord> calls;
  while (calls.size() < 2)
    for (auto& each : gateway_->take_account().calls)
      if (calls.empty() || calls.back().name != each.name) calls.push_back(std::move(each));
  EXPECT_EQ(calls[0].name, "net.resolve");
  EXPECT_EQ(calls[0].grant, "--allow http:example.org");
  EXPECT_EQ(calls[1].arguments, "192.0.2.1:443");
}

TEST_F(GatewayTest, CountsWhatTheKernelProcessCouldNotTell) {
  open();
  ASSERT_TRUE(tell({.event = NetworkEvent::kRefusedHost, .port = 443, .unreported = 40}, "192.0.2.1"));
  ASSERT_TRUE(tell({.event = NetworkEvent::kConnecting, .port = 443, .unreported = 2}, "example.org"));
  gateway_->end();
  const Gateway::Account account = gateway_->take_account();
  EXPECT_EQ(account.calls.size(), 1u);
  EXPECT_EQ(account.dropped, 42u);
}

TEST_F(GatewayTest, TakesAHostileKernelProcess) {
  const RawServer server(hello());
  allow({"GET"}, server.url("/*"));
  open();
  const HostFile file = linux::make_memory("no-socket", 10);
  EXPECT_TRUE(tell({.event = NetworkEvent::kConnecting, .port = 1}, "127.0.0.1", file.number()));
  EXPECT_TRUE(tell({.event = NetworkEvent::kConnecting, .port = 1}, "127.0.0.1"));
  EXPECT_TRUE(tell({.event = NetworkEvent::kConnecting, .port = 0}, "127.0.0.1", kernel_.number()));
  EXPECT_TRUE(tell({.event = static_cast<NetworkEvent>(77), .port = 1}, "127.0.0.1"));
  EXPECT_TRUE(tell({.event = NetworkEvent::kConnecting, .port = 1}, "a/@b\r\n", kernel_.number()));
  NetworkMessage too_long = {.event = NetworkEvent::kConnecting, .port = 1};
  too_long.host_bytes = 60000;
  EXPECT_TRUE(linux::send_message(kernel_.number(), std::as_bytes(std::span(&too_long, 1)), {}));
  // After all this it still serves; then comes an invalid message.
  EXPECT_TRUE(request("127.0.0.1", server, get(server, "127.0.0.1")).starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(linux::send_message(kernel_.number(), std::as_bytes(std::span("x", 1)), {}));
}

TEST_F(GatewayTest, EndsWithConnectionsThatSayNothing) {
  open();
  std::vector<Program> silent;
  for (int i = 0; i < 5; ++i) silent.push_back(connect("127.0.0.1", 1));
  gateway_.reset();
  for (Program& each : silent) EXPECT_EQ(each.read_all(), "");
}

}  // namespace
}  // namespace membrane::computers
