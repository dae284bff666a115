#include "host/local_broker.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "host/egress/raw_server_testing.h"

namespace membrane::host {
namespace {

using policy::Budget;
using policy::Policy;
using policy::Resource;

// A model that answers at once and records the query.
class QuickModel final : public Model {
 public:
  ChatRequest asked;
  uint64_t timeout_ms = 0;
  HostResult<ChatAnswer> complete(const ChatRequest& request, uint64_t timeout) override {
    asked = request;
    timeout_ms = timeout;
    return ChatAnswer{"an answer", 7, 5};
  }
  HostResult<std::vector<float>> embed(std::string_view, uint64_t) override {
    return std::vector<float>{1.0f, 2.0f};
  }
};

class QuickPerson final : public Person {
 public:
  HostResult<std::string> ask(std::string_view question, uint64_t) override {
    return "re: " + std::string(question);
  }
};

template <typename T>
void expect_refused(const HostResult<T>& result, Errno code, std::string_view grant) {
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, code) << result.error().reason;
  EXPECT_EQ(result.error().grant, grant) << result.error().reason;
}

TEST(LocalBroker, AnEmptyPolicyGrantsNothingAndSaysWhatWould) {
  const Policy policy;
  Budget budget;
  constexpr Resource kPaid[] = {Resource::kBytesIn, Resource::kBytesOut, Resource::kTokens};
  for (const Resource resource : kPaid) budget.set(resource, 1'000);
  QuickModel model;
  QuickPerson person;
  LocalBroker broker(policy, budget, &model, &person);
  expect_refused(broker.http({"GET", "https://example.org/x", {}, ""}), Errno::kAccess,
                 "--allow 'http:GET:https://example.org/*'");
  expect_refused(broker.file_read("/data/x", UINT64_MAX), Errno::kAccess,
                 "--allow fs:read:HOST_DIRECTORY:/data");
  expect_refused(broker.file_write("/data/x", "", FileMode::kAppend), Errno::kAccess,
                 "--allow fs:write:HOST_DIRECTORY:/data");
  expect_refused(broker.file_read("/notes.txt", UINT64_MAX), Errno::kAccess,
                 "--allow fs:read:HOST_DIRECTORY:/");
  expect_refused(broker.file_list("/data"), Errno::kAccess, "--allow fs:read:HOST_DIRECTORY:/data");
  expect_refused(broker.file_stat("/data"), Errno::kAccess, "--allow fs:read:HOST_DIRECTORY:/data");
  expect_refused(broker.file_remove("/data/x"), Errno::kAccess, "--allow fs:write:HOST_DIRECTORY:/data");
  expect_refused(broker.kv_get("a"), Errno::kAccess, "--allow kv");
  expect_refused(broker.kv_set("a", "b"), Errno::kAccess, "--allow kv");
  expect_refused(broker.kv_remove("a"), Errno::kAccess, "--allow kv");
  expect_refused(broker.kv_keys(""), Errno::kAccess, "--allow kv");
  Work work;
  expect_refused(broker.sql_query("papers", "SELECT 1", "", work), Errno::kAccess,
                 "--allow sql:papers:FILE.db");
  expect_refused(broker.ai_complete({"", "hello", 0}), Errno::kAccess, "--allow ai");
  expect_refused(broker.ai_embed("hello"), Errno::kAccess, "--allow ai");
  expect_refused(broker.ask("hello?"), Errno::kAccess, "--allow ask");
  for (const Resource resource : kPaid)
    EXPECT_EQ(budget.left(resource), 1'000u) << "what is refused costs nothing: " << name_of(resource);
}

TEST(LocalBroker, WhatAGrantRefusesCostsNothing) {
  Policy policy;
  ASSERT_TRUE(policy::allow(policy, "kv"));
  policy.kv->prefix = "mine/";
  ASSERT_TRUE(policy::allow(policy, "ai"));
  ASSERT_TRUE(policy::allow(policy, "http:POST:https://example.org/*"));
  Budget budget;
  budget.set(Resource::kBytesOut, 1'000);
  QuickModel model;
  LocalBroker broker(policy, budget, &model, nullptr);
  expect_refused(broker.kv_set("yours", "value"), Errno::kAccess, "kv.prefix = \"\"");
  expect_refused(broker.ai_embed("hello"), Errno::kAccess, "embed = true in [ai]");
  expect_refused(broker.http({"PUT", "https://example.org/", {}, "body"}), Errno::kAccess,
                 "--allow 'http:PUT:https://example.org/*'");
  EXPECT_EQ(budget.left(Resource::kBytesOut), 1'000u);
}

TEST(LocalBroker, TheVirtualClockAndTheSeededRandomnessAreAlwaysThere) {
  const Policy policy;
  Budget budget;
  LocalBroker one(policy, budget, nullptr, nullptr), two(policy, budget, nullptr, nullptr);
  EXPECT_EQ(one.clock_ms(), policy.time.start_ms);
  EXPECT_EQ(one.random_bytes(32).value(), two.random_bytes(32).value());
}

TEST(LocalBroker, FetchesReadsAndStoresUnderItsGrants) {
  RawServer server([](RawConnection& connection, const std::string&) {
    connection.send(http_response("200 OK", "", "page"));
  });
  char name[] = "/tmp/membrane_broker_XXXXXX";
  const std::filesystem::path root = mkdtemp(name);
  std::ofstream(root / "a") << "file";
  Policy policy;
  ASSERT_TRUE(policy::allow(policy, "http:GET:" + server.url("/*")));
  ASSERT_TRUE(policy::allow(policy, "fs:write:" + root.string() + ":/d"));
  ASSERT_TRUE(policy::allow(policy, "kv"));
  Budget budget;
  LocalBroker broker(policy, budget, nullptr, nullptr);
  EXPECT_EQ(broker.http({"GET", server.url("/"), {}, ""})->body, "page");
  EXPECT_EQ(broker.file_read("/d/a", UINT64_MAX), "file");
  EXPECT_TRUE(broker.file_write("/d/b", "new", FileMode::kCreateOrReplace));
  EXPECT_EQ(broker.file_list("/d")->size(), 2u);
  EXPECT_EQ(broker.file_stat("/d/b")->size_bytes, 3u);
  EXPECT_TRUE(broker.file_remove("/d/b"));
  EXPECT_TRUE(broker.kv_set("k", "v"));
  EXPECT_EQ(broker.kv_get("k"), "v");
  EXPECT_EQ(broker.kv_keys(""), std::vector<std::string>{"k"});
  EXPECT_TRUE(broker.kv_remove("k"));
  std::filesystem::remove_all(root);
}

TEST(LocalBroker, ADirectoryThatDoesNotExistFailsTheCallThatNeedsIt) {
  Policy policy;
  ASSERT_TRUE(policy::allow(policy, "fs:read:/nowhere/at/all"));
  ASSERT_TRUE(policy::allow(policy, "kv"));
  Budget budget;
  LocalBroker broker(policy, budget, nullptr, nullptr);
  EXPECT_TRUE(broker.kv_set("k", "v"));
  expect_refused(broker.file_read("/all/x", UINT64_MAX), Errno::kNotFound, "");
  expect_refused(broker.file_read("/all/x", UINT64_MAX), Errno::kNotFound, "");
}

TEST(LocalBroker, StoresTakeFromTheBudgetOfBytes) {
  Policy policy;
  ASSERT_TRUE(policy::allow(policy, "kv"));
  Budget budget;
  budget.set(Resource::kBytesOut, 4);
  budget.set(Resource::kBytesIn, 3);
  LocalBroker broker(policy, budget, nullptr, nullptr);
  EXPECT_TRUE(broker.kv_set("k", "abc"));
  expect_refused(broker.kv_set("k", ""), Errno::kBudget, "");
  EXPECT_EQ(broker.kv_get("k"), "abc");
  expect_refused(broker.kv_get("k"), Errno::kBudget, "");
}

TEST(LocalBroker, AModelIsAskedWithinGrantAndBudget) {
  Policy policy;
  policy.ai.emplace().max_tokens_per_call = 100;
  Budget budget;
  budget.set(Resource::kTokens, 20);
  QuickModel model;
  LocalBroker broker(policy, budget, &model, nullptr);
  ASSERT_TRUE(broker.ai_complete({"be brief", "hello", 0}));
  EXPECT_EQ(model.asked.max_tokens, 20u);  // at most what is left
  EXPECT_EQ(model.timeout_ms, policy.ai->timeout_ms);
  EXPECT_EQ(budget.left(Resource::kTokens), 8u);
  ASSERT_TRUE(broker.ai_complete({"", "hello", 3}));
  EXPECT_EQ(model.asked.max_tokens, 3u);
  EXPECT_EQ(budget.left(Resource::kTokens), 0u);
  expect_refused(broker.ai_complete({"", "hello", 3}), Errno::kBudget, "");
}

TEST(LocalBroker, EmbeddingIsGrantedByItself) {
  Policy policy;
  policy.ai.emplace();
  Budget budget;
  QuickModel model;
  LocalBroker broker(policy, budget, &model, nullptr);
  expect_refused(broker.ai_embed("x"), Errno::kAccess, "embed = true in [ai]");
  policy.ai->embed = true;
  EXPECT_EQ(broker.ai_embed("x")->size(), 2u);
}

TEST(LocalBroker, WithoutAModelOrAPersonItSaysSo) {
  Policy policy;
  policy.ai.emplace();
  policy.ask = true;
  Budget budget;
  LocalBroker nobody(policy, budget, nullptr, nullptr);
  expect_refused(nobody.ai_complete({"", "x", 0}), Errno::kUnsupported, "");
  expect_refused(nobody.ask("x"), Errno::kUnsupported, "");
  QuickPerson person;
  LocalBroker broker(policy, budget, nullptr, &person);
  EXPECT_EQ(broker.ask("there?"), "re: there?");
}

TEST(LocalBroker, NothingIsAskedWhenTheTimeIsUsedUp) {
  Policy policy;
  policy.ai.emplace();
  policy.ask = true;
  Budget budget;
  budget.set_deadline(std::chrono::steady_clock::now() - std::chrono::seconds(1));
  QuickModel model;
  QuickPerson person;
  LocalBroker broker(policy, budget, &model, &person);
  expect_refused(broker.ai_complete({"", "x", 0}), Errno::kBudget, "");
  expect_refused(broker.ask("x"), Errno::kBudget, "");
  EXPECT_EQ(model.timeout_ms, 0u);
}

}  // namespace
}  // namespace membrane::host
