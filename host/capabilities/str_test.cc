#include <gtest/gtest.h>

#include "host/world/machine_testing.h"

namespace membrane::host {
namespace {

TEST(Str, MeasuresAndCompares) {
  Machine machine;
  EXPECT_EQ(machine.number("str.length", {"h\xC3\xA9"}), 3);
  EXPECT_EQ(machine.number("str.length", {""}), 0);
  EXPECT_EQ(machine.number("str.char_count", {"h\xC3\xA9"}), 2);
  EXPECT_EQ(machine.number("str.eq", {"a", "a"}), 1);
  EXPECT_EQ(machine.number("str.eq", {"a", std::string("a\0", 2)}), 0);
  EXPECT_EQ(machine.number("str.compare", {"a", "b"}), -1);
  EXPECT_EQ(machine.number("str.compare", {"b", "a"}), 1);
  EXPECT_EQ(machine.number("str.compare", {"", ""}), 0);
  EXPECT_EQ(machine.number("str.compare", {"\xFF", "a"}), 1) << "bytes have no sign";
  EXPECT_EQ(machine.number("str.starts_with", {"abc", "ab"}), 1);
  EXPECT_EQ(machine.number("str.starts_with", {"abc", ""}), 1);
  EXPECT_EQ(machine.number("str.starts_with", {"", "a"}), 0);
  EXPECT_EQ(machine.number("str.ends_with", {"abc", "bc"}), 1);
  EXPECT_EQ(machine.number("str.ends_with", {"bc", "abc"}), 0);
  EXPECT_EQ(machine.number("str.contains", {"abc", "b"}), 1);
  EXPECT_EQ(machine.number("str.contains", {"", ""}), 1);
  EXPECT_EQ(machine.number("str.contains", {"", "a"}), 0);
}

TEST(Str, BytesOutsideAreMinusOne) {
  Machine machine;
  EXPECT_EQ(machine.number("str.byte", {"\xFF", 0}), 255);
  for (const int outside : {1, -1, INT32_MAX, INT32_MIN})
    EXPECT_EQ(machine.number("str.byte", {"a", outside}), -1);
}

TEST(Str, Finds) {
  Machine machine;
  EXPECT_EQ(machine.number("str.find", {"a-b-c", "-", 0}), 1);
  EXPECT_EQ(machine.number("str.find", {"a-b-c", "-", 2}), 3);
  EXPECT_EQ(machine.number("str.find", {"a-b-c", "-", 4}), -1);
  EXPECT_EQ(machine.number("str.find", {"a-b-c", "-", -7}), 1);
  EXPECT_EQ(machine.number("str.find", {"abc", "", 3}), 3);
  EXPECT_EQ(machine.number("str.find", {"abc", "", 4}), -1);
  EXPECT_EQ(machine.number("str.find", {"abc", "c", INT32_MAX}), -1);
  EXPECT_EQ(machine.number("str.find_last", {"a-b-c", "-"}), 3);
  EXPECT_EQ(machine.number("str.find_last", {"abc", "x"}), -1);
  EXPECT_EQ(machine.number("str.find_last", {"abc", ""}), 3);
  EXPECT_EQ(machine.number("str.count", {"aaaa", "aa"}), 2);
  EXPECT_EQ(machine.number("str.count", {"abc", "x"}), 0);
  EXPECT_EQ(machine.number("str.count", {"abc", ""}), 0);
}

TEST(Str, Between) {
  Machine machine;
  EXPECT_EQ(machine.text("str.between", {"<b>x</b><b>y</b>", "<b>", "</b>"}), "x");
  EXPECT_EQ(machine.text("str.between", {"key=value", "=", ""}), "value");
  EXPECT_EQ(machine.text("str.between", {"key=value", "", "="}), "key");
  EXPECT_EQ(machine.text("str.between", {"()", "(", ")"}), "");
  EXPECT_EQ(machine.fails("str.between", {"x", "(", ")"}), Errno::kNotFound);
  EXPECT_EQ(machine.fails("str.between", {")(", "(", ")"}), Errno::kNotFound);
}

TEST(Str, SlicesWithinTheTextAndNeverThroughACharacter) {
  Machine machine;
  const auto slice = [&](const char* text, int start, int end) {
    return machine.text("str.slice", {text, start, end});
  };
  EXPECT_EQ(slice("hello", 1, 3), "el");
  EXPECT_EQ(slice("hello", 0, 99), "hello");
  EXPECT_EQ(slice("hello", -3, -1), "ll");
  EXPECT_EQ(slice("hello", -99, 2), "he");
  EXPECT_EQ(slice("hello", 3, 3), "");
  EXPECT_EQ(slice("hello", 4, 2), "");
  EXPECT_EQ(slice("hello", INT32_MIN, INT32_MAX), "hello");
  EXPECT_EQ(slice("", 0, 5), "");
  EXPECT_EQ(slice("aéb", 0, 2), "a");
  EXPECT_EQ(slice("aéb", 2, 4), "éb");
  EXPECT_EQ(slice("€€", 1, 5), "€");
  EXPECT_EQ(slice("\xF0\x9F\x98\x80x", 3, 5), "\xF0\x9F\x98\x80x");
  EXPECT_EQ(slice("\x80\x80\x80", 1, 2), "\x80") << "bytes that are no characters can be cut anywhere";
}

TEST(Str, CutsAndJoins) {
  Machine machine;
  EXPECT_EQ(machine.text("str.concat", {"", ""}), "");
  EXPECT_EQ(machine.text("str.concat", {"a", std::string("\0b", 2)}), std::string("a\0b", 3));
  EXPECT_EQ(machine.text("str.trim", {" \t\r\n x y \v\f"}), "x y");
  EXPECT_EQ(machine.text("str.trim", {"   "}), "");
  EXPECT_EQ(machine.text("str.lower", {"AZaz09É"}), "azaz09É");
  EXPECT_EQ(machine.text("str.upper", {"AZaz09é"}), "AZAZ09é");
  EXPECT_EQ(machine.text("str.replace", {"aaa", "aa", "b"}), "ba");
  EXPECT_EQ(machine.text("str.replace", {"abc", "", "x"}), "abc");
  EXPECT_EQ(machine.text("str.replace", {"abc", "b", ""}), "ac");
  EXPECT_EQ(machine.text("str.replace", {"-", "-", "--"}), "--");
  EXPECT_EQ(machine.text("str.repeat", {"ab", 3}), "ababab");
  EXPECT_EQ(machine.text("str.repeat", {"ab", 0}), "");
  EXPECT_EQ(machine.text("str.repeat", {"ab", -1}), "");
  EXPECT_EQ(machine.text("str.repeat", {"", INT32_MAX}), "");
  EXPECT_EQ(machine.text("str.pad_left", {"7", 3}), "  7");
  EXPECT_EQ(machine.text("str.pad_left", {"1234", 3}), "1234");
  EXPECT_EQ(machine.text("str.pad_right", {"7", 3}), "7  ");
  EXPECT_EQ(machine.text("str.pad_right", {"7", -3}), "7");
}

TEST(Str, Lines) {
  Machine machine;
  const std::pair<const char*, int> counts[] = {{"", 0},     {"\n", 1},    {"a", 1},     {"a\n", 1},
                                                {"a\nb", 2}, {"a\n\n", 2}, {"\n\n\n", 3}};
  for (const auto& [text, count] : counts) EXPECT_EQ(machine.number("str.line_count", {text}), count) << text;
  EXPECT_EQ(machine.text("str.line", {"one\r\ntwo\n", 0}), "one");
  EXPECT_EQ(machine.text("str.line", {"one\r\ntwo\n", 1}), "two");
  EXPECT_EQ(machine.text("str.line", {"one\r\ntwo\n", -1}), "two");
  EXPECT_EQ(machine.text("str.line", {"\n\nx", 1}), "");
  EXPECT_EQ(machine.fails("str.line", {"one\ntwo\n", 2}), Errno::kNotFound);
  EXPECT_EQ(machine.fails("str.line", {"one\ntwo\n", -3}), Errno::kNotFound);
  EXPECT_EQ(machine.fails("str.line", {"", 0}), Errno::kNotFound);
}

TEST(Str, Fields) {
  Machine machine;
  EXPECT_EQ(machine.number("str.field_count", {"a,b,,d", ","}), 4);
  EXPECT_EQ(machine.number("str.field_count", {"", ","}), 1);
  EXPECT_EQ(machine.number("str.field_count", {"abc", ""}), 1);
  EXPECT_EQ(machine.text("str.field", {"a,b,,d", ",", 2}), "");
  EXPECT_EQ(machine.text("str.field", {"a,b,,d", ",", -1}), "d");
  EXPECT_EQ(machine.text("str.field", {"abc", "", 0}), "abc");
  EXPECT_EQ(machine.text("str.field", {"a::b", "::", 1}), "b");
  EXPECT_EQ(machine.fails("str.field", {"a,b", ",", 2}), Errno::kNotFound);
  EXPECT_EQ(machine.fails("str.field", {"a,b", ",", INT32_MIN}), Errno::kNotFound);
  EXPECT_EQ(machine.text("str.split", {"a,\",", ","}), R"(["a","\"",""])");
  EXPECT_EQ(machine.text("str.split", {"", ","}), R"([""])");
  EXPECT_EQ(machine.text("str.split", {"\xFF", ","}), "[\"\xEF\xBF\xBD\"]");
  EXPECT_EQ(machine.text("str.join", {R"(["a",2,null,true,"é"])", "-"}), "a-2-null-true-é");
  EXPECT_EQ(machine.text("str.join", {"[]", "-"}), "");
  for (const char* bad : {"", "{}", "\"a\"", "[[1]]", "[{}]", "[1", "[[[[[[[["})
    EXPECT_EQ(machine.fails("str.join", {bad, "-"}), Errno::kInvalid) << bad;
  EXPECT_EQ(machine.fails("str.join", {std::string(1'000'000, '['), ""}), Errno::kInvalid);
}

TEST(Str, Numbers) {
  Machine machine;
  EXPECT_EQ(machine.text("str.from_i32", {INT32_MIN}), "-2147483648");
  EXPECT_EQ(machine.text("str.from_i64", {INT64_MAX}), "9223372036854775807");
  EXPECT_EQ(machine.text("str.from_f64", {2.5}), "2.5");
  EXPECT_EQ(machine.text("str.fixed", {2.5, 2}), "2.50");
  EXPECT_EQ(machine.number("str.to_i32", {" -7 "}), -7);
  EXPECT_EQ(machine.fails("str.to_i32", {"7.0"}), Errno::kInvalid);
  EXPECT_EQ(machine.number("str.to_i64", {"-9223372036854775808"}), INT64_MIN);
  EXPECT_EQ(machine.fails("str.to_i64", {""}), Errno::kInvalid);
  EXPECT_EQ(machine.real("str.to_f64", {"-1.5e-3"}), -1.5e-3);
  EXPECT_EQ(machine.fails("str.to_f64", {"1.5x"}), Errno::kInvalid);
}

TEST(Str, OtherForms) {
  Machine machine;
  EXPECT_EQ(machine.text("str.from_char", {0x20AC}), "€");
  for (const int bad : {-1, 0xD800, 0x110000})
    EXPECT_EQ(machine.text("str.from_char", {bad}), "\xEF\xBF\xBD");
  EXPECT_EQ(machine.text("str.url_encode", {"aZ0-._~ /é"}), "aZ0-._~%20%2F%C3%A9");
  EXPECT_EQ(machine.text("str.to_base64", {"\xFF"}), "/w==");
  EXPECT_EQ(machine.text("str.from_base64", {"/w=="}), "\xFF");
  EXPECT_EQ(machine.fails("str.from_base64", {"/w="}), Errno::kInvalid);
  EXPECT_EQ(machine.text("str.html_text", {"<p>a&lt;b"}), "a<b");
  EXPECT_EQ(machine.text("str.html_links", {"<a href=x>y</a>"}), R"([{"href":"x","text":"y"}])");
  EXPECT_EQ(machine.text("str.html_links", {""}), "[]");
}

}  // namespace
}  // namespace membrane::host
