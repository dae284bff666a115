// The fixture for tests of the egress: a real server on the loopback that responds as each test needs, grants,
// and a resolver that answers from a script.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/egress/http_egress.h"
#include "host/egress/raw_server_testing.h"

namespace membrane::host {

// Answers from a script: the n-th lookup of a name gets the n-th answer, further ones the last.
class ScriptedResolver final : public Resolver {
 public:
  std::map<std::string, std::vector<std::vector<std::string>>> answers;
  std::vector<std::string> asked;
  std::mutex mutex;

  HostResult<std::vector<policy::Address>> resolve(const std::string& host, uint64_t) override {
    const std::lock_guard lock(mutex);
    const auto times = static_cast<size_t>(std::count(asked.begin(), asked.end(), host));
    asked.push_back(host);
    const auto found = answers.find(host);
    if (found == answers.end()) return refuse(Errno::kConnection, "The name " + host + " has no address.");
    std::vector<policy::Address> out;
    for (const std::string& text : found->second[std::min(times, found->second.size() - 1)])
      out.push_back(policy::Address::parse(text).value());
    return out;
  }
};

class Egress : public testing::Test {
 protected:
  policy::HttpGrant& allow(const std::string& url, std::vector<std::string> methods = {"GET"}) {
    policy::HttpGrant grant;
    grant.methods = std::move(methods);
    grant.url = url;
    grant.timeout_ms = 600'000;  // long enough for any machine
    return grants.emplace_back(grant);
  }
  // A grant for every path of the server, by its address.
  policy::HttpGrant& allow(const RawServer& server, std::vector<std::string> methods = {"GET"}) {
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

  static void expect_refused(const HostResult<HttpResponse>& result, Errno code, std::string_view reason) {
    ASSERT_FALSE(result) << "answered " << result->status << " " << result->body.substr(0, 100);
    EXPECT_EQ(result.error().code, code) << name_of(result.error().code) << ": " << result.error().reason;
    EXPECT_NE(result.error().reason.find(reason), std::string::npos) << result.error().reason;
  }

  static RawServer::Handler answer(std::string bytes) {
    return
        [bytes = std::move(bytes)](RawConnection& connection, const std::string&) { connection.send(bytes); };
  }
  static RawServer::Handler hello() { return answer(http_response("200 OK", "", "hello")); }
  static RawServer::Handler redirect(const std::string& status, const std::string& location) {
    return answer(http_response(status, "Location: " + location + "\r\n", ""));
  }
  static std::string first_line(const std::string& request) {
    return request.substr(0, request.find("\r\n"));
  }
  static bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  }
  // A chunk of a body, with an extension of its size.
  static std::string chunk(const std::string& extension, const std::string& bytes) {
    char size[16];
    std::snprintf(size, sizeof size, "%zx", bytes.size());
    return size + extension + "\r\n" + bytes + "\r\n";
  }

  std::vector<policy::HttpGrant> grants;
  policy::Budget budget;
  Deadline run{budget};
  ScriptedResolver resolver;
  std::map<std::string, std::string> secrets;
  EgressWatch* watch = nullptr;
  std::unique_ptr<HttpEgress> egress;
};

}  // namespace membrane::host
