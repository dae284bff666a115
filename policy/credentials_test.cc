#include "policy/credentials.h"

#include <gtest/gtest.h>

namespace membrane::policy {
namespace {

TEST(Credentials, AreKnownByTheirNames) {
  for (const char* const name :
       {"Authorization", "authorization", "Proxy-Authorization", "COOKIE", "X-Api-Key", "Api-Key", "api_key",
        "apikey", "X-Auth-Token", "access_token", "token", "key", "client-secret", "X_Password"})
    EXPECT_TRUE(is_name_of_credential(name)) << name;
  for (const char* const name : {"", "Accept", "monkey", "Key-Id", "tokens", "Secretary", "User-Agent", "-"})
    EXPECT_FALSE(is_name_of_credential(name)) << name;
}

TEST(Credentials, AreHiddenInUrls) {
  const auto hides = [](std::string_view url, std::string_view shown) {
    EXPECT_EQ(without_credentials(url), shown);
  };
  hides("https://example.org/a?b=c&d#e", "https://example.org/a?b=c&d#e");
  hides("https://me:secret@example.org:8080/a@b", "https://***@example.org:8080/a@b");
  hides("https://me:p@ss@example.org", "https://***@example.org");
  hides("https://example.org?q=me@home", "https://example.org?q=me@home");
  hides("http://h/a?api_key=k1&x=1&access_token=t1", "http://h/a?api_key=***&x=1&access_token=***");
  hides("http://h/a?x=1;token=t=1#access_token=u", "http://h/a?x=1;token=***#access_token=***");
  hides("http://h/?token&key=", "http://h/?token&key=***");
  hides("", "");
  hides("://", "://");
}

TEST(Credentials, AreHiddenInJson) {
  const auto hides = [](std::string_view json, std::string_view shown) {
    EXPECT_EQ(json_without_credentials(json, 1'000), shown);
  };
  hides(R"({"Accept": "a", "Authorization": "Bearer k", "X-A": "b"})",
        R"({"Accept": "a", "Authorization": "***", "X-A": "b"})");
  hides(R"([{"url":"http://h/","headers":{"cookie" : "a=\"b\"; c"}},"key","x"])",
        R"([{"url":"http://h/","headers":{"cookie" : "***"}},"key","x"])");
  hides(R"({"a\u0075thorization":"k"})", R"({"a\u0075thorization":"***"})");
  hides(R"({"Authorization":1,"key":)", R"({"Authorization":1,"key":)");
  hides(R"({"Authorization":"never ended)", R"({"Authorization":"***")");
  hides(R"({"Authorization":"ends in \)", R"({"Authorization":"***")");
  hides(R"(")", R"(")");
  hides("", "");
  EXPECT_EQ(json_without_credentials(R"({"a":"b","Cookie":"c","d":"e"})", 10), R"({"a":"b","Cookie":"***")");
}

}  // namespace
}  // namespace membrane::policy
