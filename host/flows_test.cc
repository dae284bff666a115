#include "host/flows.h"

#include <gtest/gtest.h>

#include "host/broker_gate.h"
#include "host/journal.h"
#include "host/machine_testing.h"
#include "host/recorded_calls.h"

namespace membrane::host {
namespace {

policy::Policy policy_with(std::string_view text) {
  auto policy = policy::parse_policy(text, "policy.toml");
  EXPECT_TRUE(policy) << policy.error().to_string();
  return *std::move(policy);
}

constexpr std::string_view kPolicy = R"(
[trifecta]
egress = "close"
[[fs]]
guest = "/inbox"
host = "/srv/inbox"
mode = "read"
private = true
[[fs]]
guest = "/plain"
host = "/srv/plain"
mode = "read"
[kv]
untrusted = true
[[http]]
methods = ["GET", "POST"]
url = "https://web.example/*"
[[http]]
methods = ["GET"]
url = "https://own.example/*"
untrusted = false
[ai]
)";

std::string asking() {
  std::string text(kPolicy);
  return text.replace(text.find("close"), 5, "ask");
}

class Rule : public testing::Test {
 protected:
  explicit Rule(const std::string& text = std::string(kPolicy)) : policy(policy_with(text)) {
    for (const char* const url : {"https://web.example/", "https://own.example/"})
      world.pages[url] = {.status = 200, .headers = {}, .body = "page", .final_url = url};
    world.files["/inbox/a"] = "secret";
    world.files["/plain/a"] = "plain";
    gate.guard_by(&guard);
  }

  void read_private() { EXPECT_TRUE(gate.file_read("/inbox/a", 100)); }
  void read_untrusted() {
    EXPECT_TRUE(world.kv_set("k", "from somebody"));
    EXPECT_TRUE(gate.kv_get("k"));
  }
  HostResult<HttpResponse> get(const std::string& url) { return gate.http({"GET", url, {}, ""}); }

  policy::Policy policy;
  std::vector<EgressQuestion> asked;
  Approval answer = Approval::kYes;
  TestWorld world;
  Journal journal;
  BrokerGate gate = BrokerGate::to_world(world, nullptr, &journal);
  FlowGuard guard{policy, std::make_shared<Flows>(), [this](const EgressQuestion& question) {
                    asked.push_back(question);
                    return answer;
                  }};
};

class AskingRule : public Rule {
 protected:
  AskingRule() : Rule(asking()) {}
};

TEST_F(Rule, OneKindAloneClosesNothing) {
  read_private();
  EXPECT_TRUE(get("https://own.example/"));
  EXPECT_TRUE(gate.ai_complete({"", "hello", 0}));
  EXPECT_FALSE(guard.report().state.is_closed());
  EXPECT_TRUE(guard.report().egress.empty());
}

TEST_F(Rule, BothKindsCloseEveryWayOut) {
  read_untrusted();
  read_private();
  const auto page = get("https://own.example/");
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().code, Errno::kAccess);
  EXPECT_EQ(page.error().reason,
            "The trifecta rule closes egress: what was read is private (fs.read of /inbox/a (call 2)) and of "
            "untrusted origin (kv.get of k (call 1)).");
  EXPECT_EQ(page.error().grant, "");
  EXPECT_FALSE(gate.http({"POST", "https://web.example/", {}, "secret"}));
  EXPECT_FALSE(gate.ai_complete({"", "secret", 0}));
  EXPECT_TRUE(world.requests.empty());
  EXPECT_TRUE(world.prompts.empty());
  const FlowReport report = guard.report();
  ASSERT_EQ(report.egress.size(), 3u);
  EXPECT_EQ(report.egress[1].target, "POST https://web.example/");
  EXPECT_EQ(report.egress[2].decision, Leaving::kClosed);
}

TEST_F(Rule, AnAnswerOverHttpIsOfUntrustedOriginUnlessItsGrantSaysOtherwise) {
  EXPECT_TRUE(get("https://own.example/"));
  EXPECT_TRUE(guard.report().state.untrusted_reads.first.empty());
  EXPECT_TRUE(get("https://web.example/"));
  ASSERT_EQ(guard.report().state.untrusted_reads.first.size(), 1u);
  EXPECT_EQ(guard.report().state.untrusted_reads.first[0].target, "GET https://web.example/");
}

