#include "mcp/uri.h"

#include <gtest/gtest.h>

namespace membrane::mcp {
namespace {

TEST(Uri, WhatIsWrittenIsReadAgain) {
  for (const char* const path :
       {"/tmp/a.csv", "/tmp/with space.txt", "/tmp/100%", "/tmp/#?&", "/tmp/é/日本.png"}) {
    const std::string uri = uri_of({.place = Place::kFile, .id = "s-1", .path = path});
    const auto read = read_uri(uri);
    ASSERT_TRUE(read) << uri;
    EXPECT_EQ(read->path, path);
    EXPECT_EQ(read->id, "s-1");
    EXPECT_EQ(uri.find(' '), std::string::npos);
  }
  EXPECT_EQ(read_uri("membrane://policy")->place, Place::kPolicy);
  EXPECT_EQ(read_uri("membrane://sessions")->place, Place::kSessions);
  EXPECT_EQ(read_uri("membrane://reports/r-1")->id, "r-1");
}

TEST(Uri, InvalidOnesAreRefused) {
  for (const char* const uri :
       {"", "membrane://", "membrane:policy", "http://policy", "membrane://policy/", "membrane://reports/",
        "membrane://reports/a/b", "membrane://reports/a b", "membrane://sessions/",
        "membrane://sessions/s-1/files/", "membrane://sessions//files/a", "membrane://sessions/s-1/files/a%0",
        "membrane://sessions/s-1/files/a%g0", "membrane://sessions/s-1/files/%00"})
    EXPECT_FALSE(read_uri(uri)) << uri;
  EXPECT_FALSE(read_uri("membrane://sessions/s-1/files/" + std::string(kMaxUriBytes, 'a')));
}

}  // namespace
}  // namespace membrane::mcp
