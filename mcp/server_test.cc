// The protocol in both eras, with programs in WAT.

#include "mcp/server.h"

#include <gtest/gtest.h>

#include "mcp/server_testing.h"
#include "mcp/tools.h"
#include "sandbox/receipts/receipt.h"

namespace membrane::mcp {
namespace {

constexpr int kParse = -32700, kInvalid = -32600, kNoMethod = -32601, kParams = -32602;

// -- the handshake ----------------------------------------------------------------------------------------------

TEST_F(ServerTest, AHandshakeAgreesOnTheClientsRevisionOrTheLatestWithOne) {
  for (const char* const version : {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"})
    EXPECT_EQ(result_of(initialize(version))["protocolVersion"], version);
  EXPECT_EQ(result_of(initialize("2026-07-28"))["protocolVersion"], "2025-11-25");
  EXPECT_EQ(result_of(initialize("1900-01-01"))["protocolVersion"], "2025-11-25");
  EXPECT_EQ(error_of(request(1, "initialize")), kParams);
  EXPECT_TRUE(reply_to(initialize("2025-11-25").dump()).is_handshake);
}

TEST_F(ServerTest, WithAHandshakeResultsAreThoseOfItsRevision) {
  result_of(initialize("2025-11-25"));
  EXPECT_TRUE(ask({{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}}).is_null());
  EXPECT_EQ(result_of(request(1, "ping")), Json::object());
  EXPECT_EQ(result_of(request(2, "logging/setLevel", {{"level", "debug"}})), Json::object());
  EXPECT_EQ(error_of(request(3, "logging/setLevel", {{"level", "loud"}})), kParams);
  const Json tools = result_of(request(4, "tools/list"));
  EXPECT_FALSE(tools.contains("resultType"));
  EXPECT_FALSE(tools.contains("ttlMs"));
  EXPECT_TRUE(tools["tools"][0].contains("outputSchema"));
  EXPECT_EQ(error_of(request(5, "server/discover")), kNoMethod);
  EXPECT_EQ(error_of(request(6, "prompts/list")), kNoMethod);
  const Json gone = ask(request(7, "resources/read", {{"uri", "membrane://reports/none"}}));
  EXPECT_EQ(gone["error"]["code"], -32002);
}

TEST_F(ServerTest, WhatARevisionDoesNotKnowIsLeftOut) {
  result_of(initialize("2024-11-05"));
  const Json tool = result_of(request(1, "tools/list"))["tools"][0];
  for (const char* const later : {"title", "outputSchema", "annotations"})
    EXPECT_FALSE(tool.contains(later)) << later;
  const Json ran = result_of(request(2, "tools/call", wat_program("(call $io.print \"hello\")")));
  EXPECT_FALSE(ran.contains("structuredContent"));
  ASSERT_EQ(ran["content"].size(), 1);
  EXPECT_EQ(ran["content"][0]["type"], "text");
}

TEST_F(ServerTest, BatchesAreTakenInTheRevisionThatHasThem) {
  const std::string batch = Json{request(1, "ping"),
                                 {{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}},
                                 request(2, "ping"),
                                 7}
                                .dump();
  result_of(initialize("2025-06-18"));
  EXPECT_EQ(Json::parse(reply_to(batch).json)["error"]["code"], kInvalid);
  peer_ = std::make_shared<Peer>();
  result_of(initialize("2025-03-26"));
  const Json answers = Json::parse(reply_to(batch).json);
  ASSERT_EQ(answers.size(), 3);
  EXPECT_EQ(answers[0]["id"], 1);
  EXPECT_EQ(answers[1]["id"], 2);
  EXPECT_EQ(answers[2]["error"]["code"], kInvalid);
  EXPECT_EQ(Json::parse(reply_to("[]").json)["error"]["code"], kInvalid);
  EXPECT_TRUE(reply_to("[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}]").json.empty());
}

// -- without one ------------------------------------------------------------------------------------------------

TEST_F(ServerTest, AStatelessRequestNeedsNothingBeforeIt) {
  const Json found = result_of(stateless(1, "server/discover"));
  EXPECT_EQ(found["resultType"], "complete");
  EXPECT_EQ(found["supportedVersions"], Json{"2026-07-28"});
  EXPECT_EQ(found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "membrane");
  EXPECT_GT(found["ttlMs"], 0);
  EXPECT_EQ(found["cacheScope"], "private");
  const Json ran = result_of(stateless(2, "tools/call", wat_program("(call $io.print \"hello\")")));
  EXPECT_EQ(ran["resultType"], "complete");
  EXPECT_FALSE(ran.contains("ttlMs"));
  EXPECT_EQ(ran["structuredContent"]["stdout"], "hello");
  for (const char* const method : {"tools/list", "resources/list", "resources/templates/list"})
    EXPECT_TRUE(result_of(stateless(3, method)).contains("ttlMs")) << method;
}

TEST_F(ServerTest, BothErasAreServedOnOneConnection) {
  result_of(initialize("2025-11-25"));
  EXPECT_EQ(result_of(stateless(1, "tools/list"))["resultType"], "complete");
  EXPECT_FALSE(result_of(request(2, "tools/list")).contains("resultType"));
}

TEST_F(ServerTest, MethodsThatAreGoneAreNotFound) {
  for (const char* const method :
       {"ping", "logging/setLevel", "initialize", "resources/subscribe", "", "no/such"}) {
    const Reply reply = reply_to(stateless(1, method).dump());
    EXPECT_EQ(Json::parse(reply.json)["error"]["code"], kNoMethod) << method;
    EXPECT_EQ(reply.http_status, 404);
  }
}

TEST_F(ServerTest, AnotherRevisionIsRefusedWithThoseThatThereAre) {
  for (const char* const version : {"1900-01-01", "2025-11-25"}) {
    Json message = stateless(1, "tools/list");
    message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = version;
    const Reply reply = reply_to(message.dump());
    const Json error = Json::parse(reply.json)["error"];
    EXPECT_EQ(error["code"], -32022);
    EXPECT_EQ(error["data"]["supported"], Json{"2026-07-28"});
    EXPECT_EQ(error["data"]["requested"], version);
    EXPECT_EQ(reply.http_status, 400);
  }
}

TEST_F(ServerTest, ARequestWithoutItsTermsIsRefused) {
  EXPECT_EQ(error_of(request(1, "tools/list")), kParams);  // neither _meta nor an initialize
  EXPECT_EQ(error_of(request(1, "server/discover")), kParams);
  Json message = stateless(1, "tools/list");
  message["params"]["_meta"].erase("io.modelcontextprotocol/clientCapabilities");
  EXPECT_EQ(error_of(message), kParams);
  message = stateless(1, "tools/list");
  message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = 7;
  EXPECT_EQ(error_of(message), kParams);
  EXPECT_EQ(error_of(stateless(1, "tools/list", {}, {{"io.modelcontextprotocol/logLevel", "loud"}})),
            kParams);
  EXPECT_EQ(error_of(request(1, "tools/list", {{"_meta", 7}})), kParams);
}

TEST_F(ServerTest, AStreamOfChangesBeginsAndEndsWell) {
  const Json ended =
      result_of(stateless(9, "subscriptions/listen", {{"notifications", {{"toolsListChanged", true}}}}));
  EXPECT_EQ(ended["_meta"]["io.modelcontextprotocol/subscriptionId"], 9);
  ASSERT_EQ(told_.size(), 1);
  EXPECT_EQ(told_[0]["method"], "notifications/subscriptions/acknowledged");
  EXPECT_EQ(told_[0]["params"]["notifications"], Json::object());
  EXPECT_EQ(error_of(stateless(9, "subscriptions/listen")), kParams);
}

// -- malformed messages -----------------------------------------------------------------------------------------

TEST_F(ServerTest, MalformedMessagesAreAnsweredWithAnError) {
  const auto code = [&](const std::string& text) {
    return Json::parse(reply_to(text).json)["error"]["code"];
  };
  EXPECT_EQ(code("{"), kParse);
  EXPECT_EQ(code("\xff"), kParse);
  EXPECT_EQ(code(std::string(300, '[')), kParse);
  for (const char* const text :
       {"7", "null", "\"ping\"", "{}", R"({"jsonrpc":"1.0","id":1,"method":"ping"})",
        R"({"jsonrpc":"2.0","id":1})", R"({"jsonrpc":"2.0","id":1,"method":7})",
        R"({"jsonrpc":"2.0","id":null,"method":"ping"})", R"({"jsonrpc":"2.0","id":1.5,"method":"ping"})",
        R"({"jsonrpc":"2.0","id":{},"method":"ping"})",
        R"({"jsonrpc":"2.0","id":1,"method":"ping","params":[]})"})
    EXPECT_EQ(code(text), kInvalid) << text;
  EXPECT_EQ(code(R"({"jsonrpc":"2.0","id":")" + std::string(300, 'x') + R"(","method":"ping"})"), kInvalid);
  EXPECT_EQ(Json::parse(reply_to(R"({"jsonrpc":"2.0","id":"a","method":7})").json)["id"], "a");
  EXPECT_FALSE(Json::parse(reply_to("{").json).contains("id"));
  EXPECT_EQ(code(Json::array({1}).dump()), kInvalid);
  EXPECT_EQ(code(std::string(kMessageLimits.bytes + 1, ' ')), kInvalid);
}

TEST_F(ServerTest, AnswersAndNotificationsOfTheClientAreAnsweredWithNothing) {
  for (const char* const text :
       {R"({"jsonrpc":"2.0","id":1,"result":{}})", R"({"jsonrpc":"2.0","id":1,"error":{}})",
        R"({"jsonrpc":"2.0","method":"notifications/none"})",
        R"({"jsonrpc":"2.0","method":"notifications/cancelled"})",
        R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}})"}) {
    const Reply reply = reply_to(text);
    EXPECT_EQ(reply.json, "") << text;
    EXPECT_EQ(reply.http_status, 202);
  }
}

TEST_F(ServerTest, AnIdIsTakenWhileItsRequestIsUnderWayAndRequestsAreBounded) {
  make(wat_only(), 2);
  const auto first = server_->receive(stateless(1, "tools/list").dump(), envelope());
  EXPECT_EQ(error_of(stateless(1, "tools/list")), kInvalid);
  const auto second = server_->receive(stateless(2, "tools/list").dump(), envelope());
  EXPECT_EQ(error_of(stateless(3, "tools/list")), -32603);
  EXPECT_TRUE(Json::parse(first->answer().json).contains("result"));
  EXPECT_TRUE(Json::parse(second->answer().json).contains("result"));
}

// -- tools ------------------------------------------------------------------------------------------------------

TEST_F(ServerTest, ABadArgumentIsAnErrorThatAModelCanMend) {
  const auto said = [&](const std::string& tool, const Json& arguments) {
    const Json result = result_of(stateless(1, "tools/call", call_of(tool, arguments)));
    EXPECT_EQ(result["isError"], true) << result;
    EXPECT_FALSE(result.contains("structuredContent"));
    return result["content"][0]["text"].get<std::string>();
  };
  const std::string text = said("run_code", {{"languag", "wat"}, {"code", 7}, {"timeout_ms", -1}});
  EXPECT_NE(text.find("did you mean language?"), std::string::npos) << text;
  EXPECT_NE(text.find("\"language\" is missing, and must be one of wat"), std::string::npos) << text;
  EXPECT_NE(text.find("\"code\" is 7, and must be a string."), std::string::npos) << text;
  EXPECT_NE(text.find("\"timeout_ms\" is -1, and must be an integer from 1"), std::string::npos) << text;
  EXPECT_NE(said("run_code", {{"language", "ruby"}, {"code", ""}}).find("one of wat"), std::string::npos);
  EXPECT_NE(
      said("run_code", {{"language", "wat"}, {"code", ""}, {"arguments", {1}}}).find("a list of strings"),
      std::string::npos);
  EXPECT_NE(
      said("run_code", {{"language", "wat"}, {"code", ""}, {"timeout_ms", UINT64_MAX}}).find("timeout_ms"),
      std::string::npos);
  EXPECT_NE(said("get_report", {{"report", "none"}}).find("list_reports"), std::string::npos);
  EXPECT_NE(said("explain_policy", {{"a", 1}}).find("takes none"), std::string::npos);
}

TEST_F(ServerTest, AnUnknownToolIsAnErrorOfTheRequest) {
  EXPECT_EQ(error_of(stateless(1, "tools/call", call_of("no_such", Json::object()))), kParams);
  EXPECT_EQ(error_of(stateless(1, "tools/call")), kParams);
  EXPECT_EQ(error_of(stateless(1, "tools/call", call_of("run_code", 7))), kParams);
  EXPECT_EQ(error_of(stateless(1, "tools/call", call_of("create_session", Json::object()))),
            kParams);  // WAT has none
}

TEST_F(ServerTest, AProgramsFailureIsAnErrorWithItsReason) {
  const Json result = result_of(stateless(1, "tools/call", wat_program("(unreachable)")));
  EXPECT_EQ(result["isError"], true);
  EXPECT_EQ(result["structuredContent"]["outcome"], "trapped");
  EXPECT_FALSE(result["structuredContent"]["error"]["message"].get<std::string>().empty());
  const Json wrong = result_of(stateless(1, "tools/call", wat_program("(i32.ad)")));
  EXPECT_EQ(wrong["structuredContent"]["outcome"], "invalid");
}

TEST_F(ServerTest, WhatThePolicyRefusesIsNamedWithItsGrantAndLogged) {
  const Json call = wat_program("(set $text $errno (call $http.get \"https://example.org/\"))");
  const Json result =
      result_of(stateless(1, "tools/call", call, {{"io.modelcontextprotocol/logLevel", "info"}}));
  const Json refused = result["structuredContent"]["refused"];
  ASSERT_EQ(refused.size(), 1) << result;
  EXPECT_EQ(refused[0]["call"], "http.get");
  EXPECT_NE(refused[0]["grant"].get<std::string>().find("--allow"), std::string::npos);
  ASSERT_EQ(told_.size(), 2);
  EXPECT_EQ(told_[0]["method"], "notifications/message");
  EXPECT_EQ(told_[0]["params"]["level"], "warning");
  EXPECT_EQ(told_[1]["params"]["data"]["event"], "ran");
  told_.clear();
  result_of(stateless(1, "tools/call", call));  // nothing was asked for
  EXPECT_TRUE(told_.empty());
  result_of(stateless(1, "tools/call", call, {{"io.modelcontextprotocol/logLevel", "error"}}));
  EXPECT_TRUE(told_.empty());
}

TEST_F(ServerTest, DescriptionsSayWhatIsGranted) {
  LocalOptions options = wat_only();
  options.policy.kv.emplace();
  make(std::move(options));
  const Json tools = result_of(stateless(1, "tools/list"))["tools"];
  const auto text = tools[0]["description"].get<std::string>();
  EXPECT_EQ(tools[0]["name"], "run_code");
  EXPECT_NE(text.find("kv"), std::string::npos) << text;
  EXPECT_NE(text.find("Not granted: http, fs, sql"), std::string::npos) << text;
  const Json explained = result_of(stateless(2, "tools/call", call_of("explain_policy", Json::object())));
  EXPECT_TRUE(explained["structuredContent"]["policy"].is_string());
}

TEST(Tools, RunCodeSaysHowNumpyCountsWherePythonIsOffered) {
  const auto description = [](const char* language) {
    return tools_for({.languages = {{language, "A language", true}}, .policy = "p", .most_sessions = 1})
        .front()
        .description;
  };
  EXPECT_NE(description("python").find("astype(int)"), std::string::npos);
  EXPECT_NE(description("python").find("write \"int64\""), std::string::npos);
  EXPECT_EQ(description("js").find("numpy"), std::string::npos);
}

TEST_F(ServerTest, ProgressGrowsAndHasWhatWasPrinted) {
  const Json result =
      result_of(stateless(1, "tools/call", wat_program("(call $io.print \"one\") (call $io.print \"two\")"),
                          {{"progressToken", "t"}}));
  ASSERT_FALSE(told_.empty());
  double last = 0;
  for (const Json& each : told_) {
    EXPECT_EQ(each["method"], "notifications/progress");
    EXPECT_EQ(each["params"]["progressToken"], "t");
    EXPECT_GT(each["params"]["progress"], last);
    last = each["params"]["progress"];
  }
  EXPECT_EQ(told_[0]["params"]["message"], "one");
  EXPECT_EQ(result["structuredContent"]["stdout"], "onetwo");
}

TEST_F(ServerTest, ACancelEndsTheProgramAndNothingIsAnswered) {
  Envelope from = envelope();
  from.notify = [&](std::string_view) {
    reply_to(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}})");
    told_.emplace_back();
  };
  const Json call = stateless(1, "tools/call", wat_program("(loop $more (call $io.print \"x\") (br $more))"),
                              {{"progressToken", 1}});
  EXPECT_EQ(server_->receive(call.dump(), from)->answer().json, "");
  EXPECT_EQ(told_.size(), 1);  // nothing after the cancel
  EXPECT_EQ(result_of(stateless(1, "tools/call", wat_program("(nop)")))["isError"], false);  // the id is free
  const auto waits =
      server_->receive(stateless(2, "tools/call", wat_program("(loop $l (br $l))")).dump(), envelope());
  EXPECT_TRUE(waits->runs_program());
  peer_->cancel_all();
  EXPECT_EQ(waits->answer().json, "");
}

