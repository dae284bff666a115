#include "host/egress/secret_mask.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "base/base64.h"
#include "base/utf8.h"

namespace membrane::host {
namespace {

constexpr auto kReach = static_cast<ptrdiff_t>(Readings::kReach);
constexpr std::string_view kSecret = "se/kret\\=\"12";

std::string masked(std::string text, std::string_view secret = kSecret) {
  SecretMask mask({std::string(secret)});
  EXPECT_TRUE(mask.apply(text));
  return text;
}

std::string stars(size_t count) { return std::string(count, '*'); }

TEST(SecretMask, HidesItHoweverItIsEscaped) {
  for (const std::string spelling :
       {"se/kret\\=\"12", "se%2fkret%5c%3d%2212", "%73e/%6bret%5c%3D\"12", R"(se\/kret\u005c=\"12)",
        R"(se%2fkret\u005c%3d\"12)", "se&#x2F;kret\\&#61;&quot;12", R"(se\x2fkret\\=%2212)",
        "se%u002fkret\\=\"12", R"(se\\\/kret\\\\=\\\"12)", "se%252fkret%255c%253d%252212",
        "se%5C/kret%5C%5C=%5C%2212"})
    EXPECT_EQ(masked("<" + spelling + ">"), "<" + stars(spelling.size()) + ">") << spelling;
  for (const char* other :
       {"<se%2kret>", "<se/kret\\=\"1%3", "", "s", "%", "\\", "\\u00", "%7", "&", "&#", "&#x;"})
    EXPECT_EQ(masked(other), other);
}

TEST(SecretMask, ASecretThatLooksEscapedIsFoundAsItStands) {
  EXPECT_EQ(masked("x%41%42%43%44y", "%41%42%43%44"), "x************y");
  EXPECT_EQ(masked("xa%41\\\"bcdefy", "a%41\"bcdef"), "x***********y");
  EXPECT_EQ(masked("xa%2541%5C%22bcdefy", "a%41\"bcdef"), "x*****************y");
}

// The text before or after it could be an escape together with its first or last characters.
TEST(SecretMask, WhatStandsAroundItDoesNotHideIt) {
  EXPECT_EQ(masked("100%41cd%2fefgh", "41cd/efgh"), "100%***********");
  EXPECT_EQ(masked("C:\\nabcd\\/efgh", "nabcd/efgh"), "C:\\***********");
  EXPECT_EQ(masked("abcd\\/ef%41", "abcd/ef%"), "*********41");
  EXPECT_EQ(masked("%c2VrcmV0LWtleQ", "sekret-key"), "%" + stars(14));
  EXPECT_EQ(masked("x%c2VrcmV0LWtleS8%2BLg", "sekret-key/>."), "x%" + stars(20));
}

TEST(SecretMask, HidesItInBase64AtEachAlignmentAndInHex) {
  const std::string secret = "sekret-key-?>~\xff~123";
  for (const std::string before : {"", "a", "ab", "user:", "Bearer "})
    for (const std::string after : {"", "z", "yz"}) {
      const std::string text = base64_encode(before + secret + after);
      const std::string hidden = masked(text, secret);
      const size_t first = before.size() * 8 / 6, end = ((before.size() + secret.size()) * 8 + 5) / 6;
      EXPECT_EQ(hidden, text.substr(0, first) + stars(end - first) + text.substr(end));
    }
  EXPECT_EQ(masked("736563726574736563726574", "secretsecret"), stars(24));
  EXPECT_EQ(masked("<6A6B6C6D6A6B6C6D>", "jklmjklm"), "<****************>");
}

TEST(SecretMask, OverlappingOnesAreAllHidden) {
  EXPECT_EQ(masked(std::string(21, 'a'), "aaaaaaaa"), stars(21));
  EXPECT_EQ(masked("abcabcabcabc", "abcabcabc"), "************");
  EXPECT_EQ(masked("xabcabcabxabcabcabcx", "abcabcabc"), "xabcabcabx*********x");
  // If the end of a secret is periodic, the end may be found too far.
  const std::string zeros = masked("key-0000000000000000", "key-00000000000");
  EXPECT_EQ(zeros.substr(0, 15), stars(15));
  EXPECT_EQ(zeros.substr(19), "0");
}

TEST(SecretMask, HidesEachOfSeveral) {
  SecretMask mask({"first-secret", std::string(100, 'x') + "y", "third/secret"});
  std::string text = "third%2Fsecret first-secret" + std::string(101, 'x') + "y first-secre";
  ASSERT_TRUE(mask.apply(text));
  EXPECT_EQ(text, stars(14) + " " + stars(12) + "x" + stars(101) + " first-secre");
}

TEST(SecretMask, IsUsedAgain) {
  SecretMask mask({"abcdefgh"});
  for (const std::string text : {"abcdefgh", "bcdefgh", "abcdefg", "xabcdefghx"}) {
    std::string hidden = text;
    ASSERT_TRUE(mask.apply(hidden));
    EXPECT_EQ(hidden, masked(text, "abcdefgh")) << text;
  }
}

TEST(SecretMask, EndsWhenItsTimeIsOver) {
  SecretMask mask({"abcdefgh"});
  std::string text(1 << 20, 'a');
  int asked = 0;
  EXPECT_FALSE(mask.apply(text, [&] { return ++asked == 3; }));
  EXPECT_EQ(asked, 3);
}

// A server knows the secret that it is sent: a body of near-matches must not take quadratic time. The tests' own
// time limit catches that.
TEST(SecretMask, ABodyOfBeginningsIsNoQuadraticWork) {
  const std::string secret = std::string(4000, 'a') + "b";
  const std::string body(1 << 20, 'a');
  EXPECT_EQ(masked(body, secret), body);
  EXPECT_EQ(masked(body, std::string(4000, 'a')), stars(body.size()));
}

TEST(SecretMask, DeepEscapesAreNoEndlessWork) {
  for (const char* piece :
       {"\\", "%25", "%", "&amp;", "&#38;", "\\u005c", "\\\\u005cu", "XFxc", "5c", "\xC3\x83", "&#"}) {
    std::string body;
    while (body.size() < (64u << 10)) body += piece;
    EXPECT_EQ(masked(body, "sekret-key"), body);
  }
}

// --- compositions of encodings --------------------------------------------------------------

// A text, and for each byte whether it encodes anything of the secret.
struct Tagged {
  std::string bytes;
  std::vector<bool> holds;

