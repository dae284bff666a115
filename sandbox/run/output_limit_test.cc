#include "sandbox/run/output_limit.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace membrane::sandbox {
namespace {

TEST(OutputLimit, WhatFitsStaysAsItIs) {
  Report report;
  report.stdout_text = "out";
  report.value = {{"text/plain", "4", false}, {"image/png", "aGk=", true}};
  report.result = "4";
  report.displays = {{{"text/html", "<b>", false}}};
  report.files = {{"/a", 1}};
  const std::string before = render_json(report, false);
  limit_output(report, 3, 1000);
  EXPECT_EQ(render_json(report, false), before);
  EXPECT_EQ(report.output_bytes_cut, 0u);
}

TEST(OutputLimit, AValueIsCutAndTheRunIsOutOfOutput) {
  Report report;
  report.value = {{"text/plain", std::string(15'003, 'x'), false}};
  report.result = report.value[0].data;
  limit_output(report, 0, 1024);
  EXPECT_EQ(report.outcome, Outcome::kOutOfOutput);
  EXPECT_EQ(report.value[0].data.size(), 1024u);
  EXPECT_EQ(report.result.size(), 1024u);
  EXPECT_EQ(report.output_bytes_cut, 15'003u - 1024u);
  ASSERT_EQ(report.errors.size(), 1u);
  EXPECT_EQ(report.errors[0].code, "out_of_output");
  EXPECT_EQ(
      report.errors[0].hint,
      "Give less, write it to a file, or raise limits.output (--output 1MiB). What the program did stays.");
  EXPECT_EQ(nlohmann::json::parse(render_json(report, false))["output_bytes_cut"], 15'003 - 1024);
}

TEST(OutputLimit, TextIsCutAfterAWholeCharacter) {
  Report report;
  report.value = {{"text/plain", "\xE2\x82\xAC\xE2\x82\xAC", false}};
  limit_output(report, 0, 5);
  EXPECT_EQ(report.value[0].data, "\xE2\x82\xAC");
}

TEST(OutputLimit, OtherDataIsLeftOutWholeAndTheTextComesFirst) {
  Report report;
  report.value = {{"image/png", std::string(100, 'A'), true}, {"text/plain", "text", false}};
  report.displays = {{{"image/png", std::string(100, 'A'), true}}, {{"text/plain", "shown", false}}};
  limit_output(report, 0, 60);
  ASSERT_EQ(report.value.size(), 1u);
  EXPECT_EQ(report.value[0].data, "text");
  ASSERT_EQ(report.displays.size(), 1u);
  EXPECT_EQ(report.displays[0][0].data, "shown");
}

TEST(OutputLimit, NamesOfTypesCount) {
  Report report;
  report.value = {{std::string(5000, 't'), "", false}};
  report.displays = {{{std::string(5000, 't'), "", false}}};
  limit_output(report, 0, 1000);
  EXPECT_TRUE(report.value.empty());
  EXPECT_TRUE(report.displays.empty());
  EXPECT_GT(report.output_bytes_cut, 10'000u);
}

TEST(OutputLimit, DisplaysWithoutAnythingInThemCount) {
  Report report;
  report.displays.assign(1000, {{"text/plain", "", false}});
  limit_output(report, 0, 80);
  EXPECT_LE(report.displays.size(), 10u);
}

TEST(OutputLimit, ErrorsHaveAnAllowanceAndAreCutBeyondIt) {
  Report report;
  report.outcome = Outcome::kRaised;
  report.errors.push_back(
      {std::string(50'000, 'c'), std::string(50'000, 'm'), {}, "hint", {}, std::string(50'000, 't')});
  limit_output(report, 0, 100);
  const ReportError& error = report.errors[0];
  EXPECT_LE(error.code.size() + error.message.size() + error.traceback.size(), 100 + kErrorBytes);
  EXPECT_EQ(report.outcome, Outcome::kRaised);
  EXPECT_GT(report.output_bytes_cut, 140'000u);

  Report small;
  small.outcome = Outcome::kTrapped;
  small.errors.push_back({"memory_out_of_bounds", "an access outside of the memory", {}, "a hint", {}});
  limit_output(small, 0, 0);
  EXPECT_EQ(small.errors[0].message, "an access outside of the memory");
  EXPECT_EQ(small.output_bytes_cut, 0u);
}

TEST(OutputLimit, FilesAreLeftOutAndTheRunStaysWell) {
  Report report;
  report.files.assign(1000, {"/a-name-of-a-file", 1});
  limit_output(report, 0, 100);
  EXPECT_LE(report.files.size(), 4u);
  EXPECT_EQ(report.outcome, Outcome::kOk);
  EXPECT_GT(report.output_bytes_cut, 10'000u);
}

TEST(OutputLimit, ResultsOfAnExportCount) {
  Report report;
  report.results.assign(1000, {"i64", "-9223372036854775808", 0});
  limit_output(report, 0, 100);
  EXPECT_LE(report.results.size(), 4u);
  EXPECT_EQ(report.outcome, Outcome::kOutOfOutput);
}

TEST(OutputLimit, OutputThatIsNotTextCountsAsWritten) {
  Report report;
  for (int i = 0; i < 1000; ++i) report.stdout_text += "\xEF\xBF\xBD";
  report.value = {{"text/plain", "1000", false}};
  limit_output(report, 1000, 1004);
  EXPECT_EQ(report.stdout_text.size(), 3000u);
  EXPECT_EQ(report.result, "1000");
  EXPECT_EQ(report.output_bytes_cut, 0u);
  EXPECT_EQ(report.outcome, Outcome::kOk);
  limit_output(report, 1000, 1003);
  EXPECT_EQ(report.result, "100");
  EXPECT_EQ(report.output_bytes_cut, 1u);
}

TEST(OutputLimit, EarlierOutputOfAForgedSnapshotCounts) {
  for (const uint64_t written : {0, 100, 5000}) {
    Report report;
    report.stdout_text = std::string(5000, 'o');
    report.answer = std::string(5000, 'a');
    limit_output(report, written, 1000);
    EXPECT_LE(report.stdout_text.size() + report.answer.size(), 1200u);
  }
}

}  // namespace
}  // namespace membrane::sandbox
