// What membrane run prints: the program's output as it comes, and the report.
#include <algorithm>
#include <cstdio>

#include "cli/cli.h"
#include "cli/command_run.h"

namespace membrane::cli {
namespace {

// Files and images that only --out writes.
bool has_files(const sandbox::Report& report) {
  const auto has_image = [](const sandbox::RichValue& value) {
    return std::ranges::any_of(value,
                               [](const sandbox::MimePart& part) { return part.type.starts_with("image/"); });
  };
  return !report.files.empty() || has_image(report.value) || std::ranges::any_of(report.displays, has_image);
}

}  // namespace

ProgramOutput::ProgramOutput() : is_one_file_(same_file(stdout, stderr)) {}

void ProgramOutput::write_error(std::string_view bytes) {
  if (is_one_file_) std::fflush(stdout);  // keeps the order of output
  write(stderr, error_, bytes);
}

void ProgramOutput::finish() {
  print(stdout, out_.finish());
  std::fflush(stdout);
  print(stderr, error_.finish());
}

void ProgramOutput::write(std::FILE* to, wasi::TextStream& characters, std::string_view bytes) {
  if (is_terminal(to)) print(to, characters.add(bytes));
  else print(to, bytes);
}

void show_report(const sandbox::Report& report, const RunCommandOptions& options) {
  if (options.json) return print_json(sandbox::render_json(report, is_terminal(stdout)));
  sandbox::Report rest = report;
  rest.stdout_text.clear();  // already printed, like stderr
  rest.stderr_text.clear();
  bool in_line = !report.stdout_text.empty() && !report.stdout_text.ends_with('\n');
  for (const sandbox::ReportValue& value : rest.results) {
    print((in_line ? "\n" : "") + value.value + "\n");
    in_line = false;
  }
  rest.results.clear();
  if (!rest.value.empty()) {  // in a language: the value of its last expression
    print(stdout, (in_line ? "\n" : "") + rest.result + "\n");
    rest.result.clear();
    in_line = false;
  }
  std::fflush(stdout);
  if (options.quiet && report.outcome == sandbox::Outcome::kOk && report.errors.empty()) return;
  const bool error_in_line = !report.stderr_text.empty() && !report.stderr_text.ends_with('\n');
  if (error_in_line || (in_line && same_file(stdout, stderr))) print(stderr, "\n");
  print_styled(stderr, sandbox::render_text(rest, use_colour(stderr)));
  if (options.out.empty() && has_files(report))
    print(stderr, "hint: --out DIR brings back its files and images\n");
}

}  // namespace membrane::cli
