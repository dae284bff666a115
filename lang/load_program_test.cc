#include "lang/load_program.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "host/calls/link.h"
#include "host/calls/registry.h"
#include "lang/program_language.h"
#include "wasm/binary.h"
#include "wasm/validate.h"

namespace membrane::lang {
namespace {

// "" if it loads, validates and links; otherwise what is wrong.
std::string check(std::string_view source, std::string_view name) {
  auto loaded = load_program(source, SourceFormat::kAuto, name);
  if (!loaded) return render(loaded.error().front(), source, name);
  if (auto checked = wasm::validate(loaded->module, loaded->text()); !checked)
    return render(loaded->to_author(checked.error()), source, name);
  if (auto linkage = host::link_imports(loaded->module); !linkage)
    return render(linkage.error().front(), source, name);
  return "fine";
}

TEST(Language, IsFoundByTheMagicNumber) {
  EXPECT_EQ(detect(std::string_view("\0asm\1\0\0\0", 8)), SourceFormat::kWasm);
  EXPECT_EQ(detect("(module)"), SourceFormat::kWat);
  EXPECT_EQ(detect(""), SourceFormat::kWat);
}

TEST(Language, LoadsABinary) {
  const auto text = load_program("(func (export \"main\") (result i32) 42)");
  ASSERT_TRUE(text);
  const auto bytes = wasm::encode(text->module);
  const auto binary = load_program({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  ASSERT_TRUE(binary);
  EXPECT_EQ(binary->format, SourceFormat::kWasm);
  EXPECT_TRUE(binary->text().empty());
  EXPECT_EQ(binary->module.exports.size(), 1u);
}

TEST(Language, LeadsFromTheExpandedTextToTheAuthors) {
  constexpr std::string_view kSource = "(func $main\n  (call $io.print (string \"a\"))\n  (unreachable))";
  const auto loaded = load_program(kSource);
  ASSERT_TRUE(loaded);
  const size_t at = loaded->text().find("unreachable");
  ASSERT_NE(at, std::string_view::npos);
  const Place place = loaded->author_place(static_cast<uint32_t>(at));
  EXPECT_EQ(place.line, 3u);
  EXPECT_EQ(place.column, 4u);
}

TEST(Language, TakesTheNameForAHint) {
  const auto loaded = load_program("x = 1", SourceFormat::kAuto, "job.py");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().front().code, DiagnosticCode::kUnsupportedLanguage);
  EXPECT_EQ(loaded.error().front().found, "Python");
}

TEST(Language, AByteOrderMarkChangesNothing) {
  const std::string mark = "\xEF\xBB\xBF";
  EXPECT_TRUE(load_program(mark + "(func (export \"f\"))"));
  EXPECT_EQ(load_program(mark + "x = 1", SourceFormat::kAuto, "job.py").error().front().found, "Python");
  EXPECT_EQ(language_of("", mark + "(module)"), "wat");
  EXPECT_EQ(guessed_language(mark + "#!/usr/bin/env python3\nx = 1"), "python");
}

TEST(Language, ReportsBytesThatAreNotAProgram) {
  for (const auto& [source, found] : std::initializer_list<std::pair<std::string_view, std::string_view>>{
           {std::string_view("\x7F"
                             "ELF\2\1\1\0",
                             8),
            "an ELF program"},
           {std::string_view("\0as", 3), "a file of bytes"},
           {std::string_view("word\0word", 9), "a file of bytes"},
           {"%PDF-1.7", "a PDF document"},
           {"", "an empty file"},
           {" \n\t\n", "nothing but white space"}}) {
    const auto loaded = load_program(source);
    ASSERT_FALSE(loaded) << found;
    EXPECT_EQ(loaded.error().front().code, DiagnosticCode::kUnsupportedLanguage) << found;
    EXPECT_EQ(loaded.error().front().found, found);
    EXPECT_FALSE(hint_of(loaded.error().front()).empty());
  }
  EXPECT_TRUE(load_program(";; nothing but a comment"));
}

TEST(Language, LeavesWhatItDoesNotKnowToTheParser) {
  const auto loaded = load_program("hello");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().front().code, DiagnosticCode::kUnexpectedToken);
}

// The registry's examples are programs.
TEST(HostFunctions, HaveExamplesThatCompile) {
  for (const host::Capability& capability : host::capabilities()) {
    for (const host::FunctionSpec& f : capability.functions) {
      const std::string source = "(func (export \"main\")\n" + std::string(f.example) + ")";
      EXPECT_EQ(check(source, "example.wat"), "fine") << f.module << "." << f.name;
    }
  }
}

TEST(HostFunctions, AreThoseOfTheRegistry) {
  const HostSignature* get = host_functions().find("http.get");
  ASSERT_NE(get, nullptr);
  EXPECT_TRUE(get->has_errno);
  EXPECT_EQ(get->string_params, 1u);
  EXPECT_EQ(get->type, wasm::FuncType({wasm::ValType::kI32}, {wasm::ValType::kI32, wasm::ValType::kI32}));
  EXPECT_EQ(host_functions().find("http.gett"), nullptr);
}

TEST(Catalog, HasProgramsThatCompile) {
  size_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(MEMBRANE_SOURCE_DIR) + "/catalog")) {
    if (entry.path().extension() != ".wat") continue;
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    EXPECT_EQ(check(text.str(), entry.path().filename().string()), "fine");
    ++count;
  }
  EXPECT_GE(count, 14u);
}

}  // namespace
}  // namespace membrane::lang
