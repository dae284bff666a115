#include "policy/package_name.h"

#include <gtest/gtest.h>

namespace membrane::policy {
namespace {

using enum Registry;

TEST(PackageNameTest, ANameIsInTheRegistrysForm) {
  EXPECT_EQ(parse_package(kPython, "rich")->text(), "rich");
  EXPECT_EQ(parse_package(kPython, "Ruamel_.Yaml")->text(), "ruamel-yaml");
  EXPECT_EQ(parse_package(kPython, " rich == 13.7.1 ")->text(), "rich==13.7.1");
  EXPECT_EQ(parse_package(kPython, "rich==13.7.*")->text(), "rich==13.7.*");
  EXPECT_EQ(parse_package(kPython, "a==1!2.0rc1+local.1")->text(), "a==1!2.0rc1+local.1");
  EXPECT_EQ(parse_package(kJavaScript, "lodash==4.17.21")->text(), "lodash==4.17.21");
  EXPECT_EQ(parse_package(kJavaScript, "@scope/name==1.0.0-rc.1")->text(), "@scope/name==1.0.0-rc.1");
}

TEST(PackageNameTest, WhatIsNoNameIsRefusedWithWhatItIs) {
  const auto why = [](Registry registry, std::string_view text) {
    const auto parsed = parse_package(registry, text);
    return parsed ? "taken: " + parsed->text() : parsed.error().message;
  };
  EXPECT_NE(why(kPython, "--index-url=http://x").find("an option"), std::string::npos);
  EXPECT_NE(why(kPython, "-r").find("an option"), std::string::npos);
  EXPECT_NE(why(kPython, "git+https://example.org/x").find("a URL"), std::string::npos);
  EXPECT_NE(why(kPython, "x @ file:x.whl").find("a URL"), std::string::npos);
  EXPECT_NE(why(kPython, "./x.whl").find("a path"), std::string::npos);
  EXPECT_NE(why(kPython, "dir/x").find("a path"), std::string::npos);
  EXPECT_NE(why(kJavaScript, "../x").find("a path"), std::string::npos);
  EXPECT_NE(why(kJavaScript, "lodash@4.17.21").find("a version comes after =="), std::string::npos);
  EXPECT_NE(why(kPython, "httpx[http2]").find("extras"), std::string::npos);
  EXPECT_NE(why(kPython, "rich>=13").find("with =="), std::string::npos);
  EXPECT_NE(why(kPython, "rich; os_name=='nt'").find("with =="), std::string::npos);
  for (const char* text :
       {"", "==1", "x==", "x==1 2", "x==-1", "a b", "x\ny", "ä", "x==1\n--pre", "_x", "x-"})
    EXPECT_FALSE(parse_package(kPython, text)) << text;
  for (const char* text : {"", "lodash@4.17.21", "lodash==4", "lodash==^4.1.2", "@scope", "a/b", "npm:x",
                           "x==1.2.", "@a/b/c", "x==1.2.3 || 4", "x==latest"})
    EXPECT_FALSE(parse_package(kJavaScript, text)) << text;
}

TEST(PackageNameTest, AListIsSortedAndHasEachNameOnce) {
  const auto all = parse_packages(kPython, {"rich", "HTTPX==0.28"});
  ASSERT_TRUE(all);
  EXPECT_EQ((*all)[0].text(), "httpx==0.28");
  EXPECT_EQ((*all)[1].text(), "rich");
  const auto twice = parse_packages(kPython, {"ruamel.yaml", "ruamel_yaml"});
  ASSERT_FALSE(twice);
  EXPECT_NE(twice.error().message.find("twice"), std::string::npos);
  EXPECT_FALSE(parse_packages(kPython, std::vector<std::string>(kMostPackages + 1, "x")));
}

}  // namespace
}  // namespace membrane::policy
