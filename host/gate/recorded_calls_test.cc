#include "host/gate/recorded_calls.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "host/gate/broker_gate.h"
#include "host/world/local_broker.h"

namespace membrane::host {
namespace {

using policy::Policy;

Policy allowing(std::initializer_list<const char*> flags) {
  Policy policy;
  for (const char* const flag : flags) EXPECT_TRUE(policy::allow(policy, flag)) << flag;
  return policy;
}

// Stores what each call was decided by, as a receipt does.
class Keeper final : public JournalSink {
 public:
  struct Kept {
    std::string function;
    std::vector<std::string> decided_by;
    Errno code;
    std::string reason, grant;
  };
  std::vector<Kept> calls;
  Status append(JournalEntry entry, const WriteResult&) override {
    calls.push_back({entry.function, entry.decided_by, entry.code, entry.reason, entry.grant});
    return {};
  }
  void drop_last() override { calls.pop_back(); }
};

class Echo final : public Model {
 public:
  HostResult<ChatAnswer> complete(const ChatRequest& request, uint64_t) override {
    return ChatAnswer{request.prompt, 1, 1};
  }
  HostResult<std::vector<float>> embed(std::string_view, uint64_t) override { return std::vector<float>{1}; }
};

// What a program might request, of everything that can be granted.
void ask_everything(Broker& broker) {
  (void)broker.http({"GET", "http://127.0.0.1:1/a", {}, ""});
  (void)broker.http({"POST", "http://127.0.0.1:1/b/c", {}, "body"});
  (void)broker.http({"GET", "http://10.0.0.1/", {}, ""});
  for (const char* const path : {"/", "/in", "/in/x", "/out", "/out/y", "/else/z"}) {
    (void)broker.file_read(path, 1000);
    (void)broker.file_list(path);
    (void)broker.file_stat(path);
    (void)broker.file_write(path, "text", FileMode::kCreateOrReplace);
    (void)broker.file_write(path, "text", FileMode::kAppend);
    (void)broker.file_open(path, {});
    (void)broker.file_open(path, {.write = true, .create = true});
    (void)broker.path_status(path);
    (void)broker.path_set_times(path, {});
    (void)broker.directory_make(path);
    (void)broker.path_rename(path, "/out/moved");
    (void)broker.path_unlink(path);
    (void)broker.file_remove(path);
    (void)broker.directory_remove(path);
    (void)broker.path_find_link(path);
  }
  for (const char* const key : {"a", "notes:a"}) {
    (void)broker.kv_get(key);
    (void)broker.kv_set(key, "value");
    (void)broker.kv_remove(key);
  }
  (void)broker.kv_keys("");
  Work work{};
  (void)broker.sql_query("papers", "SELECT 1", "", work);
  (void)broker.ai_complete({"", "prompt", 0});
  (void)broker.ai_embed("text");
  (void)broker.ask("question");
  (void)broker.clock_ms();
  (void)broker.clock_ns();
  (void)broker.random_bytes(4);
}

class RecordedCalls : public testing::Test {
 protected:
  RecordedCalls() {
    std::string pattern = (std::filesystem::temp_directory_path() / "recorded.XXXXXX").string();
    folder = mkdtemp(pattern.data());
    for (const char* const name : {"in", "out"}) std::filesystem::create_directory(folder / name);
  }
  ~RecordedCalls() override { std::filesystem::remove_all(folder); }
  [[nodiscard]] std::string in(const char* name) const { return (folder / name).string(); }

