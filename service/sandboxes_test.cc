#include "service/sandboxes.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "service/kept_record.h"

namespace membrane::service {
namespace {

// The result that a callback of Sandboxes received.
template <typename T>
class Awaited {
 public:
  Sandboxes::Then<T> then() {
    return [promise = promise_](Answer<T> answer) { promise->set_value(std::move(answer)); };
  }
  Answer<T> get() { return promise_->get_future().get(); }

 private:
  std::shared_ptr<std::promise<Answer<T>>> promise_ = std::make_shared<std::promise<Answer<T>>>();
};

constexpr const char* kLoop = "(func (export \"run\") (loop $again (br $again)))";
constexpr const char* kAdd = "(func (export \"run\") (result i32) (i32.add (i32.const 2) (i32.const 40)))";

class SandboxesTest : public ::testing::Test {
 protected:
  SandboxesTest() {
    options_.now_ms = [this] { return now_ms_.load(); };
  }

  Sandboxes& sandboxes() {
    if (!sandboxes_) sandboxes_ = std::make_unique<Sandboxes>(*guests_, *images_, snapshots_, options_);
    return *sandboxes_;
  }
  Answer<SandboxInfo> try_create(const std::string& tenant, SandboxSpec spec = {}) {
    spec.template_name = "wat";
    spec.policy.emplace();
    spec.policy->limits.fuel = 1'000'000'000'000'000;
    spec.policy->limits.wall_ms = 3'600'000;
    Awaited<SandboxInfo> made;
    sandboxes().create({tenant}, std::move(spec), made.then());
    return made.get();
  }
  std::string create(const std::string& tenant = "t", SandboxSpec spec = {}) {
    const auto made = try_create(tenant, std::move(spec));
    EXPECT_TRUE(made) << made.error().message;
    return made ? made->id : "";
  }
  // When it is over: its report.
  static std::string report_of(const std::shared_ptr<Exec>& exec) {
    const auto done =
        std::make_shared<std::promise<void>>();  // who ends it may come out of set_value() after the wait
    exec->when_done([done] { done->set_value(); });
    done->get_future().wait();
    return exec->report_json();
  }

