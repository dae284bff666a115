#include "lang/known_packages.h"

#include <gtest/gtest.h>

namespace membrane::lang {
namespace {

TEST(KnownPackagesTest, AModuleHasItsDistributionsName) {
  EXPECT_EQ(distribution_of("bs4"), "beautifulsoup4");
  EXPECT_EQ(distribution_of("yaml"), "PyYAML");
  EXPECT_EQ(distribution_of("rich"), "rich");
}

TEST(KnownPackagesTest, NativePackagesHaveReplacements) {
  EXPECT_NE(instead_of_native("Polars").find("pandas"), std::string_view::npos);
  EXPECT_NE(instead_of_native("pydantic_core").find("attrs"), std::string_view::npos);
  EXPECT_NE(instead_of_native(distribution_of("cv2")).find("Pillow"), std::string_view::npos);
  EXPECT_TRUE(instead_of_native("fastapi").starts_with("fastapi==0.99.1"));
  EXPECT_EQ(instead_of_native("rich"), "");
}

TEST(KnownPackagesTest, AMisspeltDistributionHasANearOne) {
  EXPECT_EQ(near_distribution("flaks"), "flask");
  EXPECT_EQ(near_distribution("Beautifulsoup"), "beautifulsoup4");
  EXPECT_EQ(near_distribution("scikit_lern"), "scikit-learn");
  for (const char* const name : {"flask", "lodash", "PyYAML", ""}) EXPECT_EQ(near_distribution(name), "");
}

}  // namespace
}  // namespace membrane::lang
