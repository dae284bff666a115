// A worker that lies, crashes, hangs or floods costs one run, and nothing that its supervisor has decided.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sandbox/run/report_building.h"
#include "sandbox/session/session_state.h"
#include "worker/broker_calls.h"
#include "worker/link.h"
#include "worker/messages.h"
#include "worker/trifecta_testing.h"
#include "worker/worker.h"

namespace membrane::worker {
namespace {

using sandbox::Outcome;
using sandbox::Report;

sandbox::Program adds() {
  sandbox::Program made;
  made.source = R"((func (export "run") (result i32) (i32.add (i32.const 40) (i32.const 2))))";
  return made;
}

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
  Report report = worker->run(adds(), options);
  EXPECT_EQ(worker->is_alive(), report.outcome == Outcome::kOk);
  EXPECT_EQ(worker->run(adds(), options).outcome, Outcome::kFailed);
  return report;
}

std::string error_of(const std::function<void(Link&, uint32_t subject)>& behaves) {
  const Report report = report_of(behaves);
  EXPECT_EQ(report.outcome, Outcome::kFailed);
  return report.errors.empty() ? "" : report.errors.front().message;
}

TEST(MisbehavingWorker, AnEndIsReported) {
  EXPECT_EQ(error_of([](Link&, uint32_t) {}), "the worker ended with exit code 7");
}

TEST(MisbehavingWorker, ACrashIsReported) {
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

TEST(MisbehavingWorker, ItCannotMakeUnknownRequests) {
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

TEST(MisbehavingWorker, ItFreezesNoRunWithoutARequest) {
  EXPECT_EQ(error_of([](Link& link, uint32_t subject) {
              Report frozen;
              frozen.outcome = Outcome::kFrozen;
              link.send(Kind::kDone, subject, bytes_of(frozen));
              pause();
            }),
            "the worker's report is of a run that nobody asked to freeze");
}

// -- sessions -----------------------------------------------------------------------------------------------------

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

TEST(MisbehavingWorker, ItListsWhatWasDoneBeforeItContinues) {
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
  ASSERT_EQ(cancelled.host_calls.size(), 1u) << "and what was done is shown";
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

}  // namespace
}  // namespace membrane::worker
