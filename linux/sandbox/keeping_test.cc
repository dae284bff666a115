// Sandboxes that are kept in a file and resume from it.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "linux/image/store.h"
#include "linux/platform/kvm/kvm.h"
#include "linux/platform/trap/host_file.h"
#include "linux/sandbox/live_testing.h"

namespace membrane::linux {
namespace {

using Keep = LiveComputer::Keep;

class KeepingTest : public LiveTest {
 protected:
  using Made = std::unique_ptr<LiveComputer>;
  static Made make(const LiveSpec& from) {
    auto made = start_computer(from);
    EXPECT_TRUE(made) << made.error().to_string();
    return made ? std::move(*made) : nullptr;
  }
  static HostFile kept(LiveComputer& computer, Keep what) {
    HostFile file = memory_to_keep_in().value();
    const Status done = computer.keep(file.number(), what);
    EXPECT_TRUE(done) << done.error().to_string();
    return file;
  }
  [[nodiscard]] Made restore(const HostFile& file) const {
    LiveSpec from;
    from.kept = file.number();
    from.platform = spec().platform;
    return make(from);
  }
};

TEST_F(KeepingTest, FilesContinue) {
  const Made first = make(spec());
  EXPECT_EQ(run(*first, "echo before > /tmp/a; mkdir /tmp/d; echo x > /etc/y"), "");
  const HostFile file = kept(*first, Keep::kFiles);
  EXPECT_EQ(run(*first, "echo after > /tmp/a"), "");
  const Made one = restore(file), other = restore(file);
  ASSERT_TRUE(one && other);
  EXPECT_EQ(run(*one, "cat /tmp/a /etc/y; echo changed > /tmp/a"), "before\nx\n");
  EXPECT_EQ(run(*other, "cat /tmp/a"), "before\n");
  EXPECT_EQ(run(*first, "cat /tmp/a"), "after\n");
}

TEST_F(KeepingTest, AKeptOneIsKeptAgain) {
  const Made first = make(spec());
  EXPECT_EQ(run(*first, "echo 1 > /tmp/a; echo 2 > /tmp/b"), "");
  const Made second = restore(kept(*first, Keep::kFiles));
  ASSERT_TRUE(second);
  EXPECT_EQ(run(*second, "echo 3 > /tmp/b"), "");
  const Made third = restore(kept(*second, Keep::kFiles));
  ASSERT_TRUE(third);
  EXPECT_EQ(run(*third, "cat /tmp/a /tmp/b"), "1\n3\n");
}

TEST_F(KeepingTest, WhatIsDamagedIsRefused) {
  const Made first = make(spec());
  const HostFile file(memfd_create("kept", MFD_CLOEXEC));  // which is not sealed
  ASSERT_TRUE(first->keep(file.number(), Keep::kFiles));
  char byte = 'x';
  ASSERT_EQ(pwrite(file.number(), &byte, 1, 8), 1);
  LiveSpec from;
  from.kept = file.number();
  const auto made = start_computer(from);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kInvalidInput);
}

TEST_F(KeepingTest, AnImageThatWasRemovedIsFoundByItsDigest) {
  std::filesystem::create_directory(in("images"));
  std::filesystem::copy_file(spec().image, in("images/x.image"));
  LiveSpec from = spec();
  from.image = in("images/x.image");
  const Made first = make(from);
  const HostFile file = kept(*first, Keep::kFiles);
  retire_image(from.image);
  std::filesystem::remove(from.image);
  const Made second = restore(file);
  ASSERT_TRUE(second);
  const HostFile again = kept(*second, Keep::kFiles);
  std::filesystem::remove_all(in("images/.removed"));
  LiveSpec lost;
  lost.kept = again.number();
  EXPECT_EQ(start_computer(lost).error().code, ErrorCode::kNotFound);
}

TEST_F(KeepingTest, AnotherImageIsRefused) {
  const Made first = make(spec());
  const HostFile file = kept(*first, Keep::kFiles);
  LayerTree tree;
  ASSERT_TRUE(tree.put("etc/other", ImageTest::file("other")));
  ASSERT_TRUE(tree.write(in("other.image")));
  LiveSpec from;
  from.kept = file.number();
  from.image = in("other.image");
  const auto made = start_computer(from);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kInvalidInput);
}

// -- processes ----------------------------------------------------------------------------------------------------------

// A shell that reads lines and answers each.
constexpr const char* kAnswering = "n=0; while read line; do n=$((n+1)); echo \"$n $line\"; done; echo end";

