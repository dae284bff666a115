#include "host/call_ledger.h"

#include <gtest/gtest.h>

#include "host/broker_gate.h"
#include "host/machine_testing.h"

namespace membrane::host {
namespace {

// A program's calls through the gate, noted on both sides.
class Ledger : public testing::Test {
 protected:
  Ledger() { gate.note_in(&ledger); }

  std::optional<std::string> difference(std::vector<CallRecord> lines, uint64_t dropped = 0,
                                        bool is_full = false) const {
    return ledger.difference({.lines = lines, .dropped = dropped, .is_full = is_full});
  }
  std::vector<CallRecord> lines() { return machine.dispatcher.records(); }

  TestWorld world;
  policy::Budget budget;
  BrokerGate gate = BrokerGate::to_world(world, &budget, nullptr);
  Machine machine{&gate};
  CallLedger ledger;
};

TEST_F(Ledger, EveryCallThatAProgramCanMakeIsTold) {
  world.pages["http://h/"] = {.status = 200, .headers = {}, .body = "page", .final_url = "http://h/"};
  world.embeddings["x"] = {1};
  world.embeddings["y"] = {1};
  const std::string far(5'000, 'u');
  machine.call("http.get", {"http://h/"});
  machine.call("http.get", {"http://denied/" + far});
  machine.call("http.post", {"http://h/", "text/plain", "body"});
  machine.call("http.request", {"get", "http://h/", R"({"A":"b"})", ""});
  machine.call("http.request", {"GET", "http://h/", "no headers", ""});
  machine.call("http.exchange", {"GET", "http://h/", "", ""});
  machine.call("http.get_many",
               {R"(["http://h/","http://denied/",{"url":"http://h/","method":"post","body":"b"}])"});
  machine.call("fs.write", {"/data/a", "1"});
  machine.call("fs.append", {"/data/a", std::string("\0\xFF", 2)});
  machine.call("fs.read", {"/data/a"});
  machine.call("fs.read", {"/data/none"});
  machine.call("fs.list", {"/data"});
  machine.call("fs.size", {"/data/a"});
  machine.call("fs.exists", {"/data/none"});
  machine.call("fs.exists", {"/data/a"});
  machine.call("fs.remove", {"/data/a"});
  machine.call("kv.set", {"k", far});
  machine.call("kv.set", {"", "v"});
  machine.call("kv.get", {"k"});
  machine.call("kv.exists", {"k"});
  machine.call("kv.exists", {"none"});
  machine.call("kv.keys", {""});
  machine.call("kv.delete", {"k"});
  machine.call("kv.delete", {"k"});
  machine.call("sql.query", {"db", "SELECT 1", ""});
  machine.call("sql.value", {"db", "SELECT " + far, ""});
  machine.call("sql.schema", {"db"});
  machine.call("ai.complete", {"hi"});
  machine.call("ai.complete_with", {"", "hi", 5});
  machine.call("ai.embed", {"x"});
  machine.call("ai.similarity", {"x", "y"});
  machine.call("ai.similarity", {"x", "none"});
  machine.call("time.now_ms");
  machine.call("random.i64");
  machine.call("agent.ask", {"sure?"});
  EXPECT_GT(lines().size(), 30u);
  EXPECT_EQ(difference(lines()), std::nullopt);
  // Each alone is missed.
  for (size_t i = 0; i < lines().size(); ++i) {
    auto fewer = lines();
    const CallRecord out = fewer[i];
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    const bool is_malformed = out.name == "http.request" && out.code == Errno::kInvalid;
    const bool was_asked = !is_malformed && out.name != "time.now_ms";
    EXPECT_EQ(difference(fewer).has_value(), was_asked) << out.name << " " << out.arguments;
  }
}

TEST_F(Ledger, WhatWasDoneIsTold) {
  machine.call("fs.write", {"/data/a", "12"});
  machine.call("fs.read", {"/data/a"});
  EXPECT_EQ(difference({}), "leaves out fs.write of /data/a, 12");
  EXPECT_EQ(difference({}, 1, true), "leaves out fs.write of /data/a, 12");
  EXPECT_EQ(difference({}, 2, true), std::nullopt) << "a list that is full";
  EXPECT_EQ(difference({}, 2), "leaves out fs.write of /data/a, 12") << "one that has room";
  auto other = lines();
  other[1].bytes_in = 1;
  EXPECT_EQ(difference(other), "lists fs.read of /data/a, which was not asked for so");
  other = lines();
  other[0].arguments = "/data/b, 12";
  EXPECT_EQ(difference(other), "lists fs.write of /data/b, 12, which was not asked for so");
  other = lines();
  std::swap(other[0], other[1]);
  EXPECT_EQ(difference(other), "lists fs.write of /data/a, 12 out of its order");
  other = lines();
  other.push_back({.name = "fs.write_all"});
  EXPECT_EQ(difference(other), "lists fs.write_all of , which no program can call");
  ledger.begin();
  EXPECT_EQ(difference({}), std::nullopt);
}

TEST_F(Ledger, ARefusalIsToldWithItsReason) {
  machine.call("http.get", {"http://denied/"});
  ASSERT_EQ(lines().size(), 1u);
  auto other = lines();
  other[0].reason = "It was fine.";
  EXPECT_TRUE(difference(other).has_value());
  other = lines();
  other[0].grant = "--allow fs:write:/:/";
  EXPECT_TRUE(difference(other).has_value());
}

// Its answer came, and a worker says that there was none.
TEST_F(Ledger, ASuccessIsNotToldAsAFailureOfTheWorld) {
  world.embeddings["x"] = world.embeddings["y"] = {1};
  machine.call("kv.set", {"k", "v"});
  machine.call("kv.get", {"k"});
  world.rows = R"([{"a":1}])";
  machine.call("sql.value", {"db", "SELECT 1", ""});
  machine.call("ai.similarity", {"x", "y"});
  ASSERT_EQ(lines().size(), 4u);
  for (size_t i = 0; i < 4; ++i)
    for (const Errno code : {Errno::kConnection, Errno::kTimedOut, Errno::kNotFound, Errno::kProtocol,
                             Errno::kHost, Errno::kQuota, Errno::kTooBig, Errno::kNoMemory}) {
      auto other = lines();
      other[i].code = code;
      other[i].reason = "so it says";
      other[i].bytes_in = 0;
      const bool is_of_sql = i == 2 && (code == Errno::kTooBig || code == Errno::kHost);
      const bool can_be = code == Errno::kNoMemory || is_of_sql || (i == 3 && code == Errno::kProtocol);
      EXPECT_EQ(difference(other).has_value(), !can_be) << other[i].name << " " << name_of(code);
    }
}

TEST_F(Ledger, AFailureAfterASuccessIsTold) {
  machine.call("sql.value", {"db", "SELECT 1", ""});  // gives no row
  ASSERT_EQ(lines().at(0).code, Errno::kNotFound);
  EXPECT_EQ(difference(lines()), std::nullopt);
  machine.call("kv.set", {"k", std::string(1'000'000, 'v')});
  for (int i = 0; i < 100; ++i) machine.call("kv.get", {"k"});  // until there is no room
  ASSERT_EQ(lines().back().code, Errno::kNoMemory);
  EXPECT_EQ(difference(lines()), std::nullopt);
}

TEST_F(Ledger, AFileThatIsOnlyMadeShorterIsTold) {
  const std::string_view open[] = {"/data/a", "w"}, resize[] = {"7", "0"}, close[] = {"7"};
  ledger.note("fs.open", open, nullptr, 0, 7);
  ledger.note("fs.resize", resize, nullptr, 0, {});
  ledger.note("fs.close", close, nullptr, 0, {});
  EXPECT_EQ(difference({}), "leaves out fs.file_written of /data/a");
  EXPECT_EQ(difference({{.name = "fs.file_written", .arguments = "/data/a"}}), std::nullopt);
  EXPECT_EQ(ledger.lines().back().name, "fs.file_written");
}

// Each line against each request would take minutes.
TEST_F(Ledger, AListThatFitsNothingIsRefusedSoon) {
  const std::string_view asked[] = {"/data/a", "12"};
  const HostError denied{Errno::kAccess, "no", ""};
  for (size_t i = 0; i < CallLedger::kMostEntries; ++i) ledger.note("fs.write", asked, &denied, 0, {});
  std::vector<CallRecord> lines(Dispatcher::kMaxRecords, {.name = "fs.write", .code = Errno::kNoMemory});
  EXPECT_EQ(difference(lines), "lists calls in no order that a program makes them in");
}

TEST_F(Ledger, FilesThatStayOpenAreToldWhenTheyAreClosed) {
  const std::string_view open[] = {"/data/a", ""}, read[] = {"7", "0", "100"}, close[] = {"7"};
  ledger.note("fs.open", open, nullptr, 0, 7);
  ledger.note("fs.read_at", read, nullptr, 100, {});
  const CallRecord opened{.name = "fs.open", .arguments = "/data/a"};
  const CallRecord was_read{.name = "fs.file_read", .arguments = "/data/a", .bytes_in = 100};
  const std::vector<CallRecord> one = {opened};
  EXPECT_EQ(ledger.difference({.lines = one, .is_paused = true}), std::nullopt);
  EXPECT_EQ(difference({opened}), "leaves out fs.file_read of /data/a");
  ledger.note("fs.close", close, nullptr, 0, {});
  EXPECT_TRUE(ledger.difference({.lines = one, .is_paused = true}).has_value());
  EXPECT_EQ(difference({opened, was_read}), std::nullopt);
  EXPECT_EQ(difference({was_read}), std::nullopt) << "a fork opens its files again";
  CallRecord less = was_read;
  less.bytes_in = 50;
  EXPECT_EQ(difference({opened, less}), "lists fs.file_read of /data/a, which is not so");
}

}  // namespace
}  // namespace membrane::host
