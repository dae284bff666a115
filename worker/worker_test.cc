// Runs in workers give the same results as those in this process; and a worker that lies, crashes, hangs or
// floods costs one run.
#include "worker/worker.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <thread>

#include "base/sanitized_testing.h"
#include "sandbox/report_building.h"
#include "sandbox/session_state.h"
#include "sandbox/template_testing.h"
#include "worker/broker_calls.h"
#include "worker/link.h"
#include "worker/messages.h"

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

class Echo final : public host::Model {
 public:
  host::HostResult<host::ChatAnswer> complete(const host::ChatRequest& request, uint64_t) override {
    heard += request.prompt + ";";
    return host::ChatAnswer{request.prompt, 1, 1};
  }
  host::HostResult<std::vector<float>> embed(std::string_view, uint64_t) override {
    return std::vector<float>{1};
  }
  std::string heard;
};

// A private directory, a store with untrusted contents, and a model as the way out.
class TrifectaRule : public testing::Test {
 protected:
  TrifectaRule() {
    std::ofstream(folder + "/secret") << "the secret";
    options.policy.fs.push_back(
        {.guest = "/inbox", .host = folder, .marks = {.is_private = true, .is_untrusted = {}}});
    options.policy.kv.emplace().marks.is_untrusted = true;
    options.policy.ai.emplace();
    options.policy.trifecta.emplace();
    options.model = &model;
  }
  // Reads both, and then runs `then`.
  static std::string leaks(const std::string& then) {
    return R"((func (export "run") (local $i i32)
      (call $ai.complete! (string "before")) (drop)
      (call $kv.set! (string "k") (string "v"))
      (drop (call $kv.get! (string "k")))
      (drop (call $fs.read! (string "/inbox/secret"))))" +
           then + R"((call $ai.complete! (call $fs.read! (string "/inbox/secret"))) (drop)))";
  }

  const std::string folder = testing::TempDir() + "trifecta_" + std::to_string(getpid());
  const bool is_made = std::filesystem::create_directories(folder);
  Echo model;
  sandbox::RunOptions options;
};

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

