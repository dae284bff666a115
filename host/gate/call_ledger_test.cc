#include "host/gate/call_ledger.h"

#include <gtest/gtest.h>

#include "host/gate/broker_gate.h"
#include "host/world/machine_testing.h"

namespace membrane::host {
namespace {

// A program's calls through the gate, recorded on both sides.
class Ledger : public testing::Test {
 protected:
  Ledger() { gate.note_in(&ledger); }

  std::optional<std::string> difference(std::vector<CallRecord> lines, uint64_t dropped = 0) const {
    return ledger.difference({.lines = lines, .dropped = dropped});
  }
  void ask(std::string_view function, std::vector<std::string_view> arguments,
           const HostError* error = nullptr, std::optional<uint64_t> handle = {}) {
    ledger.note(function, arguments, error, 0, handle);
  }
  std::vector<CallRecord> lines() { return machine.dispatcher.records(); }

  TestWorld world;
  policy::Budget budget;
  BrokerGate gate = BrokerGate::to_world(world, &budget, nullptr);
  Machine machine{&gate};
  CallLedger ledger;
};

TEST_F(Ledger, EveryCallThatAProgramCanMakeIsListed) {
  world.pages["http://h/"] = {.status = 200, .headers = {}, .body = "page", .final_url = "http://h/"};
  world.pages["http://r/"] = {.status = 200, .headers = {}, .body = "there", .final_url = "http://h/"};
  world.redirects["http://r/"] = {"http://h/b?token=secret", "http://h/"};
  world.embeddings["x"] = {1};
  world.embeddings["y"] = {1};
  const std::string far(5'000, 'u');
  machine.call("http.get", {"http://h/"});
  machine.call("http.get", {"http://denied/" + far});
  machine.call("http.get", {"http://r/"});
  machine.call("http.post", {"http://h/", "text/plain", "body"});
  machine.call("http.request", {"get", "http://h/", R"({"A":"b"})", ""});
  machine.call("http.request", {"GET", "http://h/", "no headers", ""});
  machine.call("http.exchange", {"GET", "http://h/", "", ""});
  machine.call("http.exchange", {"GET", "http://h/?key=secret", R"({"Authorization":"secret"})", ""});
  machine.call("http.get", {"http://h/?token=" + far});
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
  // Omitting any single line is detected.
  for (size_t i = 0; i < lines().size(); ++i) {
    auto fewer = lines();
    const CallRecord out = fewer[i];
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    const bool is_malformed = out.name == "http.request" && out.code == Errno::kInvalid;
    const bool was_asked = !is_malformed && out.name != "time.now_ms";
    EXPECT_EQ(difference(fewer).has_value(), was_asked) << out.name << " " << out.arguments;
  }
}

TEST_F(Ledger, EachRequestThatARedirectMakesHasALine) {
  world.pages["http://h/"] = {.status = 200, .headers = {}, .body = "there", .final_url = "http://h/c"};
  world.redirects["http://h/"] = {"http://h/b?token=secret", "http://h/c"};
  world.redirects["http://far/"] = {"http://h/d"};
  world.failures["http://far/"] = {Errno::kTimedOut, "it took too long", {}};
  machine.call("http.get", {"http://h/"});
  machine.call("http.get", {"http://far/"});
  machine.call("http.get_many", {R"(["http://h/","http://far/"])"});
  std::string shown;
  for (const CallRecord& record : machine.dispatcher.records())
    shown += record.name + " " + record.arguments + " " + std::string(name_of(record.code)) + "\n";
  EXPECT_EQ(shown,
            "http.get http://h/ OK\n"
            "http.redirect GET, http://h/b?token=*** OK\n"
            "http.redirect GET, http://h/c OK\n"
            "http.get http://far/ ETIMEDOUT\n"
            "http.redirect GET, http://h/d OK\n"
            "http.get_many GET, http://h/ OK\n"
            "http.redirect GET, http://h/b?token=*** OK\n"
            "http.redirect GET, http://h/c OK\n"
            "http.get_many GET, http://far/ ETIMEDOUT\n"
            "http.redirect GET, http://h/d OK\n");
}

TEST_F(Ledger, EverythingThatWasDoneIsListed) {
  machine.call("fs.write", {"/data/a", "12"});
  machine.call("fs.read", {"/data/a"});
  EXPECT_EQ(difference({}), "leaves out fs.write of /data/a, 12");
  EXPECT_EQ(difference({}, 2), "leaves out fs.write of /data/a, 12") << "a list that has room";
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

// -- the content of a line

std::string times(size_t count, std::string_view text) {
  std::string out;
  while (count-- > 0) out += text;
  return out;
}

// Each call with arguments that fit in a line, or are cut: before, inside and after a character, and between two
// arguments.
TEST_F(Ledger, ALineShowsAsMuchOfItsCallAsADispatcherDoes) {
  for (size_t bytes = 190; bytes <= 205; ++bytes)
    for (const std::string_view letter : {"x", "é", "€", "😀"}) {
      const std::string text = times(bytes / letter.size(), letter);
      machine.call("kv.set", {text, "value"});
      machine.call("kv.set", {text.substr(0, text.size() / letter.size() / 2 * letter.size()), text});
      machine.call("kv.set", {"k", text + "\xFF\x80"});
      machine.call("kv.get", {text});
      machine.call("sql.query", {"db", text, "[1]"});
      machine.call("sql.query", {text, "SELECT 1", "[1]"});
      machine.call("sql.schema", {text});
      machine.call("http.get", {"http://" + text});
      machine.call("http.post", {"http://" + text, "text/plain", "body"});
      machine.call("http.post", {"http://h/", text, "body"});
      machine.call("http.request", {"put", "http://" + text, "", "body"});
      machine.call("http.request", {text, "http://h/", "", ""});
      machine.call("http.get_many", {R"([{"method":"put","url":"http://)" + text + R"("}])"});
      machine.call("ai.complete", {text});
      machine.call("ai.complete_with", {text, text, 5});
      machine.call("ai.similarity", {text, "y"});
      machine.call("agent.ask", {text});
    }
  EXPECT_EQ(lines().size(), 16u * 4 * 17);
  EXPECT_EQ(difference(lines()), std::nullopt);
}

TEST_F(Ledger, AShorterOrLongerTargetIsAnother) {
  const std::string path = "/data/" + std::string(300, 'p');
  machine.call("kv.set", {"key", "value"});
  machine.call("fs.read", {path});
  machine.call("http.get", {"http://h/" + std::string(300, 'u')});
  machine.call("sql.query", {"db", "SELECT 1", "[2]"});
  ASSERT_EQ(difference(lines()), std::nullopt);
  for (size_t i = 0; i < lines().size(); ++i) {
    const std::string shown = lines()[i].arguments;
    for (const std::string& other :
         {shown.substr(0, shown.size() - 1), shown + "x", shown + ", x", shown + "…",
          shown.substr(0, 100) + "…", shown.substr(0, 3), std::string("…"), std::string()}) {
      auto lie = lines();
      lie[i].arguments = other;
      EXPECT_TRUE(difference(lie)) << lie[i].name << " " << other;
    }
  }
}

TEST_F(Ledger, PathsOfWasiAreShownWhole) {
  const std::string path = "/data/" + std::string(1'000, 'p');
  ask("fs.unlink", {path});
  ask("fs.symlink", {"target", path});
  const CallRecord gone{.name = "fs.unlink", .arguments = path};
  CallRecord made{.name = "fs.symlink", .arguments = path};
  EXPECT_EQ(difference({gone, made}), std::nullopt);
  made.arguments.back() = 'q';
  EXPECT_TRUE(difference({gone, made}));
  made.arguments = path.substr(0, 256);
  EXPECT_TRUE(difference({gone, made}));
}

TEST_F(Ledger, OnlyAMethodIsWrittenInEitherCase) {
  world.pages["http://h/Secret?A=b"] = {
      .status = 200, .headers = {}, .body = "page", .final_url = "http://h/"};
  machine.call("http.request", {"gEt", "http://h/Secret?A=b", "", ""});
  ASSERT_EQ(lines()[0].arguments, "gEt, http://h/Secret?A=b, , ");
  const auto difference_for = [&](const std::string& arguments) {
    auto other = lines();
    other[0].arguments = arguments;
    return difference(other);
  };
  EXPECT_EQ(difference_for("GET, http://h/Secret?A=b, , "), std::nullopt);
  EXPECT_TRUE(difference_for("gEt, http://h/secret?A=b, , "));
  EXPECT_TRUE(difference_for("gEt, http://h/Secret?a=b, , "));
  EXPECT_TRUE(difference_for("gEt, HTTP://h/Secret?A=b, , "));
}

TEST_F(Ledger, HeadersAreHiddenInNoOtherCall) {
  const std::string_view secret[] = {"GET", "http://h/", "", "X-Secret", "1"};
  ledger.note("http.request", secret, nullptr, 0, {});
  EXPECT_TRUE(difference({{.name = "http.get", .arguments = "http://h/", .bytes_out = 9}}));
  EXPECT_EQ(difference({{.name = "http.request", .arguments = "GET, http://h/, {}, ", .bytes_out = 14}}),
            std::nullopt);
}

// -- order and bounds

TEST_F(Ledger, FailuresAreInTheOrderOfTheirRequests) {
  machine.call("fs.read", {"/data/none"});
  machine.call("http.get", {"http://denied/"});
  machine.call("kv.get", {"none"});
  ASSERT_EQ(difference(lines()), std::nullopt);
  for (const auto& [one, other] : {std::pair(0, 1), std::pair(1, 2), std::pair(0, 2)}) {
    auto swapped = lines();
    std::swap(swapped[static_cast<size_t>(one)], swapped[static_cast<size_t>(other)]);
    const auto said = difference(swapped);
    ASSERT_TRUE(said);
    EXPECT_NE(said->find("out of its order"), std::string::npos) << *said;
  }
}

// Requests without a line are skipped.
TEST_F(Ledger, ALineBelongsToTheNextRequestThatFits) {
  ask("fs.open", {"/data/a", ""}, nullptr, 7);
  ask("fs.close", {"7"});
  ledger.begin();
  ask("fs.open", {"/data/a", ""}, nullptr, 8);  // silently
  ask("time.now_ms", {});
  ask("kv.delete", {"k"});
  ask("fs.open", {"/data/a", ""}, nullptr, 9);
  ask("time.now_ms", {});
  const CallRecord removed{.name = "kv.delete", .arguments = "k", .bytes_out = 1};
  const CallRecord opened{.name = "fs.open", .arguments = "/data/a"}, clock{.name = "time.now_ms"};
  EXPECT_EQ(difference({removed, opened, clock}), std::nullopt);
  EXPECT_EQ(difference({opened, removed, opened}), std::nullopt);
  EXPECT_EQ(difference({clock, removed, clock}), std::nullopt);
  EXPECT_TRUE(difference({removed, opened, opened}));
}

TEST_F(Ledger, TwoTextsAreEmbeddedOneAfterTheOther) {
  for (const char* const text : {"x", "x, y", "y, z", "z"}) world.embeddings[text] = {1};
  machine.call("ai.similarity", {"x, y", "z"});
  machine.call("ai.similarity", {"x", "y, z"});
  machine.call("ai.embed", {"x"});
  machine.call("ai.similarity", {"x", "none"});
  EXPECT_EQ(difference(lines()), std::nullopt);
  auto other = lines();
  other[0].arguments = "x, z";
  EXPECT_TRUE(difference(other));
}

TEST_F(Ledger, AReasonIsListedToItsEnd) {
  const std::string reason(900, 'r');
  const HostError denied{Errno::kAccess, reason, "--allow kv:" + reason};
  ask("kv.get", {"k"}, &denied);
  const CallRecord line{
      .name = "kv.get", .code = Errno::kAccess, .reason = reason, .grant = denied.grant, .arguments = "k"};
  EXPECT_EQ(difference({line}), std::nullopt);
  auto other = line;
  other.reason.back() = 's';
  EXPECT_TRUE(difference({other}));
  other = line;
  other.grant.back() = 's';
  EXPECT_TRUE(difference({other}));
}

TEST_F(Ledger, ASuccessHasNoReason) {
  machine.call("kv.set", {"k", "v"});
  auto other = lines();
  other[0].reason = "It was fine.";
  EXPECT_EQ(difference(other), "lists kv.set of k, v, in a line that no call has");
  other = lines();
  other[0].grant = "--allow kv";
  EXPECT_TRUE(difference(other));
}

TEST_F(Ledger, ALineIsNoLongerOrLargerThanOneIsMade) {
  for (size_t i = 0; i < CallLedger::kMostEntries; ++i) ask("time.now_ms", {});
  for (int i = 0; i < 2; ++i) ask("sql.query", {"db", "SELECT 1", ""});  // only counted
  const CallRecord line{.name = "sql.value", .arguments = "db, SELECT 2"};
  EXPECT_EQ(difference({line, line}), std::nullopt);
  auto other = line;
  other.arguments = std::string(604, 'x');
  EXPECT_TRUE(difference({line, other}));
  other = line;
  other.bytes_in = UINT64_MAX;
  EXPECT_TRUE(difference({line, other}));
  other = line;
  other.bytes_out = UINT64_MAX;
  EXPECT_TRUE(difference({line, other}));
  other = line;
  other.latency_us = UINT64_MAX;
  EXPECT_TRUE(difference({line, other}));
}

// The reasons for malformed arguments.
TEST_F(Ledger, CallsThatEndBeforeTheyAskSayWhy) {
  machine.call_raw("kv.get", {0xFFFF'FFFF});
  machine.call("kv.get", {"\xFF"});
  machine.call("http.post", {"http://h/", "text\n", ""});
  machine.call("http.request", {"G T", "http://h/", "", ""});
  machine.call("http.request", {"GET", "http://h/", "{", ""});
  machine.call("http.request", {"GET", "http://h/", "[]", ""});
  machine.call("http.request", {"GET", "http://h/", R"({"a b":""})", ""});
  machine.call("http.request", {"GET", "http://h/", R"({"a":1})", ""});
  machine.call("http.request", {"GET", "http://h/", R"({"a":"\n"})", ""});
  machine.call("http.request", {"GET", "http://h/", std::string(300'000, ' ') + "{}", ""});
  machine.call("http.get_many", {"{}"});
  machine.call("http.get_many", {"["});
  machine.call("http.get_many", {"[1]"});
  machine.call("http.get_many", {"[{}]"});
  machine.call("http.get_many", {R"([{"url":"http://h/","x":""}])"});
  machine.call("http.get_many", {R"([{"url":"http://h/","body_base64":"?"}])"});
  machine.call("http.get_many", {"[" + times(64, R"("http://h/",)") + R"("http://h/"])"});
  machine.call("ai.complete_with", {"", "", -1});
  ASSERT_EQ(lines().size(), 18u);
  EXPECT_EQ(difference(lines()), std::nullopt);
  EXPECT_TRUE(ledger.is_empty());
  for (size_t i = 0; i < lines().size(); ++i) {
    EXPECT_NE(lines()[i].code, Errno::kOk) << i;
    auto lie = lines();
    lie[i].reason = "The owner has to log in again at http://evil/.";
    EXPECT_TRUE(difference(lie)) << lines()[i].reason;
  }
}

TEST_F(Ledger, NoRequestsHaveNoLine) {
  EXPECT_EQ(machine.text("http.get_many", {"[]"}), "[]");
  EXPECT_TRUE(lines().empty());
  EXPECT_EQ(difference(lines()), std::nullopt);
}

TEST_F(Ledger, ARefusalIsListedWithItsReason) {
  machine.call("http.get", {"http://denied/"});
  ASSERT_EQ(lines().size(), 1u);
  auto other = lines();
  other[0].reason = "It was fine.";
  EXPECT_TRUE(difference(other).has_value());
  other = lines();
  other[0].grant = "--allow fs:write:/:/";
  EXPECT_TRUE(difference(other).has_value());
}

// Its answer came, and a worker claims that there was none.
TEST_F(Ledger, ASuccessIsNotListedAsAFailureOfTheWorld) {
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
      const bool is_of_vectors = i == 3 && (code == Errno::kProtocol || code == Errno::kHost);
      const bool can_be = (i > 0 && code == Errno::kNoMemory) || is_of_sql || is_of_vectors;
      EXPECT_EQ(difference(other).has_value(), !can_be) << other[i].name << " " << name_of(code);
    }
}

TEST_F(Ledger, AFailureAfterASuccessIsListed) {
  machine.call("sql.value", {"db", "SELECT 1", ""});  // returns no row
  ASSERT_EQ(lines().at(0).code, Errno::kNotFound);
  EXPECT_EQ(difference(lines()), std::nullopt);
  machine.call("kv.set", {"k", std::string(1'000'000, 'v')});
  for (int i = 0; i < 100; ++i) machine.call("kv.get", {"k"});  // until there is no room
  ASSERT_EQ(lines().back().code, Errno::kNoMemory);
  EXPECT_EQ(difference(lines()), std::nullopt);
}

TEST_F(Ledger, AFileThatIsOnlyMadeShorterIsListed) {
  const std::string_view open[] = {"/data/a", "w"}, resize[] = {"7", "0"}, close[] = {"7"};
  ledger.note("fs.open", open, nullptr, 0, 7);
  ledger.note("fs.resize", resize, nullptr, 0, {});
  ledger.note("fs.close", close, nullptr, 0, {});
  const CallRecord opened{.name = "fs.open", .arguments = "/data/a"};
  EXPECT_EQ(difference({opened}), "leaves out fs.file_written of /data/a");
  EXPECT_EQ(difference({opened, {.name = "fs.file_written", .arguments = "/data/a"}}), std::nullopt);
  EXPECT_EQ(ledger.lines().back().name, "fs.file_written");
}

// -- when a list is full

TEST_F(Ledger, AListThatIsFullSaysHowManyMoreThereWere) {
  constexpr uint64_t kMore = 3;
  std::vector<CallRecord> lines(Dispatcher::kMaxRecords,
                                {.name = "kv.delete", .arguments = "k", .bytes_out = 1});
  for (size_t i = 0; i < lines.size(); ++i) ask("kv.delete", {"k"});
  EXPECT_EQ(difference(lines), std::nullopt);
  for (uint64_t i = 0; i < kMore; ++i) ask("kv.set", {"k", "v"});
  EXPECT_EQ(difference(lines, kMore - 1), "leaves out kv.set of k, v");
  EXPECT_EQ(difference(lines, kMore), std::nullopt);
}

TEST_F(Ledger, WhatCameWhileTheListHadRoomIsNotLeftOut) {
  ask("kv.set", {"k", "v"});
  std::vector<CallRecord> lines(Dispatcher::kMaxRecords,
                                {.name = "kv.delete", .arguments = "k", .bytes_out = 1});
  for (size_t i = 0; i < lines.size(); ++i) ask("kv.delete", {"k"});
  EXPECT_EQ(difference(lines, 1), "leaves out kv.set of k, v");
}

TEST_F(Ledger, AListIsNotFilledWithCallsThatNobodyMade) {
  ask("kv.set", {"k", "v"});
  const std::string reason = "url is not UTF-8 at byte " + std::string(975, '1'), arguments(600, 'a');
  // As many malformed calls as a list holds, each as long as possible, are not enough.
  CallRecord malformed{.name = "http.get", .code = Errno::kInvalid, .reason = reason, .arguments = arguments};
  EXPECT_EQ(difference(std::vector(Dispatcher::kMaxMalformedRecords, malformed), 1),
            "leaves out kv.set of k, v");
  EXPECT_EQ(difference(std::vector(Dispatcher::kMaxMalformedRecords + 1, malformed), 1),
            "lists more calls with malformed arguments than a list has");
  for (int i = 0; i < 3; ++i) malformed.reason += reason;
  EXPECT_TRUE(difference({malformed})) << "longer than a dispatcher makes it";
  const CallRecord too_large{.name = "http.get_many",
                             .code = Errno::kTooBig,
                             .reason = "there are more than 64 requests",
                             .arguments = "[…"};
  EXPECT_EQ(difference(std::vector(Dispatcher::kMaxRecords, too_large), 1), "leaves out kv.set of k, v");
  // Failures that no call has before its request.
  for (const Errno code :
       {Errno::kConnection, Errno::kTooBig, Errno::kNotFound, Errno::kHost, Errno::kBudget})
    EXPECT_TRUE(difference({{.name = "fs.write", .code = code, .arguments = "/etc/passwd, bytes"}}))
        << name_of(code);
}

// A dispatcher lists this many, even if the list has room.
TEST_F(Ledger, MalformedRequestsPastTheirNumberAreOnlyCounted) {
  const HostError malformed{Errno::kInvalid, "no URL", ""};
  const CallRecord line{.name = "http.get", .code = Errno::kInvalid, .reason = "no URL", .arguments = "x"};
  std::vector<CallRecord> lines(Dispatcher::kMaxMalformedRecords, line);
  for (size_t i = 0; i <= lines.size(); ++i) ask("http.request", {"GET", "x", ""}, &malformed);
  EXPECT_EQ(difference(lines, 1), std::nullopt);
  EXPECT_TRUE(difference(lines, 0));
  lines.pop_back();
  EXPECT_TRUE(difference(lines, 2));
  lines.push_back(line);
  ask("http.request", {"GET", "https://evil/", ""});
  EXPECT_EQ(difference(lines, 2), "leaves out http.request of GET, x");
}

TEST_F(Ledger, RequestsThatAreOnlyCountedAreLeftOutOfNoList) {
  for (size_t i = 0; i < CallLedger::kMostEntries; ++i) ask("time.now_ms", {});
  constexpr uint64_t kMore = 5;
  for (uint64_t i = 0; i < kMore; ++i) ask("http.request", {"POST", "https://evil/", "secret"});
  EXPECT_EQ(ledger.not_kept(), kMore);
  EXPECT_EQ(difference({}), "leaves out http.request of what was only counted");
  EXPECT_TRUE(difference({}, kMore)) << "the list has room";
  const CallRecord post{.name = "http.post", .arguments = "https://evil/, secret", .bytes_out = 100};
  EXPECT_EQ(difference(std::vector(kMore, post)), std::nullopt);
  EXPECT_TRUE(difference(std::vector(kMore - 1, post)));
  EXPECT_TRUE(difference(std::vector(kMore + 1, post)));
  EXPECT_TRUE(difference(std::vector(kMore, CallRecord{.name = "kv.delete", .arguments = "k"})))
      << "another function";
  CallRecord refused = post;
  refused.code = Errno::kAccess;
  EXPECT_TRUE(difference(std::vector(kMore, refused))) << "another end";
}

// -- how a call ends

TEST_F(Ledger, ASuccessIsListedAsAFailureOnlyWhereOneCanFollow) {
  ask("http.request", {"POST", "https://bank/", "pay", "Content-Type", "text/plain"});
  const auto difference_for = [&](Errno code, std::string_view name = "http.post") {
    return difference({{.name = std::string(name),
                        .code = code,
                        .reason = "no",
                        .arguments = "https://bank/, text/plain, pay",
                        .bytes_out = 100}});
  };
  for (const Errno code : {Errno::kConnection, Errno::kTimedOut, Errno::kNotFound, Errno::kProtocol,
                           Errno::kHost, Errno::kCancelled, Errno::kInvalid, Errno::kBudget})
    EXPECT_TRUE(difference_for(code)) << name_of(code);
  EXPECT_EQ(difference_for(Errno::kNoMemory), std::nullopt) << "no room for the answer";
  ledger.begin();
  ask("fs.write", {"/out/f", "bytes"});
  for (const Errno code : {Errno::kNotFound, Errno::kNoMemory, Errno::kHost})
    EXPECT_TRUE(
        difference({{.name = "fs.write", .code = code, .arguments = "/out/f, bytes", .bytes_out = 11}}))
        << name_of(code);
}

// -- queries that fall short

TEST_F(Ledger, AQueryThatFallsShortIsKnown) {
  world.query_fuel = 1'000;
  Work little{.most = 0};
  EXPECT_FALSE(gate.sql_query("db", "SELECT 1", "", little));
  EXPECT_EQ(difference({}), "leaves out sql.query of db, SELECT 1");
  EXPECT_EQ(ledger.difference({.lines = {}, .may_end_short = true}), std::nullopt)
      << "the program has ended there, without fuel";
  ASSERT_EQ(ledger.lines().size(), 1u);
  EXPECT_EQ(ledger.lines()[0].code, Errno::kBudget);

  Work other{.most = 0};
  EXPECT_FALSE(gate.sql_query("db", "SELECT 2", "", other));
  EXPECT_EQ(ledger.difference({.lines = {}, .may_end_short = true}), "leaves out sql.query of db, SELECT 1");
  ASSERT_EQ(ledger.lines().size(), 2u);

  gate.go_on();
  Work enough;
  EXPECT_TRUE(gate.sql_query("db", "SELECT 2", "", enough));
  ASSERT_EQ(ledger.lines().size(), 2u) << "made again, the two are one";
  EXPECT_EQ(ledger.lines()[1].code, Errno::kOk);
}

// Comparing each line with each request would take minutes.
TEST_F(Ledger, AListThatFitsNothingIsRefusedSoon) {
  const std::string_view asked[] = {"/data/a", "12"};
  const HostError denied{Errno::kAccess, "no", ""};
  for (size_t i = 0; i < CallLedger::kMostEntries; ++i) ledger.note("fs.write", asked, &denied, 0, {});
  std::vector<CallRecord> lines(Dispatcher::kMaxRecords, {.name = "fs.write", .code = Errno::kNoMemory});
  EXPECT_EQ(difference(lines), "lists calls in no order that a program makes them in");
}

TEST_F(Ledger, FilesThatStayOpenAreListedWhenTheyAreClosed) {
  const std::string_view open[] = {"/data/a", ""}, read[] = {"7", "0", "100"}, close[] = {"7"};
  ledger.note("fs.open", open, nullptr, 0, 7);
  ledger.note("fs.read_at", read, nullptr, 100, {});
  const CallRecord opened{.name = "fs.open", .arguments = "/data/a"};
  const CallRecord was_read{.name = "fs.file_read", .arguments = "/data/a", .bytes_in = 100};
  const std::vector<CallRecord> one = {opened};
  EXPECT_EQ(ledger.difference({.lines = one, .is_paused = true}), std::nullopt);
  EXPECT_EQ(difference({opened}), "leaves out fs.file_read of /data/a");
  ledger.note("fs.close", close, nullptr, 0, {});
  EXPECT_EQ(ledger.difference({.lines = one, .is_paused = true}), std::nullopt)
      << "a run that is frozen closes its files as it ends, and tells of them after the thaw";
  ask("random.bytes", {"32"});
  EXPECT_TRUE(ledger.difference({.lines = one, .is_paused = true}).has_value());
  EXPECT_EQ(difference({opened, was_read}), std::nullopt);
  EXPECT_EQ(difference({was_read}), "leaves out fs.open of /data/a");
  const std::vector<CallRecord> only_read = {was_read};
  EXPECT_EQ(ledger.difference({.lines = only_read, .has_past = true}), std::nullopt)
      << "a fork opens its files again";
  CallRecord less = was_read;
  less.bytes_in = 50;
  EXPECT_EQ(difference({opened, less}), "lists fs.file_read of /data/a, which is not so");
}

TEST_F(Ledger, AFileIsOpenedAgainSilentlyOnlyIfItWasOpenedBefore) {
  ask("fs.open", {"/data/a", ""}, nullptr, 7);
  ask("fs.close", {"7"});
  EXPECT_TRUE(difference({}));
  ledger.begin();
  ask("fs.open", {"/data/a", ""}, nullptr, 8);
  EXPECT_EQ(difference({}), std::nullopt);
  ask("fs.open", {"/data/b", ""}, nullptr, 9);
  EXPECT_EQ(difference({}), "leaves out fs.open of /data/b");
}

// Closed after a thaw, and not used since: only the list shows it.
TEST_F(Ledger, AFileOfTheTimeBeforeIsOneThatCanHaveBeenOpen) {
  const CallRecord written{.name = "fs.file_written", .arguments = "/data/a", .bytes_out = 9};
  const auto difference_for = [&](const CallRecord& line, bool began_elsewhere = true) {
    const std::vector<CallRecord> lines = {line};
    return ledger.difference(
        {.lines = lines,
         .began_elsewhere = began_elsewhere,
         .may_have_been_open = [](std::string_view path, bool) { return path == "/data/a"; }});
  };
  EXPECT_EQ(difference_for(written), std::nullopt);
  EXPECT_TRUE(difference_for(written, false));
  CallRecord other = written;
  other.arguments = "/never/granted";
  EXPECT_EQ(difference_for(other), "lists fs.file_written of /never/granted, which is not so");
  other = written;
  other.bytes_out = 0;
  EXPECT_TRUE(difference_for(other)) << "one that was not used has no line";
  other = written;
  other.code = Errno::kQuota;
  EXPECT_TRUE(difference_for(other)) << "how its last use ended is not frozen";
  other = written;
  other.name = "fs.file_read";
  EXPECT_TRUE(difference_for(other)) << "nothing is written to one that is read";
  const std::vector<CallRecord> many(257, written);
  EXPECT_TRUE(ledger.difference(
      {.lines = many, .began_elsewhere = true, .may_have_been_open = [](auto, bool) { return true; }}))
      << "more than can be open";
}

}  // namespace
}  // namespace membrane::host