// -- resources --------------------------------------------------------------------------------------------------

TEST_F(ServerTest, ReportsAreResources) {
  const Json ran = result_of(stateless(1, "tools/call", wat_program("(call $io.print \"hello\")")));
  const std::string id = ran["structuredContent"]["report"];
  // No resource_link: clients would send its URI to the model's provider, which cannot read it.
  EXPECT_EQ(ran["content"].size(), 1);
  EXPECT_NE(ran["content"][0]["text"].get<std::string>().find("report: " + id), std::string::npos);
  const Json read = result_of(stateless(2, "resources/read", {{"uri", "membrane://reports/" + id}}));
  EXPECT_EQ(Json::parse(read["contents"][0]["text"].get<std::string>())["stdout"], "hello");
  EXPECT_GT(read["ttlMs"], 0);
  const Json report = result_of(stateless(3, "tools/call", call_of("get_report", {{"report", id}})));
  EXPECT_EQ(report["structuredContent"]["content"]["stdout"], "hello");
  const Json listed = result_of(stateless(4, "tools/call", call_of("list_reports", Json::object())));
  EXPECT_EQ(listed["structuredContent"]["reports"][0]["report"], id);
  EXPECT_EQ(result_of(stateless(5, "resources/list"))["resources"].size(), 3);
  EXPECT_NE(result_of(stateless(6, "resources/read", {{"uri", "membrane://policy"}}))["contents"][0]["text"],
            "");
}

