// The interface with requests as values, over sandboxes for WAT. For real connections see mcp_test.py.

#include "service/mcp_interface.h"

#include <gtest/gtest.h>

#include <future>

#include "base/json.h"

namespace membrane::service {
namespace {

using Json = nlohmann::json;

constexpr const char* kLoop = "(func (export \"run\") (loop $again (br $again)))";
constexpr const char* kPrintAndLoop =
    "(func (export \"run\") (call $io.print \"on\") (loop $again (br $again)))";

class McpInterfaceTest : public ::testing::Test {
 protected:
  McpInterfaceTest() {
    for (const char* const tenant : {"a", "b"})
      EXPECT_TRUE(tokens_.add(std::string("token of ") + tenant,
                              {.id = tenant, .tenant = tenant, .name = "", .scopes = {"admin"}}));
  }

  McpInterface& interface() {
    if (!interface_) interface_ = std::make_unique<McpInterface>(sandboxes_, tokens_, options_);
    return *interface_;
  }
  // A sandbox whose programs may take an hour.
  std::string create(const std::string& tenant = "a") {
    SandboxSpec spec = {.template_name = "wat", .policy = policy::Policy()};
    spec.policy->limits.fuel = 1'000'000'000'000'000;
    spec.policy->limits.wall_ms = 3'600'000;
    std::promise<std::string> id;
    sandboxes_.create(Actor{tenant}, std::move(spec),
                      [&](Answer<SandboxInfo> made) { id.set_value(made->id); });
    return id.get_future().get();
  }
  static Json run_in(const std::string& session, const char* code) {
    return {{"name", "run_in_session"}, {"arguments", {{"session", session}, {"code", code}}}};
  }

  struct Asked {
    std::shared_ptr<Presence> presence = std::make_shared<Presence>();
    std::future<Response> answer;
  };
  Asked ask(Json params, const std::string& tenant = "a", bool with_progress = false) {
    params["_meta"] = {{"io.modelcontextprotocol/protocolVersion", "2026-07-28"},
                       {"io.modelcontextprotocol/clientCapabilities", Json::object()}};
    if (with_progress) params["_meta"]["progressToken"] = 1;
    Asked asked;
    const auto promise = std::make_shared<std::promise<Response>>();
    asked.answer = promise->get_future();
    Request request;
    request.method = "POST";
    request.segments = {"mcp"};
    request.headers = {{"Host", "localhost"},
                       {"Authorization", "Bearer token of " + tenant},
                       {"Content-Type", "application/json"},
                       {"Accept", "application/json, text/event-stream"},
                       {"MCP-Protocol-Version", "2026-07-28"},
                       {"Mcp-Method", "tools/call"},
                       {"Mcp-Name", params["name"].get<std::string>()}};
    request.body = Json{{"jsonrpc", "2.0"}, {"id", 1}, {"method", "tools/call"}, {"params", params}}.dump();
    request.presence = asked.presence;
    EXPECT_TRUE(interface().serves(request));
    EXPECT_FALSE(interface().admit(request).refusal);
    interface().handle(std::move(request),
                       Reply([promise](Response response) { promise->set_value(std::move(response)); }));
    return asked;
  }
  std::shared_ptr<Exec> last_exec(const std::string& sandbox, const std::string& tenant = "a") {
    const auto execs = sandboxes_.list_execs(tenant, sandbox);
    return execs && !execs->empty() ? execs->back() : nullptr;
  }
  void wait_until_it_runs(const std::string& sandbox) {
    while (last_exec(sandbox) == nullptr || last_exec(sandbox)->state() != ExecState::kRunning)
      std::this_thread::yield();
  }
  std::string outcome_of(const std::string& sandbox) {
    const auto exec = last_exec(sandbox);
    const auto done = std::make_shared<std::promise<void>>();
    exec->when_done([done] { done->set_value(); });
    done->get_future().wait();
    return Json::parse(exec->report_json())["outcome"];
  }

