#include "service/linux_guests.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "base/json.h"
#include "computers/fake_computer_testing.h"
#include "computers/settings.h"
#include "service/archive.h"
#include "service/sandboxes.h"

namespace membrane::service {
namespace {

class FakeImages final : public ImageCatalog {
 public:
  Result<linux::StoredImage> find(const std::string& name) override {
    if (name != "" && name != "debian" && name != "mine")
      return fail(ErrorCode::kNotFound, "there is no image " + name);
    return linux::StoredImage{
        .name = name, .path = "/images/" + name, .size_bytes = 1, .config = {.environment = {"OF=image"}}};
  }
  std::vector<linux::StoredImage> list() override {
    return {{.name = "debian", .path = "/d", .size_bytes = 1, .config = {}},
            {.name = "mine", .path = "/m", .size_bytes = 1, .config = {}}};
  }
};

std::unique_ptr<Guests> linux_guests() {
  return with_linux_guests(local_guests({}), std::make_unique<computers::FakeSource>(),
                           std::make_unique<FakeImages>(), "");
}

// -- guests alone ---------------------------------------------------------------------------------------------------

class LinuxGuestTest : public ::testing::Test {
 protected:
  // A policy without explicit limits.
  static policy::Policy usual() {
    policy::Policy policy;
    policy.limits = computers::usual_limits();
    return policy;
  }
  std::unique_ptr<Guest> make(GuestSpec spec = {.template_name = "linux", .policy = usual()}) {
    auto guest = guests_->create(spec);
    EXPECT_TRUE(guest) << guest.error().message;
    return guest ? *std::move(guest) : nullptr;
  }
  static std::string printed(Guest& guest, GuestTurn turn) { return guest.exec(turn).stdout_text; }

