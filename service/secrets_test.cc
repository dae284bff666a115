#include "service/secrets.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "service/hidden_variable.h"
#include "service/simulated_disk_testing.h"

namespace membrane::service {
namespace {

constexpr std::string_view kValue = "sk-a-value-of-a-secret";

policy::Policy naming(const std::string& name, const std::string& url) {
  policy::Policy policy;
  policy.http.push_back(
      {.methods = {"GET"}, .url = url, .headers = {{"Authorization", {"Bearer ", name}}}, .addresses = {}});
  return policy;
}

TEST(SecretKey, OpensWhatItSealedAboutTheSame) {
  const SecretKey key = SecretKey::random();
  const std::string sealed = key.seal(kValue, "t/a").value();
  EXPECT_EQ(sealed.find(kValue), std::string::npos);
  EXPECT_EQ(key.open(sealed, "t/a").value(), kValue);
  EXPECT_FALSE(key.open(sealed, "t/b"));
  EXPECT_FALSE(SecretKey::random().open(sealed, "t/a"));
  EXPECT_NE(sealed, key.seal(kValue, "t/a").value());
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string damaged = sealed;
    damaged[i] ^= 1;
    EXPECT_FALSE(key.open(damaged, "t/a")) << i;
  }
  EXPECT_FALSE(key.open("", "t/a"));
  EXPECT_EQ(key.open(key.seal("", "x").value(), "x").value(), "");
}

TEST(SecretKey, IsKeptInTheServicesState) {
  SimulatedDisk disk(1);
  DurableFiles files(disk);
  const auto first = SecretKey::kept(files);
  ASSERT_TRUE(first) << first.error().message;
  const std::string sealed = *first->seal("value", "t/a");
  const auto again = SecretKey::kept(files);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again->open(sealed, "t/a"), "value");
  ASSERT_TRUE(files.write(SecretKey::kFile, "no key"));
  EXPECT_EQ(SecretKey::kept(files).error().code, ErrorCode::kInvalidInput);
}

TEST(SecretKey, IsReadAsText) {
  EXPECT_TRUE(SecretKey::parse(std::string(64, 'a') + "\n"));
  EXPECT_FALSE(SecretKey::parse(std::string(63, 'a')));
  EXPECT_FALSE(SecretKey::parse(std::string(64, 'g')));
  EXPECT_FALSE(SecretKey::parse(""));
  EXPECT_EQ(SecretKey::read("/nowhere/key").error().code, ErrorCode::kNotFound);
}

TEST(HiddenVariable, IsNowhereUntilItIsTaken) {
  ASSERT_EQ(setenv("MEMBRANE_TEST_HIDDEN", "the value", 1), 0);
  const char* const place = getenv("MEMBRANE_TEST_HIDDEN");
  HiddenVariable hidden("MEMBRANE_TEST_HIDDEN");
  EXPECT_EQ(getenv("MEMBRANE_TEST_HIDDEN"), nullptr);
  EXPECT_EQ(place[0], '\0');
  EXPECT_EQ(hidden.take(), "the value");
  EXPECT_EQ(hidden.take(), "");
  EXPECT_EQ(HiddenVariable("MEMBRANE_TEST_NONE").take(), "");
}

TEST(Secrets, AreSentToTheirHostsOnly) {
  Secrets secrets(SecretKey::random());
  ASSERT_TRUE(secrets.put("t", {"KEY", {"api.example.com", "*.example.org"}}, kValue));
  const auto code_of = [&](const policy::Policy& policy) {
    const auto checked = secrets.check("t", policy);
    return checked ? "" : name_of(checked.error().code);
  };
  EXPECT_EQ(code_of(naming("KEY", "https://api.example.com/*")), "");
  EXPECT_EQ(code_of(naming("KEY", "https://a.b.example.org/*")), "");
  EXPECT_EQ(code_of(naming("KEY", "https://*.example.org/*")), "");
  EXPECT_EQ(code_of(naming("KEY", "https://example.org/*")), "forbidden");
  EXPECT_EQ(code_of(naming("KEY", "https://*.example.com/*")), "forbidden");
  EXPECT_EQ(code_of(naming("KEY", "https://evil-example.org/*")), "forbidden");
  EXPECT_EQ(code_of(naming("NONE", "https://api.example.com/*")), "invalid_value");
  EXPECT_EQ(secrets.of("t", naming("KEY", "https://api.example.com/*"))("KEY"), kValue);
  EXPECT_EQ(secrets.of("t", naming("KEY", "https://example.net/*"))("KEY"), std::nullopt);
  EXPECT_EQ(secrets.of("u", naming("KEY", "https://api.example.com/*"))("KEY"), std::nullopt);
}

TEST(Secrets, ThatAreRemovedAreNoLongerSent) {
  Secrets secrets(SecretKey::random());
  ASSERT_TRUE(secrets.put("t", {"KEY", {"api.example.com"}}, kValue));
  const host::Secrets of = secrets.of("t", naming("KEY", "https://api.example.com/*"));
  EXPECT_EQ(of("KEY"), kValue);
  ASSERT_TRUE(secrets.put("t", {"KEY", {"other.example.com"}}, "another value"));
  EXPECT_EQ(of("KEY"), std::nullopt);
  ASSERT_TRUE(secrets.remove("t", "KEY"));
  EXPECT_EQ(of("KEY"), std::nullopt);
  EXPECT_FALSE(secrets.remove("t", "KEY"));
  EXPECT_TRUE(secrets.list("t").empty());
}

TEST(Secrets, InvalidSecretsAreRefused) {
  Secrets secrets(SecretKey::random());
  EXPECT_FALSE(secrets.put("t", {"1KEY", {"a.example"}}, kValue));
  EXPECT_FALSE(secrets.put("t", {"KEY", {}}, kValue));
  EXPECT_FALSE(secrets.put("t", {"KEY", {"https://a.example"}}, kValue));
  EXPECT_FALSE(secrets.put("t", {"KEY", {"a.example"}}, "short"));
  EXPECT_FALSE(secrets.put("t", {"KEY", {"a.example"}}, "line\r\nfeeds"));
}

TEST(Secrets, AreKeptSealed) {
  std::vector<SealedSecret> rows;
  const SecretKey key = SecretKey::random();
  Secrets secrets(key, {.put = [&](const SealedSecret& row) -> Answer<void> {
                    rows.push_back(row);
                    return {};
                  }});
  ASSERT_TRUE(secrets.put("t", {"KEY", {"api.example.com"}}, kValue));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].sealed.find(kValue), std::string::npos);
  Secrets later(key);
  ASSERT_TRUE(later.load(rows[0]));
  EXPECT_EQ(later.of("t", naming("KEY", "https://api.example.com/*"))("KEY"), kValue);
  EXPECT_EQ(Secrets(SecretKey::random()).load(rows[0]).error().code, ErrorCode::kInvalidInput);
}

}  // namespace
}  // namespace membrane::service