  void add(std::string_view text, bool of_secret) {
    bytes += text;
    holds.insert(holds.end(), text.size(), of_secret);
  }
  void add(const Tagged& other) {
    bytes += other.bytes;
    holds.insert(holds.end(), other.holds.begin(), other.holds.end());
  }
};

using Random = std::mt19937_64;
bool flip(Random& random) { return random() % 2 == 0; }

std::string hex(uint32_t value, int digits, bool upper) {
  std::string text;
  for (int i = digits; i-- > 0;)
    text += (upper ? "0123456789ABCDEF" : "0123456789abcdef")[value >> (4 * i) & 15];
  return text;
}

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_';
}

// Encodes each character by `write`; characters are those of UTF-8 if the text is valid, else of Latin-1.
template <typename Write>
Tagged by_character(const Tagged& text, Write write) {
  const bool is_text = is_utf8(text.bytes);
  Tagged out;
  for (size_t at = 0; at < text.bytes.size();) {
    const size_t length = is_text ? utf8_length(std::string_view(text.bytes).substr(at)) : 1;
    uint32_t code = static_cast<uint8_t>(text.bytes[at]);
    if (length > 1) {
      code &= 0xFFu >> (length + 1);
      for (size_t i = 1; i < length; ++i)
        code = code << 6 | (static_cast<uint8_t>(text.bytes[at + i]) & 0x3F);
    }
    out.add(write(text.bytes.substr(at, length), code), text.holds[at]);
    at += length;
  }
  return out;
}

std::string json_unit(uint32_t unit, bool upper) { return "\\u" + hex(unit, 4, upper); }
std::string json_code(uint32_t code, bool upper) {
  if (code < 0x10000) return json_unit(code, upper);
  return json_unit(0xD800 + ((code - 0x10000) >> 10), upper) +
         json_unit(0xDC00 + ((code - 0x10000) & 0x3FF), upper);
}

Tagged json(const Tagged& text, Random& random) {
  const bool slashes = flip(random), ascii = flip(random), all = random() % 4 == 0, upper = flip(random);
  return by_character(text, [&](const std::string& bytes, uint32_t code) -> std::string {
    if (all || code == 0x7F || (code > 0x7F && (ascii || bytes.size() == 1))) return json_code(code, upper);
    if (bytes == "\"" || bytes == "\\" || (slashes && bytes == "/")) return "\\" + bytes;
    if (bytes == "\n") return "\\n";
    if (bytes == "\r") return "\\r";
    return code < 0x20 ? json_code(code, upper) : bytes;
  });
}

Tagged percent(const Tagged& text, Random& random) {
  const bool all = random() % 4 == 0, form = flip(random), upper = flip(random), slashes = flip(random);
  Tagged out;
  for (size_t i = 0; i < text.bytes.size(); ++i) {
    const char c = text.bytes[i];
    if (form && c == ' ') out.add("+", text.holds[i]);
    else if (!all && (is_word(c) || (c == '/' && !slashes))) out.add({&c, 1}, text.holds[i]);
    else out.add("%" + hex(static_cast<uint8_t>(c), 2, upper), text.holds[i]);
  }
  return out;
}

Tagged html(const Tagged& text, Random& random) {
  const bool decimal = flip(random), strict = flip(random);
  return by_character(text, [&](const std::string& bytes, uint32_t code) -> std::string {
    if (bytes == "&" && !strict) return "&amp;";
    if (bytes == "<" && !strict) return "&lt;";
    if (bytes == "\"" && !strict) return "&quot;";
    if (code < 0x80 && (is_word(bytes[0]) || (!strict && bytes != "'"))) return bytes;
    return decimal ? "&#" + std::to_string(code) + ";" : "&#x" + hex(code, 6, true) + ";";
  });
}

Tagged latin1_as_utf8(const Tagged& text, Random&) {
  Tagged out;
  for (size_t i = 0; i < text.bytes.size(); ++i) {
    std::string character;
    append_utf8(character, static_cast<uint8_t>(text.bytes[i]));
    out.add(character, text.holds[i]);
  }
  return out;
}

// Lines of `width` digits, unless it is 0; the line breaks contain nothing of the secret.
Tagged in_lines(const Tagged& digits, size_t width, std::string_view end) {
  if (width == 0) return digits;
  Tagged out;
  for (size_t i = 0; i < digits.bytes.size(); ++i) {
    if (i != 0 && i % width == 0) out.add(end, false);
    out.add(digits.bytes.substr(i, 1), digits.holds[i]);
  }
  return out;
}

Tagged base64(const Tagged& text, Random& random) {
  Tagged out;
  const bool url = flip(random);
  for (const char c : base64_encode(text.bytes)) {
    const size_t bit = out.bytes.size() * 6;
    const auto holds = [&](size_t byte) { return byte < text.holds.size() && text.holds[byte]; };
    if (c == '=' && url) break;
    const char shown = !url ? c : c == '+' ? '-' : c == '/' ? '_' : c;
    out.add({&shown, 1}, c != '=' && (holds(bit / 8) || holds((bit + 5) / 8)));
  }
  const size_t widths[] = {0, 0, 64, 76, 8};
  return in_lines(out, widths[random() % 5], flip(random) ? "\r\n" : "\n");
}

Tagged in_hex(const Tagged& text, Random& random) {
  Tagged out;
  const bool upper = flip(random);
  for (size_t i = 0; i < text.bytes.size(); ++i)
    out.add(hex(static_cast<uint8_t>(text.bytes[i]), 2, upper), text.holds[i]);
  return in_lines(out, random() % 4 == 0 ? 60 : 0, "\n");
}

using Encoding = Tagged (*)(const Tagged&, Random&);
constexpr std::pair<const char*, Encoding> kEncodings[] = {{"json", json},     {"percent", percent},
                                                           {"html", html},     {"latin1", latin1_as_utf8},
                                                           {"base64", base64}, {"hex", in_hex}};

std::string random_text(Random& random, size_t most, std::string_view letters) {
  std::string text;
  for (size_t left = random() % (most + 1); left > 0; --left) text += letters[random() % letters.size()];
  return text;
}

std::string all_printable() {
  std::string letters;
  for (char c = ' '; c < 0x7F; ++c) letters += c;
  return letters;
}

std::string random_secret(Random& random) {
  static const std::string kPrintable = all_printable();
  const std::string_view letters[] = {"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.",
                                      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/",
                                      kPrintable, "/+%&\\\" =4125nu;#xX"};
  const size_t kind = random() % 5;
  std::string secret;
  const size_t size = 8 + random() % (random() % 4 == 0 ? 200 : 30);
  static constexpr const char* kCharacters[] = {"é", "ü", "Ω", "😀", "a", "/", "\"", "7"};
  while (secret.size() < size) {
    if (kind == 4) secret += kCharacters[random() % 8];
    else secret += letters[kind][random() % letters[kind].size()];
  }
  return secret;
}

// All of the secret is masked, and nothing else; except that up to `margin` characters before and after it may
// belong to it in another reading.
void expect_hidden(const Tagged& text, const std::string& secret, ptrdiff_t margin, const std::string& how) {
  const std::string hidden = masked(text.bytes, secret);
  ASSERT_EQ(hidden.size(), text.bytes.size());
  const auto first = std::find(text.holds.begin(), text.holds.end(), true) - text.holds.begin();
  const auto end = text.holds.rend() - std::find(text.holds.rbegin(), text.holds.rend(), true);
  std::string wanted = text.bytes;
  std::fill(wanted.begin() + first, wanted.begin() + end, '*');
  for (ptrdiff_t i = 0; i < std::ssize(hidden); ++i) {
    const auto at = static_cast<size_t>(i);
    if (hidden[at] == wanted[at]) continue;
    const bool is_near = (i < first && i >= first - margin) || (i >= end && i < end + margin);
    ASSERT_TRUE(is_near && hidden[at] == '*') << how << " of " << secret << "\nin     " << text.bytes
                                              << "\nis     " << hidden << "\nwanted " << wanted;
  }
}

void expect_hidden_in_compositions(Random& random, std::string_view letters_around, ptrdiff_t margin) {
  for (const auto& [first_name, first] : kEncodings)
    for (const auto& [second_name, second] : kEncodings) {
      const std::string secret = random_secret(random);
      Tagged text;
      const auto surround = [&] {
        if (flip(random)) return;
        Tagged around;
        around.add(random_text(random, 20, letters_around), false);
        around.add(text);
        around.add(random_text(random, 20, letters_around), false);
        text = around;
      };
      text.add(secret, true);
      surround();
      text = first(text, random);
      surround();
      text = second(text, random);
      surround();
      const std::string how = std::string(second_name) + " of " + first_name;
      const bool looks_escaped = secret.find_first_of("\\%&") != std::string::npos;
      ASSERT_NO_FATAL_FAILURE(expect_hidden(text, secret, looks_escaped ? kReach : margin, how));
    }
}

TEST(SecretMask, HidesItInEachCompositionOfTwoEncodings) {
  Random random(20'260'101);
  for (int round = 0; round < 200; ++round)
    ASSERT_NO_FATAL_FAILURE(
        expect_hidden_in_compositions(random, " .:ghijklmnopqstvwyzGHIJKLMNOPQRSTUVWYZ", 0));
}

TEST(SecretMask, HidesItInCompositionsAmongWhatLooksEscaped) {
  Random random(20'260'102);
  const std::string letters = all_printable() + "\n\\%&\\%&\\%&";
  for (int round = 0; round < 200; ++round)
    ASSERT_NO_FATAL_FAILURE(expect_hidden_in_compositions(random, letters, kReach));
}

}  // namespace
}  // namespace membrane::host