  std::unique_ptr<Guests> guests_ = linux_guests();
};

TEST_F(LinuxGuestTest, HaveATemplateForEachImage) {
  std::vector<std::string> names;
  for (const TemplateInfo& each : guests_->templates())
    if (each.kind == Kind::kLinux) names.push_back(each.name);
  EXPECT_EQ(names, (std::vector<std::string>{"linux", "linux:debian", "linux:mine"}));
  EXPECT_NE(make({.template_name = "linux:mine", .policy = usual()}), nullptr);
  const auto none = guests_->create({.template_name = "linux:none", .policy = usual()});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ApiCode::kInvalidValue);
}

TEST_F(LinuxGuestTest, RunCodeByAShellAndCommandsAsTheyAre) {
  const auto guest = make();
  EXPECT_EQ(printed(*guest, {.code = "echo hello"}), "hello\n");
  EXPECT_EQ(printed(*guest, {.code = {}, .command = {"echo", "a", "b"}}), "a b\n");
  EXPECT_EQ(guest->exec({.code = "exit 3"}).exit_code, 3);
  EXPECT_EQ(guest->exec({.code = "true"}).platform, "test");
  EXPECT_EQ(printed(*guest, {.code = "cat", .stdin_text = "in"}), "in");
}

TEST_F(LinuxGuestTest, GiveTurnsTheEnvironmentOfImageSandboxAndTurn) {
  const auto guest = make(
      {.template_name = "linux", .policy = usual(), .environment = {{"A", "sandbox"}, {"B", "sandbox"}}});
  EXPECT_EQ(printed(*guest, {.code = "env OF"}), "image\n");
  EXPECT_EQ(printed(*guest, {.code = "env A"}), "sandbox\n");
  EXPECT_EQ(printed(*guest, {.code = "env A", .environment = {{"A", "turn"}}}), "turn\n");
  ASSERT_TRUE(guest->set_environment({{"B", "new"}}));
  EXPECT_EQ(printed(*guest, {.code = "env A"}), "");
  EXPECT_EQ(printed(*guest, {.code = "env B"}), "new\n");
}

TEST_F(LinuxGuestTest, RememberWhereAContextIs) {
  const auto guest = make();
  ASSERT_TRUE(guest->open_context("c", ""));
  EXPECT_EQ(printed(*guest, {.code = "pwd", .context = "c"}), "/root\n");
  EXPECT_EQ(printed(*guest, {.code = "pwd", .context = "c", .directory = "/tmp"}), "/tmp\n");
  EXPECT_EQ(printed(*guest, {.code = "pwd", .context = "c"}), "/tmp\n");
  EXPECT_EQ(printed(*guest, {.code = "pwd", .directory = "sub"}), "/root/sub\n");
  EXPECT_EQ(printed(*guest, {.code = "pwd"}), "/root\n");
  EXPECT_FALSE(guest->open_context("d", "python"));
  ASSERT_TRUE(guest->close_context("c"));
  EXPECT_EQ(guest->exec({.code = "pwd", .context = "c"}).outcome, sandbox::Outcome::kInvalid);
}

TEST_F(LinuxGuestTest, KeepFilesAndContexts) {
  const auto guest = make();
  ASSERT_TRUE(guest->open_context("c", ""));
  (void)guest->exec({.code = "pwd", .context = "c", .directory = "/tmp"});
  ASSERT_TRUE(guest->write_file("", "/root/a/b.txt", "text"));
  const auto kept = guest->keep();
  ASSERT_TRUE(kept) << kept.error().message;
  const auto again = guests_->restore({.template_name = "linux", .policy = usual()}, *kept);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ((*again)->read_file("", "/root/a/b.txt"), "text");
  EXPECT_EQ(printed(**again, {.code = "pwd", .context = "c"}), "/tmp\n");
}

TEST_F(LinuxGuestTest, ActOnFiles) {
  const auto guest = make();
  const auto act = [&](wasi::FileRequest request) { return guest->act_on_files("", request); };
  ASSERT_TRUE(guest->write_file("", "/w/b.txt", "12345"));
  ASSERT_TRUE(guest->write_file("", "/w/a/c.txt", "1"));
  EXPECT_EQ(act({.act = wasi::FileAct::kStat, .path = "/w/b.txt"}).value().at(0).size_bytes, 5u);
  std::string names;
  const auto listed = act({.act = wasi::FileAct::kList, .path = "/w", .is_deep = true});
  for (const wasi::FileFact& fact : listed.value()) names += fact.path + " ";
  EXPECT_EQ(names, "/w/a /w/a/c.txt /w/b.txt ");
  EXPECT_EQ(act({.act = wasi::FileAct::kRemove, .path = "/w"}).error().code, ApiCode::kConflict);
  EXPECT_TRUE(act({.act = wasi::FileAct::kMove, .path = "/w/b.txt", .to = "/w/d.txt"}));
  EXPECT_EQ(guest->read_file("", "/w/d.txt"), "12345");
  EXPECT_TRUE(act({.act = wasi::FileAct::kRemove, .path = "/w", .is_deep = true}));
  EXPECT_EQ(act({.act = wasi::FileAct::kStat, .path = "/w"}).error().code, ApiCode::kNotFound);
  EXPECT_TRUE(act({.act = wasi::FileAct::kMakeDirectory, .path = "/m/n/o"}));
  EXPECT_EQ(act({.act = wasi::FileAct::kStat, .path = "/m/n"}).value().at(0).type,
            wasi::FileType::kDirectory);
  EXPECT_EQ(act({.act = wasi::FileAct::kStat, .path = "relative"}).error().code, ApiCode::kInvalidValue);
  const auto archive =
      write_archive({{.name = "x/y.txt", .is_directory = false, .bytes = "y", .modified_s = 0}});
  ASSERT_TRUE(archive);
  ASSERT_TRUE(unpack_files(*guest, "", "/u", *archive));
  EXPECT_EQ(guest->read_file("", "/u/x/y.txt"), "y");
}

TEST_F(LinuxGuestTest, RefuseWhatTheyCannotHold) {
  GuestSpec spec{.template_name = "linux", .policy = {}};
  spec.policy.limits = guests_->usual_limits("linux");
  for (uint64_t policy::Limits::* const limit : {&policy::Limits::fuel, &policy::Limits::stack_bytes}) {
    GuestSpec limited = spec;
    limited.policy.limits.*limit = 100'000;
    EXPECT_EQ(guests_->create(limited).error().code, ApiCode::kUnsupported);
  }
  spec.policy.kv.emplace();
  EXPECT_EQ(guests_->create(spec).error().code, ApiCode::kUnsupported);
  const auto none =
      with_linux_guests(local_guests({}), nullptr, std::make_unique<FakeImages>(), "no seccomp");
  const auto refused = none->create({.template_name = "linux", .policy = {}});
  ASSERT_FALSE(refused);
  EXPECT_TRUE(refused.error().message.contains("no seccomp"));
}

// -- in the service -------------------------------------------------------------------------------------------------

class LinuxSandboxesTest : public ::testing::Test {
 protected:
  std::string create() {
    std::promise<Answer<SandboxInfo>> made;
    SandboxSpec spec;
    spec.template_name = "linux";
    spec.policy.emplace();
    spec.policy->limits = guests_->usual_limits("linux");
    sandboxes_.create(Actor{"t"}, spec, [&](Answer<SandboxInfo> info) { made.set_value(std::move(info)); });
    const auto info = made.get_future().get();
    EXPECT_TRUE(info) << info.error().message;
    return info ? info->id : "";
  }
  std::shared_ptr<Exec> begin(const std::string& id, ExecSpec spec) {
    const auto exec = sandboxes_.exec(Actor{"t"}, id, std::move(spec));
    EXPECT_TRUE(exec) << exec.error().message;
    return exec ? *exec : nullptr;
  }
  static nlohmann::json report_of(const std::shared_ptr<Exec>& exec) {
    const auto done = std::make_shared<std::promise<void>>();
    exec->when_done([done] { done->set_value(); });
    done->get_future().wait();
    return *read_json(exec->report_json(), "the report");
  }
  template <typename T>
  static Answer<T> get(const std::function<void(Sandboxes::Then<T>)>& ask) {
    const auto promise = std::make_shared<std::promise<Answer<T>>>();
    ask([promise](Answer<T> answer) { promise->set_value(std::move(answer)); });
    return promise->get_future().get();
  }
  // The command that it runs has started by now.
  void await_running(size_t count) {
    while (sandboxes_.counts().running < count) std::this_thread::yield();
  }

