#include "sandbox/session/missing_package.h"

#include <gtest/gtest.h>

namespace membrane::sandbox {
namespace {

using enum PackagesBy;

TEST(MissingPackageTest, APackageIsNamedAsItsRegistryNamesIt) {
  EXPECT_EQ(hint_of_missing({"rich", {}, {}}, kFlag),
            "rich is not built in: run with --with rich, or write python = [\"rich\"] under [packages] of "
            "the policy.");
  EXPECT_NE(hint_of_missing({"dotenv", {}, {}}, kFlag).find("--with python-dotenv"), std::string::npos);
}

TEST(MissingPackageTest, AKnownPackageIsNotTakenForAMisspeltName) {
  EXPECT_EQ(hint_of_missing({"httpx", {"http"}, {}}, kFlag),
            "httpx is not built in: run with --with httpx, or write python = [\"httpx\"] under [packages] of "
            "the policy.");
}

// A model cannot pass flags.
TEST(MissingPackageTest, WhereThereAreNoFlagsThePolicyIsNamed) {
  const std::string hint = hint_of_missing({"rich", {}, {}}, kPolicy);
  EXPECT_EQ(hint.find("--with"), std::string::npos);
  EXPECT_NE(hint.find("python = [\"rich\"] under [packages]"), std::string::npos);
}

// No one is advised to install what an attacker may have published under a misspelt name.
TEST(MissingPackageTest, AMisspeltNameIsNotAPackage) {
  EXPECT_EQ(hint_of_missing({"pandsa", {"pandas"}, {}}, kFlag), "Did you mean pandas?");
  EXPECT_EQ(hint_of_missing({"jsom", {"json", "jso\n"}, {}}, kFlag), "Did you mean json?");
}

TEST(MissingPackageTest, NativePackagesGetAReplacement) {
  EXPECT_NE(hint_of_missing({"cv2", {}, {}}, kFlag).find("use Pillow and scipy.ndimage"), std::string::npos);
  EXPECT_NE(hint_of_missing({"pip", {}, {"polars"}}, kPolicy).find("use pandas"), std::string::npos);
}

TEST(MissingPackageTest, PipIsAnsweredInWords) {
  EXPECT_NE(hint_of_missing({"pip", {}, {"rich", "httpx==0.28"}}, kFlag)
                .find("run with --with rich --with httpx==0.28,"),
            std::string::npos);
  EXPECT_NE(hint_of_missing({"pip", {}, {}}, kPolicy).find("[packages]"), std::string::npos);
}

TEST(MissingPackageTest, InvalidNamesAreLeftOut) {
  EXPECT_EQ(hint_of_missing({"rich; rm -rf ~", {}, {}}, kFlag), "");
  EXPECT_EQ(hint_of_missing({"", {}, {}}, kFlag), "");
  EXPECT_EQ(hint_of_missing({std::string(100, 'x'), {}, {}}, kFlag), "");
  EXPECT_EQ(hint_of_missing({"pip", {}, {"$(id)", "--pre"}}, kFlag).find("$("), std::string::npos);
}

}  // namespace
}  // namespace membrane::sandbox
