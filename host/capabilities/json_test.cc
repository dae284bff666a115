#include <gtest/gtest.h>

#include "host/world/machine_testing.h"

namespace membrane::host {
namespace {

const char* const kDocument =
    R"({"papers":[{"title":"Über \"Wasm\"","year":2017,"score":0.5,"tags":[]},{"title":null}],"a.b":{"":1},"big":9007199254740993})";

TEST(Json, GetGivesStringsWithoutQuotesAndTheRestAsJson) {
  Machine machine;
  const auto get = [&](const char* path) { return machine.text("json.get", {kDocument, path}); };
  EXPECT_EQ(get("papers[0].title"), "Über \"Wasm\"");
  EXPECT_EQ(get("papers[0].year"), "2017");
  EXPECT_EQ(get("papers.0.score"), "0.5");
  EXPECT_EQ(get("papers[-1].title"), "null");
  EXPECT_EQ(get("$.papers[-2].tags"), "[]");
  EXPECT_EQ(get(R"(["a.b"])"), R"({"":1})");
  EXPECT_EQ(get(R"(["a.b"][""])"), "1");
  EXPECT_EQ(get("big"), "9007199254740993");
  EXPECT_EQ(machine.text("json.get", {R"({"b":1,"a":[1, 2]})", ""}), R"({"b":1,"a":[1,2]})");
  EXPECT_EQ(machine.text("json.get", {"\"x\"", ""}), "x");
  EXPECT_EQ(machine.text("json.get", {"\"\"", ""}), "");
}

TEST(Json, WhatIsNotThereIsEnoent) {
  Machine machine;
  for (const char* path : {"none", "papers[2]", "papers[-3]", "papers.title", "papers[0].title.x",
                           "papers[0][0]", "papers[0].title[0]", "papers.-1"})
    EXPECT_EQ(machine.fails("json.get", {kDocument, path}), Errno::kNotFound) << path;
}

TEST(Json, WhatIsNotJsonIsEinval) {
  Machine machine;
  for (const char* text : {"", " ", "{", "[1,]", "{'a':1}", "nul", "1 2", "01", "\"\\x\"", "[1", "{\"a\"}",
                           "NaN", "// x", "\xEF\xBB\xBF"})
    EXPECT_EQ(machine.fails("json.get", {text, ""}), Errno::kInvalid) << text;
  EXPECT_EQ(machine.fails("json.get", {kDocument, "a..b"}), Errno::kInvalid);
  EXPECT_EQ(machine.fails("json.get", {std::string((16 << 20) + 1, ' '), ""}), Errno::kTooBig);
}

TEST(Json, DepthIsBounded) {
  Machine machine;
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(machine.text("json.get", {nested(200), ""}), nested(200));
  EXPECT_EQ(machine.fails("json.get", {nested(201), ""}), Errno::kInvalid);
  EXPECT_EQ(machine.fails("json.get", {nested(1'000'000), ""}), Errno::kInvalid);
  EXPECT_EQ(machine.number("json.valid", {nested(201)}), 0);
  EXPECT_EQ(machine.fails("json.set", {nested(200), "[0]", nested(200)}), Errno::kInvalid);
  EXPECT_EQ(machine.fails("json.append", {nested(150), std::string(), nested(200)}), Errno::kInvalid);
  std::string path;
  for (int i = 0; i < 250; ++i) path += i ? ".a" : "a";
  EXPECT_EQ(machine.fails("json.set", {"{}", path, "1"}), Errno::kInvalid)
      << "a deep path makes a deep document";
  EXPECT_EQ(machine.text("json.get", {"[\"" + std::string(500, '[') + "\"]", "[0]"}), std::string(500, '['))
      << "brackets in strings do not count";
}

TEST(Json, TheNumberOfValuesIsBounded) {
  Machine machine;
  std::string many = "[0";
  for (int i = 0; i < 1'000'000; ++i) many += ",0";
  EXPECT_EQ(machine.fails("json.length", {many + "]", ""}), Errno::kTooBig);
  EXPECT_EQ(machine.fails("str.join", {many + "]", ""}), Errno::kTooBig);
  EXPECT_EQ(machine.call("str.split", {many, ","}).end, CallEnd::kOutOfMemory);
}

