#include "agent/terminal/repl.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "agent/terminal/console.h"
#include "agent/terminal/interrupt.h"
#include "agent/terminal/person.h"

namespace membrane::agent {
namespace {

using sandbox::Report;

class ReplTest : public ::testing::Test {
 public:
  ~ReplTest() override { std::filesystem::remove_all(directory_); }

 protected:
  ReplTest() {
    directory_ =
        std::filesystem::path(::testing::TempDir()) / ("membrane_repl_test_" + std::to_string(getpid()));
    std::filesystem::create_directories(directory_);
    options_ = {.policy_explanation = "Nothing is granted.",
                .policy_json = "{}",
                .model = "tiny",
                .history_file = history_file(),
                .banner = ""};
  }

  std::string history_file() const { return directory_ / "state" / "history"; }

  // Types `input` into a session whose model answers `answers`; returns the output.
  std::string type(const std::string& input, const std::string& answers = R"({"content":"ANSWER: 42"})") {
    auto recording = Recording::parse(answers, "answers");
    EXPECT_TRUE(recording) << recording.error().message;
    RecordedModel model(std::move(*recording));
    Loop loop(model, executor_, budget_, catalog_, "SYSTEM");
    std::istringstream in(input);
    std::ostringstream out;
    Console console(out);
    loop.add_observer(console);
    StreamLineReader reader(in);
    Repl repl(loop, reader, out, cancel_, options_);
    repl.run();
    messages_ = loop.messages();
    return out.str();
  }
  static bool has(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  }

