#include "computers/network/authority.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <thread>

#include "computers/network/tls_client_testing.h"
#include "computers/network/tls_stream.h"

namespace membrane::computers {
namespace {

using linux::HostFile;

// A program and the authority, at the two ends of a connection.
struct Ends {
  std::unique_ptr<Stop> stop = Stop::create().value();
  HostFile programs;
  std::unique_ptr<SocketStream> socket;

  Ends() {
    std::array<int, 2> ends = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    programs = HostFile(ends[0]);
    socket = SocketStream::create(HostFile(ends[1]), *stop).value();
  }
};

// The reason why a program that trusts these did not accept the certificate for `host`; "" when it did.
std::string error_of_program(Authority& authority, const std::string& host, const std::string& trusted) {
  Ends ends;
  const std::jthread serving([&] {
    auto stream = TlsStream::accept(*ends.socket, "", authority.context_for(host).value());
    if (stream) (*stream)->end();
  });
  return TlsClient(ends.programs.number(), {.trusted = trusted, .server = host}).error();
}

TEST(Authority, IsTrustedForEachHost) {
  Authority authority;
  const std::string certificate = authority.certificate().value();
  EXPECT_TRUE(certificate.starts_with("-----BEGIN CERTIFICATE-----\n"));
  EXPECT_TRUE(certificate.ends_with("-----END CERTIFICATE-----\n"));
  for (const char* const host : {"example.org", "a.b.example.org", "192.0.2.1", "2001:db8::1", "localhost"})
    EXPECT_EQ(error_of_program(authority, host, certificate), "") << host;
}

TEST(Authority, IsOfOneSandbox) {
  Authority authority, other;
  EXPECT_EQ(error_of_program(authority, "example.org", other.certificate().value()),
            "certificate verify failed");
}

TEST(Authority, IsRenewedUnderTheSameKey) {
  time_t now = ::time(nullptr);
  Authority authority([&now] { return now; });
  const std::string first = authority.certificate().value();
  const auto context = authority.context_for("example.org").value();
  now += std::chrono::seconds(Authority::kRenewedAfter).count() - 1;
  EXPECT_EQ(authority.certificate().value(), first);
  EXPECT_EQ(authority.context_for("example.org").value(), context);
  now += 2;
  EXPECT_NE(authority.certificate().value(), first);
  EXPECT_NE(authority.context_for("example.org").value(), context);
  EXPECT_EQ(error_of_program(authority, "example.org", first), "");
}

TEST(Authority, KeepsCertificatesOfSomeHosts) {
  Authority authority;
  const auto first = authority.context_for("0.example.org").value();
  for (size_t i = 1; i < Authority::kMostHosts; ++i)
    ASSERT_TRUE(authority.context_for(std::to_string(i) + ".example.org"));
  EXPECT_EQ(authority.context_for("0.example.org").value(), first);
  ASSERT_TRUE(authority.context_for("more.example.org"));
  EXPECT_NE(authority.context_for("0.example.org").value(), first);
}

TEST(Authority, IsNeededByGrantsOfRequestsOverTls) {
  const auto needs = [](const std::string& url, std::vector<std::string> methods) {
    policy::HttpGrant grant;
    grant.url = url;
    grant.methods = std::move(methods);
    return needs_authority({grant});
  };
  EXPECT_TRUE(needs("https://example.org/*", {"GET"}));
  EXPECT_FALSE(needs("https://example.org/*", {"GET", "CONNECT"}));
  EXPECT_FALSE(needs("http://example.org/*", {"GET"}));
  EXPECT_FALSE(needs_authority({}));
}

TEST(Authority, VariablesThatAreThereStay) {
  policy::HttpGrant grant;
  grant.url = "https://example.org/*";
  grant.methods = {"GET"};
  std::vector<std::string> environment = {"SSL_CERT_FILE=/mine.pem", "HOME=/root"};
  add_authority_variables(environment, {grant});
  EXPECT_EQ(environment, (std::vector<std::string>{"SSL_CERT_FILE=/mine.pem", "HOME=/root",
                                                   "NODE_EXTRA_CA_CERTS=/sys/membrane/ca.pem"}));
  grant.methods = {"CONNECT"};
  environment.clear();
  add_authority_variables(environment, {grant});
  EXPECT_TRUE(environment.empty());
}

TEST(TlsStream, CarriesBytesBothWays) {
  Authority authority;
  const std::string big(1u << 20, 'x');
  Ends ends;
  std::string heard;
  const std::jthread serving([&] {
    auto stream = TlsStream::accept(*ends.socket, "", authority.context_for("example.org").value());
    ASSERT_TRUE(stream);
    std::array<char, 1000> piece;
    while (heard.size() < big.size()) {
      const size_t got = (*stream)->read(piece);
      ASSERT_GT(got, 0u);
      heard.append(piece.data(), got);
    }
    EXPECT_TRUE((*stream)->write(big));
    (*stream)->end();
  });
  TlsClient client(ends.programs.number(),
                   {.trusted = authority.certificate().value(), .server = "example.org"});
  EXPECT_EQ(client.protocol(), "http/1.1");
  ASSERT_TRUE(client.send(big));
  EXPECT_EQ(client.read_all(), big);
  EXPECT_TRUE(client.has_ended_well());
  EXPECT_EQ(heard, big);
}

TEST(TlsStream, ReadsNothingAfterTheEnd) {
  Authority authority;
  Ends ends;
  const std::jthread serving([&] {
    auto stream = TlsStream::accept(*ends.socket, "", authority.context_for("example.org").value());
    ASSERT_TRUE(stream);
    std::array<char, 10> piece;
    EXPECT_EQ((*stream)->read(piece), 0u);
    EXPECT_EQ((*stream)->read(piece), 0u);
  });
  const TlsClient client(ends.programs.number(),
                         {.trusted = authority.certificate().value(), .server = "example.org"});
  EXPECT_TRUE(client.is_open());
  ::shutdown(ends.programs.number(), SHUT_WR);
}

TEST(TlsStream, EndsAConnectionThatSaysNothingForTooLong) {
  Authority authority;
  Ends ends;
  std::atomic<bool> is_over = false;
  const std::jthread serving([&] {
    auto stream = TlsStream::accept(*ends.socket, "", authority.context_for("example.org").value());
    ASSERT_TRUE(stream);
    std::array<char, 10> piece;
    EXPECT_EQ((*stream)->read(piece), 0u);
    is_over = true;
    ends.stop->set();
    ends.socket.reset();
  });
  TlsClient client(ends.programs.number(),
                   {.trusted = authority.certificate().value(), .server = "example.org"});
  ASSERT_TRUE(client.is_open());
  while (!is_over && client.change_key()) {}
}

TEST(TlsStream, RefusesAHandshakeThatIsNone) {
  Authority authority;
  Ends ends;
  const auto context = authority.context_for("example.org").value();
  for (const std::string& first : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(4096, '\x16'),
                                   std::string("\x16\x03\x01\xff\xff", 5) + std::string(70'000, 'x')}) {
    const auto stream = TlsStream::accept(*ends.socket, first, context);
    ASSERT_FALSE(stream);
    EXPECT_EQ(stream.error().code, host::Errno::kProtocol);
  }
}

TEST(TlsStream, AHandshakeHasADeadline) {
  Authority authority;
  Ends ends;
  ends.socket->set_deadline(std::chrono::steady_clock::now());
  const auto stream = TlsStream::accept(*ends.socket, "", authority.context_for("example.org").value());
  ASSERT_FALSE(stream);
  EXPECT_EQ(stream.error().code, host::Errno::kProtocol);
}

}  // namespace
}  // namespace membrane::computers
