// What a hostile program can pass across the boundary, and the result: an errno or an outcome with a cause, and
// never more than the program's own end.

#include <gtest/gtest.h>

#include <limits>

#include "sandbox/sandbox.h"

namespace membrane::sandbox {
namespace {

policy::Policy with_kv() {
  policy::Policy p;
  p.kv.emplace();
  return p;
}

Report run_text(std::string text, policy::Policy policy = with_kv(), host::Journal* record = nullptr) {
  Program program;
  program.source = std::move(text);
  RunOptions options;
  options.policy = std::move(policy);
  options.record = record;
  return run(program, options);
}

// A program of one page whose body leaves an i32, mostly an errno.
Report run_body(const std::string& body, policy::Policy policy = with_kv(), host::Journal* record = nullptr) {
  return run_text(
      "(module (memory (export \"memory\") 1 1) (func (export \"run\") (result i32) " + body + "))",
      std::move(policy), record);
}

std::string value_of(const Report& report) {
  if (report.outcome != Outcome::kOk || report.results.size() != 1)
    return std::string(name_of(report.outcome)) +
           (report.errors.empty() ? "" : ": " + report.errors[0].message);
  return report.results[0].value;
}

std::string code_of(const Report& report) { return report.errors.empty() ? "" : report.errors[0].code; }

constexpr const char* kFault = "8";

void expect_fault(const Report& report) {
  EXPECT_EQ(value_of(report), kFault);
  ASSERT_EQ(report.host_calls.size(), 1u);
  EXPECT_EQ(report.host_calls[0].error, "EFAULT");
}

// -- memory --------------------------------------------------------------------------------------

TEST(Boundary, MemoryReachesTheEndOfItsAddressesAndTheLimitThatRefusedIsNamed) {
  const std::string program = R"((module (memory 0) (func (export "run") (result i32)
      (if (i32.ne (memory.grow (i32.const 65536)) (i32.const 0)) (then (unreachable)))
      (i32.store (i32.const -4) (i32.const 7))
      (if (i32.eq (memory.grow (i32.const 1)) (i32.const -1)) (then (unreachable)))
      (i32.load (i32.const -4)))))";
  policy::Policy policy;
  policy.limits.memory_bytes = uint64_t{4} << 30;
  const Report whole = run_text(program, policy);
  EXPECT_EQ(whole.outcome, Outcome::kOutOfMemory);
  EXPECT_EQ(whole.memory_peak_bytes, uint64_t{4} << 30);
  ASSERT_EQ(whole.errors.size(), 1u);
  EXPECT_NE(whole.errors[0].hint.find("the memory limit is 4294967296 bytes"), std::string::npos)
      << whole.errors[0].hint;
  policy.limits.memory_bytes -= 65'536;
  const Report less = run_text(program, policy);
  EXPECT_EQ(less.outcome, Outcome::kOutOfMemory);
  EXPECT_EQ(less.memory_peak_bytes, 0u);
  ASSERT_EQ(less.errors.size(), 1u);
  EXPECT_NE(less.errors[0].hint.find("the memory limit is 4294901760 bytes"), std::string::npos)
      << less.errors[0].hint;
}

// -- pointers and lengths ----------------------------------------------------------------------

TEST(Boundary, APointerBeyondTheMemoryIsAFault) {
  expect_fault(run_body("(call $kv.set (i32.const 65536) (i32.const 0))"));
  expect_fault(run_body("(call $kv.set (i32.const 0x7fffffff) (i32.const 0))"));
}

TEST(Boundary, AStringMayEndAtTheLastByteAndNotBehindIt) {
  const auto set = [](const char* length) {
    return run_body(std::string("(i32.store (i32.const 65528) (i32.const ") + length + R"())
      (i32.store (i32.const 65532) (i32.const 0x61616161))
      (call $kv.set (i32.const 65528) (i32.const 1024)))");
  };
  EXPECT_EQ(value_of(set("4")), "0");
  expect_fault(set("5"));
}

