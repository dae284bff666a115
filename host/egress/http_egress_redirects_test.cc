// Redirects, which the egress decides on like requests.
#include <gtest/gtest.h>

#include <vector>

#include "host/egress/http_egress_testing.h"

namespace membrane::host {
namespace {

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

TEST_F(Egress, EachReachedServerIsReported) {
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

TEST_F(Egress, WhatIsReportedHasNoSecretInIt) {
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

}  // namespace
}  // namespace membrane::host
