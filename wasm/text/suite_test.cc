// The official test suite, as far as the text format goes.
#include <gtest/gtest.h>

#include "wasm/text/parser.h"
#include "wasm/text/script.h"
#include "wasm/text/suite_testing.h"

namespace membrane::wasm {
namespace {

constexpr char kAbsent[] = "the official test suite is not here: set MEMBRANE_TESTSUITE to a checkout of it";

// Calls visit(command, where) for each command of each script.
template <typename Visit>
void for_each_command(Visit visit) {
  for (const auto& path : suite_files()) {
    const std::string text = read_file(path);
    const auto script = parse_script(text);
    ASSERT_TRUE(script.has_value()) << render(script.error(), text, path.filename().string());
    for (const Command& command : *script)
      visit(command, path.filename().string() + ":" + std::to_string(command.line));
  }
}

TEST(Suite, EveryScriptAndEveryTextModuleParses) {
  if (suite_files().empty()) GTEST_SKIP() << kAbsent;
  size_t modules = 0;
  for_each_command([&](const Command& command, const std::string& where) {
    const bool has_module = !command.module.source().empty();
    if (!has_module || command.kind == Command::Kind::kAssertMalformed) return;
    if (command.module.kind == ScriptModule::Kind::kBinary) return;
    const auto module = parse_text(command.module.source());
    EXPECT_TRUE(module.has_value()) << render(module.error()[0], command.module.source(), where);
    ++modules;
  });
  EXPECT_GT(modules, 3000u);
}

TEST(Suite, EveryMalformedTextIsRefused) {
  if (suite_files().empty()) GTEST_SKIP() << kAbsent;
  size_t refused = 0;
  for_each_command([&](const Command& command, const std::string& where) {
    if (command.kind != Command::Kind::kAssertMalformed) return;
    if (command.module.kind == ScriptModule::Kind::kBinary) return;
    const auto module = parse_text(command.module.source());
    EXPECT_FALSE(module.has_value()) << where << ": " << command.message << "\n" << command.module.source();
    ++refused;
  });
  EXPECT_GT(refused, 1000u);
}

}  // namespace
}  // namespace membrane::wasm