  std::filesystem::path directory_;
  ReplOptions options_;
  Catalog catalog_;
  Executor executor_ = [](const Program&, const StepContext&) { return Report{}; };
  std::shared_ptr<policy::Budget> budget_ = std::make_shared<policy::Budget>();
  std::atomic<bool> cancel_{false};
  std::vector<Message> messages_;
};

TEST_F(ReplTest, ALineIsATask) {
  const std::string out = type("What is it?\n");
  EXPECT_TRUE(has(out, "── answer\n42\n")) << out;
  EXPECT_TRUE(has(out, "tokens"));
  EXPECT_EQ(messages_.at(1).content, "What is it?");
}

TEST_F(ReplTest, LinesContinueAfterABackslashAndInsideAFence) {
  type("one\\\ntwo\n", R"({"content":"ANSWER: x"})");
  EXPECT_EQ(messages_.at(1).content, "one\ntwo");
  type("Mend this:\n```wat\n(module)\n\n```\n", R"({"content":"ANSWER: x"})");
  EXPECT_EQ(messages_.at(1).content, "Mend this:") << "the first line was a task of its own";
  type("```wat\n(module)\n\n```\n");
  EXPECT_EQ(messages_.at(1).content, "```wat\n(module)\n\n```");
  type("unfinished\\");
  EXPECT_EQ(messages_.at(1).content, "unfinished");
}

TEST_F(ReplTest, CommandsAnswer) {
  budget_->set(policy::Resource::kTokens, 777);
  const std::string out = type("/help\n/policy\n/budget\n");
  for (const char* command : {"/help", "/policy", "/budget", "/save FILE", "/history", "/reset", "/quit"})
    EXPECT_TRUE(has(out, command)) << command;
  EXPECT_TRUE(has(out, "Nothing is granted.\n"));
  EXPECT_TRUE(has(out, "tokens        777 left"));
  EXPECT_TRUE(has(out, "fuel          unlimited"));
  EXPECT_TRUE(has(out, "host calls    unlimited"));
  EXPECT_TRUE(has(out, "time          unlimited"));
  EXPECT_TRUE(has(out, "For the rest of this conversation"));
  EXPECT_TRUE(messages_.empty()) << "commands are no tasks";
}

TEST_F(ReplTest, AnUnknownCommandIsSuggestedFor) {
  EXPECT_TRUE(has(type("/polcy\n"), "Did you mean /policy?"));
  EXPECT_TRUE(has(type("/zzzzzz\n"), "There are /help, /save, /policy, "));
  EXPECT_TRUE(has(type(":fork\n"), "There is no command :fork here, but in membrane repl."));
  EXPECT_TRUE(messages_.empty());
}

TEST_F(ReplTest, AColonBeginsACommandToo) {
  EXPECT_TRUE(has(type(":policy\n:q\nnever asked\n"), "Nothing is granted.\n"));
  EXPECT_TRUE(messages_.empty());
}

TEST_F(ReplTest, APathOrASmileIsATask) {
  type("/tmp/log is large: why?\n");
  EXPECT_EQ(messages_.at(1).content, "/tmp/log is large: why?");
  type(":) hello\n");
  EXPECT_EQ(messages_.at(1).content, ":) hello");
}

TEST_F(ReplTest, QuitLeavesAtOnce) {
  type("/quit\nnever asked\n");
  EXPECT_TRUE(messages_.empty());
}

TEST_F(ReplTest, ResetForgetsTheConversation) {
  type("first\n/reset\nsecond\n", "{\"content\":\"ANSWER: 1\"}\n{\"content\":\"ANSWER: 2\"}");
  EXPECT_EQ(messages_.at(1).content, "second");
}

TEST_F(ReplTest, SaveWritesATranscriptThatReplays) {
  const std::string path = directory_ / "t.jsonl";
  const std::string out = type("task\n/save " + path + "\n/save\n/save /nonexistent/x\n");
  EXPECT_TRUE(has(out, "Saved to "));
  EXPECT_TRUE(has(out, "Write /save FILE."));
  EXPECT_TRUE(has(out, "cannot be written"));
  const auto recording = Recording::load(path);
  ASSERT_TRUE(recording) << recording.error().message;
  EXPECT_EQ(recording->tasks, std::vector<std::string>{"task"});
  EXPECT_EQ(recording->answers, std::vector<std::string>{"42"});
}

TEST_F(ReplTest, HistoryIsKeptForTheNextSession) {
  type("a\\\nb\n", R"({"content":"ANSWER: x"})");
  type("c\\d\n");
  type(" secret\n");
  struct stat info{};
  ASSERT_EQ(stat(history_file().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(History::load(history_file()).lines(), (std::vector<std::string>{"a\nb", "c\\d"}));
  EXPECT_TRUE(has(type("/history\n"), "a\nb\nc\\d\n"));
}

TEST_F(ReplTest, TheHistoryIsBounded) {
  std::filesystem::create_directories(directory_ / "state");
  {
    std::ofstream file(history_file());
    for (int i = 0; i < 1'500; ++i) file << "line " << i << '\n';
  }
  const History history = History::load(history_file());
  EXPECT_EQ(history.lines().size(), History::kMaxLines);
  EXPECT_EQ(history.lines().back(), "line 1499");
  EXPECT_EQ(History::load(history_file()).lines().front(), "line 500") << "the file, too";
  EXPECT_EQ(std::filesystem::status(history_file()).permissions(),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(ReplTest, AHistoryThatIsALinkOrAPipeIsLeftAlone) {
  namespace fs = std::filesystem;
  fs::create_directories(directory_ / "state");
  const fs::path precious = directory_ / "precious";
  std::ofstream(precious) << "precious\n";
  const auto add_to = [&] {
    History history = History::load(history_file());
    EXPECT_TRUE(history.lines().empty());
    static_cast<void>(history.add("a line"));
    EXPECT_EQ(history.lines().size(), 1u);
  };
  fs::create_symlink(precious, history_file());
  add_to();
  fs::remove(history_file());
  ASSERT_EQ(mkfifo(history_file().c_str(), 0600), 0);
  add_to();
  fs::remove(history_file());
  fs::create_hard_link(precious, history_file());
  add_to();
  EXPECT_EQ(fs::file_size(precious), 9u);
}

TEST_F(ReplTest, ACancelEndsTheStepAndTheSessionContinues) {
  executor_ = [this](const Program&, const StepContext&) {
    cancel_ = true;  // as SIGINT would
    Report report;
    report.outcome = sandbox::Outcome::kCancelled;
    return report;
  };
  const std::string out = type("loop forever\nstill there?\n",
                               "{\"content\":\"```wat\\n(module)\\n```\"}\n{\"content\":\"ANSWER: yes\"}");
  EXPECT_TRUE(has(out, "The step was stopped.")) << out;
  EXPECT_TRUE(has(out, "── answer\nyes\n")) << out;
}

TEST_F(ReplTest, ExplainsOnceThatCtrlDLeaves) {
  class Interrupted final : public LineReader {
    int n_ = 0;
    LineEvent read(std::string_view, std::string&) override {
      return n_++ == 0 ? LineEvent::kInterrupted : LineEvent::kEnd;
    }
  } reader;
  RecordedModel model({});
  Loop loop(model, executor_, budget_, catalog_, "SYSTEM");
  std::ostringstream out;
  Repl(loop, reader, out, cancel_, options_).run();
  EXPECT_TRUE(has(out.str(), "/quit leaves"));
}

// -- the person -------------------------------------------------------------------------

TEST(ConsolePerson, AsksAndGetsAnAnswer) {
  std::istringstream in("blue\n");
  std::ostringstream out;
  StreamLineReader reader(in, &out);
  ConsolePerson person(reader, out);
  EXPECT_EQ(person.ask("Which colour\x1b[2J?", 0), "blue");
  EXPECT_NE(out.str().find("Which colour\\x1b[2J?"), std::string::npos);
  EXPECT_EQ(person.ask("And now?", 0).error().code, host::Errno::kUnsupported);
}

// -- the console -------------------------------------------------------------------------

TEST(Console, AProgramIsShownOnceAndAnObservationInPart) {
  std::ostringstream out;
  Console console(out, {.colour = false, .thoughts = false, .observation_lines = 2});
  console.on_step(1);
  console.on_text("```wat\n(module $seen)\n```");
  Program program;
  program.source = "(module $seen)\n";
  console.on_program(program);
  EXPECT_EQ(out.str().find("── program"), std::string::npos);
  console.on_step(2);
  program.source = "(module $called)";
  program.name = "add.wat";
  program.arguments = {"2", "40"};
  console.on_program(program);
  EXPECT_NE(out.str().find("── program add.wat 2 40\n(module $called)\n"), std::string::npos) << out.str();
  console.on_observation("one\ntwo\nthree\nfour");
  EXPECT_NE(out.str().find("one\ntwo\n… and 10 bytes more\n"), std::string::npos) << out.str();
  console.on_thought("hidden");
  EXPECT_EQ(out.str().find("hidden"), std::string::npos);
}

// -- Ctrl-C ---------------------------------------------------------------------------------

TEST(Interrupt, SetsAFlag) {
  Interrupt interrupt;
  EXPECT_FALSE(interrupt.flag());
  raise(SIGINT);
  EXPECT_TRUE(interrupt.flag());
  interrupt.flag() = false;
  raise(SIGINT);
  raise(SIGINT);
  EXPECT_TRUE(interrupt.flag());
}

TEST(InterruptDeathTest, ThreeWithoutEffectEndTheProcess) {
  EXPECT_EXIT(
      {
        Interrupt interrupt;
        for (int i = 0; i < 3; ++i) raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

// -- a real terminal ------------------------------------------------------------------------------

// The child's side: reads lines like the REPL, and prints them.
[[noreturn]] void read_at_terminal() {
  Interrupt interrupt;
  auto reader = terminal_line_reader(interrupt.flag());
  if (!reader) _exit(9);
  (*reader)->remember("from history");
  (*reader)->complete_by([](std::string_view before) -> Completions {
    if (before.ends_with("on")) return {2, {"only"}};
    if (before.ends_with("t.b")) return {1, {"bark", "bars"}};
    return {};
  });
  for (std::string line;;) {
    const LineEvent event = (*reader)->read("ready> ", line);
    std::printf("\n<%s%s>\n",
                event == LineEvent::kLine          ? "line "
                : event == LineEvent::kInterrupted ? "interrupted"
                                                   : "end",
                event == LineEvent::kLine ? line.c_str() : "");
    std::fflush(stdout);
    if (event == LineEvent::kEnd) _exit(0);
  }
}

TEST(TerminalLineReader, EditsRemembersAndIsInterrupted) {
  alarm(120);  // a terminal that never answers fails the test, and does not hold up the rest
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  ASSERT_GE(child, 0);
  if (child == 0) {
    setenv("TERM", "xterm", 1);
    read_at_terminal();
  }
  std::string seen;
  // Types once the terminal has shown `after`; a terminal that is gone ends the test.
  const auto type_after = [&](std::string_view after, std::string_view keys) {
    size_t at = std::string::npos;
    while ((at = seen.find(after)) == std::string::npos) {
      char piece[256];
      const ssize_t got = read(terminal, piece, sizeof piece);
      if (got <= 0) return false;
      seen.append(piece, static_cast<size_t>(got));
    }
    seen.erase(0, at + after.size());
    // The prompt may appear before the terminal delivers single keys; what is typed until then is a line to
    // it.
    termios mode{};
    while (!keys.empty() && tcgetattr(terminal, &mode) == 0 && (mode.c_lflag & ICANON) != 0) sched_yield();
    return write(terminal, keys.data(), keys.size()) == static_cast<ssize_t>(keys.size());
  };
  EXPECT_TRUE(type_after("ready> ", "helo\x02l\r")) << seen;  // Ctrl-B: one back
  EXPECT_TRUE(type_after("<line hello>", "")) << seen;
  EXPECT_TRUE(type_after("ready> ", "\x1b[A\r")) << seen;
  EXPECT_TRUE(type_after("<line from history>", "")) << seen;
  EXPECT_TRUE(type_after("ready> ", "x on\t\r")) << seen;
  EXPECT_TRUE(type_after("<line x only>", "")) << seen;
  EXPECT_TRUE(type_after("ready> ", "t.b\tk\r")) << seen;
  EXPECT_TRUE(type_after("<line t.bark>", "")) << seen;
  EXPECT_TRUE(type_after("ready> ", "dropped")) << seen;
  // Ctrl-C, and a key: a signal that arrives just before libedit waits for a key takes effect with the next
  // one.
  EXPECT_TRUE(type_after("dropped", "\x03\r")) << seen;
  EXPECT_TRUE(type_after("<interrupted>", "")) << seen;
  EXPECT_TRUE(type_after("ready> ", "\x04")) << seen;
  EXPECT_TRUE(type_after("<end>", "")) << seen;
  close(terminal);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  alarm(0);
}

}  // namespace
}  // namespace membrane::agent
