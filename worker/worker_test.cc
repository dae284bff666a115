// Runs in workers give the same results as those in this process.
#include "worker/worker.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "base/sanitized_testing.h"
#include "sandbox/run/report_building.h"
#include "sandbox/session/template_testing.h"
#include "worker/trifecta_testing.h"

namespace membrane::worker {
namespace {

using sandbox::Outcome;
using sandbox::Report;

sandbox::Program program(std::string text) {
  sandbox::Program made;
  made.source = std::move(text);
  return made;
}

Report run(const std::string& text, const sandbox::RunOptions& options = {}) {
  const auto worker = Worker::start();
  EXPECT_TRUE(worker);
  return (*worker)->run(program(text), options);
}

constexpr const char* kAdds = R"((func (export "run") (result i32) (i32.add (i32.const 40) (i32.const 2))))";
constexpr const char* kSpins = R"((func (export "run") (loop $again (br $again))))";
constexpr const char* kStores = R"(
  (func (export "run")
    (call $kv.set! (string "colour") (string "blue"))
    (call $io.print (call $kv.get! (string "colour")))))";

// The parts that do not depend on the clock.
std::string essence(Report report) {
  report.compile_us = report.run_us = 0;
  for (sandbox::HostCallRecord& call : report.host_calls) call.latency_us = 0;
  return render_json(report, true);
}

class Alike : public testing::TestWithParam<const char*> {};

TEST_P(Alike, AReportIsTheSameAsInThisProcess) {
  sandbox::RunOptions options;
  options.policy.limits.fuel = 100'000;
  options.policy.kv.emplace();
  const std::string here = essence(sandbox::run(program(GetParam()), options));
  EXPECT_EQ(essence(run(GetParam(), options)), here);
  const auto rehearsed = Worker::start();
  ASSERT_TRUE(rehearsed);
  (*rehearsed)->rehearse();
  ASSERT_TRUE((*rehearsed)->is_alive()) << (*rehearsed)->problem();
  EXPECT_EQ(essence((*rehearsed)->run(program(GetParam()), options)), here);
}

INSTANTIATE_TEST_SUITE_P(
    Worker, Alike,
    testing::Values(
        kAdds, kSpins, kStores, "(func", R"((func (export "run") unreachable))",
        R"((func (export "run") (call $http.get! (string "https://example.org/"))))",
        R"((func (export "run") (call $time.now_ms) (drop) (call $io.print (string "x"))))",
        R"((memory 1 70000) (func (export "run") (drop (memory.grow (i32.const 60000))) unreachable))"));

// -- the trifecta rule

TEST_F(TrifectaRule, HoldsAlikeInAWorkerAndInThisProcess) {
  const Report here = sandbox::run(program(leaks("")), options);
  EXPECT_EQ(here.outcome, Outcome::kDenied);
  ASSERT_TRUE(here.flows);
  EXPECT_TRUE(here.flows->state.is_closed());
  ASSERT_EQ(here.flows->egress.size(), 1u);
  EXPECT_EQ(here.flows->egress[0].decision, host::Leaving::kClosed);
  EXPECT_EQ(model.heard, "before;");
  EXPECT_EQ(essence(run(leaks(""), options)), essence(here));
  EXPECT_EQ(model.heard, "before;before;");
}

TEST_F(TrifectaRule, APersonIsAskedByTheSupervisor) {
  options.policy.trifecta->egress = policy::Egress::kAsk;
  std::vector<std::string> asked;
  options.approve = [&](const host::EgressQuestion& question) {
    asked.push_back(question.function + " after " + question.reads.private_reads.first.at(0).target);
    return host::Approval::kYes;
  };
  EXPECT_EQ(run(leaks(""), options).outcome, Outcome::kOk);
  EXPECT_EQ(asked, std::vector<std::string>{"ai.complete after /inbox/secret"});
  EXPECT_EQ(model.heard, "before;the secret;");
  options.approve = nullptr;
  EXPECT_EQ(run(leaks(""), options).outcome, Outcome::kDenied);
}

TEST_F(TrifectaRule, AFrozenRunHasReadWhatItHadRead) {
  const std::string program_text = leaks(R"(
    (loop $again
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $i) (i32.const 200000)))))");
  options.policy.kv->path = folder + ".db";  // one in memory is in no snapshot
  options.freeze_after_fuel = 500'000;
  const Report frozen = run(program_text, options);
  ASSERT_EQ(frozen.outcome, Outcome::kFrozen) << render_json(frozen, true);
  options.freeze_after_fuel.reset();
  for (const bool in_worker : {false, true}) {
    const auto worker = Worker::start();
    const Report report =
        in_worker ? (*worker)->thaw(frozen.snapshot, options) : sandbox::thaw(frozen.snapshot, options);
    EXPECT_EQ(report.outcome, Outcome::kDenied);
    ASSERT_TRUE(report.flows);
    EXPECT_EQ(report.flows->egress.size(), 1u);
  }
  EXPECT_EQ(model.heard, "before;");
}

