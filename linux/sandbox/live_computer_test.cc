#include "linux/sandbox/live_computer.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <thread>

#include "linux/platform/kvm/kvm.h"
#include "linux/sandbox/live_testing.h"

namespace membrane::linux {

namespace {

class LiveComputerTest : public LiveTest {
 protected:
  LiveComputerTest() {
    if (kIsThreadSanitized) return;  // skipped
    auto made = start_computer(spec());
    EXPECT_TRUE(made) << made.error().to_string();
    if (made) computer_ = std::move(*made);
  }
  static ErrorCode code(const Status& status) {
    EXPECT_FALSE(status);
    return status ? ErrorCode::kInternal : status.error().code;
  }
  std::unique_ptr<LiveComputer> computer_;
};

// -- commands ---------------------------------------------------------------------------------------------------------

TEST_F(LiveComputerTest, CommandsShareTheFiles) {
  EXPECT_EQ(run(*computer_, "echo one > /tmp/a"), "");
  EXPECT_EQ(run(*computer_, "cat /tmp/a"), "one\n");
}

TEST_F(LiveComputerTest, AnExitCodeAndASignalAreTold) {
  run(*computer_, "exit 7", 7);
  const auto command = computer_->start(shell("kill -SEGV $$"), {});
  ASSERT_TRUE(command);
  const auto end = (*command)->wait(std::nullopt);
  EXPECT_TRUE(end->was_signalled);
  EXPECT_EQ(end->status, SIGSEGV);
}

TEST_F(LiveComputerTest, AProgramThatIsNotThereIsTold) {
  CommandSpec command;
  command.arguments = {"/bin/nosuch"};
  const auto started = computer_->start(command, {});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(run(*computer_, "echo on"), "on\n");
}

TEST_F(LiveComputerTest, InputComesInOrderAndEnds) {
  Heard heard;
  const auto command = computer_->start(shell("cat"), heard.events());
  ASSERT_TRUE(command);
  std::string all;
  for (int i = 0; i < 50'000; ++i) all += std::to_string(i) + "\n";  // several windows of it
  EXPECT_TRUE((*command)->write_input(all));
  (*command)->end_input();
  EXPECT_EQ((*command)->wait(std::nullopt)->status, 0);
  EXPECT_EQ(heard.output(), all);
}

TEST_F(LiveComputerTest, ACommandThatNobodyReadsStopsNoOther) {
  std::mutex held;
  std::unique_lock hold(held);
  CommandEvents slow;
  slow.on_output = [&held](std::string_view) { const std::scoped_lock lock(held); };
  const auto stuck =
      computer_->start(shell("while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done"), std::move(slow));
  ASSERT_TRUE(stuck);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(run(*computer_, "echo other"), "other\n");
  (*stuck)->signal(SIGKILL);
  hold.unlock();
  EXPECT_TRUE((*stuck)->wait(std::nullopt)->was_signalled);
}

TEST_F(LiveComputerTest, WaitingHasAnEnd) {
  const auto command = computer_->start(shell("sleep 1000"), {});
  ASSERT_TRUE(command);
  EXPECT_EQ((*command)->wait(std::chrono::steady_clock::now()), std::nullopt);
  (*command)->signal(SIGKILL);
  EXPECT_EQ((*command)->wait(std::nullopt)->status, SIGKILL);
}

TEST_F(LiveComputerTest, ACommandThatIsLeftGoesOn) {
  computer_->start(shell("cat; echo left > /tmp/x"), {}).value().reset();
  while (!computer_->stat("/tmp/x", true)) std::this_thread::yield();
}

TEST_F(LiveComputerTest, AKillTakesTheWholeSession) {
  const auto command = computer_->start(shell("sleep 1000 & sleep 1000 & wait"), {});
  ASSERT_TRUE(command);
  while (computer_->usage()->tasks < 3) std::this_thread::yield();
  (*command)->signal(SIGKILL);
  while (computer_->usage()->tasks > 0) std::this_thread::yield();
}

TEST_F(LiveComputerTest, CommandsEndWithTheirComputer) {
  const auto command = computer_->start(shell("sleep 1000"), {});
  ASSERT_TRUE(command);
  computer_.reset();
  EXPECT_TRUE((*command)->wait(std::nullopt)->was_signalled);
  EXPECT_FALSE((*command)->write_input("x"));
}

TEST_F(LiveComputerTest, ManyThreadsUseOne) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([this, i] {
      const std::string text = std::to_string(i);
      EXPECT_TRUE(computer_->write_file("/tmp/" + text, text, 0644));
      EXPECT_EQ(run(*computer_, "cat /tmp/" + text), text);
    });
  for (std::thread& each : threads) each.join();
}

// -- terminals --------------------------------------------------------------------------------------------------------

TEST_F(LiveComputerTest, ATerminalHasItsSizeAndEchoes) {
  Heard heard;
  CommandSpec command = shell("stty size; cat");
  command.terminal = {.columns = 100, .rows = 30};
  const auto started = computer_->start(command, heard.events());
  ASSERT_TRUE(started);
  heard.wait_for("30 100\r\n");
  EXPECT_TRUE((*started)->write_input("typed\r"));
  heard.wait_for("typed\r\ntyped\r\n");
  (*started)->end_input();
  EXPECT_EQ((*started)->wait(std::nullopt)->status, 0);
}

TEST_F(LiveComputerTest, AnInterruptIsTyped) {
  Heard heard;
  CommandSpec command = shell("echo ready; exec sleep 1000");
  command.terminal = TerminalSize();
  const auto started = computer_->start(command, heard.events());
  ASSERT_TRUE(started);
  heard.wait_for("ready");
  EXPECT_TRUE((*started)->write_input("\x03"));
  EXPECT_EQ((*started)->wait(std::nullopt)->status, SIGINT);
}

TEST_F(LiveComputerTest, AResizeIsASignal) {
  Heard heard;
  CommandSpec command = shell("trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.01; done");
  command.terminal = TerminalSize();
  const auto started = computer_->start(command, heard.events());
  ASSERT_TRUE(started);
  heard.wait_for("ready");
  (*started)->resize({.columns = 41, .rows = 17});
  heard.wait_for("17 41");
}

TEST_F(LiveComputerTest, ATerminalThatIsLeftHangsUp) {
  Heard heard;
  CommandSpec command = shell("trap 'echo x > /tmp/hung' HUP; echo ready; while :; do sleep 0.01; done");
  command.terminal = TerminalSize();
  auto started = computer_->start(command, heard.events());
  ASSERT_TRUE(started);
  heard.wait_for("ready");
  started->reset();
  while (!computer_->stat("/tmp/hung", true)) std::this_thread::yield();
}

// -- files ------------------------------------------------------------------------------------------------------------

TEST_F(LiveComputerTest, FilesAreWrittenAndRead) {
  std::string big(3'000'000, 'x');
  for (size_t i = 0; i < big.size(); i += 1000) big[i] = static_cast<char>(i / 1000);
  EXPECT_TRUE(computer_->write_file("/a/b/file", big, 0600));
  EXPECT_EQ(computer_->read_file("/a/b/file", 0, UINT64_MAX), big);
  EXPECT_EQ(computer_->read_file("/a/b/file", 2'999'990, 100), big.substr(2'999'990));
  EXPECT_TRUE(computer_->write_file("/a/b/file", "short", 0644));
  EXPECT_EQ(computer_->read_file("/a/b/file", 0, 1000), "short");
  const auto facts = computer_->stat("/a/b/file", true);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->mode, S_IFREG | 0644u);
  EXPECT_EQ(facts->size, 5u);
}

TEST_F(LiveComputerTest, DirectoriesAreListed) {
  EXPECT_TRUE(computer_->make_directory("/tmp/d", 0750));
  EXPECT_TRUE(computer_->make_link("/tmp/l", "d/x"));
  const auto listed = computer_->list("/tmp");
  ASSERT_TRUE(listed);
  ASSERT_EQ(listed->size(), 2u);
  EXPECT_EQ((*listed)[0].path, "/tmp/d");
  EXPECT_EQ((*listed)[0].mode, S_IFDIR | 0750u);
  EXPECT_EQ((*listed)[1].target, "d/x");
}

TEST_F(LiveComputerTest, FilesAreMovedChangedAndRemoved) {
  EXPECT_TRUE(computer_->write_file("/tmp/x/y/z", "1", 0644));
  EXPECT_TRUE(computer_->move("/tmp/x", "/tmp/w"));
  EXPECT_TRUE(computer_->set_mode("/tmp/w/y/z", 0400));
  EXPECT_TRUE(computer_->set_owner("/tmp/w/y/z", 5, 6));
  const auto facts = computer_->stat("/tmp/w/y/z", true);
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->user, 5u);
  EXPECT_EQ(facts->group, 6u);
  EXPECT_EQ(facts->mode, S_IFREG | 0400u);
  EXPECT_EQ(code(computer_->remove("/tmp/w", false)), ErrorCode::kInvalidInput);
  EXPECT_TRUE(computer_->remove("/tmp/w", true));
  EXPECT_EQ(code(computer_->remove("/tmp/w", true)), ErrorCode::kNotFound);
}

