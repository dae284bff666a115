#include "host/calls/link.h"

#include <gtest/gtest.h>

namespace membrane::host {
namespace {

using wasm::ValType;

wasm::Module module_with(std::string module, std::string name, wasm::FuncType type) {
  wasm::Module result;
  result.types.push_back(std::move(type));
  result.imports.push_back({std::move(module), std::move(name), wasm::ExternKind::kFunc, 0});
  wasm::Function function;
  function.import = 0;
  result.functions.own().push_back(function);
  return result;
}

const wasm::FuncType kGet{{ValType::kI32}, {ValType::kI32, ValType::kI32}};

TEST(Link, FindsTheHostFunctions) {
  const auto linkage = link_imports(module_with("http", "get", kGet));
  ASSERT_TRUE(linkage);
  ASSERT_EQ(linkage->size(), 1u);
  EXPECT_EQ((*linkage)[0], find_function("http", "get"));
  EXPECT_TRUE(link_imports(wasm::Module{})->empty());
}

TEST(Link, AMisspelledNameGetsASuggestion) {
  const auto linkage = link_imports(module_with("http", "gett", kGet));
  ASSERT_FALSE(linkage);
  ASSERT_EQ(linkage.error().size(), 1u);
  EXPECT_EQ(linkage.error()[0].code, DiagnosticCode::kUnknownImport);
  EXPECT_EQ(linkage.error()[0].expected, "http.get");
  EXPECT_NE(hint_of(linkage.error()[0]).find("(import \"http\" \"get\""), std::string_view::npos);
}

TEST(Link, ANameThatOtherLibrariesHaveSuggestsWhatDoesTheSame) {
  for (const auto& [module, name, meant] : {std::tuple{"kv", "put", "kv.set"},
                                            {"kv", "remove", "kv.delete"},
                                            {"kv", "list", "kv.keys"},
                                            {"sql", "execute", "sql.query"},
                                            {"io", "puts", "io.print"},
                                            {"kv", "gett", "kv.get"}}) {
    const auto linkage = link_imports(module_with(module, name, {}));
    ASSERT_FALSE(linkage);
    EXPECT_EQ(linkage.error()[0].expected, meant) << name;
    EXPECT_TRUE(hint_of(linkage.error()[0]).starts_with("did you mean " + std::string(meant) + "?"));
  }
}

TEST(Link, ANameInAnotherModuleIsFoundThere) {
  const auto linkage = link_imports(module_with("environment", "print_i32", {}));
  ASSERT_FALSE(linkage);
  EXPECT_EQ(linkage.error()[0].expected, "io.print_i32");
}

TEST(Link, AnUnknownNameInAKnownModuleGetsTheList) {
  const auto linkage = link_imports(module_with("kv", "frobnicate_everything", {}));
  ASSERT_FALSE(linkage);
  EXPECT_EQ(linkage.error()[0].hint, "kv has: get, set, delete, exists, keys");
}

TEST(Link, AWrongSignatureIsReportedWithTheRightOne) {
  const auto linkage =
      link_imports(module_with("http", "get", {{ValType::kI32, ValType::kI32}, {ValType::kI32}}));
  ASSERT_FALSE(linkage);
  EXPECT_EQ(linkage.error()[0].code, DiagnosticCode::kImportTypeMismatch);
  EXPECT_EQ(linkage.error()[0].found, "(func (param i32 i32) (result i32))");
  EXPECT_EQ(linkage.error()[0].expected, "(func (param i32) (result i32 i32))");
}

TEST(Link, AModuleThatWasMadeForSomethingElseIsExplainedOnce) {
  wasm::Module module = module_with("gojs", "runtime.wasmExit", {});
  for (const char* const name : {"runtime.wasmWrite", "runtime.nanotime1"})
    module.imports.push_back({"gojs", name, wasm::ExternKind::kFunc, 0});
  const auto linkage = link_imports(module);
  ASSERT_FALSE(linkage);
  ASSERT_EQ(linkage.error().size(), 1u);
  EXPECT_EQ(linkage.error()[0].message,
            "nothing provides the import \"gojs\" \"runtime.wasmExit\", or 2 other imports");
  EXPECT_EQ(linkage.error()[0].found, "");
  EXPECT_NE(linkage.error()[0].hint.find("GOOS=wasip1"), std::string::npos);
}

TEST(Link, OnlyFunctionsAreProvided) {
  wasm::Module module;
  module.imports.push_back({"env", "memory", wasm::ExternKind::kMemory, 0});
  const auto linkage = link_imports(module);
  ASSERT_FALSE(linkage);
  EXPECT_NE(linkage.error()[0].message.find("memory"), std::string::npos);
}

}  // namespace
}  // namespace membrane::host