TEST(Boundary, ALengthWordThatTheMemorysEndCutsIsAFault) {
  expect_fault(run_body("(call $kv.set (i32.const 65533) (i32.const 0))"));
}

TEST(Boundary, AHugeLengthIsAFault) {
  for (const char* length : {"0xffffffff", "0x80000000", "0x7fffffff", "0xfffffbfc"})
    expect_fault(run_body(std::string("(i32.store (i32.const 1024) (i32.const ") + length +
                          ")) (call $kv.set (i32.const 1024) (i32.const 0))"));
}

TEST(Boundary, APointerThatWrapsAroundIsAFault) {
  expect_fault(run_body("(call $kv.set (i32.const -4) (i32.const 0))"));
  expect_fault(run_body("(call $kv.set (i32.const -1) (i32.const 0))"));
}

TEST(Boundary, ArgumentsThatOverlapAreReadAsTheyStand) {
  const Report report = run_body(R"(
    (local $value i32) (local $errno i32)
    (i32.store (i32.const 1024) (i32.const 4)) (i32.store (i32.const 1028) (i32.const 0x64636261))
    (drop (call $kv.set (i32.const 1024) (i32.const 1024)))
    (call $kv.get (i32.const 1024)) (local.set $errno) (local.set $value)
    (call $io.print (local.get $value))
    (local.get $errno))");
  EXPECT_EQ(value_of(report), "0");
  EXPECT_EQ(report.stdout_text, "abcd");
}

TEST(Boundary, ABadPointerWhereThereIsNoErrnoIsATrap) {
  const Report report = run_body("(call $io.print (i32.const -8)) (i32.const 0)");
  EXPECT_EQ(report.outcome, Outcome::kTrapped);
  EXPECT_EQ(code_of(report), "EFAULT");
}

// -- grants and budgets ----------------------------------------------------------------------------

TEST(Boundary, WhatIsNotGrantedIsRefusedAndRecordedAndJournaled) {
  host::Journal journal;
  const Report report = run_body(R"((call $kv.set (string "k") (string "v")))", {}, &journal);
  EXPECT_EQ(value_of(report), "1");
  ASSERT_EQ(report.host_calls.size(), 1u);
  EXPECT_FALSE(report.host_calls[0].allowed);
  EXPECT_EQ(report.host_calls[0].error, "EACCES");
  EXPECT_FALSE(report.host_calls[0].grant.empty());
  ASSERT_EQ(journal.entries().size(), 1u);
  EXPECT_EQ(journal.entries()[0].decision(), "denied");
  EXPECT_EQ(journal.entries()[0].function, "kv.set");
}

TEST(Boundary, AFloodOfHostCallsEndsInEbudget) {
  policy::Policy p = with_kv();
  p.limits.host_calls = 20;
  const Report report = run_body(R"(
    (local $n i32)
    (loop $next
      (if (i32.eq (call $kv.set (string "k") (string "v")) (i32.const 5)) (then (return (local.get $n))))
      (local.set $n (i32.add (local.get $n) (i32.const 1)))
      (br $next))
    (unreachable))",
                                 p);
  EXPECT_EQ(value_of(report), "20");
  ASSERT_EQ(report.host_calls.size(), 21u);
  EXPECT_EQ(report.host_calls.back().error, "EBUDGET");
}

TEST(Boundary, AFloodOfOutputEndsTheRunAtTheLimit) {
  policy::Policy p;
  p.limits.output_bytes = 1000;
  const Report report =
      run_body("(loop $next (call $io.print (string \"0123456789abcdef\")) (br $next)) (i32.const 0)", p);
  EXPECT_EQ(report.outcome, Outcome::kOutOfOutput);
  EXPECT_LE(report.stdout_text.size() + report.stderr_text.size() + report.result.size(), 1000u);
  EXPECT_GE(report.stdout_text.size(), 984u);
}