TEST_F(LiveComputerTest, TimesAreClamped) {
  EXPECT_TRUE(computer_->write_file("/tmp/new", "1", 0644));
  EXPECT_TRUE(computer_->clamp_times(1'000'000'000'500));
  EXPECT_EQ(computer_->stat("/tmp/new", true)->modified_ns, 1'000'000'000'500'000'000);
}

TEST_F(LiveComputerTest, ErrorsNameThePath) {
  const auto facts = computer_->stat("/nosuch", true);
  ASSERT_FALSE(facts);
  EXPECT_EQ(facts.error().code, ErrorCode::kNotFound);
  EXPECT_NE(facts.error().message.find("/nosuch"), std::string::npos);
  EXPECT_EQ(code(computer_->write_file("relative", "x", 0644)), ErrorCode::kInvalidInput);
  EXPECT_EQ(code(computer_->write_file("/tmp", "x", 0644)), ErrorCode::kInvalidInput);
  EXPECT_EQ(code(computer_->move("/tmp", "/tmp/below")), ErrorCode::kInvalidInput);
}

TEST_F(LiveComputerTest, DevicesAreNotReadAsFiles) {
  EXPECT_FALSE(computer_->read_file("/dev/zero", 0, 10));
  EXPECT_EQ(run(*computer_, "echo x > /dev/null"), "");
}