TEST(Worker, ItChecksAsThisProcessDoes) {
  for (const std::string& source : {std::string(kAdds), std::string("(func (export \"run\") (i32.ad))"),
                                    std::string(), std::string("\0asm", 4), std::string(200'000, '('),
                                    "(func (export \"run\") (call $kv.gett))" + std::string(1000, ' ')}) {
    const sandbox::CheckRequest request{source, "program.wat", true, 600'000};
    const sandbox::CheckAnswer here = sandbox::check_program(request);
    const auto worker = Worker::start();
    ASSERT_TRUE(worker);
    const auto there = (*worker)->check(request);
    ASSERT_TRUE(there) << there.error().message;
    EXPECT_EQ(there->plain, here.plain);
    EXPECT_EQ(there->was_stopped, here.was_stopped);
    ASSERT_EQ(there->findings.size(), here.findings.size());
    for (size_t i = 0; i < here.findings.size(); ++i) {
      EXPECT_EQ(there->findings[i].text, here.findings[i].text);
      EXPECT_EQ(there->findings[i].code, here.findings[i].code);
      EXPECT_EQ(there->findings[i].place, here.findings[i].place);
    }
  }
}

TEST(Worker, TheJournalIsTheSupervisors) {
  host::Journal here, there;
  sandbox::RunOptions options;
  options.policy.kv.emplace();
  options.record = &here;
  ASSERT_EQ(run(kStores, options).outcome, Outcome::kOk);
  options.record = &there;
  ASSERT_EQ(sandbox::run(program(kStores), options).outcome, Outcome::kOk);
  ASSERT_EQ(here.size(), there.size());
  ASSERT_GT(here.size(), 0u);
  options.record = nullptr;
  options.replay = &here;
  EXPECT_EQ(run(kStores, options).outcome, Outcome::kOk);
  EXPECT_EQ(run(kAdds, options).outcome, Outcome::kDiverged);
}

TEST(Worker, WhatItPrintsComesAsItIsPrinted) {
  sandbox::RunOptions options;
  std::string heard;
  options.on_stdout = [&](std::string_view text) { heard += text; };
  const Report report = run(
      R"((func (export "run") (call $io.print (string "one ")) (call $io.print (string "two"))))", options);
  EXPECT_EQ(heard, "one two");
  EXPECT_EQ(report.stdout_text, heard);
}

TEST(Worker, ItStopsWhenItsOwnerSays) {
  std::atomic<bool> cancel = false;
  sandbox::RunOptions options;
  options.policy.limits.fuel = UINT64_MAX / 2;
  options.policy.limits.wall_ms = 600'000;
  options.cancel = &cancel;
  options.on_stdout = [&](std::string_view) { cancel = true; };
  const Report report =
      run(R"((func (export "run") (call $io.print (string "x")) (loop $again (br $again))))", options);
  EXPECT_EQ(report.outcome, Outcome::kCancelled);
}

TEST(Worker, ASharedBudgetPaysForWhatWasUsed) {
  sandbox::RunOptions options;
  options.budget = std::make_shared<policy::Budget>(options.policy.limits);
  const uint64_t before = options.budget->left(policy::Resource::kFuel);
  const Report report = run(kAdds, options);
  EXPECT_EQ(options.budget->left(policy::Resource::kFuel), before - report.fuel_used);
}

TEST(Zygote, WorkersOfAZygoteAreApart) {
  const auto zygote = Zygote::start();
  ASSERT_TRUE(zygote);
  auto one = (*zygote)->spawn(), other = (*zygote)->spawn();
  ASSERT_TRUE(one && other);
  EXPECT_EQ((*one)->run(program(kAdds), {}).outcome, Outcome::kOk);
  (*one)->kill();
  EXPECT_EQ((*one)->run(program(kAdds), {}).outcome, Outcome::kFailed);
  EXPECT_EQ((*other)->run(program(kAdds), {}).outcome, Outcome::kOk);
  EXPECT_EQ((*(*zygote)->spawn())->run(program(kAdds), {}).outcome, Outcome::kOk);
}

TEST(Zygote, EveryWallIsUp) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer makes system calls of its own";
  const auto zygote = Zygote::start();
  ASSERT_TRUE(zygote);
  const auto worker = (*zygote)->spawn();
  ASSERT_TRUE(worker);
  for (const auto& [name, why] : (*worker)->raise_walls({}).missing) ADD_FAILURE() << name << ": " << why;
}

std::vector<std::string> children_of(int pid) {
  const std::string number = std::to_string(pid);
  std::ifstream file("/proc/" + number + "/task/" + number + "/children");
  return {std::istream_iterator<std::string>(file), {}};
}
std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Zygote, RehearsesNoPackages) {
  const auto language = sandbox::open_template("js");
  if (!language) GTEST_SKIP() << "JavaScript is not installed";
  sandbox::TemplateSpec with_packages = language->spec();
  with_packages.imports = "/packages";
  const auto worker = Worker::start();
  ASSERT_TRUE(worker);
  ASSERT_TRUE((*worker)->open(language->spec()));
  ASSERT_TRUE((*worker)->open(with_packages));
  EXPECT_EQ((*worker)->rehearse(), 1u);
  EXPECT_TRUE((*worker)->is_alive());
}

TEST(Zygote, WorkersEndBeforeItWhereMemoryIsWanting) {
  const auto zygote = Zygote::start();
  ASSERT_TRUE(zygote);
  const auto worker = (*zygote)->spawn();
  ASSERT_TRUE(worker);
  (*worker)->raise_walls({});
  const auto score = [](const std::string& pid) { return text_of("/proc/" + pid + "/oom_score_adj"); };
  ASSERT_EQ(children_of((*zygote)->process()).size(), 1u);
  EXPECT_EQ(score(children_of((*zygote)->process())[0]), "1000\n");
  EXPECT_EQ(score(std::to_string((*zygote)->process())), score("self"));
}

// What a compromised worker can fill without the limit of a control group.
TEST(Zygote, WorkersHaveFewFilesAndShortOnes) {
  const auto zygote = Zygote::start();
  ASSERT_TRUE(zygote);
  const auto worker = (*zygote)->spawn();
  ASSERT_TRUE(worker);
  constexpr uint64_t kMemoryBytes = 256u << 20;
  (*worker)->raise_walls({.memory_bytes = kMemoryBytes});
  ASSERT_EQ(children_of((*zygote)->process()).size(), 1u);
  std::istringstream limits(text_of("/proc/" + children_of((*zygote)->process())[0] + "/limits"));
  uint64_t files = 0, bytes = 0;
  for (std::string line; std::getline(limits, line);) {
    if (line.starts_with("Max open files")) files = std::stoull(line.substr(26));
    if (line.starts_with("Max file size")) bytes = std::stoull(line.substr(26));
  }
  EXPECT_GT(files, 32u);
  EXPECT_LT(files, 64u);  // those that stay open are few
  EXPECT_EQ(bytes, kMemoryBytes);
  const char* const kLong = R"((memory 8192) (data (i32.const 400000000) "x") (func (export "run")))";
  EXPECT_NE((*worker)->run(program(kLong), {}).outcome, Outcome::kOk);  // and the worker lives
  EXPECT_EQ((*worker)->run(program(kAdds), {}).outcome, Outcome::kOk);
}

// Its walls stood before anybody knew whom it would serve.
TEST(Zygote, AWorkerThatWaitedHasTheLimitsOfItsSandbox) {
  const auto zygote = Zygote::start();
  ASSERT_TRUE(zygote);
  const auto worker = (*zygote)->spawn();
  ASSERT_TRUE(worker);
  (*worker)->raise_walls({});
  constexpr uint64_t kMemoryBytes = 256u << 20;
  EXPECT_TRUE((*worker)->raise_walls({.memory_bytes = kMemoryBytes}).missing.empty() || kIsSanitized);
  ASSERT_EQ(children_of((*zygote)->process()).size(), 1u);
  const std::string limits = text_of("/proc/" + children_of((*zygote)->process())[0] + "/limits");
  const auto limit = [&](const std::string& name) { return limits.substr(limits.find(name) + 26, 9); };
  EXPECT_EQ(limit("Max file size"), "268435456");
  if (!kIsSanitized) EXPECT_NE(limit("Max data size"), "unlimited");
}

TEST(Zygote, EndsWithAllOfItsWorkersAlsoWhenTheyHang) {
  const auto zygote = Zygote::start();
  ASSERT_TRUE(zygote);
  const auto worker = (*zygote)->spawn();
  ASSERT_TRUE(worker);
  (*worker)->raise_walls({});
  kill(std::stoi(children_of((*zygote)->process()).at(0)), SIGSTOP);
  (*zygote)->kill();
  EXPECT_EQ((*worker)->run(program(kAdds), {}).outcome, Outcome::kFailed);
  EXPECT_FALSE((*zygote)->spawn());
}

// -- runs that are frozen with an open file

// Opens and reads /data/a, uses some millions of fuel, and reads on.
constexpr const char* kReadsInTwoParts = R"((module
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 64) "data/a")
  (func $part (if (call $read (i32.load (i32.const 32)) (i32.const 0) (i32.const 1) (i32.const 8)) (then unreachable)))
  (func (export "_start") (local $n i32)
    (if (call $open (i32.const 3) (i32.const 0) (i32.const 64) (i32.const 6) (i32.const 0) (i64.const 2) (i64.const 0)
                    (i32.const 0) (i32.const 32)) (then unreachable))
    (i32.store (i32.const 0) (i32.const 100))
    (i32.store (i32.const 4) (i32.const 3))
    (call $part)
    (loop $again
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br_if $again (i32.lt_u (local.get $n) (i32.const 1000000))))
    (call $part))))";

