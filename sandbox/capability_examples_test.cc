// Runs every example of the registry as it appears on the reference page.
#include <gtest/gtest.h>

#include "host/registry.h"
#include "sandbox/sandbox.h"

namespace membrane::sandbox {
namespace {

RunOptions in_memory() {
  RunOptions options;
  options.policy.kv.emplace();
  return options;
}

Program program_of(const host::FunctionSpec& function) {
  Program program;
  program.source = "(module (func (export \"run\")\n" + std::string(function.example) + "\n))";
  program.language = Language::kWat;
  return program;
}

TEST(CapabilityExamples, PrintWhatThePageSays) {
  int run_count = 0;
  for (const host::Capability& capability : host::capabilities()) {
    for (const host::FunctionSpec& function : capability.functions) {
      if (function.prints.empty()) continue;
      const Report report = run(program_of(function), in_memory());
      EXPECT_EQ(report.outcome, Outcome::kOk)
          << function.module << "." << function.name << ": " << render_json(report, true);
      EXPECT_EQ(report.stdout_text, function.prints) << function.module << "." << function.name;
      ++run_count;
    }
  }
  EXPECT_GT(run_count, 70);
}

// Examples that need a server, a directory or a model are at least valid programs, and end as under the empty
// policy.
TEST(CapabilityExamples, TheOthersAreValidPrograms) {
  for (const host::Capability& capability : host::capabilities()) {
    for (const host::FunctionSpec& function : capability.functions) {
      if (!function.prints.empty()) continue;
      const Report report = run(program_of(function), RunOptions{});
      const bool reaches_out = function.effect == host::Effect::kWorld || function.module == "http";
      const bool reports_each = function.name == "get_many";  // its answers include the denial
      EXPECT_EQ(report.outcome, reaches_out && !reports_each ? Outcome::kDenied : Outcome::kOk)
          << function.module << "." << function.name << ": " << render_json(report, true);
    }
  }
}

}  // namespace
}  // namespace membrane::sandbox