TEST_F(LiveComputerTest, ADiskThatIsFullIsTold) {
  LiveSpec small = spec();
  small.limits.disk_bytes = 100'000;
  auto made = start_computer(small);
  ASSERT_TRUE(made);
  EXPECT_TRUE((*made)->write_file("/tmp/a", "before", 0644));
  EXPECT_EQ(code((*made)->write_file("/tmp/a", std::string(1'000'000, 'x'), 0644)), ErrorCode::kExhausted);
  EXPECT_EQ((*made)->read_file("/tmp/a", 0, 100), "before");
}

TEST_F(LiveComputerTest, AFileInPiecesIsWholeOrNotThere) {
  const auto pieces = [](std::vector<Result<std::string>> all) {
    return [all = std::move(all), at = size_t{0}]() mutable -> Result<std::string> {
      return at < all.size() ? all[at++] : "";
    };
  };
  EXPECT_TRUE(computer_->write_pieces("/tmp/a", pieces({"one ", "two"}), 0600));
  EXPECT_EQ(run(*computer_, "cat /tmp/a"), "one two");
  const std::unexpected<Error> lost = fail(ErrorCode::kCancelled, "lost");
  for (int i = 0; i < 100; ++i)  // none of them is left over
    EXPECT_EQ(code(computer_->write_pieces("/tmp/a", pieces({"three", lost}), 0600)), ErrorCode::kCancelled);
  EXPECT_EQ(run(*computer_, "cat /tmp/*"), "one two");
}

TEST_F(LiveComputerTest, ZerosThatAreWrittenTakeNoRoom) {
  LiveSpec small = spec();
  small.limits.disk_bytes = 100'000;
  const auto made = start_computer(small);
  ASSERT_TRUE(made);
  std::string bytes(10'000'001, '\0');
  bytes[5'000'000] = 'x';
  ASSERT_TRUE((*made)->write_file("/tmp/a", bytes, 0644));
  EXPECT_EQ((*made)->stat("/tmp/a", true)->size, bytes.size());
  EXPECT_EQ((*made)->read_file("/tmp/a", 0, UINT64_MAX), bytes);
  EXPECT_LT((*made)->usage()->disk_bytes, 50'000u);
}

// -- making them ------------------------------------------------------------------------------------------------------

TEST_F(LiveTest, AnImageThatIsNotThereIsTold) {
  LiveSpec absent = spec();
  absent.image = in("nosuch");
  const auto made = start_computer(absent);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kNotFound);
}