TEST_F(Rule, SeveralRequestsAtOnceAreHeldToWhatTheFirstBroughtIn) {
  read_private();
  const std::vector<HttpRequest> requests(2, {"GET", "https://web.example/", {}, ""});
  const auto answers = gate.http_many(requests);
  EXPECT_TRUE(answers[0]);
  EXPECT_FALSE(answers[1]);
  EXPECT_EQ(world.requests.size(), 1u);
}

TEST_F(Rule, NoRedirectIsFollowedOnceSomethingPrivateWasRead) {
  world.redirects["https://own.example/"] = {"https://own.example/x"};
  EXPECT_EQ(get("https://own.example/")->status, 200);
  read_private();
  EXPECT_EQ(get("https://own.example/")->status, 302);
}

TEST_F(Rule, EachHopOfARedirectCounts) {
  world.redirects["https://own.example/"] = {"https://web.example/x", "https://own.example/y"};
  EXPECT_TRUE(get("https://own.example/"));
  const FlowReads reads = guard.report().state.untrusted_reads;
  ASSERT_EQ(reads.first.size(), 1u);
  EXPECT_EQ(reads.first[0], (FlowRead{1, "http.request", "GET https://web.example/x"}));
}

// The error contains a host name that a stranger chose.
TEST_F(Rule, WhatWasSaidBeforeARequestFailedCounts) {
  for (const Errno code : {Errno::kConnection, Errno::kInvalid, Errno::kAccess, Errno::kProtocol}) {
    world.pages.clear();
    world.redirects["https://web.example/"] = {};
    world.failures["https://web.example/"] = {
        code, "The name pay-42-to-bob.web.example has no address.", {}, true};
    FlowGuard fresh(policy, std::make_shared<Flows>(), nullptr);
    gate.guard_by(&fresh);
    EXPECT_FALSE(get("https://web.example/"));
    EXPECT_FALSE(fresh.report().state.untrusted_reads.first.empty()) << name_of(code);
  }
}

TEST_F(Rule, AnAddressWithAHiddenSecretCountsForAnyGrant) {
  for (const char* const url : {"https://own.example/********", "https://********/", ""}) {
    world.redirects["https://own.example/"] = {url};
    FlowGuard fresh(policy, std::make_shared<Flows>(), nullptr);
    gate.guard_by(&fresh);
    EXPECT_TRUE(get("https://own.example/"));
    EXPECT_FALSE(fresh.report().state.untrusted_reads.first.empty()) << url;
  }
}

TEST_F(Rule, NoRedirectIsFollowedFromAPrivateAnswer) {
  policy.http[1].marks.is_private = true;
  FlowGuard fresh(policy, std::make_shared<Flows>(), nullptr);
  gate.guard_by(&fresh);
  world.redirects["https://web.example/"] = {"https://own.example/", "https://web.example/?q=secret"};
  EXPECT_EQ(get("https://web.example/")->status, 302);
  EXPECT_TRUE(fresh.report().state.is_closed());
}

TEST_F(Rule, AReplayCountsTheSameHops) {
  world.redirects["https://own.example/"] = {"https://web.example/x"};
  EXPECT_TRUE(get("https://own.example/"));
  world.failures["https://own.example/"] = {Errno::kConnection, "no", {}, true};
  EXPECT_FALSE(get("https://own.example/"));
  world.failures.clear();
  world.redirects.clear();
  EXPECT_TRUE(get("https://own.example/"));
  auto read = Journal::parse(journal.to_text());
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_EQ(read->entries()[1].heard,
            (std::vector<HttpHop>{{"GET", "https://own.example/"}, {"GET", "https://web.example/x"}}));
  EXPECT_TRUE(read->entries()[2].heard.empty()) << "what the request itself says";
  FlowGuard again(policy, std::make_shared<Flows>(), nullptr);
  BrokerGate replay = BrokerGate::to_journal(*read);
  replay.guard_by(&again);
  EXPECT_TRUE(replay.http({"GET", "https://own.example/", {}, ""}));
  EXPECT_FALSE(replay.http({"GET", "https://own.example/", {}, ""}));
  EXPECT_TRUE(replay.http({"GET", "https://own.example/", {}, ""}));
  EXPECT_EQ(replay.divergence(), std::nullopt);
  EXPECT_EQ(again.report().state, guard.report().state);
}

