#include "service/http.h"

#include <gtest/gtest.h>

namespace membrane::service {
namespace {

using Texts = std::vector<std::string>;
using Pairs = std::vector<std::pair<std::string, std::string>>;

std::optional<RequestHead> read(std::string target) {
  RequestHead head;
  head.target = std::move(target);
  if (!read_target(head)) return std::nullopt;
  return head;
}

TEST(Target, IsSplitAndDecoded) {
  EXPECT_EQ(read("/")->segments, Texts{});
  EXPECT_EQ(read("/v1/a%20b")->segments, (Texts{"v1", "a b"}));
  EXPECT_EQ(read("/a%2Fb")->segments, Texts{"a/b"});
  EXPECT_EQ(read("/a/")->segments, (Texts{"a", ""}));
  EXPECT_EQ(read("//a")->segments, (Texts{"", "a"}));
  EXPECT_EQ(read("/x?a=1&b=c+d%3D&e&&=f")->query, (Pairs{{"a", "1"}, {"b", "c d="}, {"e", ""}, {"", "f"}}));
  EXPECT_EQ(read("/a+b")->segments, Texts{"a+b"});
}

TEST(Target, ThatIsInvalidIsRefused) {
  for (const char* target :
       {"", "a", "*", "http://x/", "/%", "/%4", "/%zz", "/%00", "/a#b", "/%ff", "/x?a=%c0%80", "/x?%"})
    EXPECT_FALSE(read(target)) << target;
  std::string deep, long_query = "/?";
  for (size_t i = 0; i <= kMostSegments; ++i) deep += "/a";
  for (size_t i = 0; i <= kMostQuery; ++i) long_query += "a=1&";
  EXPECT_FALSE(read(deep));
  EXPECT_FALSE(read(long_query));
}

TEST(HttpHeaders, AreFoundInAnyCase) {
  const Headers headers = {{"Content-Type", "a"}, {"content-type", "b"}};
  EXPECT_EQ(headers.find("CONTENT-TYPE"), "a");
  EXPECT_EQ(headers.find("Content"), std::nullopt);
}

TEST(HttpReply, IsGivenOnceAndAlways) {
  std::vector<int> statuses;
  const auto note = [&](const Response& response) { statuses.push_back(response.status); };
  {
    const Reply reply(note);
    reply({.status = 201});
    reply({.status = 202});
  }
  { const Reply forgotten(note); }
  EXPECT_EQ(statuses, (std::vector<int>{201, 500}));
}

}  // namespace
}  // namespace membrane::service