class KeptCommandTest : public KeepingTest {
 protected:
  static std::unique_ptr<Command> start(LiveComputer& computer, const std::string& script, Heard& heard) {
    auto command = computer.start(shell(script), heard.events());
    EXPECT_TRUE(command) << command.error().to_string();
    return command ? std::move(*command) : nullptr;
  }
  static std::unique_ptr<Command> attach(LiveComputer& computer, int process, Heard& heard) {
    auto command = computer.attach(process, heard.events());
    EXPECT_TRUE(command) << command.error().to_string();
    return command ? std::move(*command) : nullptr;
  }
};

TEST_F(KeptCommandTest, AProgramContinuesInEachFork) {
  const Made first = make(spec());
  Heard heard;
  const auto command = start(*first, kAnswering, heard);
  ASSERT_TRUE(command->write_input("a\n"));
  heard.wait_for("1 a\n");
  const HostFile file = kept(*first, Keep::kAll);
  for (const std::string line : {"b", "c"}) {
    const Made fork = restore(file);
    ASSERT_TRUE(fork);
    Heard heard_fork;
    const auto again = attach(*fork, command->process_id(), heard_fork);
    ASSERT_TRUE(again);
    EXPECT_TRUE(again->write_input(line + "\n"));
    again->end_input();
    EXPECT_EQ(again->wait(std::nullopt)->status, 0);
    EXPECT_EQ(heard_fork.output(), "2 " + line + "\nend\n");
  }
  EXPECT_TRUE(command->write_input("d\n"));  // the first continued as before
  command->end_input();
  EXPECT_EQ(command->wait(std::nullopt)->status, 0);
  EXPECT_EQ(heard.output(), "1 a\n2 d\nend\n");
}

TEST_F(KeptCommandTest, TheFilesAloneOfOneThatHadProcesses) {
  const Made first = make(spec());
  Heard heard;
  const auto command = start(*first, "echo here > /tmp/a; " + std::string(kAnswering), heard);
  ASSERT_TRUE(command->write_input("a\n"));
  heard.wait_for("1 a\n");
  const HostFile file = kept(*first, Keep::kAll);
  LiveSpec from;
  from.kept = file.number();
  from.kept_files_only = true;
  const Made files = make(from);
  ASSERT_TRUE(files);
  EXPECT_EQ(files->usage()->tasks, 0);
  EXPECT_EQ(run(*files, "cat /tmp/a"), "here\n");
}

TEST_F(KeptCommandTest, AProgramThatComputesContinues) {
  const Made first = make(spec());
  Heard heard;
  const auto command =
      start(*first, "trap 'echo $i; exit' TERM; echo begun; i=0; while :; do i=$((i+1)); done", heard);
  heard.wait_for("begun");
  const Made second = restore(kept(*first, Keep::kAll));
  ASSERT_TRUE(second);
  Heard heard_fork;
  const auto again = attach(*second, command->process_id(), heard_fork);
  ASSERT_TRUE(again);
  for (const auto& each : {&command, &again}) (*each)->signal(SIGTERM);
  EXPECT_EQ(command->wait(std::nullopt)->status, 0);
  EXPECT_EQ(again->wait(std::nullopt)->status, 0);
  EXPECT_NE(heard_fork.output(), "");
}

TEST_F(KeptCommandTest, APipelineContinues) {
  const Made first = make(spec());
  Heard heard;
  const auto command = start(*first, "(while read l; do echo \"<$l>\"; done) | cat | cat", heard);
  ASSERT_TRUE(command->write_input("one\n"));
  heard.wait_for("<one>");
  const Made second = restore(kept(*first, Keep::kAll));
  ASSERT_TRUE(second);
  Heard heard_fork;
  const auto again = attach(*second, command->process_id(), heard_fork);
  ASSERT_TRUE(again->write_input("two\n"));
  again->end_input();
  EXPECT_EQ(again->wait(std::nullopt)->status, 0);
  EXPECT_EQ(heard_fork.output(), "<two>\n");
}

TEST_F(KeptCommandTest, ATerminalContinues) {
  const Made first = make(spec());
  Heard heard;
  CommandSpec interactive = shell("");
  interactive.arguments = {"/bin/sh", "-i"};
  interactive.terminal = {.columns = 91, .rows = 20};
  interactive.environment.emplace_back("PS1=$ ");
  const auto command = first->start(interactive, heard.events());
  ASSERT_TRUE(command);
  heard.wait_for("$ ");
  ASSERT_TRUE((*command)->write_input("x=kept\n"));
  heard.wait_for("$ x=kept\r\n$ ");
  const Made second = restore(kept(*first, Keep::kAll));
  ASSERT_TRUE(second);
  Heard heard_fork;
  const auto again = attach(*second, (*command)->process_id(), heard_fork);
  ASSERT_TRUE(again->write_input("echo $x; stty size; exit 3\n"));
  EXPECT_EQ(again->wait(std::nullopt)->status, 3);
  EXPECT_NE(heard_fork.output().find("kept\r\n20 91\r\n"), std::string::npos) << heard_fork.output();
}