TEST_F(Rule, WhatIsNotGrantedIsNobodysQuestion) {
  read_untrusted();
  read_private();
  EXPECT_FALSE(get("https://else.example/"));
  EXPECT_TRUE(guard.report().egress.empty());
}

TEST_F(Rule, ItsStateIsTakenAlong) {
  read_untrusted();
  const auto flows = std::make_shared<Flows>();
  flows->add(guard.report().state);
  FlowGuard fork(policy, flows, nullptr);
  gate.guard_by(&fork);
  read_private();
  EXPECT_FALSE(get("https://own.example/"));
  EXPECT_FALSE(guard.report().state.is_closed()) << "the parent has not read what its fork has";
}

TEST_F(Rule, AConversationHearsOfReadsAtOnce) {
  read_private();
  const auto own = std::make_shared<Flows>(), conversation = std::make_shared<Flows>();
  own->add(guard.report().state);
  FlowGuard of_own(policy, own, nullptr);
  gate.guard_by(&of_own);
  {
    const FlowsShared shared(own, conversation);
    EXPECT_EQ(conversation->state().private_reads.first.at(0), (FlowRead{0, "fs.read", "/inbox/a"}));
    read_untrusted();
    EXPECT_TRUE(conversation->state().is_closed()) << "before the program ends";
    EXPECT_EQ(conversation->state().calls, 0u);
  }
  const auto next = std::make_shared<Flows>();
  {
    const FlowsShared shared(next, conversation);
    EXPECT_TRUE(next->state().is_closed());
    for (int i = 0; i < 3; ++i) next->add(conversation->state());
    EXPECT_EQ(next->state().private_reads.more, 0u);
  }
  EXPECT_TRUE(gate.file_list("/inbox"));
  EXPECT_EQ(conversation->state().private_reads.first.size(), 1u) << "it is over";
  const FlowsShared with_nobody(own, nullptr);
}

TEST_F(Rule, WhatIsReadManyTimesIsToldOnce) {
  for (int i = 0; i < 100; ++i) read_private();
  for (int i = 0; i < 100; ++i) {
    world.files["/inbox/" + std::to_string(i)] = "x";
    EXPECT_TRUE(gate.file_read("/inbox/" + std::to_string(i), 100));
  }
  const FlowReads reads = guard.report().state.private_reads;
  EXPECT_EQ(reads.first.size(), FlowReads::kMost);
  EXPECT_EQ(reads.first.size() + reads.more, 101u);
}

TEST_F(AskingRule, APersonDecidesEachRequest) {
  read_untrusted();
  read_private();
  EXPECT_TRUE(gate.http({"POST", "https://web.example/", {}, "12345"}));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].target, "POST https://web.example/");
  EXPECT_EQ(asked[0].reads.private_reads.first[0].target, "/inbox/a");
  EXPECT_EQ(asked[0].bytes, 25u);
  answer = Approval::kNo;
  const auto refused = get("https://own.example/");
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().reason.contains("who said no")) << refused.error().reason;
  answer = Approval::kNobody;
  EXPECT_FALSE(gate.ai_embed("x")) << "embedding is not granted, and nobody is asked";
  EXPECT_FALSE(gate.ai_complete({"", "x", 0}));
  EXPECT_EQ(asked.size(), 3u);
  EXPECT_EQ(journal.entries()[2].decision(), "approved");
  EXPECT_EQ(journal.entries()[3].decision(), "denied");
  const FlowReport report = guard.report();
  ASSERT_EQ(report.egress.size(), 3u);
  EXPECT_EQ(report.egress[0].decision, Leaving::kApproved);
  EXPECT_EQ(report.egress[1].decision, Leaving::kRefused);
  EXPECT_EQ(report.egress[2].decision, Leaving::kUnanswered);
}

