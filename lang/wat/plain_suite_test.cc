// Plain WAT passes through the preprocessor unchanged: every valid module of the official suite is unchanged, and no
// text that parses as a module becomes something else.
#include <gtest/gtest.h>

#include <string>

#include "lang/wat/host_testing.h"
#include "lang/wat/preprocessor.h"
#include "wasm/text/parser.h"
#include "wasm/text/script.h"
#include "wasm/text/suite_testing.h"
#include "wasm/validate.h"

namespace membrane::lang {
namespace {

using wasm::Command;

bool is_valid(std::string_view text) {
  const auto module = wasm::parse_text(text);
  return module && wasm::validate(*module, text);
}

// An entry without an export gets one; nothing else may be added to a plain module.
bool adds_only_the_entry(const Expansion& expansion, std::string_view source) {
  const size_t at = expansion.text.find("\n  (export \"main\" (func $main))");
  if (at == std::string::npos) return false;
  std::string rest = expansion.text;
  rest.erase(at, std::string_view("\n  (export \"main\" (func $main))").size());
  return rest == source;
}

TEST(PlainSuite, PassesThroughUnchanged) {
  const auto files = wasm::suite_files();
  if (files.empty()) GTEST_SKIP() << "the official test suite is not here";
  size_t modules = 0;
  for (const auto& file : files) {
    const std::string text = wasm::read_file(file);
    const auto script = wasm::parse_script(text);
    ASSERT_TRUE(script) << file;
    for (const Command& command : *script) {
      if (command.module.kind == wasm::ScriptModule::Kind::kBinary) continue;
      const std::string_view source = command.module.source();
      if (source.empty() || !is_valid(source)) continue;
      ++modules;
      const auto expansion = expand(source, test_host());
      ASSERT_TRUE(expansion) << file << ":" << command.line << "\n"
                             << render(expansion.error()[0], source, "module");
      EXPECT_TRUE(!expansion->changed || adds_only_the_entry(*expansion, source))
          << file << ":" << command.line << "\n"
          << expansion->text;
    }
  }
  EXPECT_GT(modules, 1000u);
}

}  // namespace
}  // namespace membrane::lang