TEST(Zygote, EveryWallStands) {
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
TEST(Zygote, AWorkerThatWaitedHasTheLimitsOfWhomItServes) {
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

// -- workers that are not what they should be --------------------------------------------------------

// A process that does what it likes with the socket.
std::shared_ptr<Worker> misbehaving(const std::function<void(Link&)>& behaves) {
  auto ends = Channel::make_pair();
  Walls walls;
  const auto made = new_process(walls);
  EXPECT_TRUE(made);
  if (made->pid == 0) {
    {
      const Descriptor others = std::move(ends->first);
    }
    Link link(Channel(std::move(ends->second), UINT32_MAX));
    behaves(link);
    _exit(7);
  }
  return Worker::adopt(std::move(ends->first), Descriptor(made->process_file), made->pid);
}

std::string no_walls_missing() {
  Writer out;
  out.put(uint64_t{0});
  return out.take();
}

// It raises its walls properly, and when asked to run a program, does what `behaves` does.
Report report_of(const std::function<void(Link&, uint32_t subject)>& behaves,
                 sandbox::RunOptions options = {}) {
  const auto worker = misbehaving([&](Link& link) {
    link.receive();
    link.send(Kind::kDone, 0, no_walls_missing());
    behaves(link, link.receive().subject);
  });
  Report report = worker->run(program(kAdds), options);
  EXPECT_EQ(worker->is_alive(), report.outcome == Outcome::kOk);
  EXPECT_EQ(worker->run(program(kAdds), options).outcome, Outcome::kFailed);
  return report;
}

std::string error_of(const std::function<void(Link&, uint32_t subject)>& behaves) {
  const Report report = report_of(behaves);
  EXPECT_EQ(report.outcome, Outcome::kFailed);
  return report.errors.empty() ? "" : report.errors.front().message;
}

TEST(MisbehavingWorker, OneThatEndsIsSaidToHaveEnded) {
  EXPECT_EQ(error_of([](Link&, uint32_t) {}), "the worker ended with exit code 7");
}

TEST(MisbehavingWorker, OneThatCrashesIsSaidToHaveCrashed) {
  EXPECT_NE(error_of([](Link&, uint32_t) {
              signal(SIGSEGV, SIG_DFL);
              *static_cast<volatile int*>(nullptr) = 1;
            }).find("crashed"),
            std::string::npos);
}

TEST(MisbehavingWorker, OneThatDoesNotAnswerIsEnded) {
  sandbox::RunOptions options;
  options.policy.limits.wall_ms = 1;
  const Report report = report_of(
      [](Link&, uint32_t) {
        while (true) pause();
      },
      options);
  EXPECT_EQ(report.outcome, Outcome::kTimedOut);
}

TEST(MisbehavingWorker, OneThatStopsItselfIsEnded) {
  sandbox::RunOptions options;
  options.policy.limits.wall_ms = 1;
  const Report report = report_of(
      [](Link&, uint32_t) {
        raise(SIGSTOP);
        while (true) pause();
      },
      options);
  EXPECT_EQ(report.outcome, Outcome::kTimedOut);
}

TEST(MisbehavingWorker, WhatItFindsMustBeFindings) {
  const auto found = misbehaving([](Link& link) {
                       link.receive();
                       link.send(Kind::kDone, 0, no_walls_missing());
                       link.send(Kind::kDone, link.receive().subject, "no findings");
                     })->check({"(module)", "a.wat", false, 600'000});
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kUnavailable);
}

TEST(MisbehavingWorker, ItsReportMustBeOne) {
  EXPECT_EQ(error_of([](Link& link, uint32_t subject) {
              link.send(Kind::kDone, subject, "nonsense");
              pause();
            }),
            "the worker's report is malformed");
}

TEST(MisbehavingWorker, ItAnswersForItselfOnly) {
  const auto said = error_of([](Link& link, uint32_t subject) {
    link.send(Kind::kDone, subject + 1, "");
    pause();
  });
  EXPECT_EQ(said, "the worker broke the protocol, and was ended");
}

TEST(MisbehavingWorker, ItCannotAskForAnotherSession) {
  const auto said = error_of([](Link& link, uint32_t subject) {
    Writer out;
    out.put(Question::kPosition);
    link.send(Kind::kRequest, subject + 1, out.bytes());
    pause();
  });
  EXPECT_EQ(said, "the worker broke the protocol, and was ended");
}

TEST(MisbehavingWorker, ItCannotAskWhatThereIsNot) {
  EXPECT_EQ(error_of([](Link& link, uint32_t subject) {
              link.send(Kind::kRequest, subject, "\xff\xff\xff");
              pause();
            }),
            "the worker sent an invalid request");
}

TEST(MisbehavingWorker, ItsOutputHasALimit) {
  sandbox::RunOptions options;
  uint64_t heard = 0;
  options.policy.limits.output_bytes = 1000;
  options.on_stdout = [&](std::string_view text) { heard += text.size(); };
  const Report report = report_of(
      [](Link& link, uint32_t subject) {
        const std::string text(10'000, 'x');
        while (true) link.write(subject, false, text);
      },
      options);
  EXPECT_EQ(report.outcome, Outcome::kFailed);
  EXPECT_LT(heard, 2u << 20);
}

TEST(MisbehavingWorker, AMessageHasALimit) {
  const auto said = error_of([](Link& link, uint32_t subject) {
    const std::string much(400u << 20, 'x');
    link.send(Kind::kDone, subject, much);
    pause();
  });
  EXPECT_NE(said.find("is longer than"), std::string::npos);
}

// It sends requests directly to the supervisor, and between them any other message that a worker can send.
TEST_F(TrifectaRule, AWorkerThatWasTakenOverCannotClearWhatItHasRead) {
  const Report report = report_of(
      [](Link& link, uint32_t subject) {
        const auto ask = [&](BrokerCall what, const auto&... arguments) {
          link.ask(subject, bytes_of(Question::kBroker, what, UINT64_MAX, arguments...));
        };
        ask(BrokerCall::kv_set, "k", "v");
        ask(BrokerCall::kv_get, "k");
        ask(BrokerCall::file_read, "/inbox/secret", UINT64_MAX);
        link.ask(subject, bytes_of(Question::kGoTo, host::World::Position{}));
        link.ask(subject, bytes_of(Question::kTakeAfter, host::World::Amounts{}));
        ask(BrokerCall::ai_complete, host::ChatRequest{"", "the secret", 0});
        ask(BrokerCall::ai_embed, "the secret");
        Report lie;
        link.send(Kind::kDone, subject, bytes_of(lie));
        pause();
      },
      options);
  EXPECT_EQ(model.heard, "");
  EXPECT_EQ(report.outcome, Outcome::kFailed);
  EXPECT_EQ(report.errors.at(0).code, "worker_differs");
  ASSERT_TRUE(report.flows);
  EXPECT_TRUE(report.flows->state.is_closed());
  ASSERT_EQ(report.flows->egress.size(), 1u) << "embedding is not granted";
  ASSERT_EQ(report.host_calls.size(), 5u);
  EXPECT_EQ(report.host_calls[2].name, "fs.read");
  EXPECT_EQ(report.host_calls[3].error, "EACCES");
}

TEST(MisbehavingWorker, WhatItsPolicyDoesNotGrantIsRefusedByTheSupervisor) {
  sandbox::RunOptions options;
  auto* const refused = static_cast<std::atomic<int>*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  report_of(
      [&](Link& link, uint32_t subject) {
        Writer out;
        out.put(Question::kBroker);
        out.put(BrokerCall::file_read);
        out.put(UINT64_MAX);
        out.put("/etc/passwd");
        out.put(UINT64_MAX);
        const std::string answer = link.ask(subject, out.bytes());
        Reader in(answer);
        const auto bytes = in.get<host::HostResult<std::string>>();
        *refused = in.is_done() && !bytes && bytes.error().code == host::Errno::kAccess ? 1 : 2;
      },
      options);
  EXPECT_EQ(*refused, 1);
  munmap(refused, 4096);
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

TEST(Frozen, AFileThatIsOpenIsToldOfAfterTheThaw) {
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

// -- sessions, and runs that are frozen

// A worker that answers each of these commands, of a session or of a run, as `answers` says; others end it.
std::shared_ptr<Worker> answering(const std::function<std::string(Kind, Link&, uint32_t subject)>& answers) {
  return misbehaving([&](Link& link) {
    while (true) {
      const Frame command = link.receive();
      const auto kind = static_cast<Kind>(command.kind);
      const bool begins = kind == Kind::kCreate || kind == Kind::kRestore;
      link.send(Kind::kDone, command.subject,
                kind == Kind::kRaiseWalls ? no_walls_missing()
                : begins                  ? bytes_of(Status())
                                          : answers(kind, link, command.subject));
    }
  });
}

sandbox::SessionState empty_session() {
  sandbox::SessionState state;
  state.template_name = "python";
  state.fresh.emplace(RandomStream::Key{}, 0);
  return state;
}
sandbox::SessionState paused_session(std::vector<host::CallRecord> calls) {
  sandbox::SessionState state = empty_session();
  sandbox::KeptPause& pause = state.pause.emplace();
  pause.fuel_used = 1;
  pause.history.records = std::move(calls);
  return state;
}
const host::CallRecord kPayment{
    .name = "http.post", .arguments = "https://bank/, pay", .bytes_in = 2, .bytes_out = 100};

Result<std::vector<uint8_t>> kept_by(const std::function<sandbox::SessionState()>& state,
                                     std::optional<uint64_t> fork = {}) {
  const auto worker = answering([&](Kind kind, Link&, uint32_t) {
    if (kind != Kind::kKeep) _exit(1);
    return bytes_of(Result<std::vector<uint8_t>>(sandbox::write_session(state())));
  });
  const auto session = worker->create({}, {});
  EXPECT_TRUE(session);
  return fork ? (*session)->keep_fork(*fork) : (*session)->keep();
}

TEST(MisbehavingWorker, ItKeepsNoPauseOfASessionThatIsNotPaused) {
  for (const std::optional<uint64_t> fork : {std::optional<uint64_t>(), std::optional<uint64_t>(1)}) {
    const auto kept = kept_by([] { return paused_session({kPayment}); }, fork);
    ASSERT_FALSE(kept);
    EXPECT_EQ(kept.error().message, "the worker's session, as bytes, is not paused as the session is");
    EXPECT_TRUE(kept_by(empty_session, fork));
  }
}

TEST(MisbehavingWorker, WhatItsSessionHasReadIsTheSupervisorsWord) {
  const auto kept = kept_by([] {
    sandbox::SessionState state = empty_session();
    state.flows.private_reads.first.push_back({1, "fs.read", "forged"});
    return state;
  });
  ASSERT_TRUE(kept) << kept.error().message;
  const auto state = sandbox::read_session(*kept);
  ASSERT_TRUE(state);
  EXPECT_TRUE(state->flows.is_empty());
}

// Its requests after it was restored with a payment in the turn so far.
Report gone_on(const std::function<TurnEnd()>& end) {
  const auto worker = answering([&](Kind, Link&, uint32_t) { return bytes_of(end()); });
  const auto session = worker->restore({}, sandbox::write_session(paused_session({kPayment})), {});
  EXPECT_TRUE(session);
  return (*session)->go_on();
}

TEST(MisbehavingWorker, ItListsWhatWasDoneBeforeItGoesOn) {
  const auto ended = [](Outcome outcome) {
    TurnEnd end;
    end.report.outcome = outcome;
    return gone_on([&] { return end; });
  };
  for (const Outcome outcome : {Outcome::kOk, Outcome::kRaised, Outcome::kOutOfFuel}) {
    const Report report = ended(outcome);
    ASSERT_EQ(report.errors.size(), 1u);
    EXPECT_EQ(report.errors[0].message,
              "the worker's report leaves out http.post of https://bank/, pay, which was done earlier");
    ASSERT_EQ(report.host_calls.size(), 1u);
  }
  EXPECT_TRUE(ended(Outcome::kInvalid).errors.empty()) << "it was refused";
  const Report cancelled = ended(Outcome::kCancelled);
  EXPECT_TRUE(cancelled.errors.empty()) << "it may not have begun to go on";
  ASSERT_EQ(cancelled.host_calls.size(), 1u) << "and what was done is told";
  EXPECT_EQ(cancelled.host_calls[0].name, "http.post");
}

TEST(MisbehavingWorker, ItIsPausedOnlyWhereItWasAskedTo) {
  const auto message_of = [](Outcome outcome, std::optional<uint64_t> paused_at) {
    const Report report = gone_on([&] {
      TurnEnd end;
      end.report.outcome = outcome;
      end.report.host_calls.push_back(sandbox::line_of(kPayment));
      end.paused_at_fuel = paused_at;
      return end;
    });
    return report.errors.empty() ? "" : report.errors[0].message;
  };
  const std::string said = "the worker's report is not paused as it was asked to";
  EXPECT_EQ(message_of(Outcome::kFrozen, 5), said);
  EXPECT_EQ(message_of(Outcome::kFrozen, {}), said);
  EXPECT_EQ(message_of(Outcome::kOk, 5), said);
  EXPECT_EQ(message_of(Outcome::kOk, {}), "");
}

// Sessions of a well-behaved worker: their turns open a file of /data, and are paused.
class PausedSession : public testing::Test {
 protected:
  PausedSession() {
    std::filesystem::create_directories(directory_);
    std::ofstream(directory_ + "/a") << "text";
    options_.policy.fs.push_back({.guest = "/data", .host = directory_, .mode = policy::FsMode::kRead});
  }
  ~PausedSession() override { std::filesystem::remove_all(directory_); }

  static host::FileHandle open(Link& link, uint32_t subject) {
    const std::string answer = link.ask(subject, bytes_of(Question::kBroker, BrokerCall::file_open,
                                                          UINT64_MAX, "/data/a", host::FileOpening()));
    Reader in(answer);
    const auto opened = in.get<host::HostResult<host::OpenedFile>>();
    return opened ? opened->handle : 0;
  }
  static void close(Link& link, uint32_t subject, host::FileHandle file) {
    link.ask(subject, bytes_of(Question::kBroker, BrokerCall::file_close, UINT64_MAX, file));
  }
  static std::string paused(std::vector<host::CallRecord> calls) {
    TurnEnd end;
    end.report.outcome = Outcome::kFrozen;
    for (const host::CallRecord& call : calls) end.report.host_calls.push_back(sandbox::line_of(call));
    end.paused_at_fuel = 5;
    return bytes_of(end);
  }
  void exec(sandbox::Session& session) {
    EXPECT_EQ(session.exec({.code = "", .pause_at_fuel = 5}).outcome, Outcome::kFrozen);
  }

  const std::string directory_ = testing::TempDir() + "paused_" + std::to_string(getpid());
  const host::CallRecord opened_{.name = "fs.open", .arguments = "/data/a"};
  sandbox::RunOptions options_;
};

TEST_F(PausedSession, ClosesItsFilesWhenItEnds) {
  const auto worker = answering([&](Kind kind, Link& link, uint32_t subject) -> std::string {
    static host::FileHandle file = 0;
    if (kind == Kind::kClose) {
      close(link, subject, file);
      return {};
    }
    file = open(link, subject);
    return paused({opened_});
  });
  auto session = worker->create({}, options_);
  ASSERT_TRUE(session);
  exec(**session);
  session->reset();
  EXPECT_TRUE(worker->is_alive()) << worker->problem();
}

TEST_F(PausedSession, HasForksThatOpenItsFilesAgain) {
  const auto worker = answering([&](Kind kind, Link& link, uint32_t subject) -> std::string {
    if (kind == Kind::kFork) return bytes_of(Status());
    if (kind == Kind::kClose) return {};
    if (kind == Kind::kExec) {
      close(link, subject, open(link, subject));
      return paused({opened_});
    }
    close(link, subject, open(link, subject));  // by its name
    return bytes_of(TurnEnd());
  });
  auto session = worker->create({}, options_);
  ASSERT_TRUE(session);
  exec(**session);
  auto fork = (*session)->fork(1);
  ASSERT_TRUE(fork) << fork.error().message;
  const Report report = (*fork)->go_on({});
  EXPECT_TRUE(report.errors.empty()) << report.errors[0].message;
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

TEST_F(FunctionsInAWorker, AreToldThatTheirTurnIsToEnd) {
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

TEST(MisbehavingWorker, ItFreezesNoRunThatNobodyAskedItTo) {
  EXPECT_EQ(error_of([](Link& link, uint32_t subject) {
              Report frozen;
              frozen.outcome = Outcome::kFrozen;
              link.send(Kind::kDone, subject, bytes_of(frozen));
              pause();
            }),
            "the worker's report is of a run that nobody asked to freeze");
}

}  // namespace
}  // namespace membrane::worker