TEST_F(ServerTest, ReceiptsAreOfSealedRuns) {
  Json sealed = wat_program("(call $io.print \"hello\")");
  sealed["arguments"]["seal"] = true;
  EXPECT_EQ(result_of(stateless(1, "tools/call", sealed))["isError"], true);  // there is no key
  sandbox::KeyRing keys;
  ASSERT_TRUE(keys.rotate("2020-01-01T00:00:00Z"));
  LocalOptions options = wat_only();
  options.signing_key = [&] { return *keys.signing(); };
  make(std::move(options));
  const auto run = [&](const Json& program) {
    return result_of(stateless(1, "tools/call", program))["structuredContent"]["report"].get<std::string>();
  };
  const auto receipt_of = [&](const std::string& id) {
    return result_of(stateless(1, "tools/call", call_of("get_receipt", {{"report", id}, {"private", true}})));
  };
  const Json shown = receipt_of(run(sealed))["structuredContent"];
  const auto receipt = sandbox::Receipt::parse(shown["receipt"].get<std::string>());
  ASSERT_TRUE(receipt) << receipt.error().to_string();
  EXPECT_TRUE(sandbox::verify(*receipt, keys));
  EXPECT_TRUE(sandbox::PrivatePart::parse(shown["private"].get<std::string>(), *receipt));
  EXPECT_EQ(receipt_of(run(wat_program("(nop)")))["isError"], true);
}

