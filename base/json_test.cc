#include "base/json.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>

#include "base/json_grammar.h"
#include "base/sanitized_testing.h"

namespace {

// Heap bytes held by the thread, and their peak since most_allocated_by() began.
thread_local int64_t held_bytes = 0;
thread_local int64_t most_held_bytes = 0;

}  // namespace

#if !MEMBRANE_IS_SANITIZED
void* operator new(size_t bytes) {
  void* const memory = malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  held_bytes += static_cast<int64_t>(malloc_usable_size(memory));
  most_held_bytes = std::max(most_held_bytes, held_bytes);
  return memory;
}
void operator delete(void* memory) noexcept {
  held_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
  free(memory);
}
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }
#endif

namespace membrane {
namespace {

uint64_t most_allocated_by(const std::function<void()>& work) {
  const int64_t before = most_held_bytes = held_bytes;
  work();
  return static_cast<uint64_t>(most_held_bytes - before);
}

using nlohmann::json;
using nlohmann::ordered_json;

std::string repeated(std::string_view text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

std::string arrays(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }
std::string objects(size_t depth) { return repeated("{\"a\":", depth) + "1" + std::string(depth, '}'); }

ErrorCode error_of(std::string_view text, const JsonLimits& limits = {}) {
  const auto read = read_json(text, "the text", limits);
  EXPECT_FALSE(read) << text.substr(0, 80);
  return read ? ErrorCode::kInternal : read.error().code;
}

TEST(Json, ReadsWhatIsJson) {
  EXPECT_EQ(read_json(R"({"a":[1,-2,2.5,"é",true,null]})").value(),
            (json{{"a", {1, -2, 2.5, "é", true, nullptr}}}));
  EXPECT_EQ(read_json(" 7 ").value(), 7);
  EXPECT_EQ(read_ordered_json(R"({"b":1,"a":2})").value().dump(), R"({"b":1,"a":2})");
  EXPECT_EQ(read_json(R"({"a":1,"a":2})").value(), (json{{"a", 2}}));
}

TEST(Json, RefusesWhatIsNoneAndNamesIt) {
  for (const char* text :
       {"", " ", "{", "[1,]", "{\"a\"}", "nul", "1 2", "'a'", "\"\xff\"", "[1}", "\"a", "// x\n1"})
    EXPECT_EQ(error_of(text), ErrorCode::kInvalidInput) << text;
  EXPECT_EQ(json_bytes(R"({"a": x})"), 6u);
  EXPECT_EQ(json_bytes(R"({"a")"), 4u);
  EXPECT_EQ(json_bytes("{}"), 2u);
  EXPECT_EQ(json_bytes("\xff"), 0u);
  EXPECT_EQ(read_json("{", "the headers").error().message, "the headers is not JSON");
}

TEST(Json, MeasuresWhatIsInAText) {
  const JsonSize size = measure_json(R"({"a":["b\"[",{}, -12.5e3 ],"cd":true})");
  EXPECT_EQ(size.depth, 3u);
  EXPECT_EQ(size.values, 6u);  // the object, the array, "b\"[", {}, -12.5e3, true
  EXPECT_EQ(size.members, 2u);
  EXPECT_EQ(size.containers, 3u);
  EXPECT_EQ(size.strings, 3u);
  EXPECT_EQ(size.string_bytes, 3u + 6u + 4u);
  EXPECT_EQ(size.longest_bytes, 7u);
}

TEST(Json, EachLimitHoldsToTheUnit) {
  EXPECT_TRUE(read_json("[1,2,3]", "", {.bytes = 7}));
  EXPECT_EQ(error_of("[1,2,3]", {.bytes = 6}), ErrorCode::kTooLong);
  EXPECT_TRUE(read_json("[[1]]", "", {.depth = 2}));
  EXPECT_EQ(error_of("[[1]]", {.depth = 1}), ErrorCode::kInvalidInput);
  EXPECT_TRUE(read_json(R"({"a":1,"b":[2]})", "", {.values = 6}));
  EXPECT_EQ(error_of(R"({"a":1,"b":[2]})", {.values = 5}), ErrorCode::kTooLong);
  const uint64_t needed = measure_json("[\"abc\",1]").memory_bytes();
  EXPECT_TRUE(read_json("[\"abc\",1]", "", {.memory_bytes = needed}));
  EXPECT_EQ(error_of("[\"abc\",1]", {.memory_bytes = needed - 1}), ErrorCode::kTooLong);
  EXPECT_TRUE(read_json(arrays(kMaxJsonDepth)));
  EXPECT_EQ(error_of(arrays(kMaxJsonDepth + 1)), ErrorCode::kInvalidInput);
  EXPECT_TRUE(read_json(objects(kMaxJsonDepth)));
  EXPECT_EQ(error_of(objects(kMaxJsonDepth + 1)), ErrorCode::kInvalidInput);
}

// For a text with an error further on, the parser allocates no more than was measured.
TEST(Json, WhatIsMalformedIsBoundedToo) {
  for (const std::string& text :
       {std::string(1'000'000, '['), repeated("{\"a\":", 500'000), repeated("[]", 1'000'000) + "[",
        "[" + repeated("1,", 2'000'000), "[" + repeated("\"a\":", 1'000'000), std::string(2'000'000, ':'),
        "[" + repeated("\"\",", 500'000) + std::string(500'000, ':')})
    EXPECT_FALSE(read_json(text)) << text.substr(0, 20);
}

TEST(Json, AVisitorSeesTheValuesWithinTheLimits) {
  struct Count : json::json_sax_t {
    int values = 0;
    bool has_failed = false;
    bool add() { return ++values < 4; }
    bool null() override { return add(); }
    bool boolean(bool) override { return add(); }
    bool number_integer(number_integer_t) override { return add(); }
    bool number_unsigned(number_unsigned_t) override { return add(); }
    bool number_float(number_float_t, const string_t&) override { return add(); }
    bool string(string_t&) override { return add(); }
    bool binary(binary_t&) override { return add(); }
    bool start_object(size_t) override { return true; }
    bool key(string_t&) override { return true; }
    bool end_object() override { return true; }
    bool start_array(size_t) override { return true; }
    bool end_array() override { return true; }
    bool parse_error(size_t, const std::string&, const json::exception&) override {
      has_failed = true;
      return false;
    }
  };
  Count count;
  EXPECT_EQ(visit_json("[1,{\"a\":2},null]", count), true);
  EXPECT_EQ(count.values, 3);
  Count stopped;
  EXPECT_EQ(visit_json("[1,2,3,4,5]", stopped), false);
  EXPECT_FALSE(stopped.has_failed);
  Count malformed;
  EXPECT_EQ(visit_json("[1,2", malformed), false);
  EXPECT_TRUE(malformed.has_failed);
  Count none;
  EXPECT_FALSE(visit_json(arrays(kMaxJsonDepth + 1), none));
  EXPECT_EQ(none.values, 0);
}

TEST(Json, TheLengthOfATextIsKnownBefore) {
  for (const char* text : {"", "abc", "\"\\/\b\f\n\r\t\x01\x1f\x7f"})
    EXPECT_LE(json_text(json(text)).size(), json_text_bytes(text));
  EXPECT_EQ(json_text_bytes("a\"\x01"), 2u + 1 + 2 + 6);
  EXPECT_GE(json_text_bytes("\xff"), json_text(json("\xff")).size());
}

TEST(Json, TextHasNoBytesThatAreNotUtf8) {
  EXPECT_EQ(json_text(json("a\xff")), "\"a\xEF\xBF\xBD\"");
  EXPECT_EQ(json_text(ordered_json{{"b", 1}, {"a", 2}}), R"({"b":1,"a":2})");
}

// -- cost for the host -------------------------------------------------------------------------

// The peak stack use of `work`, on a thread with a stack of 256 KiB.
size_t stack_used_by(const std::function<void()>& work) {
  constexpr size_t kStackBytes = 256 << 10;
  constexpr uint8_t kMark = 0xA5;
  void* memory = nullptr;
  EXPECT_EQ(posix_memalign(&memory, 64 << 10, kStackBytes), 0);
  auto* const stack = static_cast<uint8_t*>(memory);
  std::fill(stack, stack + kStackBytes, kMark);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  EXPECT_EQ(pthread_attr_setstack(&attributes, stack, kStackBytes), 0);
  pthread_t thread{};
  const auto run = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  EXPECT_EQ(pthread_create(&thread, &attributes, run, const_cast<std::function<void()>*>(&work)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  const uint8_t* const touched =
      std::find_if(stack, stack + kStackBytes, [](uint8_t b) { return b != kMark; });
  const auto used = static_cast<size_t>(stack + kStackBytes - touched);
  free(memory);
  return used;
}

// Every recursive operation of the library, at the limit. Half of the stack is left for the caller.
template <typename Json>
void use_deep_values(const std::string& text, const std::string& other) {
  const auto read = [](const std::string& from) {
    if constexpr (std::is_same_v<Json, json>) return read_json(from);
    else return read_ordered_json(from);
  };
  Json value = *read(text);
  Json copy = value;
  EXPECT_TRUE(copy == value);
  EXPECT_FALSE(copy < value);
  EXPECT_EQ(read(json_text(copy)), value);
  Json in_another = *read(other);
  EXPECT_EQ(in_another == value, text == other);
  copy = in_another;
  value = std::move(copy);
}

TEST(Json, TheDeepestValueFitsIntoASmallStackForAllThatIsDoneWithIt) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer's frames are several times as large";
  const auto mixed = [](size_t depth) {
    return repeated("[{\"a\":", depth / 2) + "1" + repeated("}]", depth / 2);
  };
  for (const auto& text : {arrays(kMaxJsonDepth), objects(kMaxJsonDepth), mixed(kMaxJsonDepth)}) {
    EXPECT_LE(stack_used_by([&] { use_deep_values<json>(text, arrays(kMaxJsonDepth)); }), 128u << 10);
    EXPECT_LE(stack_used_by([&] { use_deep_values<ordered_json>(text, objects(kMaxJsonDepth)); }),
              128u << 10);
  }
}

// The measurement is an upper bound for the parser's peak memory. (Sanitizers have their own allocators.)
TEST(Json, ParsingTakesNoMoreMemoryThanWasMeasured) {
  if (kIsSanitized) GTEST_SKIP() << "allocations are not counted";
  const size_t count = 20'000;
  std::string members = "[{";
  for (size_t i = 0; i < count; ++i)
    members += "\"" + std::to_string(i) + "\":0" + (i % 1'000 == 999 ? "},{" : ",");
  const std::string texts[] = {
      "[" + repeated("0,", count) + "0]",
      "[" + repeated("[],", count) + "0]",
      "[" + repeated("[0],", count) + "0]",
      "[" + repeated("{},", count) + "0]",
      "[" + repeated("{\"\":0},", count) + "0]",
      "[" + repeated("\"\",", count) + "0]",
      "[" + repeated("\"sixteen bytes, a\",", count) + "0]",
      "[" + repeated("\"\\u0001\",", count) + "0]",
      "\"" + std::string((1 << 20) + 1, 'x') + "\"",
      "[" + std::string((1 << 20) + 1, '1') + "]",
      "[1e999," + std::string(1'000, '1') + "]",
      members + "\"a\":0}]",
      "[\"\" \"" + std::string((1 << 20) + 1, 'x') + "\"]",  // an error quotes what was not expected
      "\"" + std::string((1 << 20) + 1, 'x'),
      "\"" + std::string((1 << 20) + 1, 'x') + "\xff\"",
      arrays(kMaxJsonDepth),
      objects(kMaxJsonDepth),
      "0",
  };
  for (const std::string& text : texts) {
    const uint64_t measured = measure_json(text).memory_bytes() + 1'000;  // the parser itself
    EXPECT_LE(most_allocated_by([&] { (void)read_json(text); }), measured) << text.substr(0, 40);
    EXPECT_LE(most_allocated_by([&] { (void)read_ordered_json(text); }), measured) << text.substr(0, 40);
  }
}

TEST(Json, KeepsTheOrderOfMembers) {
  const auto text_of = [](std::string_view text) { return json_text(read_ordered_json(text).value()); };
  EXPECT_EQ(text_of(R"({"b":[{"z":1,"a":2}],"a":{},"":null})"), R"({"b":[{"z":1,"a":2}],"a":{},"":null})");
  EXPECT_EQ(text_of(R"({"b":1,"a":2,"b":{"c":3},"a":4,"b":5})"), R"({"b":5,"a":4})");
  EXPECT_EQ(text_of(R"([18446744073709551615,-1,0.5,"x",true])"),
            R"([18446744073709551615,-1,0.5,"x",true])");
  EXPECT_FALSE(read_ordered_json("[1e400]"));
}

// Quadratic work would take minutes.
TEST(Json, TheOrderOfManyMembersIsKeptInLinearTime) {
  std::string text = "{";
  for (size_t i = 0; i < 400'000; ++i) text += "\"" + std::to_string(i % 300'000) + "\":0,";
  EXPECT_EQ(read_ordered_json(text + "\"a\":0}").value().size(), 300'001u);
}

}  // namespace
}  // namespace membrane