TEST_F(AskingRule, WhatNobodyAnsweredUntilTheEndIsTold) {
  read_untrusted();
  read_private();
  answer = Approval::kNobody;
  EXPECT_FALSE(get("https://own.example/"));
  EXPECT_EQ(guard.report().unanswered, "") << "there was time left";
  guard.bound(std::chrono::steady_clock::now(), nullptr);
  EXPECT_FALSE(get("https://web.example/"));
  EXPECT_EQ(guard.report().unanswered, "GET https://web.example/");
  guard.begin_turn();
  EXPECT_EQ(guard.report().unanswered, "");
}

TEST_F(AskingRule, NobodyIsAskedWithoutEnd) {
  read_untrusted();
  read_private();
  answer = Approval::kNo;
  for (uint64_t i = 0; i < FlowGuard::kMostQuestions; ++i) EXPECT_FALSE(get("https://own.example/"));
  EXPECT_EQ(asked.size(), FlowGuard::kMostQuestions);
  answer = Approval::kYes;
  const auto more = get("https://own.example/");
  ASSERT_FALSE(more);
  EXPECT_TRUE(more.error().reason.contains("nobody is asked more than 100 times in a run"))
      << more.error().reason;
  EXPECT_EQ(asked.size(), FlowGuard::kMostQuestions);
  guard.begin_turn();
  EXPECT_TRUE(get("https://own.example/")) << "the next turn";
  auto read = Journal::parse(journal.to_text());
  ASSERT_TRUE(read);
  FlowGuard again(policy, std::make_shared<Flows>(), nullptr);
  BrokerGate replay = BrokerGate::to_journal(*read);
  replay.guard_by(&again);
  EXPECT_TRUE(replay.kv_get("k"));
  EXPECT_TRUE(replay.file_read("/inbox/a", 100));
  for (uint64_t i = 0; i <= FlowGuard::kMostQuestions; ++i)
    EXPECT_FALSE(replay.http({"GET", "https://own.example/", {}, ""}));
  EXPECT_EQ(again.report().egress.size() + again.report().more_egress, FlowGuard::kMostQuestions + 1);
}

TEST_F(AskingRule, AReplayIsDecidedAsItsRunWas) {
  read_untrusted();
  read_private();
  EXPECT_TRUE(get("https://web.example/"));
  answer = Approval::kNo;
  EXPECT_FALSE(get("https://own.example/"));
  auto read = Journal::parse(journal.to_text());
  ASSERT_TRUE(read) << read.error().to_string();
  FlowGuard again(policy, std::make_shared<Flows>(), [](const EgressQuestion&) {
    ADD_FAILURE() << "nobody is asked twice";
    return Approval::kYes;
  });
  BrokerGate replay = BrokerGate::to_journal(*read);
  replay.guard_by(&again);
  EXPECT_TRUE(replay.kv_get("k"));
  EXPECT_TRUE(replay.file_read("/inbox/a", 100));
  EXPECT_TRUE(replay.http({"GET", "https://web.example/", {}, ""}));
  EXPECT_FALSE(replay.http({"GET", "https://own.example/", {}, ""}));
  EXPECT_EQ(replay.divergence(), std::nullopt);
  const FlowReport first = guard.report(), second = again.report();
  EXPECT_EQ(first.state, second.state);
  ASSERT_EQ(second.egress.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(first.egress[i].decision, second.egress[i].decision) << i;
    EXPECT_EQ(first.egress[i].call, second.egress[i].call) << i;
  }
}

// -- what counts as reading

class Reads : public Rule {
 protected:
  using Arguments = std::vector<std::string_view>;
  bool is_private(std::string_view function, const Arguments& arguments, FlowGuard::Answer given = {}) {
    FlowGuard fresh(policy, std::make_shared<Flows>(), nullptr);
    fresh.begin_call();
    fresh.note(function, arguments, given);
    return !fresh.report().state.private_reads.first.empty();
  }
};

