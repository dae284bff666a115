#include "service/archive.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace membrane::service {
namespace {

// One ustar header, and the bytes.
std::string ustar(const std::string& name, char type, const std::string& bytes) {
  std::string header(512, '\0');
  name.copy(header.data(), 100);
  std::array<char, 16> digits{};
  std::snprintf(digits.data(), digits.size(), "%011zo", bytes.size());
  std::string("0000644").copy(header.data() + 100, 7);
  std::copy_n(digits.data(), 11, header.data() + 124);
  header[156] = type;
  std::string("ustar").copy(header.data() + 257, 5);
  std::string("00").copy(header.data() + 263, 2);
  std::fill_n(header.data() + 148, 8, ' ');
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(digits.data(), digits.size(), "%06o", sum);
  std::copy_n(digits.data(), 7, header.data() + 148);
  std::string padded = bytes;
  padded.resize((bytes.size() + 511) / 512 * 512);
  return header + padded;
}
const std::string kEnd(1024, '\0');

TEST(Archive, IsReadAsItWasWritten) {
  const std::string long_name = std::string(150, 'd') + "/" + std::string(200, 'n') + "ä";
  const auto bytes =
      write_archive({{"a", true, "", 5}, {"a/b.txt", false, "text", 6}, {long_name, false, "", 7}});
  ASSERT_TRUE(bytes);
  const auto entries = read_archive(*bytes);
  ASSERT_TRUE(entries) << entries.error().message;
  ASSERT_EQ(entries->size(), 3u);
  EXPECT_TRUE((*entries)[0].is_directory);
  EXPECT_EQ((*entries)[1].name, "a/b.txt");
  EXPECT_EQ((*entries)[1].bytes, "text");
  EXPECT_EQ((*entries)[1].modified_s, 6);
  EXPECT_EQ((*entries)[2].name, long_name);
  EXPECT_TRUE(read_archive(*write_archive({}))->empty());
}

TEST(Archive, NamesThatLeadOutAreRefused) {
  EXPECT_EQ(read_archive(ustar("./a/./b", '0', "x") + kEnd)->front().name, "a/b");
  for (const char* name : {"/etc/passwd", "../x", "a/../../x", "a/.."})
    EXPECT_EQ(read_archive(ustar(name, '0', "x") + kEnd).error().code, ApiCode::kInvalidValue) << name;
}

TEST(Archive, LinksAndPermissionsAreReadAsTheyWereWritten) {
  const auto bytes =
      write_archive({{.name = "run", .bytes = "text", .mode = 0755}, {.name = "link", .target = "../run"}});
  const auto entries = read_archive(*bytes);
  ASSERT_TRUE(entries) << entries.error().message;
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ((*entries)[0].mode, 0755u);
  EXPECT_EQ((*entries)[1].target, "../run");
}

TEST(Archive, AFurtherNameOfAFileIsAnotherFile) {
  std::string link = ustar("b", '1', "");
  link.replace(157, 1, "a");
  unsigned sum = 0;  // of the header, with blanks for itself
  link.replace(148, 8, std::string(8, ' '));
  for (size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(link[i]);
  std::array<char, 16> digits{};
  std::snprintf(digits.data(), digits.size(), "%06o", sum);
  std::copy_n(digits.data(), 7, link.data() + 148);
  const auto entries = read_archive(ustar("a", '0', "x") + link + kEnd);
  ASSERT_TRUE(entries) << entries.error().message;
  EXPECT_EQ(entries->at(1).name, "b");
  EXPECT_EQ(entries->at(1).bytes, "x");
  EXPECT_FALSE(read_archive(link + kEnd));
}

TEST(Archive, DevicesAndLinksToNothingAreRefused) {
  for (const char type : {'1', '2', '3', '4', '6'})
    EXPECT_EQ(read_archive(ustar("a", type, "") + kEnd).error().code, ApiCode::kInvalidValue) << type;
}

TEST(Archive, WhatIsNone) {
  EXPECT_FALSE(read_archive("this is no archive, whatever it is"));
  EXPECT_FALSE(read_archive(ustar("a", '0', std::string(5000, 'x')).substr(0, 2000)));
}

}  // namespace
}  // namespace membrane::service
