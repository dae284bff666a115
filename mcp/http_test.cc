// Streamable HTTP in both eras, without a network.

#include "mcp/http.h"

#include <gtest/gtest.h>

#include "mcp/server_testing.h"

namespace membrane::mcp {
namespace {

std::string value_of(const HttpHeaders& headers, std::string_view name) {
  for (const auto& [key, value] : headers)
    if (key == name) return value;
  return "";
}

class HttpTest : public ServerTest {
 protected:
  static HttpRequest post(const Json& message, HttpHeaders headers = {}) {
    HttpRequest request{.method = "POST",
                        .headers = {{"host", "127.0.0.1:7400"},
                                    {"content-type", "application/json"},
                                    {"accept", "application/json, text/event-stream"}},
                        .body = message.dump(),
                        .tenant = "a"};
    for (auto& each : headers) request.headers.push_back(std::move(each));
    return request;
  }
  // With the headers that repeat parts of the message.
  static HttpRequest mirrored(const Json& message, const std::string& name = "") {
    HttpRequest request = post(message, {{"MCP-Protocol-Version", "2026-07-28"},
                                         {"Mcp-Method", message["method"].get<std::string>()}});
    if (!name.empty()) request.headers.emplace_back("Mcp-Name", name);
    return request;
  }
  HttpReply send(HttpRequest request) {
    if (!endpoint_) endpoint_ = std::make_unique<HttpEndpoint>(*server_, options_);
    streamed_.clear();
    return endpoint_->receive(std::move(request))->answer([&](std::string_view piece) {
      streamed_ += piece;
    });
  }
  int error_in(const HttpReply& reply) { return Json::parse(reply.body)["error"]["code"]; }

