#include "mcp/kept_reports.h"

#include <gtest/gtest.h>

namespace membrane::mcp {
namespace {

std::string names(const KeptReports& kept, const std::string& tenant) {
  std::string all;
  for (const ReportInfo& each : kept.list(tenant)) all += each.id + " ";
  return all;
}

ReportInfo report(const std::string& id) {
  return {.id = id, .session = {}, .language = "wat", .outcome = "ok"};
}

TEST(KeptReports, AreTheLatestOfATenant) {
  KeptReports kept({.most = 2, .most_bytes = 10});
  for (const char* const id : {"1", "2", "3"}) kept.add("a", report(id), "{}");
  kept.add("b", report("4"), "{\"b\":1}");
  EXPECT_EQ(names(kept, "a"), "3 2 ");
  EXPECT_EQ(names(kept, "b"), "4 ");
  EXPECT_EQ(kept.find("a", "3"), "{}");
  EXPECT_EQ(kept.find("a", "1").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(kept.find("a", "4").error().code, ErrorCode::kNotFound);  // another's
}

TEST(KeptReports, AreBoundedInBytesButForTheLast) {
  KeptReports kept({.most = 9, .most_bytes = 10});
  kept.add("a", report("1"), "12345");
  kept.add("a", report("2"), "123456");
  EXPECT_EQ(names(kept, "a"), "2 ");
  kept.add("a", report("3"), std::string(100, 'x'));
  EXPECT_EQ(names(kept, "a"), "3 ");
}

TEST(KeptReports, OfTheTenantThatRanLongestAgoGiveWay) {
  KeptReports kept({.most = 9, .most_bytes = 10, .most_bytes_of_all = 12});
  kept.add("a", report("1"), "12345");
  kept.add("b", report("2"), "12345");
  kept.add("a", report("3"), "1");
  kept.add("c", report("4"), "12");
  EXPECT_EQ(names(kept, "a"), "3 1 ");
  EXPECT_EQ(names(kept, "b"), "");
  EXPECT_EQ(names(kept, "c"), "4 ");
}

}  // namespace
}  // namespace membrane::mcp
