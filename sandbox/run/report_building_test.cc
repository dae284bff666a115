#include "sandbox/run/report_building.h"

#include <gtest/gtest.h>

#include "sandbox/run/stops.h"

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

TEST(Telling, ARequestWithoutAnAnswerIsTheReasonOfATimeout) {
  Report report = timed_out("POST https://example.org/");
  report_unanswered(report);
  EXPECT_EQ(
      report.errors[0].message,
      "the program ran past its time of 9000 ms: POST https://example.org/ waited for a person's approval, "
      "and no one answered");
  EXPECT_EQ(report.errors[0].hint, "Answer while it waits, or raise limits.wall (--wall 18s).");
  report_timeout(50, 9000, report);
  EXPECT_EQ(report.errors[0].message,
            "the program ran past the 50 ms that this run was given: POST https://example.org/ waited for a "
            "person's approval, and no one answered");
  EXPECT_TRUE(report.errors[0].hint.starts_with("Answer while it waits, or allow more time"))
      << report.errors[0].hint;
}

TEST(Telling, OtherEndsAreReportedAsTheyAre) {
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
