#include "sandbox/report_building.h"

#include <gtest/gtest.h>

namespace membrane::sandbox {
namespace {

Report timed_out(const std::string& unanswered) {
  policy::Limits limits;
  limits.wall_ms = 9000;
  Report report;
  report.outcome = Outcome::kTimedOut;
  report.errors.push_back(stop_error(report.outcome, limits));
  report.flows = host::FlowReport{.state = {}, .egress = {}, .more_egress = 0, .unanswered = unanswered};
  return report;
}

TEST(Telling, ARequestThatNobodyAnsweredIsWhyTheTimeIsOver) {
  Report report = timed_out("POST https://example.org/");
  report_unanswered(report);
  EXPECT_EQ(
      report.errors[0].message,
      "the program ran past its time of 9000 ms: POST https://example.org/ waited for a person's approval, "
      "and no one answered");
  EXPECT_EQ(report.errors[0].hint, "Answer while it waits, or raise limits.wall (--wall).");
  report_timeout(50, 9000, report);
  EXPECT_EQ(report.errors[0].message,
            "the program ran past the 50 ms that this run was given: POST https://example.org/ waited for a "
            "person's approval, and no one answered");
  EXPECT_TRUE(report.errors[0].hint.starts_with("Answer while it waits, or allow more time"))
      << report.errors[0].hint;
}

TEST(Telling, ALimitIsRaisedToMoreThanItIs) {
  EXPECT_EQ(or_raise_memory(64 << 20), ", or raise limits.memory (--memory 128MiB)");
  EXPECT_EQ(or_raise_memory(3ull << 30), ", or raise limits.memory (--memory 4GiB)");
  EXPECT_EQ(or_raise_memory(4ull << 30), "");
  EXPECT_EQ(or_raise_output(0), ", or raise limits.output (--output 1MiB)");
  EXPECT_EQ(or_raise_output(1 << 20), ", or raise limits.output (--output 4MiB)");
  EXPECT_EQ(or_raise_output(1ull << 30), "");
  policy::Limits limits;
  limits.fuel = 0;
  EXPECT_TRUE(stop_error(Outcome::kOutOfFuel, limits).hint.contains("(--fuel 1000000000)"));
}

TEST(Telling, OtherEndsAreToldAsTheyAre) {
  Report report = timed_out("");
  report_unanswered(report);
  EXPECT_EQ(report.errors[0].message, "the program ran past its time of 9000 ms");
  report = timed_out("POST https://example.org/");
  report.outcome = Outcome::kRaised;
  report_unanswered(report);
  EXPECT_EQ(report.errors[0].message, "the program ran past its time of 9000 ms");
}

}  // namespace
}  // namespace membrane::sandbox