TEST_F(Reads, OfFilesWhatIsInThemAndWhatTheyAreCalled) {
  const HostError missing{Errno::kNotFound, "no", {}};
  EXPECT_TRUE(is_private("fs.read", {"/inbox/a"}));
  EXPECT_TRUE(is_private("fs.list", {"/inbox"}));
  EXPECT_TRUE(is_private("fs.stat", {"/inbox/a"}));
  EXPECT_TRUE(is_private("fs.open", {"/inbox/a", ""}));
  EXPECT_TRUE(is_private("fs.open", {"/inbox/a", "x"})) << "exclusive makes none without create";
  EXPECT_FALSE(is_private("fs.status", {"/inbox"})) << "that the granted directory is there";
  EXPECT_FALSE(is_private("fs.read", {"/inbox/a"}, {.error = &missing}));
  const HostError too_large{Errno::kNoMemory, "/inbox/a has 123 bytes", {}};
  EXPECT_TRUE(is_private("fs.read", {"/inbox/a"}, {.error = &too_large})) << "its size was told";
  EXPECT_FALSE(is_private("fs.read", {"/plain/a"}));
  EXPECT_FALSE(is_private("fs.write", {"/inbox/a", "x"}));
}

TEST_F(Reads, HowAChangeFailsSaysWhatIsThere) {
  const auto fails = [&](Errno code, std::string_view function, const Arguments& arguments) {
    const HostError error{code, "so it is", {}};
    return is_private(function, arguments, {.error = &error});
  };
  policy.fs[0].mode = policy::FsMode::kWrite;
  ASSERT_EQ(policy.fs[0].guest, "/inbox");
  EXPECT_TRUE(fails(Errno::kExists, "fs.make_directory", {"/inbox/a"}));
  EXPECT_TRUE(fails(Errno::kNotEmpty, "fs.remove_directory", {"/inbox/a"}));
  EXPECT_TRUE(fails(Errno::kIsDir, "fs.unlink", {"/inbox/a"}));
  EXPECT_TRUE(fails(Errno::kIsDir, "fs.write", {"/inbox/a", "x"}));
  EXPECT_TRUE(fails(Errno::kTooBig, "fs.append", {"/inbox/a", "x"}));
  EXPECT_TRUE(fails(Errno::kExists, "fs.open", {"/inbox/a", "wcx"}));
  EXPECT_TRUE(fails(Errno::kNotDir, "fs.rename", {"/plain/a", "/inbox/a"}));
  EXPECT_TRUE(fails(Errno::kNotDir, "fs.rename", {"/inbox/a", "/plain/a"}));
  EXPECT_TRUE(fails(Errno::kExists, "fs.symlink", {"a", "/inbox/a"}));
  EXPECT_TRUE(fails(Errno::kExists, "fs.link", {"/plain/a", "/inbox/a"}));
  EXPECT_TRUE(fails(Errno::kAccess, "fs.set_times", {"/inbox/a", "", ""}))
      << "of the host, not of the policy";
  EXPECT_TRUE(fails(Errno::kNotDir, "fs.stat", {"/inbox/a/b"})) << "there is an a";
  EXPECT_FALSE(fails(Errno::kExists, "fs.symlink", {"/inbox/a", "/plain/a"})) << "a target is not looked at";
  EXPECT_FALSE(fails(Errno::kExists, "fs.make_directory", {"/inbox"})) << "that it is granted is known";
  EXPECT_FALSE(fails(Errno::kNotFound, "fs.unlink", {"/inbox/a"})) << "as of a look at it";
  EXPECT_FALSE(fails(Errno::kBudget, "fs.write", {"/inbox/a", "x"}));
  EXPECT_FALSE(fails(Errno::kExists, "fs.make_directory", {"/plain/a"}));
  policy.fs[0].mode = policy::FsMode::kRead;
  EXPECT_FALSE(fails(Errno::kAccess, "fs.write", {"/inbox/a", "x"})) << "the policy says so";
}

TEST_F(Reads, WhatIsEmptyIsThereAllTheSame) {
  EXPECT_TRUE(is_private("fs.read", {"/inbox/a"}, {.has_content = false}));
  EXPECT_FALSE(is_private("fs.find_link", {"/inbox/a"}, {.has_content = false}));
  world.kv_set("bit 7", "").value();
  EXPECT_TRUE(gate.kv_get("bit 7"));
  EXPECT_FALSE(guard.report().state.untrusted_reads.first.empty());
}