// Everything that a process may have (kept_guest_main.c), in two forks, a fork of a fork, and the original,
// which continues.
TEST_F(KeptCommandTest, EverythingIsAsItWas) {
  const Made first = make(spec());
  Heard heard;
  CommandSpec guest;
  guest.arguments = {"/bin/kept_guest"};
  const auto command = first->start(guest, heard.events());
  ASSERT_TRUE(command);
  heard.wait_for("ready\n");
  const HostFile file = kept(*first, Keep::kAll);
  std::vector<std::string> heard_of_forks;
  const auto ask = [&heard_of_forks](Command& of, Heard& its) {
    EXPECT_TRUE(of.write_input("check\n"));
    const std::string shown = its.wait_for(": ");
    EXPECT_NE(shown.find("all as it was: "), std::string::npos) << shown;
    heard_of_forks.push_back(shown);
  };
  for (int i = 0; i < 2; ++i) {
    const Made fork = restore(file);
    ASSERT_TRUE(fork);
    Heard heard_fork;
    const auto again = attach(*fork, (*command)->process_id(), heard_fork);
    ASSERT_TRUE(again);
    ask(*again, heard_fork);
    const Made second = restore(kept(*fork, Keep::kAll));
    ASSERT_TRUE(second);
    Heard heard_second;
    const auto last = attach(*second, (*command)->process_id(), heard_second);
    ask(*last, heard_second);
  }
  ask(**command, heard);
  // Each has its own random numbers.
  std::ranges::sort(heard_of_forks);
  EXPECT_EQ(std::ranges::adjacent_find(heard_of_forks), heard_of_forks.end());
}

TEST_F(KeptCommandTest, MovesToAnotherPlatform) {
  if (const auto device = open_kvm_device(); !device) GTEST_SKIP() << device.error().message;
  LiveSpec here = spec();
  here.platform = "trap";
  const Made first = make(here);
  Heard heard;
  CommandSpec guest;
  guest.arguments = {"/bin/kept_guest"};
  const auto command = first->start(guest, heard.events());
  ASSERT_TRUE(command);
  heard.wait_for("ready\n");
  HostFile file = kept(*first, Keep::kAll);
  for (const char* const platform : {"kvm", "trap"}) {
    LiveSpec there;
    there.kept = file.number();
    there.platform = platform;
    const Made next = make(there);
    ASSERT_TRUE(next);
    EXPECT_EQ(next->platform(), platform);
    Heard heard_there;
    const auto again = attach(*next, (*command)->process_id(), heard_there);
    ASSERT_TRUE(again);
    ASSERT_TRUE(again->write_input("check\n"));
    EXPECT_NE(heard_there.wait_for(": ").find("all as it was: "), std::string::npos) << heard_there.output();
    file = kept(*next, Keep::kAll);
  }
}

TEST_F(KeptCommandTest, AKeptOneIsKeptAgainWithItsProcesses) {
  const Made first = make(spec());
  Heard heard;
  const auto command = start(*first, kAnswering, heard);
  ASSERT_TRUE(command->write_input("a\n"));
  heard.wait_for("1 a\n");
  const Made second = restore(kept(*first, Keep::kAll));
  Heard heard_second;
  const auto again = attach(*second, command->process_id(), heard_second);
  ASSERT_TRUE(again->write_input("b\n"));
  heard_second.wait_for("2 b\n");
  const Made third = restore(kept(*second, Keep::kAll));
  Heard heard_third;
  const auto last = attach(*third, command->process_id(), heard_third);
  ASSERT_TRUE(last->write_input("c\n"));
  last->end_input();
  EXPECT_EQ(last->wait(std::nullopt)->status, 0);
  EXPECT_EQ(heard_third.output(), "3 c\nend\n");
}

TEST_F(KeptCommandTest, AFrozenCommandIsStopped) {
  const Made computer = make(spec());
  Heard heard;
  const auto command = start(*computer, kAnswering, heard);
  ASSERT_TRUE(computer->freeze());
  ASSERT_TRUE(command->write_input("a\n"));
  EXPECT_TRUE(computer->usage());  // orders are obeyed
  EXPECT_EQ(heard.output(), "");
  ASSERT_TRUE(computer->thaw());
  EXPECT_EQ(heard.wait_for("1 a\n"), "1 a\n");
}

