#include "linux/network/dns.h"

#include <gtest/gtest.h>

namespace membrane::linux {
namespace {

// Names, with their lengths, and what is asked of them: "\7example\3org\0" and two numbers.
std::string query(std::string_view name, uint16_t type,
                  std::string_view head = std::string_view("\x12\x34\x01\x00\0\1\0\0\0\0\0\0", 12)) {
  std::string out(head);
  while (!name.empty()) {
    const size_t dot = std::min(name.find('.'), name.size());
    out += static_cast<char>(dot);
    out += name.substr(0, dot);
    name.remove_prefix(std::min(dot + 1, name.size()));
  }
  out += '\0';
  out += {static_cast<char>(type >> 8), static_cast<char>(type & 0xff), 0, 1};
  return out;
}

struct Asked {
  std::string name;  // that was looked for; "" for none
  std::optional<std::string> answer;
  [[nodiscard]] int code() const { return answer ? (*answer)[3] & 0xf : -1; }
  [[nodiscard]] int answers() const { return answer ? (*answer)[7] : -1; }
};

Asked ask(std::string_view bytes) {
  Asked asked;
  asked.answer = answer_dns(std::as_bytes(std::span(bytes)), [&](std::string_view name) -> DnsName {
    asked.name = name;
    if (name != "example.org") return {};
    return {.exists = true, .v4 = std::array<uint8_t, 4>{198, 18, 1, 2}, .v6 = {}};
  });
  return asked;
}

TEST(Dns, ANameThatIsReachableHasAnAddress) {
  const Asked asked = ask(query("eXample.ORG", 1));
  EXPECT_EQ(asked.name, "example.org");
  EXPECT_EQ(asked.code(), 0);
  EXPECT_EQ(asked.answers(), 1);
  ASSERT_TRUE(asked.answer);
  EXPECT_EQ(asked.answer->substr(0, 2), "\x12\x34");
  EXPECT_TRUE(asked.answer->ends_with(std::string("\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4\xc6\x12\1\2", 16)));
}

TEST(Dns, OtherKindsOfANameAreEmpty) {
  for (const uint16_t type : {28, 16, 33, 65}) {
    const Asked asked = ask(query("example.org", type));
    EXPECT_EQ(asked.code(), 0) << type;
    EXPECT_EQ(asked.answers(), 0) << type;
  }
}

TEST(Dns, OtherNamesDoNotExist) {
  EXPECT_EQ(ask(query("example.com", 1)).code(), 3);
  EXPECT_EQ(ask(query("", 1)).code(), 3);
}

TEST(Dns, NamesWithOddBytesAreLookedForNowhere) {
  for (const std::string_view name :
       {std::string_view("example\0.org", 12), std::string_view("exa mple.org"),
        std::string_view("exam\xe9.org"), std::string_view("a/b"), std::string_view("a\nb")}) {
    const Asked asked = ask(query(name, 1));
    EXPECT_EQ(asked.name, "");
    EXPECT_EQ(asked.code(), 3);
  }
  std::string dotted = query("exampleXorg", 1);  // a dot within a label
  dotted[12 + 8] = '.';
  EXPECT_EQ(ask(dotted).name, "");
}

TEST(Dns, AMalformedQueryGetsNoAnswerOrAFormatError) {
  EXPECT_FALSE(ask("").answer);
  EXPECT_FALSE(ask(std::string(11, '\0')).answer);
  EXPECT_FALSE(ask(query("a", 1, std::string_view("\0\1\x81\x00\0\1\0\0\0\0\0\0", 12))).answer);
  EXPECT_EQ(ask(query("a", 1, std::string_view("\0\1\x01\x00\0\2\0\0\0\0\0\0", 12))).code(), 1);
  EXPECT_EQ(ask(query("a", 1, std::string_view("\0\1\x28\x00\0\1\0\0\0\0\0\0", 12))).code(), 4);
  EXPECT_EQ(ask(std::string("\0\1\1\0\0\1\0\0\0\0\0\0\xc0\x0c\0\1\0\1", 18)).code(), 1);
  const std::string whole = query("example.org", 1);
  for (size_t size = 12; size < whole.size(); ++size) EXPECT_EQ(ask(whole.substr(0, size)).code(), 1) << size;
  EXPECT_EQ(ask(query(std::string(63, 'a') + "." + std::string(63, 'b') + "." + std::string(63, 'c') + "." +
                          std::string(63, 'd') + "." + "e",
                      1))
                .code(),
            1);
}

}  // namespace
}  // namespace membrane::linux