TEST_F(Reads, HowLargeAGrantedFileIs) {
  EXPECT_TRUE(is_private("fs.stat", {"/inbox"}, {.is_directory = false}));
  EXPECT_TRUE(is_private("fs.status", {"/inbox"}, {.is_directory = false}));
  EXPECT_FALSE(is_private("fs.stat", {"/inbox"}, {.is_directory = true}));
}

TEST_F(Reads, AFileThatIsMadeAnewIsReadWhenItIsRead) {
  const FlowGuard::Answer opened{.handle = 3};
  guard.note("fs.open", std::vector<std::string_view>{"/inbox/new", "wct"}, opened);
  guard.note("fs.write_at", std::vector<std::string_view>{"3", "0", "x"}, {});
  EXPECT_TRUE(guard.report().state.private_reads.first.empty());
  guard.note("fs.read_at", std::vector<std::string_view>{"3", "0", "9"}, {});
  EXPECT_FALSE(guard.report().state.private_reads.first.empty());
}

TEST(SqlReads, AnErrorOfAQueryTellsOfTheData) {
  const policy::Policy policy = policy_with(R"(
[trifecta]
egress = "close"
[[sql]]
name = "crm"
path = "crm.db"
private = true
)");
  FlowGuard guard(policy, std::make_shared<Flows>(), nullptr);
  const HostError overflow{Errno::kInvalid, "integer overflow", {}};
  guard.note("sql.query", std::vector<std::string_view>{"crm", "SELECT …", ""}, {.error = &overflow});
  EXPECT_FALSE(guard.report().state.private_reads.first.empty());
}

TEST(Input, IsWhatThePolicySays) {
  policy::Policy policy = policy_with("[trifecta]\negress = \"close\"\ninput_untrusted = true\n");
  FlowGuard guard(policy, std::make_shared<Flows>(), nullptr);
  guard.note_input();
  ASSERT_EQ(guard.report().state.untrusted_reads.first.size(), 1u);
  EXPECT_EQ(guard.report().state.untrusted_reads.first[0], (FlowRead{0, "input", ""}));
  EXPECT_TRUE(guard.report().state.private_reads.first.empty());
}

// -- recorded calls

TEST_F(Rule, APastRunIsJudgedByEachHop) {
  auto judge = CallJudge::create(policy);
  ASSERT_TRUE(judge);
  const std::vector<std::string> file = {"/inbox/a"}, page = {"GET", "https://own.example/"};
  const std::vector<HttpHop> heard = {{"GET", "https://own.example/"}, {"GET", "https://web.example/"}},
                             elsewhere = {{"GET", "https://own.example/"}, {"GET", "https://no.example/"}};
  judge->begin_run();
  EXPECT_FALSE(judge->judge({.function = "http.request", .decided_by = page, .heard = heard}).value());
  EXPECT_FALSE(judge->judge({.function = "fs.read", .decided_by = file}).value());
  EXPECT_TRUE(judge->judge({.function = "http.request", .decided_by = page}).value());
  judge->begin_run();
  EXPECT_TRUE(judge->judge({.function = "http.request", .decided_by = page, .heard = elsewhere}).value());
}

TEST_F(Rule, APastRunIsJudgedByWhatItHadRead) {
  auto judge = CallJudge::create(policy);
  ASSERT_TRUE(judge);
  const std::vector<std::string> file = {"/inbox/a"}, key = {"k"}, page = {"GET", "https://web.example/"};
  const auto ask = [&](std::string_view function, const std::vector<std::string>& by,
                       Errno code = Errno::kOk) {
    return judge->judge({.function = function, .decided_by = by, .final_url = {}, .code = code}).value();
  };
  judge->begin_run("s");
  EXPECT_FALSE(ask("http.request", page));
  EXPECT_FALSE(ask("fs.read", file, Errno::kNotFound));
  EXPECT_FALSE(ask("http.request", page));
  EXPECT_FALSE(ask("fs.read", file));
  const auto stopped = ask("http.request", page);
  ASSERT_TRUE(stopped);
  EXPECT_TRUE(stopped->reason.starts_with(kTrifectaRule));
  judge->begin_run("s");
  EXPECT_TRUE(ask("http.request", page)) << "the session's next turn";
  judge->begin_run();
  EXPECT_FALSE(ask("http.request", page)) << "another run";
}

}  // namespace
}  // namespace membrane::host
