// The official test suite, as far as binaries and validation go: every module that the suite calls
// valid is accepted, every other one refused, and for the right reason: malformed or invalid.
#include <gtest/gtest.h>

#include <span>
#include <string>

#include "wasm/binary.h"
#include "wasm/text/parser.h"
#include "wasm/text/script.h"
#include "wasm/text/suite_testing.h"
#include "wasm/text/superseded.h"
#include "wasm/validate.h"

namespace membrane::wasm {
namespace {

constexpr char kAbsent[] = "the official test suite is not here: set MEMBRANE_TESTSUITE to a checkout of it";

enum class Verdict { kValid, kInvalid, kMalformed };
std::ostream& operator<<(std::ostream& out, Verdict v) {
  return out << (v == Verdict::kValid ? "valid" : v == Verdict::kInvalid ? "invalid" : "malformed");
}

struct Judged {
  Verdict verdict = Verdict::kValid;
  std::string why;
};

Judged judge(std::expected<Module, Diagnostic> module, std::string_view text, const std::string& where) {
  const auto refused = [&](const Diagnostic& d) {
    return Judged{is_malformed(d.code) ? Verdict::kMalformed : Verdict::kInvalid, render(d, text, where)};
  };
  if (!module) return refused(module.error());
  const auto info = validate(*module, text);
  if (info) return {};
  return refused(info.error());
}

Judged judge_binary(std::span<const uint8_t> bytes, const std::string& where) {
  return judge(decode(bytes), "", where);
}

Judged judge_text(std::string_view text, const std::string& where) {
  auto module = parse_text(text);
  if (!module) return {Verdict::kMalformed, render(module.error()[0], text, where)};
  return judge(*std::move(module), text, where);
}

Verdict wanted(Command::Kind kind) {
  switch (kind) {
    case Command::Kind::kAssertInvalid: return Verdict::kInvalid;
    case Command::Kind::kAssertMalformed: return Verdict::kMalformed;
    default: return Verdict::kValid;
  }
}

TEST(ValidateSuite, EveryModuleIsJudgedAsTheSuiteJudgesIt) {
  const auto files = suite_files();
  if (files.empty()) GTEST_SKIP() << kAbsent;
  size_t judged = 0;
  for (const auto& path : files) {
    const std::string script_text = read_file(path);
    const auto script = parse_script(script_text);
    ASSERT_TRUE(script.has_value()) << path;
    for (const Command& command : *script) {
      const ScriptModule& m = command.module;
      const bool is_binary = m.kind == ScriptModule::Kind::kBinary;
      if (m.source().empty() && !is_binary) continue;
      const std::string where = path.filename().string() + ":" + std::to_string(command.line);
      const std::span bytes(reinterpret_cast<const uint8_t*>(m.source().data()), m.source().size());
      const bool has_module =
          command.kind != Command::Kind::kRegister && command.kind != Command::Kind::kAction &&
          command.kind != Command::Kind::kAssertReturn && command.kind != Command::Kind::kAssertTrap &&
          command.kind != Command::Kind::kAssertExhaustion &&
          command.kind != Command::Kind::kAssertException && command.kind != Command::Kind::kModuleInstance;
      if (!has_module) continue;
      const Judged result = is_binary ? judge_binary(bytes, where) : judge_text(m.source(), where);
      const bool is_superseded =
          !superseded_by(path.filename().string(), command.line, command.message).empty();
      if (is_superseded) {
        EXPECT_NE(result.verdict, wanted(command.kind)) << where << ": is not superseded";
        ++judged;
        continue;
      }
      EXPECT_EQ(result.verdict, wanted(command.kind)) << where << ": " << command.message << "\n"
                                                      << result.why;
      ++judged;
    }
  }
  if (files.size() == 146) {  // the pinned commit; another checkout may have other files
    EXPECT_EQ(judged, 5669u);
  }
}

// The same modules, valid and invalid, mean the same when they come through the binary format.
TEST(ValidateSuite, BinariesAreJudgedLikeTheirTexts) {
  const auto files = suite_files();
  if (files.empty()) GTEST_SKIP() << kAbsent;
  for (const auto& path : files) {
    const std::string script_text = read_file(path);
    const auto script = parse_script(script_text);
    ASSERT_TRUE(script.has_value()) << path;
    for (const Command& command : *script) {
      if (command.module.source().empty() || command.module.kind == ScriptModule::Kind::kBinary) continue;
      const auto module = parse_text(command.module.source());
      if (!module) continue;
      const std::string where = path.filename().string() + ":" + std::to_string(command.line);
      const auto canonical = encode(*module);
      const Judged as_binary = judge_binary(canonical, where);
      EXPECT_EQ(as_binary.verdict, judge(*module, "", where).verdict) << where << "\n" << as_binary.why;
      const auto decoded = decode(canonical);
      ASSERT_TRUE(decoded.has_value()) << where;
      EXPECT_EQ(encode(*decoded), canonical) << where;
    }
  }
}

}  // namespace
}  // namespace membrane::wasm