TEST_F(LiveTest, APlatformThatIsNotThereIsTold) {
  LiveSpec absent = spec();
  absent.platform = "nosuch";
  const auto made = start_computer(absent);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kUnsupported);
}

TEST_F(LiveTest, ASourceMakesThemForManyThreads) {
  const auto source = ComputerSource::create(2);
  ASSERT_TRUE(source);
  (*source)->make_ready();
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i)
    threads.emplace_back([&, i] {
      auto made = (*source)->create(spec());
      ASSERT_TRUE(made) << made.error().to_string();
      EXPECT_EQ(run(**made, "echo " + std::to_string(i)), std::to_string(i) + "\n");
    });
  for (std::thread& each : threads) each.join();
}

TEST_F(LiveTest, ASourceMakesDeterministicOnes) {
  const auto source = ComputerSource::create(1);
  ASSERT_TRUE(source);
  LiveSpec same = spec();
  same.deterministic = Determinism();
  std::string first;
  for (int i = 0; i < 2; ++i) {
    auto made = (*source)->create(same);
    ASSERT_TRUE(made) << made.error().to_string();
    const std::string random = run(**made, "head -c 16 /dev/urandom");
    EXPECT_EQ(random.size(), 16u);
    if (i > 0) {
      EXPECT_EQ(random, first);
    }
    first = random;
  }
}

TEST_F(LiveTest, ASourceMakesThemOnThePlatformThatIsDemanded) {
  const auto source = ComputerSource::create(1);
  ASSERT_TRUE(source);
  LiveSpec demanding = spec();
  for (const char* const name : {"trap", "kvm", "trap"}) {
    demanding.platform = name;
    auto made = (*source)->create(demanding);
    if (const auto device = open_kvm_device(); demanding.platform == "kvm" && !device) {
      ASSERT_FALSE(made);
      EXPECT_EQ(made.error().code, ErrorCode::kUnsupported);
      continue;
    }
    ASSERT_TRUE(made) << made.error().to_string();
    EXPECT_EQ((*made)->platform(), name);
    EXPECT_EQ(run(**made, "echo on | cat"), "on\n");
  }
}

TEST_F(LiveTest, ComputersOutliveTheirSource) {
  auto source = ComputerSource::create(1);
  ASSERT_TRUE(source);
  auto made = (*source)->create(spec());
  ASSERT_TRUE(made);
  source->reset();
  EXPECT_EQ(run(**made, "echo on"), "on\n");
}

// A kernel process that answers no order, as a compromised one might, keeps nobody waiting.
TEST_F(LiveTest, EndsAKernelProcessThatDoesNotAnswer) {
  auto made = start_computer(spec());
  ASSERT_TRUE(made);
  const std::string children = read_file("/proc/self/task/" + std::to_string(gettid()) + "/children");
  const size_t last = children.find_last_of(' ', children.size() - 2);
  const pid_t kernel_process = std::stoi(children.substr(last == children.npos ? 0 : last));
  ASSERT_EQ(kill(kernel_process, SIGSTOP), 0);
  std::thread waits([&] {
    const auto told = (*made)->stat("/", true);
    ASSERT_FALSE(told);
    EXPECT_EQ(told.error().code, ErrorCode::kUnavailable);
  });
  (*made)->end();
  waits.join();
  made->reset();
  EXPECT_EQ(kill(kernel_process, 0), -1);
}

// Orphans are children of this process, which waits for all of them.
TEST_F(LiveTest, NothingIsLeft) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
  {
    const auto source = ComputerSource::create(3);
    ASSERT_TRUE(source);
    (*source)->make_ready();
    auto made = (*source)->create(spec());
    ASSERT_TRUE(made);
    auto command = (*made)->start(shell("sleep 1000 & sleep 1000"), {});
    ASSERT_TRUE(command);
  }
  while (waitpid(-1, nullptr, __WALL) > 0) {}
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(LiveTest, NothingIsLeftOfAnOwnerThatIsKilled) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    const auto source = ComputerSource::create(3);
    if (!source) _exit(1);
    (*source)->make_ready();
    auto made = (*source)->create(spec());
    if (!made || !(*made)->start(shell("sleep 1000 & sleep 1000"), {})) _exit(1);
    if (write(ends[1], "x", 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  kill(owner, SIGKILL);
  while (waitpid(-1, nullptr, __WALL) > 0) {}
  EXPECT_EQ(errno, ECHILD);
}

}  // namespace

}  // namespace membrane::linux