TEST(Frozen, AnOpenFileIsReportedAfterTheThaw) {
  const std::string directory = testing::TempDir() + "frozen_" + std::to_string(getpid());
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "/a") << "a text";
  sandbox::RunOptions options;
  options.policy.fs.push_back({.guest = "/data", .host = directory, .mode = policy::FsMode::kRead});
  options.freeze_after_fuel = 4'000'000;
  const Report frozen = run(kReadsInTwoParts, options);
  ASSERT_EQ(frozen.outcome, Outcome::kFrozen) << render_text(frozen, false);
  ASSERT_EQ(frozen.host_calls.size(), 1u);
  options.freeze_after_fuel.reset();
  const auto worker = Worker::start();
  ASSERT_TRUE(worker);
  const Report whole = (*worker)->thaw(frozen.snapshot, options);
  EXPECT_EQ(whole.outcome, Outcome::kOk) << render_text(whole, false);
  ASSERT_EQ(whole.host_calls.size(), 2u);
  EXPECT_EQ(whole.host_calls[1].name, "fs.file_read");
  EXPECT_EQ(whole.host_calls[1].bytes_in, 6u);
  std::filesystem::remove_all(directory);
}

// -- functions of the embedder

class FunctionsInAWorker : public testing::Test {
 protected:
  void SetUp() override {
    template_ = sandbox::open_template("js");
    if (!template_) GTEST_SKIP() << "JavaScript is not installed";
    options_.policy.limits = policy::language_limits();
    auto functions = std::make_shared<sandbox::GuestFunctions>();
    functions->description = R"({"functions":[{"name":"price"},{"name":"approve"}]})";
    functions->call = [](std::span<const sandbox::FunctionCall> calls, const sandbox::MustStop&) {
      std::vector<sandbox::FunctionAnswer> answers;
      for (const sandbox::FunctionCall& call : calls)
        answers.push_back(call.name == "price" ? sandbox::FunctionAnswer{.value = "350"}
                                               : sandbox::FunctionAnswer::later());
      return answers;
    };
    options_.guest_functions = std::move(functions);
  }
  std::unique_ptr<sandbox::Session> make(std::optional<std::vector<uint8_t>> kept = {}) {
    const auto worker = Worker::start();
    EXPECT_TRUE(worker && (*worker)->open(template_->spec()));
    auto made = kept ? (*worker)->restore(template_->spec(), *kept, options_)
                     : (*worker)->create(template_->spec(), options_);
    EXPECT_TRUE(made) << made.error().message;
    return made ? *std::move(made) : nullptr;
  }

