// The official test suite, as far as the text format goes.
#include <gtest/gtest.h>

#include <optional>
#include <span>

#include "wasm/binary.h"
#include "wasm/text/parser.h"
#include "wasm/text/printer.h"
#include "wasm/text/script.h"
#include "wasm/text/suite_testing.h"
#include "wasm/text/superseded.h"

namespace membrane::wasm {
namespace {

constexpr char kAbsent[] = "the official test suite is not here: set MEMBRANE_TESTSUITE to a checkout of it";

// Calls visit(command, where) for each command of each script.
template <typename Visit>
void for_each_command(Visit visit, std::string_view version = "core-2.0") {
  for (const auto& path : suite_files(version)) {
    const std::string text = read_file(path);
    const auto script = parse_script(text);
    ASSERT_TRUE(script.has_value()) << render(script.error(), text, path.filename().string());
    for (const Command& command : *script)
      if (superseded_by(path.filename().string(), command.line, command.message).empty())
        visit(command, path.filename().string() + ":" + std::to_string(command.line));
  }
}

TEST(TextSuite, EveryScriptAndEveryTextModuleParses) {
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

TEST(TextSuite, EveryMalformedTextIsRefused) {
  if (suite_files().empty()) GTEST_SKIP() << kAbsent;
  size_t refused = 0;
  for_each_command([&](const Command& command, const std::string& where) {
    if (command.kind != Command::Kind::kAssertMalformed) return;
    if (command.module.kind == ScriptModule::Kind::kBinary) return;
    const auto module = parse_text(command.module.source());
    const std::string file = where.substr(0, where.find(':'));
    if (!superseded_by(file, command.line, command.message).empty())
      return;  // well-formed by the rules of 3.0
    EXPECT_FALSE(module.has_value()) << where << ": " << command.message << "\n" << command.module.source();
    ++refused;
  });
  EXPECT_GT(refused, 1000u);
}

std::span<const uint8_t> as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::optional<Module> read_module(const ScriptModule& m) {
  if (m.kind == ScriptModule::Kind::kBinary) {
    auto module = decode(as_bytes(m.source()));
    return module ? std::optional(std::move(*module)) : std::nullopt;
  }
  auto module = parse_text(m.source());
  return module ? std::optional(std::move(*module)) : std::nullopt;
}

// The module that the text says, as a binary; empty (and a failure) when it does not parse.
std::vector<uint8_t> assemble(std::string_view text, const std::string& where) {
  const auto module = parse_text(text);
  if (module) return encode(*module);
  ADD_FAILURE() << render(module.error()[0], text, where);
  return {};
}

// Counts the modules. `whole` says that every valid one can be read.
size_t round_trip(std::string_view version, bool whole) {
  size_t modules = 0;
  for_each_command(
      [&](const Command& command, const std::string& where) {
        const ScriptModule& m = command.module;
        if (m.source().empty() || command.kind == Command::Kind::kAssertMalformed) return;
        const bool is_binary = m.kind == ScriptModule::Kind::kBinary;
        auto given = read_module(m);
        if (!given) {  // a binary whose names or sections are wrong, to be refused by the decoder
          if (whole) {
            EXPECT_EQ(command.kind, Command::Kind::kAssertInvalid) << where;
          }
          return;
        }
        given->customs.clear();  // which text has no form for
        const std::string text = print_text(*given);
        const auto binary = assemble(text, where);
        const bool can_be_said = !is_binary || command.kind != Command::Kind::kAssertInvalid;
        if (can_be_said) {
          EXPECT_EQ(binary, encode(*given)) << where << "\n" << text;
        }
        const auto decoded = decode(binary);
        ASSERT_TRUE(decoded.has_value()) << where << "\n" << text;
        EXPECT_EQ(print_text(*decoded), text) << where;
        EXPECT_EQ(assemble(print_text(*decoded), where), binary) << where;
        ++modules;
      },
      version);
  return modules;
}

TEST(TextSuite, EveryModuleRoundTripsThroughTextAndBinary) {
  if (suite_files().empty()) GTEST_SKIP() << kAbsent;
  EXPECT_GT(round_trip("core-2.0", true), 3000u);
}

// Those modules of the 3.0 suite that can be read: some binaries are malformed.
TEST(TextSuite, EveryModuleOfTheProposalsRoundTrips) {
  if (suite_files("core-3.0").empty()) GTEST_SKIP() << kAbsent;
  EXPECT_GT(round_trip("core-3.0", true), 4500u);
}

}  // namespace
}  // namespace membrane::wasm
