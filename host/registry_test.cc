#include "host/registry.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>

namespace membrane::host {
namespace {

TEST(Registry, HasTheFifteenCapabilities) {
  std::vector<std::string_view> names;
  for (const Capability& capability : capabilities()) names.push_back(capability.name);
  EXPECT_EQ(names,
            (std::vector<std::string_view>{"io", "http", "kv", "fs", "ai", "sql", "json", "str", "list",
                                           "map", "builder", "time", "random", "log", "agent"}));
}

TEST(Registry, EveryFunctionIsDescribedWhole) {
  std::set<std::string> seen;
  for (const Capability& capability : capabilities()) {
    for (const FunctionSpec& function : capability.functions) {
      const std::string name = std::string(function.module) + "." + std::string(function.name);
      EXPECT_EQ(function.module, capability.name) << name;
      EXPECT_TRUE(seen.insert(name).second) << name;
      EXPECT_TRUE(function.handler != nullptr) << name;
      EXPECT_GT(function.cost.base, 0u) << name << ": no call is free";
      EXPECT_TRUE(function.summary.ends_with('.')) << name;
      EXPECT_EQ(function.summary.find('\n'), std::string_view::npos) << name;
      EXPECT_EQ(function.result.has_value(), !function.result_name.empty()) << name;
      EXPECT_NE(function.example.find("$" + name), std::string_view::npos)
          << name << ": its example shows something else";
      std::set<Errno> codes;
      for (const Failure& failure : function.failures) {
        EXPECT_TRUE(function.can_fail) << name;
        EXPECT_TRUE(codes.insert(failure.code).second)
            << name << " says twice when " << host::name_of(failure.code);
        EXPECT_FALSE(failure.when.ends_with('.')) << name;
      }
      EXPECT_TRUE(function.can_fail || function.effect != Effect::kWorld)
          << name << ": the world can always fail";
      EXPECT_EQ(find_function(function.module, function.name), &function);
    }
  }
  EXPECT_GT(seen.size(), 80u);
}

TEST(Registry, ExamplesPutTheMarkForErrnoWhereThereIsOne) {
  for (const Capability& capability : capabilities()) {
    for (const FunctionSpec& function : capability.functions) {
      std::string_view text = function.example;
      for (size_t at = text.find("(call $"); at != std::string_view::npos;
           at = text.find("(call $", at + 1)) {
        const size_t start = at + 7;
        const size_t end = text.find_first_of(" )", start);
        std::string_view name = text.substr(start, end - start);
        const bool checked = name.ends_with('!');
        if (checked) name.remove_suffix(1);
        const size_t dot = name.find('.');
        const FunctionSpec* called = find_function(name.substr(0, dot), name.substr(dot + 1));
        ASSERT_NE(called, nullptr) << name << " in the example of " << function.name;
        EXPECT_TRUE(called->can_fail || !checked) << name << " in the example of " << function.name;
      }
    }
  }
}

TEST(Registry, UnknownNamesAreNull) {
  EXPECT_EQ(find_function("http", "gett"), nullptr);
  EXPECT_EQ(find_function("", ""), nullptr);
  EXPECT_EQ(find_function("env", "print"), nullptr);
  EXPECT_EQ(find_capability("wasi"), nullptr);
}

TEST(Registry, SignaturesFollowTheConvention) {
  EXPECT_EQ(import_of(*find_function("http", "get")),
            R"((import "http" "get" (func $http.get (param i32) (result i32 i32))))");
  EXPECT_EQ(import_of(*find_function("kv", "set")),
            R"((import "kv" "set" (func $kv.set (param i32 i32) (result i32))))");
  EXPECT_EQ(import_of(*find_function("io", "print")),
            R"((import "io" "print" (func $io.print (param i32))))");
  EXPECT_EQ(import_of(*find_function("json", "get_f64")),
            R"((import "json" "get_f64" (func $json.get_f64 (param i32 i32) (result f64 i32))))");
  EXPECT_EQ(signature_of(*find_function("kv", "set")), "kv.set(key, value) -> errno");
  EXPECT_EQ(signature_of(*find_function("str", "find")), "str.find(text, needle, from: i32) -> index: i32");
  EXPECT_EQ(signature_of(*find_function("time", "now_ms")), "time.now_ms() -> ms: i64, errno");
  EXPECT_EQ(signature_of(*find_function("io", "newline")), "io.newline()");
}

// The page must match the registry exactly. To update it:
//   membrane capabilities --markdown > docs/capabilities.md
TEST(Registry, ThePageIsInStep) {
  std::ifstream file(MEMBRANE_SOURCE_DIR "/docs/capabilities.md", std::ios::binary);
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(page == capabilities_markdown()) << "docs/capabilities.md is not what the registry says";
}

TEST(Registry, ThePromptAndTheJsonNameEveryFunction) {
  const std::string prompt = capabilities_prompt();
  const std::string json = capabilities_json();
  for (const Capability& capability : capabilities()) {
    for (const FunctionSpec& function : capability.functions) {
      EXPECT_EQ(prompt.contains(signature_of(function)), function.in_prompt) << function.name;
      EXPECT_NE(
          json.find("\"name\": \"" + std::string(function.module) + "." + std::string(function.name) + "\""),
          std::string::npos);
    }
  }
  EXPECT_LT(prompt.size(), 18'000u) << "it is read by models";
}

}  // namespace
}  // namespace membrane::host