  std::unique_ptr<Guests> guests_ = local_guests({});
  std::unique_ptr<Images> images_ = images_in_memory();
  Snapshots snapshots_{*images_, *guests_};
  SandboxesOptions options_{.threads = 2};
  std::atomic<int64_t> now_ms_ = 1'000'000;
  std::unique_ptr<Sandboxes> sandboxes_;
};

TEST_F(SandboxesTest, HaveNoProcessWhileTheyAreUnused) {
  const std::string id = create();
  const auto resident = [&] { return sandboxes().counts().resident; };
  sandboxes().park_idle();
  EXPECT_EQ(resident(), 1u);
  now_ms_ += static_cast<int64_t>(options_.park_after_ms);
  const int64_t used_at_ms = sandboxes().get("t", id)->last_used_at_ms;
  sandboxes().park_idle();
  while (resident() > 0) std::this_thread::yield();
  EXPECT_EQ(sandboxes().get("t", id)->last_used_at_ms, used_at_ms);  // that was no use
  const auto exec = sandboxes().exec({"t"}, id, {.code = kAdd});
  ASSERT_TRUE(exec);
  EXPECT_NE(report_of(*exec).find("42"), std::string::npos);
  EXPECT_EQ(resident(), 1u);
}

TEST_F(SandboxesTest, ThoseUsedLongestAgoGiveTheirProcessToOthers) {
  options_.most_resident = 2;
  for (int i = 0; i < 5; ++i) create();
  sandboxes().park_idle();
  while (sandboxes().counts().resident > 2) std::this_thread::yield();
  EXPECT_EQ(sandboxes().counts().resident, 2u);
}

TEST_F(SandboxesTest, OutliveTheService) {
  struct Keeper final : Watcher {
    Answer<void> kept(const KeptSandbox& sandbox) override {
      all.push_back(sandbox);
      return {};
    }
    std::vector<KeptSandbox> all;
  } keeper;
  options_.watcher = &keeper;
  const std::string id = create("t", {.metadata = {{"a", "b"}}});
  EXPECT_EQ(sandboxes().keep_all(std::chrono::seconds(600)), 0u);
  ASSERT_EQ(keeper.all.size(), 1u);
  sandboxes_.reset();
  KeptSandbox written = keeper.all[0];
  written.guest.spec = {};
  written.contexts.clear();
  written.guest.images.clear();
  ASSERT_TRUE(read_sandbox_record(record_of(keeper.all[0]), written));
  ASSERT_TRUE(sandboxes().adopt(written));
  EXPECT_EQ(sandboxes().get("t", id)->metadata.at("a"), "b");
  const auto exec = sandboxes().exec({"t"}, id, {.code = kAdd});
  ASSERT_TRUE(exec);
  EXPECT_NE(report_of(*exec).find("42"), std::string::npos);
  sandboxes_.reset();  // before its watcher
}

TEST_F(SandboxesTest, AreKeptAtTheEndHoweverManyThereAre) {
  options_.most_queued = 2;
  for (int i = 0; i < 40; ++i) create();
  sandboxes().drain();
  EXPECT_EQ(sandboxes().keep_all(std::chrono::seconds(600)), 0u);
}

TEST_F(SandboxesTest, ThoseWhoDoNotAnswerAtTheEndAreEnded) {
  const std::string id = create();
  const auto exec = sandboxes().exec({"t"}, id, {.code = kLoop});
  ASSERT_TRUE(exec);
  Awaited<std::string> act;
  std::promise<void> ended;
  const auto hang = [&](Guest&) -> Answer<std::string> {
    ended.get_future().wait();
    return "";
  };
  sandboxes().with_files({"t"}, id, hang, act.then());
  sandboxes().drain();
  static_cast<void>(sandboxes().keep_all(std::chrono::milliseconds(1), [&] { ended.set_value(); }));
  EXPECT_TRUE(act.get());
}

// Another caller that lists files meanwhile must also be able to do so.
TEST_F(SandboxesTest, HaveNoExecWhileOnlyTheirFilesAreRead) {
  const std::string id = create();
  std::promise<void> begun, ended;
  Awaited<std::string> act;
  const auto hang = [&](Guest&) -> Answer<std::string> {
    begun.set_value();
    ended.get_future().wait();
    return "";
  };
  sandboxes().with_files({"t"}, id, hang, act.then());
  begun.get_future().wait();
  EXPECT_EQ(sandboxes().get("t", id)->state, SandboxState::kRunning);
  EXPECT_FALSE(sandboxes().get("t", id)->has_exec);
  const auto exec = sandboxes().exec({"t"}, id, {.code = kLoop});
  ASSERT_TRUE(exec);
  EXPECT_TRUE(sandboxes().get("t", id)->has_exec);
  sandboxes().cancel_execs();
  ended.set_value();
  report_of(*exec);
  EXPECT_FALSE(sandboxes().get("t", id)->has_exec);
}

// Prints a page of 64 KiB.
constexpr const char* kPrints =
    "(import \"wasi_snapshot_preview1\" \"fd_write\" (func $write (param i32 i32 i32 i32) (result i32)))"
    "(memory (export \"memory\") 2) (data (i32.const 0) \"\\10\\00\\00\\00\\00\\00\\01\\00\")"
    "(func (export \"_start\") (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))";

TEST_F(SandboxesTest, KeepALimitedPartOfEndedExecs) {
  options_.most_kept_bytes = 1u << 20;
  const std::string id = create();
  std::vector<std::string> ids;
  for (int i = 0; i < 8; ++i) {
    const auto exec = sandboxes().exec({"t"}, id, {.code = kPrints});
    ASSERT_TRUE(exec);
    report_of(*exec);
    EXPECT_GT((*exec)->held_bytes(), 64u << 10);
    ids.push_back((*exec)->id);
  }
  const auto kept = sandboxes().list_execs("t", id);
  ASSERT_TRUE(kept);
  uint64_t bytes = 0;
  for (const auto& exec : *kept) bytes += exec->held_bytes();
  EXPECT_LT(kept->size(), 8u);
  EXPECT_LT(bytes - kept->back()->held_bytes(), 1u << 20);
  EXPECT_EQ(kept->back()->id, ids.back());
  EXPECT_EQ(sandboxes().find_exec("t", id, ids.front()).error().code, ApiCode::kNotFound);
}

TEST_F(SandboxesTest, HoldSoMuchForOneTenant) {
  options_.most_held_bytes = 100'000;
  const std::string id = create(), other = create();
  const auto first = sandboxes().exec({"t"}, other, {.code = kAdd});
  ASSERT_TRUE(first);
  report_of(*first);
  const auto running = sandboxes().exec({"t"}, id, {.code = kLoop});
  ASSERT_TRUE(running);
  const std::string large = std::string(kAdd) + std::string(60'000, ' ');
  const auto waiting = sandboxes().exec({"t"}, id, {.code = large});
  ASSERT_TRUE(waiting);
  // Finished execs make room, also in another sandbox; waiting ones do not.
  const auto refused = sandboxes().exec({"t"}, other, {.code = large});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ApiCode::kTooManyRequests);
  EXPECT_TRUE(sandboxes().list_execs("t", other)->empty());
  const std::string of_others = create("u");
  EXPECT_TRUE(sandboxes().exec({"u"}, of_others, {.code = large}));
  ASSERT_TRUE(sandboxes().cancel_exec({"t"}, id, (*waiting)->id));
  ASSERT_TRUE(sandboxes().cancel_exec({"t"}, id, (*running)->id));
  report_of(*waiting);
  EXPECT_TRUE(sandboxes().exec({"t"}, other, {.code = large}));
}

TEST_F(SandboxesTest, HoldSoMuchInputOfAllTheirExecs) {
  options_.most_input_bytes = 10;
  const std::string id = create();
  const auto running = sandboxes().exec({"t"}, id, {.code = kLoop});
  ASSERT_TRUE(running);
  ExecSpec open{.code = kAdd, .stdin_text = "123456", .open_stdin = true};
  const auto first = sandboxes().exec({"t"}, id, open);
  ASSERT_TRUE(first);
  EXPECT_EQ(sandboxes().exec({"t"}, id, open).error().code, ApiCode::kTooManyRequests);
  open.stdin_text.clear();
  const auto second = sandboxes().exec({"t"}, id, open);
  ASSERT_TRUE(second);
  EXPECT_EQ(sandboxes().write_input("t", id, (*second)->id, "78901", false).error().code,
            ApiCode::kTooManyRequests);
  EXPECT_TRUE(sandboxes().write_input("t", id, (*second)->id, "7890", false));
  EXPECT_TRUE(sandboxes().write_input("t", id, (*second)->id, "", true));
  for (const auto& exec : {*running, *first, *second})
    EXPECT_TRUE(sandboxes().cancel_exec({"t"}, id, exec->id));
  EXPECT_NE(report_of(*second).find("cancelled"), std::string::npos);
}

TEST_F(SandboxesTest, EndAtTheirTime) {
  const std::string id = create("t", {.ttl_s = 10});
  now_ms_ += 9'999;
  EXPECT_TRUE(sandboxes().get("t", id));
  now_ms_ += 1;
  EXPECT_FALSE(sandboxes().get("t", id));  // before expire() has seen it
  EXPECT_EQ(sandboxes().counts().sandboxes, 1u);
  sandboxes().expire();
  EXPECT_EQ(sandboxes().counts().sandboxes, 0u);
}

TEST_F(SandboxesTest, EndWhenTheyAreIdleForLong) {
  const std::string id = create("t", {.ttl_s = 1'000, .idle_timeout_s = 10});
  now_ms_ += 9'000;
  EXPECT_NE(report_of(*sandboxes().exec({"t"}, id, {.code = kAdd})).find("\"ok\""), std::string::npos);
  now_ms_ += 9'000;
  EXPECT_TRUE(sandboxes().get("t", id));
  now_ms_ += 1'000;
  EXPECT_FALSE(sandboxes().get("t", id));
  EXPECT_TRUE(sandboxes().list("t", {})->sandboxes.empty());
}

TEST_F(SandboxesTest, LiveLongerWhenTheClockIsSetBack) {
  const std::string id = create("t", {.ttl_s = 10, .idle_timeout_s = 10});
  now_ms_ -= 500'000;
  sandboxes().expire();
  EXPECT_TRUE(sandboxes().get("t", id));
  EXPECT_NE(report_of(*sandboxes().exec({"t"}, id, {.code = kAdd})).find("\"ok\""), std::string::npos);
  now_ms_ += 10'000;  // idle since then, by the clock as it is now
  EXPECT_FALSE(sandboxes().get("t", id));
}

TEST_F(SandboxesTest, EndAtOnceWhenTheClockIsSetBeyondTheirTime) {
  const std::string id = create("t", {.ttl_s = 10});
  now_ms_ += 365ll * 24 * 3'600'000;
  EXPECT_EQ(sandboxes().get("t", id).error().code, ApiCode::kNotFound);
  sandboxes().expire();
  EXPECT_EQ(sandboxes().counts().sandboxes, 0u);
  EXPECT_TRUE(sandboxes().get("t", create("t", {.ttl_s = 10})));
}

TEST_F(SandboxesTest, AreCountedForEachTenant) {
  options_.most_of_tenant = 2;
  const std::string first = create("a");
  create("a");
  const auto third = try_create("a");
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, ApiCode::kQuotaExceeded);
  create("b");
  EXPECT_TRUE(sandboxes().kill({"a"}, first));
  create("a");
}

TEST_F(SandboxesTest, OfOthersAreNotFound) {
  const std::string id = create("a");
  EXPECT_EQ(sandboxes().get("b", id).error().code, ApiCode::kNotFound);
  EXPECT_EQ(sandboxes().kill({"b"}, id).error().code, ApiCode::kNotFound);
  EXPECT_EQ(sandboxes().exec({"b"}, id, {.code = kAdd}).error().code, ApiCode::kNotFound);
  EXPECT_TRUE(sandboxes().list("b", {})->sandboxes.empty());
}

TEST_F(SandboxesTest, ExecsThatWaitAreCancelledBeforeTheyBegin) {
  const std::string id = create();
  const auto running = *sandboxes().exec({"t"}, id, {.code = kLoop});
  const auto waiting = *sandboxes().exec({"t"}, id, {.code = kAdd});
  const auto last = *sandboxes().exec({"t"}, id, {.code = kAdd});
  EXPECT_TRUE(sandboxes().cancel_exec({"t"}, id, waiting->id));
  EXPECT_TRUE(sandboxes().cancel_exec({"t"}, id, running->id));
  // An exec that was cancelled before its thread ran it did not begin; the outcome is the same.
  EXPECT_NE(report_of(running).find("\"cancelled\""), std::string::npos);
  EXPECT_NE(report_of(waiting).find("before it began"), std::string::npos);
  EXPECT_NE(report_of(last).find("\"ok\""), std::string::npos);
}

TEST_F(SandboxesTest, WhatWaitsIsBounded) {
  options_.most_waiting = 2;
  const std::string id = create();
  const auto running = *sandboxes().exec({"t"}, id, {.code = kLoop});
  Answer<std::shared_ptr<Exec>> next = sandboxes().exec({"t"}, id, {.code = kAdd});
  for (int i = 0; i < 3 && next; ++i) next = sandboxes().exec({"t"}, id, {.code = kAdd});
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code, ApiCode::kTooManyRequests);
  EXPECT_TRUE(sandboxes().kill({"t"}, id));
  report_of(running);
}

TEST_F(SandboxesTest, TakeNothingNewWhileDraining) {
  const std::string id = create();
  sandboxes().drain();
  EXPECT_EQ(sandboxes().exec({"t"}, id, {.code = kAdd}).error().code, ApiCode::kDraining);
  EXPECT_EQ(try_create("t").error().code, ApiCode::kDraining);
}

TEST_F(SandboxesTest, DrainingReportsOnceWhenNoExecIsLeft) {
  options_.threads = 1;
  const std::string id = create(), other = create();
  const auto running = *sandboxes().exec({"t"}, id, {.code = kLoop});
  const auto next = *sandboxes().exec({"t"}, id, {.code = kAdd});
  const auto waiting = *sandboxes().exec({"t"}, other, {.code = kLoop});
  std::promise<void> over;
  sandboxes().drain([&] { over.set_value(); });  // a second time would throw
  EXPECT_EQ(running->report_json(), "");
  sandboxes().cancel_execs();
  over.get_future().wait();
  for (const auto& exec : {running, next, waiting}) {
    EXPECT_NE(exec->report_json().find("\"outcome\":\"cancelled\""), std::string::npos)
        << exec->report_json();
    EXPECT_NE(exec->report_json().find("the service was stopped"), std::string::npos) << exec->report_json();
  }
  bool is_told = false;
  sandboxes().drain([&] { is_told = true; });
  EXPECT_TRUE(is_told);
}

TEST_F(SandboxesTest, ManyThreadsMakeUseAndEndThem) {
  constexpr int kThreads = 4, kRounds = 25;
  sandboxes();
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, tenant = "t" + std::to_string(i)] {
      for (int round = 0; round < kRounds; ++round) {
        const auto made = try_create(tenant);
        if (!made) continue;
        const auto exec = sandboxes().exec({tenant}, made->id, {.code = kAdd});
        if (exec && report_of(*exec).contains("\"value\":42")) ++right;
        (void)sandboxes().kill({tenant}, made->id);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, kThreads * kRounds);
  EXPECT_EQ(sandboxes().counts().sandboxes, 0u);
}

}  // namespace
}  // namespace membrane::service
