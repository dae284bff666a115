// A server for programs in WAT, and messages for it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mcp/local_backend.h"
#include "mcp/message.h"
#include "mcp/server.h"

namespace membrane::mcp {

inline LocalOptions wat_only() {
  LocalOptions options;
  options.languages = {{{"wat", "WAT", false}, "", ""}};
  options.limits_of_wat.fuel = INT64_MAX;
  options.limits_of_wat.wall_ms = 600'000;
  return options;
}

// A request of revision 2026-07-28, with `meta` on top.
inline Json stateless(int id, const std::string& method, Json params = Json::object(),
                      Json meta = Json::object()) {
  meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28";
  if (!meta.contains("io.modelcontextprotocol/clientCapabilities"))
    meta["io.modelcontextprotocol/clientCapabilities"] = Json::object();
  params["_meta"] = std::move(meta);
  return {{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", std::move(params)}};
}

inline Json request(int id, const std::string& method, Json params = Json::object()) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", std::move(params)}};
}

inline Json initialize(const std::string& version) {
  return request(0, "initialize",
                 {{"protocolVersion", version},
                  {"capabilities", Json::object()},
                  {"clientInfo", {{"name", "test"}, {"version", "1"}}}});
}

inline Json call_of(const std::string& tool, Json arguments) {
  return {{"name", tool}, {"arguments", std::move(arguments)}};
}

inline Json wat_program(const std::string& body) {
  return call_of("run_code", {{"language", "wat"}, {"code", "(func (export \"main\") " + body + ")"}});
}

class ServerTest : public ::testing::Test {
 protected:
  void make(LocalOptions options, size_t most_calls = 32) {
    server_ = std::make_unique<Server>(local_backend(std::move(options)),
                                       ServerOptions{.version = "1", .most_calls = most_calls});
  }
  void SetUp() override { make(wat_only()); }

  Envelope envelope() {
    return {.peer = peer_, .tenant = {}, .headers = {}, .notify = [this](std::string_view json) {
              told_.push_back(Json::parse(json));
            }};
  }
  Reply reply_to(const std::string& text) { return server_->receive(text, envelope())->answer(); }
  // The answer; null when there is none.
  Json ask(const Json& message) {
    const std::string json = reply_to(message.dump()).json;
    EXPECT_EQ(json.find('\n'), std::string::npos);
    return json.empty() ? Json() : Json::parse(json);
  }
  Json result_of(const Json& message) {
    const Json answer = ask(message);
    EXPECT_TRUE(answer.contains("result")) << answer;
    return answer.value("result", Json());
  }
  int error_of(const Json& message) {
    const Json answer = ask(message);
    EXPECT_TRUE(answer.contains("error")) << answer;
    return answer["error"]["code"];
  }

  std::unique_ptr<Server> server_;
  std::shared_ptr<Peer> peer_ = std::make_shared<Peer>();
  std::vector<Json> told_;  // notifications
};

}  // namespace membrane::mcp