TEST_F(ServerTest, ReportsAreKeptUpToANumberAndListedByPages) {
  LocalOptions options = wat_only();
  options.most_reports = 60;
  make(std::move(options));
  std::string first;
  for (int i = 0; i < 62; ++i) {
    const Json ran = result_of(stateless(1, "tools/call", wat_program("(nop)")));
    if (i == 0) first = ran["structuredContent"]["report"];
  }
  EXPECT_EQ(error_of(stateless(1, "resources/read", {{"uri", "membrane://reports/" + first}})), kParams);
  const Json page = result_of(stateless(2, "resources/list"));
  EXPECT_EQ(page["resources"].size(), 50);
  const Json rest = result_of(stateless(3, "resources/list", {{"cursor", page["nextCursor"]}}));
  EXPECT_EQ(rest["resources"].size(), 12);
  EXPECT_FALSE(rest.contains("nextCursor"));
  EXPECT_EQ(error_of(stateless(4, "resources/list", {{"cursor", "x"}})), kParams);
  EXPECT_EQ(result_of(stateless(5, "resources/list", {{"cursor", "99999"}}))["resources"].size(), 0);
}

TEST_F(ServerTest, UnknownResourcesAreNotFound) {
  for (const char* const uri :
       {"", "file:///etc/passwd", "membrane://", "membrane://reports/", "membrane://reports/a/b",
        "membrane://sessions/s-1/files/tmp/%00", "membrane://sessions/s-1/files/%zz",
        "membrane://sessions/../files/a", "membrane://sessions/s-1/files/../../etc/passwd"})
    EXPECT_EQ(error_of(stateless(1, "resources/read", {{"uri", uri}})), kParams) << uri;
  EXPECT_EQ(error_of(stateless(1, "resources/read")), kParams);
}

}  // namespace
}  // namespace membrane::mcp
