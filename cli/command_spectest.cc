// membrane spectest: the official test scripts, file by file.

#include <algorithm>
#include <filesystem>

#include "cli/cli.h"
#include "engine/testing/script_runner.h"

namespace membrane::cli {
namespace {

constexpr uint64_t kMaxScriptBytes = 256u << 20;

struct Totals {
  uint64_t passed = 0, failed = 0, superseded = 0;
};

Result<engine::ScriptResult> result_of(const std::string& path, engine::Tier tier) {
  MEMBRANE_ASSIGN(const std::string text, read_input(path, kMaxScriptBytes));
  return engine::run_script(text, std::filesystem::path(path).filename().string(), tier);
}

void run_file(const std::filesystem::path& path, engine::Tier tier, Totals& totals) {
  const std::string name = path.filename().string();
  const auto result = result_of(path.string(), tier);
  if (!result) {
    ++totals.failed;
    return print(stdout, "FAIL  " + name + ": " + result.error().message + "\n");
  }
  totals.passed += result->passed;
  totals.failed += result->failed;
  totals.superseded += result->superseded.size();
  std::string line =
      (result->failed != 0 ? "FAIL  " : "ok    ") + name + ": " + std::to_string(result->passed) + " passed";
  if (result->failed != 0) line += ", " + std::to_string(result->failed) + " failed";
  if (!result->superseded.empty())
    line += ", " + std::to_string(result->superseded.size()) + " superseded by WebAssembly 3.0";
  print(stdout, line + "\n");
  const auto list = [&](const std::vector<engine::ScriptFailure>& commands, std::string_view word) {
    for (const engine::ScriptFailure& command : commands)
      print(stdout, "      " + name + ":" + std::to_string(command.line) + ": " + command.command + ": " +
                        std::string(word) + command.what + "\n");
  };
  list(result->failures, "");
  list(result->superseded, "superseded: ");
}

Result<std::vector<std::filesystem::path>> scripts_in(const std::vector<std::string>& paths) {
  std::vector<std::filesystem::path> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      if (!std::filesystem::exists(path, error))
        return fail(ErrorCode::kNotFound, "there is no " + path, "Check the path.");
      files.emplace_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(path, error))
      if (entry.path().extension() == ".wast") files.push_back(entry.path());
    if (error)
      return fail(ErrorCode::kUnavailable, "cannot read the directory " + path + ": " + error.message());
  }
  if (files.empty())
    return fail(ErrorCode::kNotFound, "no .wast file there", "Name a directory of the official test suite.");
  std::sort(files.begin(), files.end());
  return files;
}

Result<int> run(const std::vector<std::string>& paths, const std::string& tier_name) {
  MEMBRANE_ASSIGN(const engine::Tier tier, tier_of(tier_name));
  MEMBRANE_ASSIGN(const auto files, scripts_in(paths));
  Totals totals;
  for (const auto& file : files) run_file(file, tier, totals);
  // The closing line of all test runners; here nothing is ever skipped.
  print(std::to_string(totals.passed) + " passed, " + std::to_string(totals.failed) + " failed, 0 skipped" +
        (totals.superseded == 0
             ? ""
             : ", " + std::to_string(totals.superseded) + " superseded by WebAssembly 3.0") +
        "\n");
  return totals.failed == 0 ? kExitOk : kExitGuest;
}

}  // namespace

void add_spectest(CLI::App& app, int& exit_code) {
  auto paths = std::make_shared<std::vector<std::string>>();
  CLI::App* const command = app.add_subcommand("spectest", "Run official WebAssembly test scripts (.wast)");
  command->add_option("paths", *paths, "Scripts, or directories of them")->required()->type_name("PATH");
  auto tier = std::make_shared<std::string>("auto");
  command->add_option("--tier", *tier, "What runs the code: interpreter, compiler or auto")
      ->type_name("TIER");
  command->footer("Example:\n  membrane spectest ../wasm-testsuite/core-2.0");
  command->callback([paths, tier, &exit_code] {
    const Result<int> code = run(*paths, *tier);
    exit_code = code ? *code : complain(code.error());
  });
}

}  // namespace membrane::cli
