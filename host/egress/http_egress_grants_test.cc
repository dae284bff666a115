// Requests that try to get around the grants of the egress.
#include <gtest/gtest.h>
#include <stdlib.h>

#include "host/egress/http_egress_testing.h"

namespace membrane::host {
namespace {

using policy::Resource;

// -- requests that are not granted --------------------------------------------------------------------------------

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

// -- hosts and addresses ------------------------------------------------------------------------------------------

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

// -- the program's requests ---------------------------------------------------------------------------------------

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

}  // namespace
}  // namespace membrane::host
