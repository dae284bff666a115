#include "linux/platform/choice.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "linux/platform/kvm/kvm.h"

namespace membrane::linux {
namespace {

TEST(PlatformChoiceTest, DescribesEachPlatformAndChoosesOne) {
  const std::vector<PlatformDescription> all = describe_platforms();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "trap");
  EXPECT_EQ(all[1].name, "kvm");
  for (const PlatformDescription& each : all) {
    EXPECT_EQ(each.is_usable, each.why_not.empty()) << each.why_not;
    EXPECT_EQ(each.is_usable, each.call_us > 0);
    EXPECT_EQ(each.is_chosen, !each.reason.empty());
  }
  EXPECT_TRUE(all[0].is_usable) << all[0].why_not;
  EXPECT_EQ(all[1].is_usable, open_kvm_device().has_value()) << all[1].why_not;
  EXPECT_EQ(std::ranges::count_if(all, &PlatformDescription::is_chosen), 1);
}

TEST(PlatformChoiceTest, FindsTheFasterOneOnce) {
  const std::string& name = fastest_platform();
  EXPECT_TRUE(name == "trap" || name == "kvm");
  EXPECT_EQ(&fastest_platform(), &name);
}

}  // namespace
}  // namespace membrane::linux
