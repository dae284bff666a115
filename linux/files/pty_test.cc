#include "linux/files/pty.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "linux/files/anonymous_node.h"
#include "linux/files/caller_testing.h"

namespace membrane::linux {
namespace {

struct Room {
  FakeJobs jobs;
  FakeCaller caller;  // a leader of its session
  std::shared_ptr<Terminals> all = std::make_shared<Terminals>(jobs);
  FileRef master = open_master();
  FileRef slave = open_slave(0);

  FileRef open_master(bool unlocks = true) {
    FileRef made = all->directory()->look_up("ptmx").value()->open(caller, O_RDWR | O_NOCTTY).value();
    int lock = 0;
    if (unlocks) {
      EXPECT_TRUE(caller.ioctl(*made, TIOCSPTLCK, lock));
    }
    return made;
  }
  FileRef open_slave(int number, int flags = O_RDWR | O_NOCTTY) {
    return all->directory()->look_up(std::to_string(number)).value()->open(caller, flags).value();
  }
  void set_local(uint32_t on, uint32_t off) {
    TerminalModes modes;
    EXPECT_TRUE(caller.ioctl(*slave, TCGETS, modes));
    modes.local = (modes.local | on) & ~off;
    EXPECT_TRUE(caller.ioctl(*slave, TCSETSF, modes));
  }
};

TEST(Pty, IsAKeyboardAndAScreen) {
  Room room;
  EXPECT_TRUE(write_text(*room.master, room.caller, "ls\r"));
  EXPECT_EQ(read_text(*room.slave, room.caller), "ls\n");
  EXPECT_TRUE(write_text(*room.slave, room.caller, "file\n"));
  EXPECT_EQ(read_text(*room.master, room.caller), "ls\r\nfile\r\n");
  EXPECT_EQ(read_text(*room.master, room.caller), "error 11");
  EXPECT_EQ(room.slave->description(), "/dev/pts/0");
  EXPECT_EQ(room.slave->node()->attributes().special, device_number(136, 0));
}

TEST(Pty, HasANumberInADirectory) {
  Room room;
  FileRef another = room.open_master(false);
  int number = -1;
  EXPECT_TRUE(room.caller.ioctl(*another, TIOCGPTN, number));
  EXPECT_EQ(number, 1);
  EXPECT_EQ(room.all->directory()->look_up("1").value()->open(room.caller, O_RDWR).error(), EIO);  // locked
  std::string names;
  int64_t last = 0;
  EXPECT_TRUE(room.all->directory()->list(0, [&](const DirectoryEntry& entry) {
    names += std::string(entry.name) + " ";
    last = entry.next;
    return true;
  }));
  EXPECT_EQ(names, "ptmx 0 1 ");
  EXPECT_TRUE(room.all->directory()->list(last, [](const DirectoryEntry&) {
    ADD_FAILURE();
    return true;
  }));
  for (const std::string_view name : {"2", "01", "+1", "", "x", "99999999999"})
    EXPECT_EQ(room.all->directory()->look_up(name).error(), ENOENT) << name;
  another.reset();
  EXPECT_EQ(room.all->directory()->look_up("1").error(), ENOENT);
}

TEST(Pty, IsOpenedByTheDeviceOfAll) {
  Room room;
  Devices devices;
  room.all->add_to(devices);
  const NodeRef node = make_anonymous_node(AnonymousDevice::kOthers, S_IFCHR | 0666);
  FileRef master = devices.open(kPtmxDevice, room.caller, node, O_RDWR).value();
  EXPECT_EQ(master->description(), "/dev/ptmx");
  EXPECT_NE(room.all->find(1), nullptr);
}

TEST(Pty, ControlsTheSessionThatTakesIt) {
  Room room;
  FakeCaller& caller = room.caller;
  int group = 0;
  EXPECT_EQ(caller.ioctl(*room.slave, TIOCGPGRP, group).error(), ENOTTY);
  EXPECT_TRUE(room.slave->ioctl(caller, TIOCSCTTY, 0));
  EXPECT_TRUE(caller.ioctl(*room.slave, TIOCGPGRP, group));
  EXPECT_EQ(group, 100);
  int session = 0;
  EXPECT_TRUE(caller.ioctl(*room.master, TIOCGSID, session));
  EXPECT_EQ(session, 100);
  FakeCaller other;
  other.process = other.group = other.its_session = 200;
  EXPECT_EQ(room.slave->ioctl(other, TIOCSCTTY, 0).error(), EPERM);
  group = 2000;
  EXPECT_EQ(caller.ioctl(*room.slave, TIOCSPGRP, group).error(), ESRCH);
  group = 150;
  EXPECT_TRUE(caller.ioctl(*room.slave, TIOCSPGRP, group));
  EXPECT_TRUE(write_text(*room.master, caller, "\x03"));
  EXPECT_EQ(room.jobs.group_signals, (std::vector<std::pair<int, int>>{{150, SIGINT}}));
  FileRef again = Devices().open(kTtyDevice, caller, nullptr, O_RDWR).value();
  EXPECT_EQ(again->description(), "/dev/pts/0");
}

TEST(Pty, StopsJobsOfTheBackground) {
  Room room;
  FakeCaller& leader = room.caller;
  EXPECT_TRUE(room.slave->ioctl(leader, TIOCSCTTY, 0));
  FakeCaller job;
  job.process = job.group = 300;
  job.its_terminal = leader.its_terminal;
  EXPECT_EQ(read_text(*room.slave, job), "error " + std::to_string(kAskAgain));
  EXPECT_EQ(job.group_signals, (std::vector<std::pair<int, int>>{{300, SIGTTIN}}));
  EXPECT_TRUE(write_text(*room.slave, job, "x"));  // without TOSTOP
  TerminalModes modes;
  EXPECT_TRUE(job.ioctl(*room.slave, TCGETS, modes));
  EXPECT_EQ(job.ioctl(*room.slave, TCSETS, modes).error(), kAskAgain);
  EXPECT_EQ(job.group_signals.back(), (std::pair<int, int>{300, SIGTTOU}));
  room.set_local(TOSTOP, 0);
  EXPECT_EQ(write_text(*room.slave, job, "x").error(), kAskAgain);
  job.orphaned = true;
  EXPECT_EQ(write_text(*room.slave, job, "x").error(), EIO);
  job.orphaned = false;
  job.ignored = {SIGTTIN, SIGTTOU};
  EXPECT_TRUE(write_text(*room.slave, job, "x"));
  EXPECT_EQ(read_text(*room.slave, job), "error " + std::to_string(EIO));
}

TEST(Pty, BecomesTheTerminalOfALeaderThatOpensIt) {
  Room room;
  FileRef opened = room.open_slave(0, O_RDWR);
  EXPECT_NE(room.caller.its_terminal, nullptr);
  FakeCaller member;
  member.process = 101;
  FileRef by_member = room.all->directory()->look_up("0").value()->open(member, O_RDWR).value();
  EXPECT_EQ(member.its_terminal, nullptr);
  EXPECT_TRUE(room.slave->ioctl(room.caller, TIOCNOTTY, 0));
  EXPECT_EQ(room.caller.its_terminal, nullptr);
  EXPECT_EQ(room.jobs.group_signals, (std::vector<std::pair<int, int>>{{100, SIGHUP}, {100, SIGCONT}}));
  EXPECT_EQ(room.slave->ioctl(room.caller, TIOCNOTTY, 0).error(), ENOTTY);
}

TEST(Pty, TellsTheForegroundOfItsSize) {
  Room room;
  EXPECT_TRUE(room.slave->ioctl(room.caller, TIOCSCTTY, 0));
  winsize size = {.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  EXPECT_TRUE(room.caller.ioctl(*room.master, TIOCSWINSZ, size));
  EXPECT_TRUE(room.caller.ioctl(*room.master, TIOCSWINSZ, size));
  EXPECT_EQ(room.jobs.group_signals, (std::vector<std::pair<int, int>>{{100, SIGWINCH}}));
  size = {};
  EXPECT_TRUE(room.caller.ioctl(*room.slave, TIOCGWINSZ, size));
  EXPECT_EQ(size.ws_col, 80);
}

TEST(Pty, HangsUpWhenTheMasterIsClosed) {
  Room room;
  EXPECT_TRUE(room.slave->ioctl(room.caller, TIOCSCTTY, 0));
  CountingWaiter waiter;
  room.slave->join(waiter);
  room.master.reset();
  EXPECT_GT(waiter.wakes, 0);
  EXPECT_EQ(room.jobs.process_signals, (std::vector<std::pair<int, int>>{{100, SIGHUP}, {100, SIGCONT}}));
  EXPECT_EQ(room.jobs.group_signals, (std::vector<std::pair<int, int>>{{100, SIGHUP}}));
  EXPECT_EQ(room.jobs.lost, std::vector<int>{100});
  EXPECT_EQ(read_text(*room.slave, room.caller), "");
  EXPECT_EQ(write_text(*room.slave, room.caller, "x").error(), EIO);
  EXPECT_EQ(room.slave->ioctl(room.caller, TIOCGWINSZ, FakeCaller::kMemory).error(), EIO);
  EXPECT_NE(room.slave->ready() & POLLHUP, 0);
  EXPECT_EQ(room.slave->node()->open(room.caller, O_RDWR).error(), EIO);
}

TEST(Pty, TellsItsMasterThatNooneIsThere) {
  Room room;
  EXPECT_TRUE(write_text(*room.slave, room.caller, "bye"));
  EXPECT_EQ(room.master->ready() & POLLHUP, 0);
  room.slave.reset();
  EXPECT_EQ(room.master->ready() & (POLLHUP | POLLIN), POLLHUP | POLLIN);
  EXPECT_EQ(read_text(*room.master, room.caller), "bye");
  EXPECT_EQ(read_text(*room.master, room.caller), "error " + std::to_string(EIO));
  room.slave = room.open_slave(0);
  EXPECT_EQ(read_text(*room.master, room.caller), "error 11");
}

// script(1) opens a slave itself and reads the rest.
TEST(Pty, OutlivesItsSession) {
  Room room;
  EXPECT_TRUE(room.slave->ioctl(room.caller, TIOCSCTTY, 0));
  end_session(*std::exchange(room.caller.its_terminal, nullptr));
  EXPECT_EQ(room.jobs.lost, std::vector<int>{100});
  EXPECT_EQ(room.jobs.process_signals, (std::vector<std::pair<int, int>>{{100, SIGHUP}, {100, SIGCONT}}));
  EXPECT_EQ(read_text(*room.slave, room.caller), "error 11");
  EXPECT_TRUE(write_text(*room.slave, room.caller, "x"));
  EXPECT_EQ(room.slave->ready() & (POLLIN | POLLHUP), 0);
  EXPECT_EQ(room.master->ready() & POLLHUP, 0);
  EXPECT_EQ(room.slave->ioctl(room.caller, TIOCGPGRP, FakeCaller::kMemory).error(), ENOTTY);
  room.slave.reset();
  EXPECT_NE(room.master->ready() & POLLHUP, 0);
}

TEST(Pty, AnswersEveryRequestWithForeignArguments) {
  Room room;
  EXPECT_TRUE(room.slave->ioctl(room.caller, TIOCSCTTY, 0));
  for (uint64_t request = 0x5400; request < 0x5480; ++request) {
    for (const uint64_t argument : {uint64_t{0}, ~uint64_t{0}, FakeCaller::kMemory + 65530}) {
      (void)room.slave->ioctl(room.caller, request, argument);
      (void)room.master->ioctl(room.caller, request, argument);
    }
  }
}

TEST(Pty, FlushesWhatIsAskedFor) {
  Room room;
  EXPECT_TRUE(write_text(*room.master, room.caller, "typed\n"));
  int there = 0;
  EXPECT_TRUE(room.caller.ioctl(*room.slave, FIONREAD, there));
  EXPECT_EQ(there, 6);
  EXPECT_TRUE(room.slave->ioctl(room.caller, TCFLSH, TCIFLUSH));
  EXPECT_EQ(read_text(*room.slave, room.caller), "error 11");
  EXPECT_EQ(read_text(*room.master, room.caller), "typed\r\n");
  EXPECT_EQ(room.slave->ioctl(room.caller, TCFLSH, 7).error(), EINVAL);
}

TEST(Pty, TellsInPackets) {
  Room room;
  int on = 1;
  EXPECT_TRUE(room.caller.ioctl(*room.master, TIOCPKT, on));
  on = 0;
  EXPECT_TRUE(room.caller.ioctl(*room.master, TIOCGPKT, on));
  EXPECT_EQ(on, 1);
  EXPECT_TRUE(write_text(*room.slave, room.caller, "abc"));
  EXPECT_EQ(read_text(*room.master, room.caller, 3), std::string("\0ab", 3));
  EXPECT_EQ(read_text(*room.master, room.caller, 1), std::string(1, '\0'));
  EXPECT_EQ(read_text(*room.master, room.caller), std::string("\0c", 2));
  EXPECT_EQ(read_text(*room.master, room.caller), "error 11");
  // The input is flushed, and ^S is no longer a special key of the terminal.
  EXPECT_TRUE(room.slave->ioctl(room.caller, TCFLSH, TCIFLUSH));
  TerminalModes modes;
  EXPECT_TRUE(room.caller.ioctl(*room.slave, TCGETS, modes));
  modes.input &= ~static_cast<uint32_t>(IXON);
  EXPECT_TRUE(room.caller.ioctl(*room.slave, TCSETS, modes));
  EXPECT_EQ(room.master->ready() & (POLLPRI | POLLIN), POLLPRI | POLLIN);
  EXPECT_EQ(read_text(*room.master, room.caller), std::string(1, TIOCPKT_FLUSHREAD | TIOCPKT_NOSTOP));
  EXPECT_EQ(room.master->ready() & (POLLPRI | POLLIN), 0);
  modes.input |= IXON;
  EXPECT_TRUE(room.caller.ioctl(*room.slave, TCSETS, modes));
  EXPECT_EQ(read_text(*room.master, room.caller), std::string(1, TIOCPKT_DOSTOP));
  on = 0;
  EXPECT_TRUE(room.caller.ioctl(*room.master, TIOCPKT, on));
  EXPECT_TRUE(room.slave->ioctl(room.caller, TCFLSH, TCIFLUSH));
  EXPECT_TRUE(write_text(*room.slave, room.caller, "d"));
  EXPECT_EQ(read_text(*room.master, room.caller), "d");
}

TEST(Pty, HasModesAsSystemVDoes) {
  Room room;
  struct Old {
    uint16_t input, output, control, local;
    uint8_t discipline, characters[8];
  } old = {};
  EXPECT_TRUE(room.caller.ioctl(*room.slave, TCGETA, old));
  EXPECT_EQ(old.local & (ICANON | ECHO), ICANON | ECHO);
  EXPECT_EQ(old.characters[VINTR], 3);
  old.local &= static_cast<uint16_t>(~(ICANON | ECHO));
  EXPECT_TRUE(room.caller.ioctl(*room.slave, TCSETAF, old));
  TerminalModes modes;
  EXPECT_TRUE(room.caller.ioctl(*room.slave, TCGETS, modes));
  EXPECT_EQ(modes.local & (ICANON | ECHO), 0u);
  EXPECT_EQ(modes.local, TerminalModes().local & ~static_cast<uint32_t>(ICANON | ECHO));
}

}  // namespace
}  // namespace membrane::linux