  std::unique_ptr<Guests> guests_ = linux_guests();
  std::unique_ptr<Images> images_ = images_in_memory();
  Snapshots snapshots_{*images_, *guests_};
  Sandboxes sandboxes_{*guests_, *images_, snapshots_, {.threads = 1}};
};

TEST_F(LinuxSandboxesTest, ThreadsRunExecsBesideEachOtherAndFiles) {
  const std::string id = create();
  const auto slow = begin(id, {.code = "sleep"});
  const auto also = begin(id, {.code = "cat", .open_stdin = true});
  EXPECT_EQ(report_of(begin(id, {.code = "echo quick"}))["stdout"], "quick\n");
  EXPECT_TRUE(get<void>([&](auto then) { sandboxes_.write_file(Actor{"t"}, id, "", "/root/f", "x", then); }));
  EXPECT_TRUE(sandboxes_.get("t", id)->has_exec);
  ASSERT_TRUE(sandboxes_.write_input("t", id, also->id, "input", true));
  EXPECT_EQ(report_of(also)["stdout"], "input");
  ASSERT_TRUE(sandboxes_.cancel_exec(Actor{"t"}, id, slow->id));
  EXPECT_EQ(report_of(slow)["outcome"], "cancelled");
}

TEST_F(LinuxSandboxesTest, WhatAPatchTakesIsHeldForTheTenant) {
  const std::string id = create();
  constexpr uint64_t kAll = 256u << 20;
  const std::string patch = "--- /dev/null\n+++ b/root/new\n@@ -0,0 +1 @@\n+x\n";
  const auto apply = [&] {
    return get<size_t>([&](auto then) { sandboxes_.apply_patch(Actor{"t"}, id, "/", patch, then); });
  };
  const auto make = [&] {
    return get<std::string>([&](auto then) { sandboxes_.make_patch(Actor{"t"}, id, "/root", "", then); });
  };
  auto others = sandboxes_.hold("t", kAll - 100);
  ASSERT_TRUE(others);
  EXPECT_EQ(apply().error().code, ApiCode::kTooManyRequests);
  *others = HeldBytes::Hold();
  EXPECT_EQ(apply(), 1u);
  others = sandboxes_.hold("t", kAll - 100);
  ASSERT_TRUE(others);
  EXPECT_EQ(make().error().code, ApiCode::kTooManyRequests);
  *others = HeldBytes::Hold();
  EXPECT_TRUE(make().value_or("").starts_with("diff --git a/new b/new\n"));
  EXPECT_TRUE(sandboxes_.hold("t", kAll));  // nothing is held any more
}

TEST_F(LinuxSandboxesTest, ThreadsOfTerminalsAreResizedAndSignalled) {
  const std::string id = create();
  EXPECT_EQ(report_of(begin(
                id, {.code = {}, .command = {"size"}, .terminal = linux::TerminalSize{100, 30}}))["stdout"],
            "100\n");
  const auto exec = begin(id, {.code = {}, .command = {"sleep"}, .terminal = linux::TerminalSize{}});
  while (!sandboxes_.resize_exec("t", id, exec->id, {120, 40})) std::this_thread::yield();
  ASSERT_TRUE(sandboxes_.signal_exec("t", id, exec->id, SIGTERM));
  EXPECT_EQ(report_of(exec)["error"]["code"], "signal");
  EXPECT_EQ(sandboxes_.signal_exec("t", id, exec->id, SIGTERM).error().code, ApiCode::kConflict);
}

TEST_F(LinuxSandboxesTest, ThreadsOfTerminalsAreHungUpWhenTheClientLeaves) {
  const std::string id = create();
  const auto exec =
      begin(id, {.code = {}, .open_stdin = true, .command = {"sleep"}, .terminal = linux::TerminalSize{}});
  while (!sandboxes_.resize_exec("t", id, exec->id, {120, 40})) std::this_thread::yield();
  {
    const auto reader = exec->events(0, {});  // one who only looks
  }
  EXPECT_TRUE(sandboxes_.resize_exec("t", id, exec->id, {120, 40}));
  { const auto reader = exec->events(0, {.hangs_up = true}); }
  const nlohmann::json report = report_of(exec);
  EXPECT_EQ(report["error"]["code"], "signal");
  const auto late = exec->events(0, {.hangs_up = true});  // it is over: nobody is hung up
}

TEST_F(LinuxSandboxesTest, ThreadsThatRunEndWhenItIsPaused) {
  const std::string id = create();
  ASSERT_TRUE(get<void>([&](auto then) { sandboxes_.write_file(Actor{"t"}, id, "", "/root/f", "x", then); }));
  const auto exec = begin(id, {.code = "sleep"});
  await_running(1);
  ASSERT_TRUE(get<SandboxInfo>([&](auto then) { sandboxes_.pause(Actor{"t"}, id, then); }));
  EXPECT_EQ(report_of(exec)["outcome"], "cancelled");
  ASSERT_TRUE(get<SandboxInfo>([&](auto then) { sandboxes_.resume(Actor{"t"}, id, then); }));
  EXPECT_EQ(get<std::string>([&](auto then) { sandboxes_.read_file(Actor{"t"}, id, "", "/root/f", then); }),
            "x");
  EXPECT_EQ(report_of(begin(id, {.code = "echo again"}))["stdout"], "again\n");
}

TEST_F(LinuxSandboxesTest, ThreadsThatRunEndWithTheirSandbox) {
  const std::string id = create();
  const auto exec = begin(id, {.code = "sleep"});
  await_running(1);
  ASSERT_TRUE(sandboxes_.kill(Actor{"t"}, id));
  EXPECT_EQ(report_of(exec)["outcome"], "cancelled");
}

TEST_F(LinuxSandboxesTest, ThreadsForkWhileTheyRun) {
  const std::string id = create();
  ASSERT_TRUE(get<void>([&](auto then) { sandboxes_.write_file(Actor{"t"}, id, "", "/root/f", "x", then); }));
  const auto exec = begin(id, {.code = "sleep"});
  const auto forks =
      get<std::vector<SandboxInfo>>([&](auto then) { sandboxes_.fork(Actor{"t"}, id, 2, then); });
  ASSERT_TRUE(forks) << forks.error().message;
  for (const SandboxInfo& fork : *forks)
    EXPECT_EQ(
        get<std::string>([&](auto then) { sandboxes_.read_file(Actor{"t"}, fork.id, "", "/root/f", then); }),
        "x");
  EXPECT_EQ(exec->outcome(), "");
}

TEST_F(LinuxSandboxesTest, AloneHaveCommandsAndTerminals) {
  std::promise<Answer<SandboxInfo>> made;
  SandboxSpec spec;
  spec.template_name = "wat";
  sandboxes_.create(Actor{"t"}, spec, [&](Answer<SandboxInfo> info) { made.set_value(std::move(info)); });
  const auto info = made.get_future().get();
  ASSERT_TRUE(info);
  const auto refused = sandboxes_.exec(Actor{"t"}, info->id, {.code = {}, .command = {"ls"}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ApiCode::kUnsupported);
}

}  // namespace
}  // namespace membrane::service