  std::shared_ptr<const sandbox::Template> template_;
  sandbox::RunOptions options_;
};

TEST_F(FunctionsInAWorker, AreAnsweredByItsSupervisor) {
  const auto session = make();
  ASSERT_NE(session, nullptr);
  const Report report = session->exec({.code = "price('tea') + price('milk')"});
  EXPECT_EQ(report.result, "700") << render_text(report, false);
  ASSERT_EQ(report.host_calls.size(), 2u);
  EXPECT_EQ(report.host_calls[1].arguments, "\"milk\"");
}

TEST_F(FunctionsInAWorker, CannotUseTheSessionWhoseTurnCallsThem) {
  std::unique_ptr<sandbox::Session> session;
  std::vector<std::string> inside;
  auto functions = std::make_shared<sandbox::GuestFunctions>(*options_.guest_functions);
  functions->call = [&](std::span<const sandbox::FunctionCall> calls, const sandbox::MustStop&) {
    for (const Report& report : {session->exec({.code = "1"}), session->go_on(), session->resume({})})
      inside.push_back(report.outcome == Outcome::kInvalid ? report.errors.at(0).message : "done");
    inside.push_back(session->keep() ? "kept" : session->keep().error().message);
    const auto put = session->put_file("/tmp/a", "x");
    inside.push_back(put ? "put" : put.error().reason);
    const auto fork = session->fork(1);
    inside.push_back(fork ? "forked" : fork.error().message);
    return std::vector<sandbox::FunctionAnswer>(calls.size(), {.value = "4"});
  };
  options_.guest_functions = std::move(functions);
  session = make();
  ASSERT_NE(session, nullptr);
  const Report report = session->exec({.code = "price(1)"});
  EXPECT_EQ(report.result, "4") << render_text(report, false);
  EXPECT_EQ(inside, std::vector<std::string>(6, "a turn of the session is running"));
  EXPECT_EQ(session->exec({.code = "price(1) + 1"}).result, "5");
}

