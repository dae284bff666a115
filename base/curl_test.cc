#include "base/curl.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace membrane {
namespace {

TEST(Curl, LoadsOnceForAllThreads) {
  std::vector<const CurlApi*> seen(8);
  std::vector<std::thread> threads;
  for (auto& slot : seen) threads.emplace_back([&slot] { slot = curl().value_or(nullptr); });
  for (auto& thread : threads) thread.join();
  ASSERT_NE(seen[0], nullptr);
  for (const CurlApi* api : seen) EXPECT_EQ(api, seen[0]);
}

TEST(Curl, ParsesUrls) {
  const auto api = curl();
  ASSERT_TRUE(api) << api.error().message;
  CURLU* url = (*api)->url_new();
  ASSERT_EQ((*api)->url_set(url, CURLUPART_URL, "https://example.org:444/a?b#c", 0), CURLUE_OK);
  char* port = nullptr;
  ASSERT_EQ((*api)->url_get(url, CURLUPART_PORT, &port, 0), CURLUE_OK);
  EXPECT_EQ(std::string(port), "444");
  (*api)->free_string(port);
  (*api)->url_cleanup(url);
}

}  // namespace
}  // namespace membrane