  std::unique_ptr<Guests> guests_ = local_guests({});
  std::unique_ptr<Images> images_ = images_in_memory();
  Snapshots snapshots_{*images_, *guests_};
  Sandboxes sandboxes_{*guests_, *images_, snapshots_, {.threads = 2}};
  Tokens tokens_;
  McpOptions options_;
  std::unique_ptr<McpInterface> interface_;
};

TEST_F(McpInterfaceTest, AClientThatLeavesEndsItsProgram) {
  const std::string sandbox = create();
  Asked asked = ask(run_in(sandbox, kLoop));
  wait_until_it_runs(sandbox);
  asked.presence->leave();
  EXPECT_EQ(asked.answer.get().body, "");
  EXPECT_EQ(outcome_of(sandbox), "cancelled");
}

TEST_F(McpInterfaceTest, AStreamThatIsAbandonedEndsItsProgram) {
  const std::string sandbox = create();
  const Response response = ask(run_in(sandbox, kPrintAndLoop), "a", true).answer.get();
  ASSERT_TRUE(response.source);
  response.source->abandon();
  EXPECT_EQ(outcome_of(sandbox), "cancelled");
}

TEST_F(McpInterfaceTest, ItsEndEndsWhatRunsAndWhatWaits) {
  const std::string sandbox = create();
  Asked running = ask(run_in(sandbox, kLoop));
  wait_until_it_runs(sandbox);
  Asked waiting = ask(run_in(sandbox, kLoop));
  interface_ = nullptr;
  EXPECT_EQ(running.answer.get().body, "");
  EXPECT_EQ(waiting.answer.get().body, "");
  EXPECT_EQ(outcome_of(sandbox), "cancelled");
}

TEST_F(McpInterfaceTest, ASandboxThatIsEndedEndsItsCall) {
  const std::string sandbox = create();
  Asked asked = ask(run_in(sandbox, kLoop));
  wait_until_it_runs(sandbox);
  ASSERT_TRUE(sandboxes_.kill(Actor{"a"}, sandbox));
  const Json result = Json::parse(asked.answer.get().body)["result"];
  EXPECT_EQ(result["structuredContent"]["outcome"], "cancelled");
}

TEST_F(McpInterfaceTest, ATenantHasItsShareOfCallsAndAllHaveABound) {
  options_.most_calls = 1;
  options_.most_calls_of_tenant = 2;
  options_.most_queued = 1;
  const std::string sandbox = create();
  Asked running = ask(run_in(sandbox, kLoop));
  wait_until_it_runs(sandbox);
  Asked waiting = ask({{"name", "explain_policy"}});
  const Response share = ask({{"name", "explain_policy"}}).answer.get();
  EXPECT_EQ(share.status, 429);
  EXPECT_TRUE(share.headers.find("Retry-After"));
  EXPECT_EQ(ask({{"name", "explain_policy"}}, "b").answer.get().status, 503);
  running.presence->leave();
  EXPECT_EQ(waiting.answer.get().status, 200);
  Response later = ask({{"name", "explain_policy"}}, "b").answer.get();
  EXPECT_EQ(later.status, 200);
}

// One sandbox has the private data, the other one the way out, and the client's model is between them.
TEST_F(McpInterfaceTest, WhatAClientReadInOneSandboxClosesTheWayOutOfAnother) {
  const auto create_with = [&](const std::string& grants) {
    SandboxSpec spec = {
        .template_name = "wat",
        .policy = policy::parse_policy("[trifecta]\negress = \"close\"\n" + grants, "p.toml").value()};
    std::promise<std::string> id;
    sandboxes_.create(Actor{"a"}, std::move(spec), [&](Answer<SandboxInfo> made) { id.set_value(made->id); });
    return id.get_future().get();
  };
  const auto run = [&](const std::string& sandbox, const std::string& body) {
    ask(run_in(sandbox, ("(func (export \"run\") " + body + ")").c_str())).answer.get();
    return Json::parse(last_exec(sandbox)->report_json());
  };
  const std::string reads =
      R"((call $kv.set! (string "k") (string "v")) (drop (call $kv.get! (string "k"))))";
  const std::string leaves = R"((drop (call $http.get! (string "https://out.invalid/"))))";
  const std::string reader = create_with("[kv]\nprivate = true\n"),
                    other = create_with("[kv]\nuntrusted = true\n");
  const std::string leaver = create_with("[[http]]\nmethods = [\"GET\"]\nurl = \"https://out.invalid/*\"\n");
  EXPECT_FALSE(run(reader, reads)["flows"]["is_closed"].get<bool>());
  EXPECT_TRUE(run(other, reads)["flows"]["is_closed"].get<bool>());
  const Json report = run(leaver, leaves);
  EXPECT_EQ(report["host_calls"][0]["errno"], "EACCES");
  EXPECT_TRUE(
      report["host_calls"][0]["reason"].get<std::string>().starts_with("The trifecta rule closes egress"));
  EXPECT_TRUE(run(reader, "(nop)")["flows"]["is_closed"].get<bool>()) << "what was carried there";

  ExecSpec spec{.code = "(func (export \"run\"))"};
  const std::string apart = create_with("");
  const auto exec = sandboxes_.exec(Actor{"a"}, apart, std::move(spec));
  ASSERT_TRUE(exec);
  outcome_of(apart);
  EXPECT_FALSE(Json::parse((*exec)->report_json())["flows"]["is_closed"].get<bool>())
      << "it is no part of it";
}

TEST_F(McpInterfaceTest, AProgramOfItsOwnLeavesNoSandbox) {
  const Json params = {
      {"name", "run_code"},
      {"arguments", {{"language", "wat"}, {"code", "(func (export \"run\") (call $io.print \"a\"))"}}}};
  const Json result = Json::parse(ask(params).answer.get().body)["result"];
  EXPECT_EQ(result["structuredContent"]["stdout"], "a");
  EXPECT_EQ(sandboxes_.counts().sandboxes, 0u);
}

}  // namespace
}  // namespace membrane::service