TEST(Boundary, ResultsAndErrorsCountAgainstTheOutputLimit) {
  policy::Policy p;
  p.limits.output_bytes = 100;
  std::string results, values;
  for (int i = 0; i < 1000; ++i) results += " i64", values += "(i64.const -9223372036854775808)";
  const Report many = run_text("(module (func (export \"run\") (result" + results + ")" + values + "))", p);
  EXPECT_EQ(many.outcome, Outcome::kOutOfOutput);
  EXPECT_LE(many.results.size(), 4u);
  EXPECT_GT(many.output_bytes_cut, 10'000u);
  const Report named = run_text("(module (func (export \"" + std::string(50'000, 'n') + "\")))", p);
  EXPECT_EQ(named.outcome, Outcome::kInvalid);
  EXPECT_LE(named.errors.at(0).message.size() + named.errors.at(0).hint.size(), 100 + 2048u);
}

TEST(Boundary, AProgramIsStoppedWhileItIsCompiled) {
  Program program;
  program.source = "(func (export \"run\"))";
  RunOptions options;
  for (const engine::Tier tier : {engine::Tier::kInterpreter, engine::Tier::kCompiler, engine::Tier::kAuto}) {
    options.tier = tier;
    options.policy.limits.wall_ms = 0;
    const Report late = run(program, options);
    EXPECT_EQ(late.outcome, Outcome::kTimedOut);
    ASSERT_EQ(late.errors.size(), 1u);
    EXPECT_EQ(late.errors[0].code, "timed_out");
    EXPECT_NE(late.errors[0].message.find("compiled"), std::string::npos);
    EXPECT_FALSE(late.errors[0].hint.empty());
    options.policy.limits.wall_ms = 1'000'000;
    const std::atomic<bool> cancel = true;
    options.cancel = &cancel;
    EXPECT_EQ(run(program, options).outcome, Outcome::kCancelled);
    options.cancel = nullptr;
    EXPECT_EQ(run(program, options).outcome, Outcome::kOk);
  }
}

TEST(Boundary, ASnapshotIsStoppedWhileItIsRead) {
  Program program;
  program.source = "(func (export \"run\") (result i32) (i32.add (i32.const 1) (i32.const 2)))";
  RunOptions options;
  options.freeze_after_fuel = 0;
  const Report frozen = run(program, options);
  ASSERT_EQ(frozen.outcome, Outcome::kFrozen);
  options.freeze_after_fuel.reset();
  const std::atomic<bool> cancel = true;
  options.cancel = &cancel;
  const Report stopped = thaw(frozen.snapshot, options);
  EXPECT_EQ(stopped.outcome, Outcome::kCancelled);
  options.cancel = nullptr;
  EXPECT_EQ(thaw(frozen.snapshot, options).outcome, Outcome::kOk);
}

TEST(Boundary, TheLargestFuelDoesNotWrap) {
  policy::Policy p;
  p.limits.fuel = std::numeric_limits<uint64_t>::max();
  const Report report = run_body("(i32.add (i32.const 1) (i32.const 2))", p);
  EXPECT_EQ(value_of(report), "3");
  EXPECT_EQ(report.fuel_used, 3u);
}

TEST(Boundary, NoFuelIsNotAnInstruction) {
  policy::Policy p;
  p.limits.fuel = 0;
  const Report report = run_body("(i32.const 1)", p);
  EXPECT_EQ(report.outcome, Outcome::kOutOfFuel);
  EXPECT_EQ(report.fuel_used, 0u);
}

TEST(Boundary, RecursionEndsAtTheStacksLimit) {
  const Report report =
      run_text(R"((module (func $f (export "run") (result i32) (i32.add (call $f) (i32.const 1)))))");
  EXPECT_EQ(report.outcome, Outcome::kTrapped);
  EXPECT_EQ(code_of(report), "stack_overflow");
  EXPECT_LE(report.errors[0].backtrace.size(), 64u);
}

TEST(Boundary, MemoryGrowsToTheLimitAndNoFurther) {
  policy::Policy p;
  p.limits.memory_bytes = 4 * 65536;
  const Report report = run_text(R"((module (memory (export "memory") 1) (func (export "run") (result i32)
    (loop $next (br_if $next (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) (memory.size))))",
                                 p);
  EXPECT_EQ(value_of(report), "4");
  EXPECT_EQ(report.memory_peak_bytes, 4u * 65536);
}

TEST(Boundary, AModuleThatBeginsBeyondTheLimitsIsNotMade) {
  policy::Policy p;
  p.limits.memory_bytes = 4 * 65536;
  EXPECT_EQ(run_text("(module (memory 5) (func (export \"run\")))", p).outcome, Outcome::kOutOfMemory);
  p.limits.table_elements = 10;
  EXPECT_EQ(run_text("(module (table 11 funcref) (func (export \"run\")))", p).outcome,
            Outcome::kOutOfMemory);
}

// -- modules ---------------------------------------------------------------------------------------------

TEST(Boundary, AnUnknownHostFunctionIsNotLinked) {
  const Report report =
      run_text(R"((module (import "host" "system" (func (param i32) (result i32))) (func (export "run"))))");
  EXPECT_EQ(report.outcome, Outcome::kInvalid);
  EXPECT_TRUE(report.host_calls.empty());
}

TEST(Boundary, AHostFunctionOfAnotherSignatureIsNotLinked) {
  EXPECT_EQ(
      run_text(R"((module (import "kv" "set" (func (param i64 i64) (result i32))) (func (export "run"))))")
          .outcome,
      Outcome::kInvalid);
}

TEST(Boundary, AStartFunctionRunsUnderTheSameLimits) {
  policy::Policy p;
  p.limits.fuel = 10'000;
  const Report endless =
      run_text("(module (func $s (loop $l (br $l))) (start $s) (func (export \"run\")))", p);
  EXPECT_EQ(endless.outcome, Outcome::kOutOfFuel);
  EXPECT_LE(endless.fuel_used, 10'000u);
  EXPECT_EQ(run_text("(module (func $s (unreachable)) (start $s) (func (export \"run\")))").outcome,
            Outcome::kTrapped);
}

TEST(Boundary, AStartFunctionHasNoMoreGrantsThanTheRest) {
  const Report report =
      run_text(R"((module (memory (export "memory") 1) (global $errno (mut i32) (i32.const 0))
    (func $s (global.set $errno (call $kv.set (string "k") (string "v")))) (start $s)
    (func (export "run") (result i32) (global.get $errno))))",
               {});
  EXPECT_EQ(value_of(report), "1");
}

TEST(Boundary, AProgramLargerThanTheLimitIsNotRead) {
  policy::Policy p;
  p.limits.module_bytes = 100;
  const Report report = run_text("(module (func (export \"run\")) " + std::string(200, ' ') + ")", p);
  EXPECT_EQ(report.outcome, Outcome::kInvalid);
  EXPECT_EQ(code_of(report), "module_too_large");
}

TEST(Boundary, CountsThatABinaryOnlyClaimsCostNothing) {
  for (const int section : {1, 2, 3, 4, 6, 7, 9, 10, 11}) {
    std::string binary("\0asm\1\0\0\0", 8);
    binary += static_cast<char>(section);
    binary += "\5\xFF\xFF\xFF\xFF\x0F";  // five bytes that claim 2^32 - 1 entries
    EXPECT_EQ(run_text(binary).outcome, Outcome::kInvalid) << "section " << section;
  }
}

TEST(Boundary, ARunMayBeMadeFromInsideAHostCallOfAnother) {
  Program program;
  program.source =
      "(module (memory (export \"memory\") 1) (func (export \"run\") (result i32) "
      "(call $io.print (string \"outer\")) (i32.load8_u (i32.const 70000))))";
  RunOptions options;
  std::string inner;
  options.on_stdout = [&](std::string_view) { inner = value_of(run_body("(i32.load (i32.const 65536))")); };
  const Report report = run(program, options);
  EXPECT_EQ(inner, "trapped: out of bounds memory access");
  EXPECT_EQ(report.outcome, Outcome::kTrapped) << "the outer one still has its own fault handler";
  EXPECT_EQ(code_of(report), "memory_out_of_bounds");
}

}  // namespace
}  // namespace membrane::sandbox
