#include "sandbox/run/stops.h"

#include <gtest/gtest.h>

namespace membrane::sandbox {
namespace {

TEST(Stops, ALimitIsRaisedToMoreThanItIs) {
  EXPECT_EQ(or_raise_memory(64 << 20), ", or raise limits.memory (--memory 128MiB)");
  EXPECT_EQ(or_raise_memory(3ull << 30), ", or raise limits.memory (--memory 4GiB)");
  EXPECT_EQ(or_raise_memory(4ull << 30), "");
  EXPECT_EQ(or_raise_output(0), ", or raise limits.output (--output 1MiB)");
  EXPECT_EQ(or_raise_output(1 << 20), ", or raise limits.output (--output 4MiB)");
  EXPECT_EQ(or_raise_output(1ull << 30), "");
  EXPECT_EQ(or_raise_wall(750), ", or raise limits.wall (--wall 1500ms)");
  EXPECT_EQ(or_raise_wall(30'000), ", or raise limits.wall (--wall 1min)");
  EXPECT_EQ(or_raise_wall(5ull * 86'400'000), ", or raise limits.wall (--wall 168h)");
  EXPECT_EQ(or_raise_wall(7ull * 86'400'000), "");
  policy::Limits limits;
  EXPECT_TRUE(stop_error(Outcome::kTimedOut, limits).hint.contains("(--wall 20s)"));
  limits.fuel = 0;
  EXPECT_TRUE(stop_error(Outcome::kOutOfFuel, limits).hint.contains("(--fuel 1000000000)"));
}

Outcome outcome_in(engine::RunState state, bool memory_limit_was_hit = false) {
  return outcome_of({.state = state}, memory_limit_was_hit);
}

TEST(Stops, TheStateSaysTheOutcomeUnlessItWasDecided) {
  using enum engine::RunState;
  EXPECT_EQ(outcome_in(kOutOfFuel), Outcome::kOutOfFuel);
  EXPECT_EQ(outcome_in(kInterrupted), Outcome::kCancelled);
  EXPECT_EQ(outcome_in(kTrapped), Outcome::kTrapped);
  EXPECT_EQ(outcome_in(kFinished), Outcome::kRaised);
  for (const engine::RunState state : {kOutOfFuel, kInterrupted, kTrapped, kFinished})
    EXPECT_EQ(outcome_of({.state = state, .outcome = Outcome::kTimedOut}, true), Outcome::kTimedOut);
}

TEST(Stops, WhatFailedWithoutMemoryIsOutOfMemory) {
  using enum engine::RunState;
  EXPECT_EQ(outcome_in(kTrapped, true), Outcome::kOutOfMemory);
  EXPECT_EQ(outcome_in(kFinished, true), Outcome::kOutOfMemory);
  EXPECT_EQ(outcome_in(kOutOfFuel, true), Outcome::kOutOfFuel);
  EXPECT_EQ(outcome_in(kInterrupted, true), Outcome::kCancelled);
}

}  // namespace
}  // namespace membrane::sandbox
