#include "service/archive.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace membrane::service {
namespace {

// One ustar header, and the bytes.
std::string ustar(const std::string& name, char type, const std::string& bytes,
                  const std::string& target = "") {
  std::string header(512, '\0');
  name.copy(header.data(), 100);
  std::array<char, 16> digits{};
  std::snprintf(digits.data(), digits.size(), "%011zo", bytes.size());
  std::string("0000644").copy(header.data() + 100, 7);
  std::copy_n(digits.data(), 11, header.data() + 124);
  header[156] = type;
  target.copy(header.data() + 157, 100);
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
  const std::string link = ustar("b", '1', "", "a");
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

TEST(Archive, NamesAndTargetsAreBounded) {
  const std::string longest(4096, 'n');
  const auto gnu = [](char type, const std::string& text) {
    return ustar("././@LongLink", type, text + std::string(1, '\0'));
  };
  EXPECT_EQ(read_archive(gnu('L', longest) + ustar("x", '0', "") + kEnd)->front().name, longest);
  const std::string link = ustar("x", '2', "", "n");
  EXPECT_EQ(read_archive(gnu('K', longest) + link + kEnd)->front().target, longest);
  for (const size_t size : {4097, 1'000'000}) {
    const std::string longer(size, 'n');
    const auto named = read_archive(gnu('L', longer) + ustar("x", '0', "") + kEnd);
    ASSERT_FALSE(named) << size;
    EXPECT_EQ(named.error().code, ApiCode::kTooLarge);
    EXPECT_LT(named.error().message.size(), 200u);
    const auto linked = read_archive(gnu('K', longer) + link + kEnd);
    ASSERT_FALSE(linked) << size;
    EXPECT_EQ(linked.error().code, ApiCode::kTooLarge);
  }
}

TEST(Archive, NamesCountAsContents) {
  const std::string big = ustar("big", '0', std::string(kMostArchiveBytes - 3, 'x'));
  EXPECT_TRUE(read_archive(big + kEnd));
  EXPECT_EQ(read_archive(big + ustar("y", '0', "") + kEnd).error().code, ApiCode::kTooLarge);
}

TEST(Archive, HeadersAreBoundedEachAndTogether) {
  const std::string named = ustar("././@LongLink", 'L', std::string(4096, 'n'));
  std::string of_one;
  while (of_one.size() < (2u << 20)) of_one += named;
  EXPECT_FALSE(read_archive(of_one + ustar("x", '0', "") + kEnd));
  const std::string directories = [] {
    std::string some;
    for (int i = 0; i < 2048; ++i) some += ustar(".", '5', "");  // which becomes no entry
    return some;
  }();
  std::string all;
  while (all.size() < (160u << 20)) all += directories;
  EXPECT_EQ(read_archive(all + kEnd).error().code, ApiCode::kTooLarge);
}

TEST(Archive, RefusesWhatIsNotAnArchive) {
  EXPECT_FALSE(read_archive("this is no archive, whatever it is"));
  EXPECT_FALSE(read_archive(ustar("a", '0', std::string(5000, 'x')).substr(0, 2000)));
}

}  // namespace
}  // namespace membrane::service