  HttpOptions options_;
  std::unique_ptr<HttpEndpoint> endpoint_;
  std::string streamed_;
};

TEST_F(HttpTest, HeadersMustSayWhatTheMessageSays) {
  const Json list = stateless(1, "tools/list"), call = stateless(1, "tools/call", wat_program("(nop)"));
  EXPECT_EQ(send(mirrored(list)).status, 200);
  EXPECT_EQ(send(mirrored(call, "run_code")).status, 200);
  EXPECT_EQ(send(mirrored(call, "=?base64?cnVuX2NvZGU=?=")).status, 200);
  const auto refused = [&](HttpRequest request) {
    const HttpReply reply = send(std::move(request));
    EXPECT_EQ(reply.status, 400);
    return error_in(reply);
  };
  EXPECT_EQ(refused(post(list)), -32020);
  EXPECT_EQ(refused(post(list, {{"MCP-Protocol-Version", "2026-07-28"}})), -32020);
  EXPECT_EQ(refused(post(list, {{"MCP-Protocol-Version", "2026-07-28"}, {"Mcp-Method", "tools/call"}})),
            -32020);
  EXPECT_EQ(refused(post(list, {{"MCP-Protocol-Version", "2025-11-25"}, {"Mcp-Method", "tools/list"}})),
            -32020);
  for (const char* const name : {"", "run_cod", "=?base64?!?=", "=?base64?cnVu?=", "run_code\xc3\xa9"})
    EXPECT_EQ(refused(mirrored(call, name)), -32020) << name;
  Json other = list;
  other["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2099-01-01";
  HttpRequest later = post(other, {{"MCP-Protocol-Version", "2099-01-01"}, {"Mcp-Method", "tools/list"}});
  EXPECT_EQ(refused(std::move(later)), -32022);
  EXPECT_EQ(refused(post(request(1, "tools/list"), {{"MCP-Protocol-Version", "2026-07-28"}})), -32602);
  EXPECT_EQ(send(mirrored(stateless(1, "no/such"))).status, 404);
}

// Records each request's conversation.
class Conversations final : public Backend {
 public:
  std::vector<std::shared_ptr<host::Flows>> of_calls;

  Offer offer(const Caller&) override {
    return {.languages = {{"wat", "WAT", false}}, .policy = {}, .most_sessions = 1};
  }
  Result<PolicyText> policy(const Caller& caller, const std::string&) override {
    of_calls.push_back(caller.flows);
    return PolicyText{};
  }
  Result<Ran> run(const Caller&, const Program&) override { return none(); }
  Result<SessionInfo> create_session(const Caller&, const std::string&, bool) override { return none(); }
  Result<Ran> exec(const Caller&, const std::string&, const Program&) override { return none(); }
  Result<std::vector<SessionInfo>> fork_session(const Caller&, const std::string&, size_t) override {
    return none();
  }
  Status close_session(const Caller&, const std::string&) override { return none(); }
  Result<std::vector<SessionInfo>> sessions(const Caller&) override { return none(); }
  Result<std::vector<sandbox::ReportFile>> list_files(const Caller&, const std::string&) override {
    return none();
  }
  Result<std::string> read_file(const Caller&, const std::string&, const std::string&) override {
    return none();
  }
  Status write_file(const Caller&, const std::string&, const std::string&, std::string_view) override {
    return none();
  }
  Result<std::vector<ReportInfo>> reports(const Caller&) override { return none(); }
  Result<std::string> report(const Caller&, const std::string&) override { return none(); }
  Result<ReceiptTexts> receipt(const Caller&, const std::string&) override { return none(); }

 private:
  static std::unexpected<Error> none() { return fail(ErrorCode::kNotFound, "there is none"); }
};

TEST_F(HttpTest, AConversationIsOfAHandshakeAndElseOfItsClient) {
  const auto backend = std::make_shared<Conversations>();
  server_ = std::make_unique<Server>(backend, ServerOptions{.version = "1"});
  options_.most_clients = 2;
  const auto conversation = [&](HttpRequest request) {
    send(std::move(request));
    return backend->of_calls.back();
  };
  const auto alone = [&](const std::string& client, const std::string& tenant = "a") {
    HttpRequest request =
        mirrored(stateless(1, "tools/call", call_of("explain_policy", Json::object())), "explain_policy");
    request.client = client;
    request.tenant = tenant;
    return conversation(std::move(request));
  };
  const auto agreed = [&](const std::string& session) {
    return conversation(post(request(1, "tools/call", call_of("explain_policy", Json::object())),
                             {{"Mcp-Session-Id", session}, {"MCP-Protocol-Version", "2025-06-18"}}));
  };
  const auto first = alone("one");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(alone("one"), first);
  EXPECT_NE(alone("two"), first);
  EXPECT_EQ(alone("one"), first);
  alone("three");
  EXPECT_EQ(alone("one"), first) << "it was here later than two";
  EXPECT_NE(alone("one", "b"), first);
  std::vector<std::string> sessions;
  for (int i = 0; i < 2; ++i)
    sessions.push_back(value_of(send(post(initialize("2025-06-18"))).headers, "Mcp-Session-Id"));
  EXPECT_EQ(agreed(sessions[0]), agreed(sessions[0]));
  EXPECT_NE(agreed(sessions[0]), agreed(sessions[1]));
  EXPECT_NE(agreed(sessions[0]), first);
}

TEST_F(HttpTest, WhatIsSaidBeforeTheAnswerMakesAStream) {
  const Json call =
      stateless(1, "tools/call", wat_program("(call $io.print \"hello\")"), {{"progressToken", 7}});
  HttpReply reply = send(mirrored(call, "run_code"));
  EXPECT_TRUE(reply.is_streamed);
  EXPECT_TRUE(streamed_.starts_with("event: message\ndata: {")) << streamed_;
  EXPECT_TRUE(streamed_.ends_with("}\n\n"));
  EXPECT_NE(reply.body.find("structuredContent"), std::string::npos);
  EXPECT_TRUE(reply.body.ends_with("\n\n"));
  HttpRequest plain = mirrored(call, "run_code");
  plain.headers[2].second = "application/json";
  reply = send(std::move(plain));
  EXPECT_FALSE(reply.is_streamed);
  EXPECT_EQ(value_of(reply.headers, "Content-Type"), "application/json");
  EXPECT_EQ(streamed_, "");
}

TEST_F(HttpTest, AHandshakeIsFoundByItsName) {
  const HttpReply begun = send(post(initialize("2025-06-18")));
  const std::string name = value_of(begun.headers, "Mcp-Session-Id");
  EXPECT_EQ(name.size(), 32);
  const auto with = [&](const Json& message, const std::string& of) {
    return post(message, {{"Mcp-Session-Id", of}, {"MCP-Protocol-Version", "2025-06-18"}});
  };
  EXPECT_EQ(send(with({{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}}, name)).status, 202);
  EXPECT_EQ(send(with(request(1, "tools/list"), name)).status, 200);
  EXPECT_EQ(send(with(request(1, "tools/list"), "none")).status, 404);
  HttpRequest of_another = with(request(1, "tools/list"), name);
  of_another.tenant = "b";
  EXPECT_EQ(send(std::move(of_another)).status, 404);
  HttpRequest unknown =
      post(request(1, "tools/list"), {{"Mcp-Session-Id", name}, {"MCP-Protocol-Version", "1900-01-01"}});
  EXPECT_EQ(send(std::move(unknown)).status, 400);
  HttpRequest end = with(nullptr, name);
  end.method = "DELETE";
  EXPECT_EQ(send(end).status, 204);
  EXPECT_EQ(send(end).status, 404);
  EXPECT_EQ(send(with(request(1, "tools/list"), name)).status, 404);
  EXPECT_EQ(send(post(request(1, "tools/list"))).status, 200);  // without a name: 2025-03-26
  HttpRequest stale = mirrored(stateless(1, "tools/list"));
  stale.headers.emplace_back("Mcp-Session-Id", name);  // means nothing in 2026-07-28
  EXPECT_EQ(send(std::move(stale)).status, 200);
}

TEST_F(HttpTest, HandshakesAreBounded) {
  options_.most_handshakes = 2;
  std::vector<std::string> names;
  for (int i = 0; i < 3; ++i)
    names.push_back(value_of(send(post(initialize("2025-11-25"))).headers, "Mcp-Session-Id"));
  EXPECT_EQ(send(post(request(1, "ping"), {{"Mcp-Session-Id", names[0]}})).status, 404);
  EXPECT_EQ(send(post(request(1, "ping"), {{"Mcp-Session-Id", names[2]}})).status, 200);
}

TEST_F(HttpTest, HandshakesOfATenantTakeNoneOfAnothers) {
  options_.most_handshakes_of_tenant = 2;
  const auto begin = [&](const std::string& tenant) {
    HttpRequest request = post(initialize("2025-11-25"));
    request.tenant = tenant;
    return value_of(send(std::move(request)).headers, "Mcp-Session-Id");
  };
  const auto status = [&](const std::string& tenant, const std::string& name) {
    HttpRequest ping = post(request(1, "ping"), {{"Mcp-Session-Id", name}});
    ping.tenant = tenant;
    return send(std::move(ping)).status;
  };
  const std::string of_b = begin("b"), first = begin("a"), second = begin("a"), third = begin("a");
  EXPECT_EQ(status("a", first), 404);
  EXPECT_EQ(status("a", second), 200);
  EXPECT_EQ(status("a", third), 200);
  EXPECT_EQ(status("b", of_b), 200);
}

TEST_F(HttpTest, PagesOfOthersAreKeptOut) {
  options_.hosts = {"sandbox.example.org"};
  options_.origins = {"https://chat.example.org"};
  const auto status = [&](const std::string& host, const std::string& origin) {
    HttpRequest request = mirrored(stateless(1, "tools/list"));
    request.headers[0].second = host;
    if (!origin.empty()) request.headers.emplace_back("Origin", origin);
    return send(std::move(request)).status;
  };
  for (const char* const host :
       {"localhost", "localhost:7400", "127.0.0.1:1", "[::1]:7400", "sandbox.example.org:443"})
    EXPECT_EQ(status(host, ""), 200) << host;
  for (const char* const host :
       {"", "evil.example.org", "localhost.evil.org", "127.0.0.1.evil.org:80", "[::1"})
    EXPECT_EQ(status(host, ""), 403) << host;
  EXPECT_EQ(status("localhost", "http://localhost:3000"), 200);
  EXPECT_EQ(status("localhost", "https://chat.example.org"), 200);
  for (const char* const origin :
       {"https://evil.example.org", "null", "http://localhost.evil.org", "http://chat.example.org"})
    EXPECT_EQ(status("localhost", origin), 403) << origin;
}

TEST_F(HttpTest, WhatIsNoPostOfJsonIsRefused) {
  HttpRequest request = post(Json::object());
  request.method = "GET";
  EXPECT_EQ(send(request).status, 405);
  EXPECT_EQ(value_of(send(request).headers, "Allow"), "POST, DELETE");
  request.method = "DELETE";
  EXPECT_EQ(send(request).status, 400);
  request = post(Json::object());
  request.headers[1].second = "text/plain";
  EXPECT_EQ(send(request).status, 415);
  request = post(Json::object());
  request.headers[2].second = "text/html";
  EXPECT_EQ(send(request).status, 406);
  request = post(Json::object());
  request.body = "{";
  EXPECT_EQ(send(request).status, 400);
}

TEST_F(HttpTest, AClientThatHasGoneEndsItsCall) {
  endpoint_ = std::make_unique<HttpEndpoint>(*server_, options_);
  const auto call =
      endpoint_->receive(mirrored(stateless(1, "tools/call", wat_program("(loop $l (br $l))")), "run_code"));
  EXPECT_TRUE(call->runs_program());
  call->cancel();
  EXPECT_EQ(call->answer([](std::string_view) {}).body, "");
}

}  // namespace
}  // namespace membrane::mcp