TEST(Json, Numbers) {
  Machine machine;
  const auto i32 = [&](const char* text) { return machine.number("json.get_i32", {text, ""}); };
  const auto i64 = [&](const char* text) { return machine.number("json.get_i64", {text, ""}); };
  EXPECT_EQ(i32("-2147483648"), INT32_MIN);
  EXPECT_EQ(i32("2147483647"), INT32_MAX);
  EXPECT_EQ(i32("3.0"), 3);
  EXPECT_EQ(i32("1e3"), 1000);
  EXPECT_EQ(i64("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(i64("-9223372036854775808"), INT64_MIN);
  for (const char* bad : {"2147483648", "-2147483649", "0.5", "1e10", "\"7\"", "true", "null", "[]", "1e400"})
    EXPECT_EQ(machine.fails("json.get_i32", {bad, ""}), Errno::kInvalid) << bad;
  for (const char* bad : {"9223372036854775808", "18446744073709551615", "9.3e18", "-9.3e18"})
    EXPECT_EQ(machine.fails("json.get_i64", {bad, ""}), Errno::kInvalid) << bad;
  EXPECT_EQ(machine.real("json.get_f64", {"[0.1]", "[0]"}), 0.1);
  EXPECT_EQ(machine.real("json.get_f64", {"7", ""}), 7);
  EXPECT_EQ(machine.fails("json.get_f64", {"\"7\"", ""}), Errno::kInvalid);
  EXPECT_EQ(machine.fails("json.get_i32", {"{}", "n"}), Errno::kNotFound);
}

TEST(Json, LengthKeysTypeHas) {
  Machine machine;
  EXPECT_EQ(machine.number("json.length", {kDocument, "papers"}), 2);
  EXPECT_EQ(machine.number("json.length", {kDocument, ""}), 3);
  EXPECT_EQ(machine.number("json.length", {"\"é\"", ""}), 2);
  EXPECT_EQ(machine.fails("json.length", {"7", ""}), Errno::kInvalid);
  EXPECT_EQ(machine.text("json.keys", {kDocument, ""}), R"(["a.b","big","papers"])");
  EXPECT_EQ(machine.text("json.keys", {"{}", ""}), "[]");
  EXPECT_EQ(machine.fails("json.keys", {"[]", ""}), Errno::kInvalid);
  const std::pair<const char*, const char*> types[] = {
      {"null", "null"},   {"true", "boolean"}, {"-1.5", "number"}, {"7", "number"},
      {"\"\"", "string"}, {"[]", "array"},     {"{}", "object"}};
  for (const auto& [text, type] : types) EXPECT_EQ(machine.text("json.type", {text, ""}), type);
  EXPECT_EQ(machine.number("json.has", {kDocument, "papers[1].title"}), 1);
  EXPECT_EQ(machine.number("json.has", {kDocument, "papers[1].year"}), 0);
  EXPECT_EQ(machine.fails("json.has", {"{", "a"}), Errno::kInvalid);
}

TEST(Json, AtIsForLoops) {
  Machine machine;
  EXPECT_EQ(machine.text("json.at", {R"({"a":["x",2,{"b":1}]})", "a", 0}), "x");
  EXPECT_EQ(machine.text("json.at", {R"({"a":["x",2,{"b":1}]})", "a", -1}), R"({"b":1})");
  EXPECT_EQ(machine.fails("json.at", {"[1]", "", 1}), Errno::kNotFound);
  EXPECT_EQ(machine.fails("json.at", {"[1]", "", -2}), Errno::kNotFound);
  EXPECT_EQ(machine.fails("json.at", {"[]", "", 0}), Errno::kNotFound);
  EXPECT_EQ(machine.fails("json.at", {"{}", "", 0}), Errno::kInvalid);
}

TEST(Json, QuoteAndValid) {
  Machine machine;
  EXPECT_EQ(machine.text("json.quote", {"a\"b\\\n\x01é"}), "\"a\\\"b\\\\\\n\\u0001é\"");
  EXPECT_EQ(machine.text("json.quote", {""}), "\"\"");
  EXPECT_EQ(machine.text("json.quote", {"\xFF"}), "\"\xEF\xBF\xBD\"");
  EXPECT_EQ(machine.number("json.valid", {"[1]"}), 1);
  EXPECT_EQ(machine.number("json.valid", {"\xFF"}), 0);
}

TEST(Json, SetMakesWhatIsMissing) {
  Machine machine;
  const auto set = [&](const char* text, const char* path, const char* value) {
    return machine.text("json.set", {text, path, value});
  };
  EXPECT_EQ(set("{}", "a", "1"), R"({"a":1})");
  EXPECT_EQ(set("{}", "a.b.c", "[]"), R"({"a":{"b":{"c":[]}}})");
  EXPECT_EQ(set(R"({"a":1})", "a", "null"), R"({"a":null})");
  EXPECT_EQ(set("[1]", "[1]", "2"), "[1,2]");
  EXPECT_EQ(set("[1]", "[0]", "2"), "[2]");
  EXPECT_EQ(set("[1]", "[-1]", "2"), "[2]");
  EXPECT_EQ(set("[]", "[0].x", "1"), R"([{"x":1}])");
  EXPECT_EQ(set("[1]", "", "{}"), "{}");
  EXPECT_EQ(machine.fails("json.set", {"[1]", "[2]", "2"}), Errno::kNotFound);
  EXPECT_EQ(machine.fails("json.set", {"[]", "[-1]", "2"}), Errno::kNotFound);
  EXPECT_EQ(machine.fails("json.set", {R"({"a":1})", "a.b", "2"}), Errno::kNotFound);
  EXPECT_EQ(machine.fails("json.set", {"{}", "[0]", "2"}), Errno::kNotFound);
  EXPECT_EQ(machine.fails("json.set", {"{}", "a", "oops"}), Errno::kInvalid);
  EXPECT_EQ(machine.text("json.set_text", {"{}", "a", "oops\""}), R"({"a":"oops\""})");
}

TEST(Json, MembersKeepTheirOrder) {
  Machine machine;
  EXPECT_EQ(machine.text("json.set", {R"({"b":1,"a":{"d":1,"c":2}})", "a.b", "3"}),
            R"({"b":1,"a":{"d":1,"c":2,"b":3}})");
  EXPECT_EQ(machine.text("json.set", {R"({"b":1,"a":2})", "b", "3"}), R"({"b":3,"a":2})");
  EXPECT_EQ(machine.text("json.set", {R"({"b":1,"a":2,"b":4})", "a", "3"}), R"({"b":4,"a":3})");
  EXPECT_EQ(machine.text("json.append", {R"({"b":[],"a":0})", "b", "{}"}), R"({"b":[{}],"a":0})");
  EXPECT_EQ(machine.text("json.remove", {R"({"c":0,"b":1,"a":0})", "b"}), R"({"c":0,"a":0})");
  EXPECT_EQ(machine.text("json.keys", {R"({"b":1,"a":2})", ""}), R"(["a","b"])");
}

TEST(Json, APathMayBeginWithAnIndex) {
  Machine machine;
  EXPECT_EQ(machine.text("json.get", {R"([{"a":"x"}])", "[0].a"}), "x");
  EXPECT_EQ(machine.text("json.get", {R"([{"a":"x"}])", "0.a"}), "x");
}

TEST(Json, AppendAndRemove) {
  Machine machine;
  EXPECT_EQ(machine.text("json.append", {R"({"a":[]})", "a", "1"}), R"({"a":[1]})");
  EXPECT_EQ(machine.fails("json.append", {"{}", "", "1"}), Errno::kInvalid);
  EXPECT_EQ(machine.fails("json.append", {"{}", "a", "1"}), Errno::kNotFound);
  EXPECT_EQ(machine.text("json.remove", {R"({"a":1,"b":2})", "a"}), R"({"b":2})");
  EXPECT_EQ(machine.text("json.remove", {"[1,2,3]", "[-2]"}), "[1,3]");
  EXPECT_EQ(machine.fails("json.remove", {"[1]", "[1]"}), Errno::kNotFound);
  EXPECT_EQ(machine.fails("json.remove", {"[1]", ""}), Errno::kInvalid);
}

}  // namespace
}  // namespace membrane::host
