#include "linux/files/line_discipline.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <random>
#include <string>

#include "linux/files/memory_buffer.h"

namespace membrane::linux {
namespace {

struct Typed {
  std::vector<int> signals;
  LineDiscipline line = LineDiscipline([this](int signal) { signals.push_back(signal); });

  size_t type(std::string_view text) { return line.receive(std::as_bytes(std::span(text))); }
  std::string screen() {
    const auto bytes = line.output.bytes();
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    line.output.clear();
    return text;
  }
  std::string read(size_t most = 8192, bool takes_what_is_there = false) {
    std::string text(most, '\0');
    MemoryTarget target(std::as_writable_bytes(std::span(text)));
    auto count = line.read(target, takes_what_is_there);
    if (!count) return "error " + std::to_string(count.error());
    text.resize(*count);
    return text;
  }
  std::string print(std::string_view text) {
    MemorySource source(text);
    EXPECT_TRUE(line.write(source));
    return screen();
  }
};

TEST(LineDiscipline, GivesWholeLinesAndEchoesThem) {
  Typed tty;
  tty.type("ab");
  EXPECT_EQ(tty.read(), "error 11");
  EXPECT_EQ(tty.line.readable_bytes(), 0u);
  tty.type("c\rde\nf");
  EXPECT_EQ(tty.screen(), "abc\r\nde\r\nf");
  EXPECT_EQ(tty.line.readable_bytes(), 7u);
  EXPECT_EQ(tty.read(2), "ab");
  EXPECT_EQ(tty.read(), "c\n");
  EXPECT_EQ(tty.read(), "de\n");
  EXPECT_EQ(tty.read(), "error 11");
}

TEST(LineDiscipline, EditsTheLine) {
  Typed tty;
  tty.type(
      "abx\x7f"
      "c d e\x17\x17z\n");
  EXPECT_EQ(tty.read(), "abc z\n");
  EXPECT_EQ(tty.screen(), "abx\b \bc d e\b \b\b \b\b \bz\r\n");
  tty.type(
      "abc\x15"
      "d\n");
  EXPECT_EQ(tty.read(), "d\n");
  EXPECT_EQ(tty.screen(), "abc\b \b\b \b\b \bd\r\n");
  tty.type(
      "\x7f\x16\x03\x7f"
      "x\x16\n\n");
  EXPECT_EQ(tty.screen(), "^\b^C\b \b\b \bx^\b^J\r\n");
  EXPECT_EQ(tty.read(), "x\n\n");
  EXPECT_TRUE(tty.signals.empty());
}

TEST(LineDiscipline, EndsInputWithTheEndCharacter) {
  Typed tty;
  tty.type("abc\x04");
  EXPECT_EQ(tty.read(), "abc");
  EXPECT_EQ(tty.read(), "error 11");
  tty.type("\x04");
  EXPECT_TRUE(tty.line.is_readable());
  EXPECT_EQ(tty.read(), "");
  tty.type("abc\x04");
  EXPECT_EQ(tty.read(3), "abc");
  EXPECT_EQ(tty.read(), "error 11");
}

TEST(LineDiscipline, RaisesSignals) {
  Typed tty;
  tty.type("abc\n\x03\x1c\x1a");
  EXPECT_EQ(tty.signals, (std::vector<int>{SIGINT, SIGQUIT, SIGTSTP}));
  EXPECT_EQ(tty.screen(), "abc\r\n^C^\\^Z");
  EXPECT_EQ(tty.read(), "error 11");  // what was typed before is gone
}

TEST(LineDiscipline, PassesBytesInRawMode) {
  Typed tty;
  TerminalModes raw = tty.line.modes();
  raw.input = raw.output = raw.local = 0;
  tty.type("left");
  tty.screen();
  tty.line.set_modes(raw);
  tty.type("\x03\r\n\x7f");
  EXPECT_EQ(tty.screen(), "");
  EXPECT_EQ(tty.read(), "left\x03\r\n\x7f");
  EXPECT_EQ(tty.print("a\n\t"), "a\n\t");
  tty.type("ab");
  raw.characters[VMIN] = 3;
  tty.line.set_modes(raw);
  EXPECT_EQ(tty.read(), "error 11");
  EXPECT_EQ(tty.read(10, true), "ab");
  raw.characters[VMIN] = 0;
  tty.line.set_modes(raw);
  EXPECT_EQ(tty.read(), "");
}

TEST(LineDiscipline, HasALimitForLines) {
  Typed tty;
  EXPECT_EQ(tty.type(std::string(9000, 'a')), 9000u);
  tty.type("b\n");
  EXPECT_EQ(tty.read(), std::string(4095, 'a') + "\n");
  EXPECT_EQ(tty.type("x\n" + std::string(9000, 'a')), 4095u);
  EXPECT_FALSE(tty.line.has_input_room());
  EXPECT_LE(tty.line.output.size(), LineDiscipline::kMostOutput);
  EXPECT_EQ(tty.read(), "x\n");
  EXPECT_TRUE(tty.line.has_input_room());
}

TEST(LineDiscipline, TakesNoMoreOutputThanItsMasterHasRoomFor) {
  Typed tty;
  const std::string text(100000, '\n');
  MemorySource source(text);
  size_t written = 0;
  while (auto count = tty.line.write(source)) written += *count;
  EXPECT_EQ(tty.line.output.size(), 2 * written);
  EXPECT_LE(tty.line.output.size(), LineDiscipline::kMostOutput);
  EXPECT_FALSE(tty.line.has_output_room());
  tty.screen();
  EXPECT_TRUE(tty.line.has_output_room());
}

// The same typing here and at a terminal of the host. The host's terminal is waited for until it shows what
// ours shows.
class HostTerminal {
 public:
  explicit HostTerminal(const TerminalModes& modes) {
    EXPECT_EQ(openpty(&master, &slave, nullptr, nullptr, nullptr), 0);
    EXPECT_EQ(ioctl(slave, TCSETS, &modes), 0);
    fcntl(master, F_SETFL, O_NONBLOCK);
    fcntl(slave, F_SETFL, O_NONBLOCK);
  }
  ~HostTerminal() {
    close(slave);
    close(master);
  }
  std::string screen(size_t size) const {
    std::string text;
    for (int round = 0; round < 60000 && text.size() < size; ++round) {
      pollfd wanted = {.fd = master, .events = POLLIN, .revents = 0};
      poll(&wanted, 1, 1);
      std::string piece(size - text.size(), '\0');
      const ssize_t count = ::read(master, piece.data(), piece.size());
      if (count > 0) text += piece.substr(0, static_cast<size_t>(count));
    }
    return text;
  }
  std::string read(size_t most, size_t expected) const {
    int there = 0;
    for (int round = 0; round < 60000; ++round) {
      ioctl(slave, FIONREAD, &there);
      pollfd wanted = {.fd = slave, .events = POLLIN, .revents = 0};
      if (poll(&wanted, 1, 1) == 1 && static_cast<size_t>(there) >= expected) break;
    }
    std::string text(most, '\0');
    const ssize_t count = ::read(slave, text.data(), most);
    if (count < 0) return "error " + std::to_string(errno);
    text.resize(static_cast<size_t>(count));
    return text;
  }
  int master = -1, slave = -1;
};

TerminalModes random_modes(std::mt19937& random) {
  TerminalModes modes;
  const auto flip = [&](uint32_t& flags, std::initializer_list<uint32_t> bits) {
    for (const uint32_t bit : bits) {
      if (random() % 4 == 0) flags ^= bit;
    }
  };
  flip(modes.input, {ICRNL, INLCR, IGNCR, ISTRIP, IUTF8});
  flip(modes.output, {OPOST, ONLCR, OCRNL, ONOCR, ONLRET, OLCUC, XTABS});
  flip(modes.local, {ICANON, ECHO, ECHOE, ECHOK, ECHOCTL, ECHOKE, ECHONL, IEXTEN, NOFLSH});
  modes.local &= ~static_cast<uint32_t>(ISIG);
  if (random() % 4 == 0) modes.characters[VEOL] = 'e';
  return modes;
}

TEST(LineDiscipline, DoesAsATerminalOfTheHost) {
  const std::string keys = "abc e\t\t\n\r\x7f\x7f\x15\x17\x16\x12\x04\x01\x1b_\xc3\xa9\b";
  for (unsigned seed = 0; seed < 150; ++seed) {
    std::mt19937 random(seed);
    Typed ours;
    const TerminalModes modes = random_modes(random);
    ours.line.set_modes(modes);
    const HostTerminal host(modes);
    if (host.slave < 0) GTEST_SKIP() << "no pseudo terminals here";
    for (int step = 0; step < 40; ++step) {
      std::string text;
      for (size_t i = random() % 12; i > 0; --i) text += keys[random() % keys.size()];
      if (random() % 4 == 0) {
        MemorySource source(text);
        ASSERT_TRUE(ours.line.write(source));
        ASSERT_EQ(::write(host.slave, text.data(), text.size()), static_cast<ssize_t>(text.size()));
      } else {
        ASSERT_EQ(ours.type(text), text.size());
        ASSERT_EQ(::write(host.master, text.data(), text.size()), static_cast<ssize_t>(text.size()));
      }
      const std::string screen = ours.screen();
      ASSERT_EQ(host.screen(screen.size()), screen) << "seed " << seed << " step " << step;
      if (!ours.line.is_readable() || random() % 3 != 0) continue;
      const size_t there = ours.line.readable_bytes(), most = 1 + random() % 30;
      const std::string read = ours.read(most, true);
      ASSERT_EQ(host.read(most, there), read) << "seed " << seed << " step " << step;
    }
  }
}

}  // namespace
}  // namespace membrane::linux
