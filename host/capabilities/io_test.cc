// io, log and agent: input and output of a run.
#include <gtest/gtest.h>

#include "host/machine_testing.h"

namespace membrane::host {
namespace {

TEST(Io, PrintsTextAndNumbers) {
  Machine machine;
  machine.call("io.print", {"a"});
  machine.call("io.println", {"b"});
  machine.call("io.print_i32", {-2147483647 - 1});
  machine.call("io.newline");
  machine.call("io.print_i64", {INT64_MIN});
  machine.call("io.newline");
  machine.call("io.print_f64", {0.1});
  machine.call("io.eprint", {"oops"});
  EXPECT_EQ(machine.guest.stdout_text, "ab\n-2147483648\n-9223372036854775808\n0.1");
  EXPECT_EQ(machine.guest.stderr_text, "oops");
}

TEST(Io, WhateverIsPrintedIsUtf8) {
  Machine machine;
  machine.call("io.print", {"a\xFFz"});
  machine.call("io.result", {"\xC3"});
  machine.call("log.warn", {"\x80"});
  EXPECT_EQ(machine.guest.stdout_text, "a\xEF\xBF\xBDz");
  EXPECT_EQ(machine.guest.result, "\xEF\xBF\xBD");
  EXPECT_EQ(machine.guest.stderr_text, "[warn] \xEF\xBF\xBD\n");
}

TEST(Io, GivesInputAndArguments) {
  Machine machine;
  EXPECT_EQ(machine.text("io.input"), "");
  EXPECT_EQ(machine.number("io.argument_count"), 0);
  EXPECT_EQ(machine.fails("io.argument", {0}), Errno::kNotFound);
  machine.guest.input_text = "one\ntwo";
  machine.guest.argument_texts = {"x", ""};
  EXPECT_EQ(machine.text("io.input"), "one\ntwo");
  EXPECT_EQ(machine.text("io.input"), "one\ntwo") << "each time whole";
  EXPECT_EQ(machine.number("io.argument_count"), 2);
  EXPECT_EQ(machine.text("io.argument", {0}), "x");
  EXPECT_EQ(machine.text("io.argument", {1}), "");
  EXPECT_EQ(machine.fails("io.argument", {2}), Errno::kNotFound);
  EXPECT_EQ(machine.fails("io.argument", {-1}), Errno::kNotFound);
}

TEST(Io, TheLastResultCounts) {
  Machine machine;
  machine.call("io.result", {"one"});
  machine.call("io.result", {"two"});
  EXPECT_EQ(machine.guest.result, "two");
}

TEST(Log, WritesLinesWithTheirLevel) {
  Machine machine;
  for (const char* level : {"debug", "info", "warn", "error"})
    machine.call(std::string("log.") + level, {"x"});
  EXPECT_EQ(machine.guest.stderr_text, "[debug] x\n[info] x\n[warn] x\n[error] x\n");
  EXPECT_EQ(machine.guest.stdout_text, "");
}

TEST(Agent, SubmitEndsTheRun) {
  Machine machine;
  const Outcome outcome = machine.call("agent.submit", {"42"});
  EXPECT_EQ(outcome.end, CallEnd::kExit);
  EXPECT_TRUE(machine.guest.submitted);
  EXPECT_EQ(machine.guest.answer, "42");
}

TEST(Agent, AskGivesThePersonsAnswer) {
  Machine machine;
  EXPECT_EQ(machine.text("agent.ask", {"really?"}), "yes, really?");
}

}  // namespace
}  // namespace membrane::host