TEST_F(KeptCommandTest, ASleepEndsWhenItWouldHave) {
  const Made first = make(spec());
  Heard heard;
  const auto command = start(*first, "echo begun; sleep 0.2; echo end", heard);
  heard.wait_for("begun");
  const Made second = restore(kept(*first, Keep::kAll));
  Heard heard_fork;
  const auto again = attach(*second, command->process_id(), heard_fork);
  EXPECT_EQ(again->wait(std::nullopt)->status, 0);
  EXPECT_EQ(heard_fork.output(), "end\n");
}

TEST_F(KeptCommandTest, ADeterministicOneStaysSo) {
  LiveSpec same = spec();
  same.deterministic = Determinism{.seed = 7};
  const Made first = make(same);
  Heard heard;
  const auto command = start(*first, "read line; head -c 8 /dev/urandom | cat; exit 0", heard);
  const HostFile file = kept(*first, Keep::kAll);
  std::string bytes;
  for (int i = 0; i < 2; ++i) {
    const Made fork = restore(file);
    Heard heard_fork;
    const auto again = attach(*fork, command->process_id(), heard_fork);
    ASSERT_TRUE(again->write_input("x\n"));
    EXPECT_EQ(again->wait(std::nullopt)->status, 0);
    EXPECT_EQ(heard_fork.output().size(), 8u);
    if (i == 0) bytes = heard_fork.output();
    else EXPECT_EQ(heard_fork.output(), bytes);
  }
}

// Very many of one kind of object (kept_shapes_main.c).
TEST_F(KeptCommandTest, VeryManyAreAsTheyWere) {
  for (const std::vector<std::string>& shape : std::vector<std::vector<std::string>>{{"areas", "5000"},
                                                                                     {"pages", "40000"},
                                                                                     {"timers", "1024"},
                                                                                     {"terminals", "0"},
                                                                                     {"zombies", "5000"}}) {
    SCOPED_TRACE(shape.front());
    const Made first = make(spec());
    Heard heard;
    CommandSpec guest;
    guest.arguments = {"/bin/kept_shapes", shape[0], shape[1]};
    const auto command = first->start(guest, heard.events());
    ASSERT_TRUE(command);
    EXPECT_EQ(heard.wait_for("\n"), "ready\n");
    const Made second = restore(kept(*first, Keep::kAll));
    ASSERT_TRUE(second);
    Heard heard_fork;
    const auto again = attach(*second, (*command)->process_id(), heard_fork);
    ASSERT_TRUE(again && again->write_input("check\n"));
    EXPECT_EQ(heard_fork.wait_for("\n"), "all there\n");
  }
}

// Nor by a kernel process that still has it open.
TEST_F(KeepingTest, TheKeptFileIsSealed) {
  const Made first = make(spec());
  const HostFile file = kept(*first, Keep::kAll);
  EXPECT_EQ(ftruncate(file.number(), 4096), -1);
  EXPECT_EQ(pwrite(file.number(), "x", 1, 0), -1);
  EXPECT_EQ(fcntl(file.number(), F_GET_SEALS), F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
}

TEST_F(KeptCommandTest, IsStoppedUntilItIsThawed) {
  const Made first = make(spec());
  Heard heard;
  const auto command = start(*first, kAnswering, heard);
  const HostFile file = kept(*first, Keep::kAll);
  LiveSpec from;
  from.kept = file.number();
  from.platform = spec().platform;
  from.stands_still = true;
  const Made second = make(from);
  Heard heard_fork;
  const auto again = attach(*second, command->process_id(), heard_fork);
  ASSERT_TRUE(again && again->write_input("a\n"));
  EXPECT_TRUE(second->usage());
  EXPECT_EQ(heard_fork.output(), "");
  ASSERT_TRUE(second->thaw());
  EXPECT_EQ(heard_fork.wait_for("1 a\n"), "1 a\n");
}

// Guests may map what was kept; a hostile one must not change it.
TEST_F(KeepingTest, TheKeptFileIsNotWritten) {
  const Made first = make(spec());
  EXPECT_EQ(run(*first, "echo before > /tmp/a"), "");
  const HostFile file = kept(*first, Keep::kFiles);
  const auto bytes = [&file] {
    std::string all(static_cast<size_t>(lseek(file.number(), 0, SEEK_END)), '\0');
    EXPECT_EQ(pread(file.number(), all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
    return all;
  };
  const std::string before = bytes();
  const Made second = restore(file);
  ASSERT_TRUE(second);
  EXPECT_EQ(run(*second, "echo after >> /tmp/a; echo x > /tmp/b; cat /tmp/a"), "before\nafter\n");
  EXPECT_EQ(bytes(), before);
}

}  // namespace
}  // namespace membrane::linux