  std::filesystem::path folder;
};

// The main guarantee: what the broker refused for lack of a grant, and nothing else, the judge refuses, in the same
// words.
TEST_F(RecordedCalls, AreJudgedAsTheBrokerDecidedThem) {
  Policy notes;
  notes.kv = policy::KvGrant{.path = "", .writable = false, .prefix = "notes:"};
  for (const Policy& policy :
       {Policy(), allowing({"http:GET:http://127.0.0.1:1/*"}), allowing({"kv", "ai", "ask"}), notes,
        allowing({("fs:read:" + in("in") + ":/in").c_str(), ("fs:write:" + in("out") + ":/out").c_str()}),
        allowing({("fs:read:" + in("in") + ":/").c_str(), ("fs:write:" + in("out") + ":/out").c_str()})}) {
    policy::Budget budget(policy.limits);
    Echo model;
    LocalBroker world(policy, budget, &model, nullptr);
    Keeper keeper;
    BrokerGate gate = BrokerGate::to_world(world, &budget, &keeper);
    ask_everything(gate);
    auto judge = CallJudge::create(policy);
    ASSERT_TRUE(judge) << judge.error().to_string();
    for (const Keeper::Kept& call : keeper.calls) {
      const auto refused = judge->judge({call.function, call.decided_by});
      ASSERT_TRUE(refused) << call.function << ": " << refused.error().to_string();
      const std::string about = call.function + "(" + (call.decided_by.empty() ? "" : call.decided_by[0]) +
                                ") was answered: " + call.reason;
      ASSERT_EQ(refused->has_value(), call.code == Errno::kAccess) << about;
      if (!*refused) continue;
      EXPECT_EQ((*refused)->grant, call.grant) << about;
      const bool depends_on_operation = call.reason.contains("itself granted");
      EXPECT_TRUE(depends_on_operation || (*refused)->reason == call.reason) << about << (*refused)->reason;
    }
  }
}

// "": nothing is refused.
std::string judged(const Policy& policy, std::string_view function, std::vector<std::string> decided_by) {
  auto judge = CallJudge::create(policy);
  const auto refused = judge->judge({function, decided_by});
  EXPECT_TRUE(refused) << refused.error().to_string();
  return refused && *refused ? (*refused)->reason + " " + (*refused)->grant : "";
}

TEST_F(RecordedCalls, ConnectionsOfLinuxProgramsAreJudged) {
  const Policy host = allowing({"http:a.org"}), single = allowing({"http:GET:https://a.org/x"});
  EXPECT_EQ(judged(host, "http.connect", {"https://a.org/"}), "");
  EXPECT_EQ(judged(host, "http.connect", {"a.org:80"}), "");
  EXPECT_EQ(judged(host, "net.resolve", {"a.org"}), "");
  EXPECT_EQ(judged(host, "net.resolve", {"b.org"}), "No grant names the host b.org. --allow http:b.org");
  EXPECT_EQ(judged(host, "http.connect", {"192.0.2.1:80"}),
            "No grant reaches 192.0.2.1:80. --allow http:192.0.2.1:80");
  EXPECT_NE(judged(single, "http.connect", {"https://a.org/"}), "");
  EXPECT_EQ(judged(single, "http.connect", {"a.org:443"}), "");
  EXPECT_NE(judged(single, "http.connect", {"a.org:80"}), "");
  Policy none;
  none.limits.host_calls = 0;
  EXPECT_EQ(judged(none, "net.resolve", {"b.org"}), "No grant names the host b.org. --allow http:b.org");
}

TEST_F(RecordedCalls, GrantedDirectoriesOfLinuxProgramsAreJudged) {
  const Policy policy =
      allowing({("fs:read:" + in("in") + ":/data/in").c_str(), ("fs:write:" + in("out") + ":/out").c_str()});
  for (const char* const path : {"/data/in", "/out", "/out/below"})
    EXPECT_EQ(judged(policy, "directory.read", {path}), "");
  EXPECT_EQ(judged(policy, "directory.write", {"/out"}), "");
  EXPECT_NE(judged(policy, "directory.write", {"/data/in"}), "");
  EXPECT_NE(judged(policy, "directory.read", {"/data"}), "");  // only a part of it is granted
}

TEST_F(RecordedCalls, EveryFunctionOfTheBrokerIsKnown) {
  const Policy policy;
  policy::Budget budget(policy.limits);
  LocalBroker world(policy, budget, nullptr, nullptr);
  Keeper keeper;
  BrokerGate gate = BrokerGate::to_world(world, nullptr, &keeper);
  ask_everything(gate);
  (void)gate.link_make_symbolic("a", "/b");
  (void)gate.link_make_hard("/a", "/b");
  (void)gate.file_read_at(1, 0, 1);
  (void)gate.file_write_at(1, 0, "x");
  (void)gate.file_resize(1, 0);
  (void)gate.file_status(1);
  (void)gate.file_sync(1);
  (void)gate.file_close(1);
  (void)gate.directories({"read:/a"});
  CallJudge judge = CallJudge::create(policy).value();
  for (const Keeper::Kept& call : keeper.calls) {
    EXPECT_TRUE(judge.judge({call.function, call.decided_by})) << call.function;
    EXPECT_EQ(call.decided_by.size(), deciding_arguments(call.function)) << call.function;
  }
  EXPECT_EQ(judge.judge({"world.end", {}}).error().code, ErrorCode::kUnsupported);
}

TEST_F(RecordedCalls, ARedirectIsJudgedByWhereItLed) {
  CallJudge judge = CallJudge::create(allowing({"http:GET:http://127.0.0.1:1/a/*"})).value();
  const std::vector<std::string> asked = {"GET", "http://127.0.0.1:1/a/x"};
  EXPECT_FALSE(judge.judge({"http.request", asked, "http://127.0.0.1:1/a/y"})->has_value());
  const auto refused = judge.judge({"http.request", asked, "http://127.0.0.1:1/b"}).value();
  ASSERT_TRUE(refused);
  EXPECT_TRUE(refused->reason.starts_with("The server redirects to what no grant allows")) << refused->reason;
}

TEST_F(RecordedCalls, HostCallsAreCountedForEachRun) {
  Policy policy = allowing({"kv"});
  policy.limits.host_calls = 2;
  CallJudge judge = CallJudge::create(policy).value();
  const std::vector<std::string> key = {"a"};
  for (int run = 0; run < 2; ++run) {
    EXPECT_FALSE(judge.judge({"kv.get", key})->has_value());
    for (int i = 0; i < 255; ++i) EXPECT_FALSE(judge.judge({"time.now_ns", {}})->has_value());
    EXPECT_FALSE(judge.judge({"time.now_ns", {}})->has_value());  // 256 of them count as one
    EXPECT_EQ(judge.judge({"kv.get", key}).value()->code, Errno::kBudget);
    judge.begin_run();
  }
}

}  // namespace
}  // namespace membrane::host