TEST_F(FunctionsInAWorker, CountAgainstTheLimitHere) {
  options_.policy.limits.host_calls = 1;
  const auto session = make();
  ASSERT_NE(session, nullptr);
  const Report report = session->exec({.code = "price(1); price(2)"});
  EXPECT_EQ(report.outcome, Outcome::kRaised);
  EXPECT_TRUE(report.errors.at(0).message.contains("host calls")) << report.errors.at(0).message;
}

TEST_F(FunctionsInAWorker, MayAnswerLaterInAnotherWorker) {
  const auto session = make();
  ASSERT_NE(session, nullptr);
  const Report waiting = session->exec({.code = "price(1) + approve(2)"});
  ASSERT_EQ(waiting.outcome, Outcome::kWaiting) << render_text(waiting, false);
  ASSERT_EQ(session->waits_for().size(), 1u);
  const auto kept = session->keep();
  ASSERT_TRUE(kept) << kept.error().message;
  const auto restored = make(*kept);
  ASSERT_NE(restored, nullptr);
  EXPECT_EQ(restored->waits_for(), session->waits_for());
  const auto fork = session->fork(1);
  ASSERT_TRUE(fork) << fork.error().message;
  for (sandbox::Session* const each : {session.get(), restored.get(), fork->get()}) {
    const Report report = each->resume({{.value = "1"}});
    EXPECT_EQ(report.result, "351") << render_text(report, false);
    EXPECT_EQ(each->exec({.code = "2 + 3"}).result, "5");
  }
}

TEST_F(FunctionsInAWorker, ThatAreWaitedForAreGivenUp) {
  const auto session = make();
  ASSERT_NE(session, nullptr);
  EXPECT_FALSE(session->abandon());
  session->exec({.code = "var x = 1"});
  ASSERT_EQ(session->exec({.code = "x = 2; approve(2)"}).outcome, Outcome::kWaiting);
  const auto kept = session->keep();
  ASSERT_TRUE(kept) << kept.error().message;
  const auto restored = make(*kept);
  ASSERT_NE(restored, nullptr);
  for (sandbox::Session* const each : {session.get(), restored.get()}) {
    const Report refused = each->exec({.code = "x"});
    EXPECT_TRUE(refused.errors.at(0).hint.contains("abandon()")) << render_text(refused, false);
    const auto done = each->abandon();
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(each->exec({.code = "x"}).result, "1");
    ASSERT_EQ(each->exec({.code = "price(1) + approve(3)"}).outcome, Outcome::kWaiting);
    EXPECT_EQ(each->resume({{.value = "1"}}).result, "351");
  }
}

TEST_F(FunctionsInAWorker, LearnThatTheirTurnMustEnd) {
  options_.policy.limits.wall_ms = 300;
  auto functions = std::make_shared<sandbox::GuestFunctions>(*options_.guest_functions);
  functions->call = [](std::span<const sandbox::FunctionCall>, const sandbox::MustStop& must_stop) {
    while (!must_stop()) std::this_thread::yield();
    return std::vector<sandbox::FunctionAnswer>{{.value = "1"}};
  };
  options_.guest_functions = std::move(functions);
  const auto session = make();
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(session->exec({.code = "price(1); for (;;) {}"}).outcome, Outcome::kTimedOut);
}

}  // namespace
}  // namespace membrane::worker
