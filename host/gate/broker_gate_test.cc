#include "host/gate/broker_gate.h"

#include <gtest/gtest.h>

#include <limits>

#include "host/world/machine_testing.h"

namespace membrane::host {
namespace {

// Every request once, each with an answer that is hard to encode.
std::string use_everything(Machine& machine) {
  std::string seen;
  const auto note = [&](const CallResult& outcome) {
    seen += std::string(name_of(outcome.code)) + "|" + outcome.text + "|" + std::to_string(outcome.number) +
            "|" + std::to_string(outcome.real) + "\n";
  };
  note(machine.call("http.get", {"http://h/"}));
  note(machine.call("http.status"));
  note(machine.call("http.header", {"x"}));
  note(machine.call("http.get", {"http://denied/"}));
  note(machine.call("http.get_many", {R"(["http://h/","http://denied/","http://h/"])"}));
  note(machine.call("fs.write", {"/data/a", "1"}));
  note(machine.call("fs.append", {"/data/a", std::string("\0\xFF", 2)}));
  note(machine.call("fs.read", {"/data/a"}));
  note(machine.call("fs.list", {"/data"}));
  note(machine.call("fs.size", {"/data/a"}));
  note(machine.call("fs.exists", {"/data/none"}));
  note(machine.call("fs.remove", {"/data/a"}));
  note(machine.call("kv.set", {"k", "\x80"}));
  note(machine.call("kv.get", {"k"}));
  note(machine.call("kv.keys", {""}));
  note(machine.call("kv.delete", {"k"}));
  note(machine.call("kv.delete", {"k"}));
  note(machine.call("sql.query", {"db", "SELECT 1", ""}));
  note(machine.call("ai.complete", {"hi"}));
  note(machine.call("ai.embed", {"x"}));
  note(machine.call("time.now_ms"));
  note(machine.call("random.i64"));
  note(machine.call("random.uuid"));
  note(machine.call("agent.ask", {"sure?"}));
  return seen;
}

void furnish(TestWorld& world) {
  world.pages["http://h/"] = {
      .status = 418, .headers = {{"x", "\xFF"}}, .body = std::string("\0\xFE", 2), .final_url = "http://h/"};
  world.embeddings["x"] = {1.5f, -0.0f, std::numeric_limits<float>::infinity(), 1e-45f};
}

TEST(BrokerGate, SeveralRequestsArePaidForAndJournaledEachInTheirOrder) {
  TestWorld world;
  furnish(world);
  Journal journal;
  policy::Budget budget;
  budget.set(policy::Resource::kHostCalls, 3);
  BrokerGate gate = BrokerGate::to_world(world, &budget, &journal);
  Machine machine(&gate);
  const std::string requests = R"(["http://h/","http://denied/","http://h/","http://h/"])";
  const std::string answers = machine.text("http.get_many", {requests});
  EXPECT_EQ(world.requests.size(), 3u);
  EXPECT_EQ(budget.left(policy::Resource::kHostCalls), 0u);
  ASSERT_EQ(journal.entries().size(), 4u);
  const Errno expected[] = {Errno::kOk, Errno::kAccess, Errno::kOk, Errno::kBudget};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(journal.entries()[i].function, "http.request");
    EXPECT_EQ(journal.entries()[i].code, expected[i]) << i;
  }
  BrokerGate replay = BrokerGate::to_journal(journal);
  Machine again(&replay);
  EXPECT_EQ(again.text("http.get_many", {requests}), answers);
  EXPECT_FALSE(replay.divergence());
  EXPECT_EQ(replay.entries_left(), 0u);
}

TEST(BrokerGate, AJournalReplaysToTheSameWithoutAWorld) {
  TestWorld world;
  furnish(world);
  Journal journal;
  BrokerGate to_world = BrokerGate::to_world(world, nullptr, &journal);
  Machine first(&to_world);
  const std::string seen = use_everything(first);
  EXPECT_EQ(to_world.tokens_used(), 15u);

  const auto stored = Journal::parse(journal.to_text());
  ASSERT_TRUE(stored) << stored.error().message;
  BrokerGate to_journal = BrokerGate::to_journal(*stored);
  Machine second(&to_journal);
  EXPECT_EQ(use_everything(second), seen);
  EXPECT_FALSE(to_journal.divergence()) << *to_journal.divergence();
  EXPECT_EQ(to_journal.entries_left(), 0u);
  EXPECT_EQ(to_journal.tokens_used(), 15u);
  EXPECT_EQ(second.guest.fuel, first.guest.fuel);
  EXPECT_TRUE(std::ranges::equal(first.guest.memory(), second.guest.memory()));
  ASSERT_EQ(first.dispatcher.records().size(), second.dispatcher.records().size());
  for (size_t i = 0; i < first.dispatcher.records().size(); ++i) {
    EXPECT_EQ(first.dispatcher.records()[i].code, second.dispatcher.records()[i].code);
    EXPECT_EQ(first.dispatcher.records()[i].reason, second.dispatcher.records()[i].reason);
    EXPECT_EQ(first.dispatcher.records()[i].grant, second.dispatcher.records()[i].grant);
  }
}

TEST(BrokerGate, WhatAQueryDoesIsPartOfItsAnswer) {
  TestWorld world;
  world.query_fuel = 700;
  Journal journal;
  BrokerGate recording = BrokerGate::to_world(world, nullptr, &journal);
  Work work{.most = 1'000};
  EXPECT_TRUE(recording.sql_query("db", "SELECT 1", "", work));
  EXPECT_EQ(work.done, 700u);
  ASSERT_EQ(journal.entries().size(), 1u);
  EXPECT_EQ(journal.entries()[0].fuel, 700u);
  const auto stored = Journal::parse(journal.to_text());
  ASSERT_TRUE(stored) << stored.error().message;

  BrokerGate replay = BrokerGate::to_journal(*stored);
  Work little{.most = 699}, enough{.most = 700};
  EXPECT_FALSE(replay.sql_query("db", "SELECT 1", "", little));
  EXPECT_TRUE(little.is_too_much());
  EXPECT_FALSE(replay.divergence());
  replay.go_on();
  EXPECT_TRUE(replay.sql_query("db", "SELECT 1", "", enough)) << "made again with more";
  EXPECT_EQ(enough.done, 700u);
  EXPECT_EQ(replay.entries_left(), 0u);
}

TEST(BrokerGate, AQueryThatFallsShortIsInTheJournalUnlessItIsMadeAgain) {
  TestWorld world;
  world.query_fuel = 700;
  Journal journal;
  policy::Budget budget(policy::Limits{.host_calls = 1});
  BrokerGate recording = BrokerGate::to_world(world, &budget, &journal);
  Work little{.most = 699}, more{.most = 10'000};
  EXPECT_EQ(recording.sql_query("db", "SELECT 1", "", little).error().code, Errno::kBudget);
  ASSERT_EQ(journal.entries().size(), 1u);
  const Journal ended = journal;

  recording.go_on();
  EXPECT_TRUE(recording.sql_query("db", "SELECT 1", "", more)) << "one host call pays for both";
  ASSERT_EQ(journal.entries().size(), 1u);
  EXPECT_EQ(journal.entries()[0].code, Errno::kOk);
  EXPECT_TRUE(Journal::parse(journal.to_text()));

  BrokerGate alike = BrokerGate::to_journal(ended);
  Work as_little{.most = 699};
  EXPECT_EQ(alike.sql_query("db", "SELECT 1", "", as_little).error().code, Errno::kBudget);
  EXPECT_TRUE(as_little.is_too_much());
  EXPECT_FALSE(alike.divergence());
  BrokerGate with_more = BrokerGate::to_journal(ended);
  Work as_more{.most = 10'000};
  EXPECT_EQ(with_more.sql_query("db", "SELECT 1", "", as_more).error().code, Errno::kHost);
  ASSERT_TRUE(with_more.divergence());
  EXPECT_NE(with_more.divergence()->find("its fuel ended"), std::string::npos) << *with_more.divergence();
}

// The caller says what it can pay, and may lie.
TEST(BrokerGate, AQueryThatFallsShortIsPaidLikeAnother) {
  TestWorld world;
  world.query_fuel = 700;
  Journal journal;
  policy::Budget budget(policy::Limits{.host_calls = 2});
  BrokerGate gate = BrokerGate::to_world(world, &budget, &journal);
  const auto falls_short = [&](const char* sql) {
    Work none{.most = 0};
    return gate.sql_query("db", sql, "", none).error().reason;
  };
  EXPECT_EQ(falls_short("SELECT 1"), falls_short("SELECT 2"));
  EXPECT_EQ(budget.left(policy::Resource::kHostCalls), 0u);
  EXPECT_EQ(falls_short("SELECT 3"), policy::used_up(policy::Resource::kHostCalls));
  EXPECT_EQ(world.queries.size(), 2u);
  EXPECT_EQ(journal.entries().size(), 3u) << "only the same request takes the place of one that fell short";
}

// An honest run repeats it when it is continued, and only then.
TEST(BrokerGate, AQueryIsMadeAgainForNothingOnceInEachContinuation) {
  TestWorld world;
  world.query_fuel = 700;
  Journal journal;
  policy::Budget budget(policy::Limits{.host_calls = 3});
  BrokerGate gate = BrokerGate::to_world(world, &budget, &journal);
  CallLedger ledger;
  gate.note_in(&ledger);
  gate.bound_queries(5'000);
  const auto ask = [&] {
    Work little{.most = 699};
    EXPECT_FALSE(gate.sql_query("db", "SELECT 1", "", little));
  };
  ask();
  for (int i = 0; i < 5; ++i) {
    gate.go_on();
    ask();
  }
  EXPECT_EQ(budget.left(policy::Resource::kHostCalls), 2u) << "one for all of them";
  EXPECT_EQ(journal.entries().size(), 1u);
  EXPECT_EQ(ledger.lines().size(), 1u);
  EXPECT_EQ(gate.query_fuel_used(), 0u) << "it can still be made again";

  ask();
  EXPECT_EQ(budget.left(policy::Resource::kHostCalls), 1u) << "nobody continued the run";
  EXPECT_EQ(gate.query_fuel_used(), 700u);
  EXPECT_EQ(journal.entries().size(), 2u);
  EXPECT_EQ(ledger.lines().size(), 2u);
  ask();
  ask();
  EXPECT_EQ(budget.left(policy::Resource::kHostCalls), 0u);
  EXPECT_EQ(world.queries.size(), 8u) << "the last one has no host call";
}

TEST(BrokerGate, WhatFellShortIsGivenUpBySeveralRequestsAtOnce) {
  TestWorld world;
  furnish(world);
  world.query_fuel = 700;
  policy::Budget budget;
  BrokerGate gate = BrokerGate::to_world(world, &budget, nullptr);
  CallLedger ledger;
  gate.note_in(&ledger);
  Work little{.most = 0};
  EXPECT_FALSE(gate.sql_query("db", "SELECT 1", "", little));
  const std::vector<HttpRequest> requests = {
      {.method = "GET", .url = "http://h/", .headers = {}, .body = {}}};
  EXPECT_TRUE(gate.http_many(requests)[0]);
  const auto lines = ledger.lines();
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].name, "sql.query");
  EXPECT_EQ(lines[1].name, "http.request");
  EXPECT_EQ(lines[1].code, Errno::kOk);
}

TEST(BrokerGate, DirectoriesAreListedOnceForFree) {
  TestWorld world;
  Journal journal;
  policy::Budget budget(policy::Limits{.host_calls = 2});
  BrokerGate gate = BrokerGate::to_world(world, &budget, &journal);
  EXPECT_TRUE(gate.directories({"read:/data"}));
  EXPECT_EQ(budget.left(policy::Resource::kHostCalls), 2u);
  EXPECT_TRUE(gate.directories({"read:/data"}));
  EXPECT_TRUE(gate.directories({"read:/data"}));
  EXPECT_FALSE(gate.directories({"read:/data"}));
  EXPECT_EQ(budget.left(policy::Resource::kHostCalls), 0u);
}

// 256 of them cost a host call.
TEST(BrokerGate, OnlyWhatWasOpenedIsClosedForNothing) {
  TestWorld world;
  policy::Budget budget(policy::Limits{.host_calls = 1});
  BrokerGate gate = BrokerGate::to_world(world, &budget, nullptr);
  int answered = 0;
  for (int i = 0; i < 600; ++i) answered += gate.file_close(7).error().code == Errno::kBudget ? 0 : 1;
  EXPECT_EQ(answered, 599) << "the second host call was wanting";
  EXPECT_EQ(budget.left(policy::Resource::kHostCalls), 0u);
}

// A journal that stores nothing: the world has answered, but the program gets an error.
class FullJournal final : public JournalSink {
 public:
  Status append(JournalEntry /*entry*/, const WriteResult& /*result*/) override {
    return fail(ErrorCode::kUnavailable, "the disk is full");
  }
  void drop_last() override { ADD_FAILURE() << "there is none"; }
};

TEST(BrokerGate, ACallIsNotedAsItsAnswerWasGiven) {
  TestWorld world;
  furnish(world);
  world.query_fuel = 700;
  FullJournal full;
  policy::Budget budget;
  BrokerGate gate = BrokerGate::to_world(world, &budget, &full);
  CallLedger ledger;
  gate.note_in(&ledger);
  Machine machine(&gate);
  EXPECT_EQ(machine.fails("kv.set", {"k", "v"}), Errno::kHost);
  EXPECT_EQ(machine.fails("fs.read", {"/data/none"}), Errno::kHost);
  machine.text("http.get_many", {R"(["http://h/","http://denied/"])"});
  Work little{.most = 0}, more;
  EXPECT_FALSE(gate.sql_query("db", "SELECT 1", "", little));
  gate.go_on();
  machine.call("sql.query", {"db", "SELECT 1", ""});
  const auto difference = ledger.difference({.lines = machine.dispatcher.records()});
  EXPECT_EQ(difference, std::nullopt);
}

TEST(BrokerGate, WhatFellShortInATurnIsNotMadeAgainInTheNext) {
  TestWorld world;
  world.query_fuel = 700;
  Journal journal;
  BrokerGate gate = BrokerGate::to_world(world, nullptr, &journal);
  Work little{.most = 699}, more{.most = 10'000};
  EXPECT_FALSE(gate.sql_query("db", "SELECT 1", "", little));
  gate.begin_turn();
  EXPECT_TRUE(gate.kv_set("a", "1"));
  EXPECT_TRUE(gate.sql_query("db", "SELECT 1", "", more));
  ASSERT_EQ(journal.entries().size(), 3u);

  BrokerGate replay = BrokerGate::to_journal(journal);
  Work as_little{.most = 699}, as_more{.most = 10'000};
  EXPECT_FALSE(replay.sql_query("db", "SELECT 1", "", as_little));
  replay.begin_turn();
  EXPECT_TRUE(replay.kv_set("a", "1"));
  EXPECT_TRUE(replay.sql_query("db", "SELECT 1", "", as_more));
  EXPECT_FALSE(replay.divergence()) << *replay.divergence();
  EXPECT_EQ(replay.entries_left(), 0u);
}

TEST(BrokerGate, QueriesUseNoMoreFuelThanTheyMayTogether) {
  TestWorld world;
  world.query_fuel = 700;
  BrokerGate gate = BrokerGate::to_world(world, nullptr, nullptr);
  gate.bound_queries(1'500);
  Work all;
  EXPECT_TRUE(gate.sql_query("db", "SELECT 1", "", all));
  Work little{.most = 699};
  EXPECT_FALSE(gate.sql_query("db", "SELECT 2", "", little));
  gate.go_on();
  EXPECT_TRUE(gate.sql_query("db", "SELECT 2", "", all)) << "one that is made again counts once";
  EXPECT_EQ(gate.query_fuel_used(), 1'400u);
  const auto refused = gate.sql_query("db", "SELECT 3", "", all);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errno::kBudget);
  EXPECT_FALSE(gate.is_waited_for()) << "more fuel of the program would not help";
  EXPECT_EQ(gate.query_fuel_used(), 1'500u);
  gate.bound_queries(700);
  EXPECT_TRUE(gate.sql_query("db", "SELECT 3", "", all));
}

TEST(BrokerGate, EveryDenialIsInTheJournal) {
  TestWorld world;
  Journal journal;
  BrokerGate gate = BrokerGate::to_world(world, nullptr, &journal);
  Machine machine(&gate);
  machine.fails("http.get", {"http://denied/"});
  ASSERT_EQ(journal.entries().size(), 1u);
  EXPECT_EQ(journal.entries()[0].function, "http.request");
  EXPECT_EQ(journal.entries()[0].decision(), "denied");
  EXPECT_EQ(journal.entries()[0].grant, "--allow http:GET:http://denied/");
}

// What the journal recorded, and what the replay requests instead.
TEST(BrokerGate, AReplayThatAsksSomethingElseDiverges) {
  TestWorld world;
  Journal journal;
  BrokerGate recording = BrokerGate::to_world(world, nullptr, &journal);
  ASSERT_TRUE(recording.kv_set("a", "1"));
  ASSERT_TRUE(recording.kv_get("a"));

  BrokerGate other_arguments = BrokerGate::to_journal(journal);
  EXPECT_EQ(other_arguments.kv_set("a1", "").error().code, Errno::kHost) << "the same bytes, cut elsewhere";
  ASSERT_TRUE(other_arguments.divergence());
  EXPECT_NE(other_arguments.divergence()->find(
                "call 1 is kv.set(a1, ), and the journal has kv.set with other arguments"),
            std::string::npos)
      << *other_arguments.divergence();
  EXPECT_EQ(other_arguments.kv_set("a", "1").error().code, Errno::kHost) << "nothing is answered after";

  BrokerGate other_function = BrokerGate::to_journal(journal);
  EXPECT_EQ(other_function.kv_get("a").error().code, Errno::kHost);
  EXPECT_NE(other_function.divergence()->find("call 1 is kv.get(a), and the journal has kv.set"),
            std::string::npos)
      << *other_function.divergence();

  BrokerGate too_many = BrokerGate::to_journal(journal);
  EXPECT_TRUE(too_many.kv_set("a", "1"));
  EXPECT_EQ(too_many.entries_left(), 1u);
  EXPECT_EQ(too_many.kv_get("a").value(), "1");
  EXPECT_FALSE(too_many.divergence());
  EXPECT_EQ(too_many.kv_get("a").error().code, Errno::kHost);
  ASSERT_TRUE(too_many.divergence());
  EXPECT_NE(too_many.divergence()->find("call 3 is kv.get(a), and the journal has ended, after 2 calls"),
            std::string::npos)
      << *too_many.divergence();

  BrokerGate long_arguments = BrokerGate::to_journal(journal);
  EXPECT_EQ(long_arguments.kv_set("a", std::string(100'000, 'x')).error().code, Errno::kHost);
  EXPECT_LT(long_arguments.divergence()->size(), 300u);
}

TEST(BrokerGate, AResultOfTheWrongShapeIsADivergenceNotACrash) {
  for (const char* result : {"null", "5", "[]", "{}", R"({"base64":5})", R"({"base64":"x"})",
                             R"({"status":200})", R"({"f32":"AA=="})"}) {
    Journal journal;
    TestWorld world;
    BrokerGate recording = BrokerGate::to_world(world, nullptr, &journal);
    ASSERT_FALSE(recording.http({"GET", "http://h/", {}, ""}));
    JournalEntry entry = journal.entries()[0];
    entry.code = Errno::kOk;
    entry.result = result;
    Journal forged;
    ASSERT_TRUE(forged.append(entry));
    BrokerGate gate = BrokerGate::to_journal(forged);
    EXPECT_EQ(gate.http({"GET", "http://h/", {}, ""}).error().code, Errno::kHost) << result;
    EXPECT_TRUE(gate.divergence()) << result;
  }
}

TEST(BrokerGate, HostCallsArePrepaidAndTheRefusalReplays) {
  TestWorld world;
  Journal journal;
  policy::Budget budget;
  budget.set(policy::Resource::kHostCalls, 2);
  BrokerGate gate = BrokerGate::to_world(world, &budget, &journal);
  Machine machine(&gate);
  EXPECT_EQ(machine.call("kv.set", {"a", "1"}).code, Errno::kOk);
  EXPECT_EQ(machine.text("kv.get", {"a"}), "1");
  EXPECT_EQ(machine.fails("kv.get", {"a"}), Errno::kBudget);
  EXPECT_EQ(machine.text("str.concat", {"a", "b"}), "ab") << "what stays inside costs only fuel";
  EXPECT_EQ(budget.left(policy::Resource::kHostCalls), 0u);

  BrokerGate replay = BrokerGate::to_journal(journal);
  Machine again(&replay);
  EXPECT_EQ(again.call("kv.set", {"a", "1"}).code, Errno::kOk);
  EXPECT_EQ(again.text("kv.get", {"a"}), "1");
  EXPECT_EQ(again.fails("kv.get", {"a"}), Errno::kBudget);
}

TEST(BrokerGate, WithoutSeedARandomNumberTraps) {
  TestWorld world;
  policy::Budget budget;
  budget.set(policy::Resource::kHostCalls, 0);
  BrokerGate gate = BrokerGate::to_world(world, &budget, nullptr);
  Machine machine(&gate);
  EXPECT_EQ(machine.call("random.i32").end, CallEnd::kTrap);
  EXPECT_EQ(machine.fails("random.bytes", {4}), Errno::kBudget);
}

TEST(BrokerGate, AReplayCanBeRecordedToTheSameChainOfAnswers) {
  TestWorld world;
  furnish(world);
  Journal journal, copy;
  BrokerGate recording = BrokerGate::to_world(world, nullptr, &journal);
  Machine first(&recording);
  use_everything(first);
  BrokerGate replay = BrokerGate::to_journal(journal, &copy);
  Machine second(&replay);
  use_everything(second);
  ASSERT_EQ(copy.entries().size(), journal.entries().size());
  for (size_t i = 0; i < copy.entries().size(); ++i) {
    EXPECT_EQ(copy.entries()[i].result, journal.entries()[i].result);
    EXPECT_EQ(copy.entries()[i].arguments_sha256, journal.entries()[i].arguments_sha256);
  }
}

}  // namespace
}  // namespace membrane::host
