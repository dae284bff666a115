#include "linux/files/outside_terminal.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "linux/files/caller_testing.h"

namespace membrane::linux {
namespace {

struct Screen {
  FakeJobs jobs;
  FakeCaller caller;
  std::string text;
  size_t room = 1 << 20;
  int wakes = 0;
  std::shared_ptr<Terminals> all = std::make_shared<Terminals>(jobs);
  std::shared_ptr<OutputCount> count = std::make_shared<OutputCount>();
  OutsideTerminal terminal{all->make_master({}).value(),
                           [this](std::span<const std::byte> bytes) -> Try<size_t> {
                             const size_t taken = std::min(bytes.size(), room);
                             text.append(reinterpret_cast<const char*>(bytes.data()), taken);
                             room -= taken;
                             return taken;
                           },
                           count, [this] { ++wakes; }};
  FileRef slave = terminal.open().value();
  void type(std::string_view keys) {
    EXPECT_EQ(terminal.feed(std::as_bytes(std::span(keys))), keys.size());
    terminal.after_wake();
  }
};

TEST(OutsideTerminal, IsTypedOnAndSeen) {
  Screen screen;
  screen.type("ls\r");
  EXPECT_EQ(read_text(*screen.slave, screen.caller), "ls\n");
  EXPECT_TRUE(write_text(*screen.slave, screen.caller, "file\n"));
  screen.terminal.after_wake();
  EXPECT_EQ(screen.text, "ls\r\nfile\r\n");
}

TEST(OutsideTerminal, WakesTheKernelOnceUntilItLooks) {
  Screen screen;
  const int before = screen.wakes;
  screen.terminal.feed(std::as_bytes(std::span("a", 1)));
  screen.terminal.feed(std::as_bytes(std::span("b", 1)));
  EXPECT_EQ(screen.wakes - before, 1);
  for (int i = 0; i < 3; ++i) screen.terminal.after_wake();
  const int looked = screen.wakes;
  EXPECT_TRUE(write_text(*screen.slave, screen.caller, "x"));
  EXPECT_EQ(screen.wakes - looked, 1);
  for (int i = 0; i < 3; ++i) screen.terminal.after_wake();
  EXPECT_EQ(screen.wakes - looked, 2);  // room was made, and nothing is left to do
}

TEST(OutsideTerminal, KeepsWhatTheSinkHasNoRoomFor) {
  Screen screen;
  screen.room = 3;
  EXPECT_TRUE(write_text(*screen.slave, screen.caller, "abcdef"));
  screen.terminal.after_wake();
  EXPECT_EQ(screen.text, "abc");
  screen.room = 100;
  screen.terminal.has_room();
  screen.terminal.after_wake();
  EXPECT_EQ(screen.text, "abcdef");
}

TEST(OutsideTerminal, KeepsToTheLimitOfOutput) {
  Screen screen;
  screen.count->limit_bytes = 4;
  bool was_reported = false;
  screen.count->on_reached = [&] { was_reported = true; };
  EXPECT_TRUE(write_text(*screen.slave, screen.caller, "abcdef"));
  screen.terminal.after_wake();
  EXPECT_EQ(screen.text, "abcd");
  EXPECT_TRUE(was_reported);
}

TEST(OutsideTerminal, ReportsItsSizeToTheForeground) {
  Screen screen;
  EXPECT_TRUE(screen.terminal.terminal()->take(screen.caller, false));
  screen.terminal.resize({.ws_row = 50, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0});
  screen.terminal.after_wake();
  winsize size = {};
  EXPECT_TRUE(screen.caller.ioctl(*screen.slave, TIOCGWINSZ, size));
  EXPECT_EQ(size.ws_col, 100);
  EXPECT_EQ(screen.jobs.group_signals, (std::vector<std::pair<int, int>>{{100, SIGWINCH}}));
}

TEST(OutsideTerminal, HangsUpWhenTheOutsideEnds) {
  Screen screen;
  EXPECT_TRUE(screen.terminal.terminal()->take(screen.caller, false));
  screen.terminal.end();
  screen.terminal.after_wake();
  EXPECT_EQ(read_text(*screen.slave, screen.caller), "");
  EXPECT_EQ(write_text(*screen.slave, screen.caller, "x").error(), EIO);
  EXPECT_FALSE(screen.terminal.wait_for_room());
  EXPECT_FALSE(screen.jobs.lost.empty());
}

}  // namespace
}  // namespace membrane::linux
