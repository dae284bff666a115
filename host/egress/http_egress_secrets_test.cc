// The secrets that the egress adds: who gets them, and that no answer brings them back.
#include <gtest/gtest.h>

#include <vector>

#include "host/egress/http_egress_testing.h"

namespace membrane::host {
namespace {

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

TEST_F(Egress, SecretsAreNotInTheReasonOfARefusal) {
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
  const auto refused = get(server.url("/"));
  expect_refused(refused, Errno::kHost, "The secret KEY, which a grant sends, is not set. Set ");
  EXPECT_TRUE(refused.error().is_unsent);
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(Egress, GrantedSecretsAreCheckedBeforeARun) {
  policy::HttpGrant grant;
  grant.headers = {{"A", {"text", ""}}, {"Authorization", {"Bearer ", "KEY"}}};
  const auto check = [&](std::optional<std::string> value) {
    const Status checked = check_granted_secrets({grant}, [&](const std::string&) { return value; });
    return checked ? "" : checked.error().message + "; " + checked.error().hint;
  };
  EXPECT_EQ(check("long enough"), "");
  EXPECT_EQ(check(std::nullopt),
            "the secret KEY, which a grant sends, is not set; "
            "Set the variable KEY in Membrane's environment; for a service, PUT /v1/secrets/KEY.");
  EXPECT_EQ(check("abc"),
            "the secret KEY has 3 bytes: too few to recognise it in answers, and to hide it there; "
            "A secret has at least 8 bytes.");
  EXPECT_NE(check("with a line break\n").find("control character"), std::string::npos);
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

}  // namespace
}  // namespace membrane::host
