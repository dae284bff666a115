// Shared by the files of membrane run and membrane thaw: command_run.cc has the options, program_run.h a run,
// command_run_*.cc what languages, Linux and the output need.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/cli.h"
#include "cli/package_options.h"
#include "sandbox/report/report.h"
#include "sandbox/run/sandbox.h"
#include "wasi/system/text_stream.h"

namespace membrane::worker {
class Worker;
}

namespace membrane::cli {

class RunSeal;

// No program is larger, whatever the limit.
inline constexpr uint64_t kMaxProgramBytes = 1u << 30;

struct RunCommandOptions {
  bool is_thaw = false;
  std::string file;
  std::optional<std::string> text;  // from -e; may be empty
  std::string language;             // "" to derive it from the program's name
  std::optional<std::string> entry;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // NAME=VALUE, or NAME for the host's value
  std::string input_file;
  std::string journal_file;
  std::string replay_file;
  std::string seal_file;
  bool force = false;
  std::string freeze_after;
  std::string snapshot_file;
  std::string tier = "auto";
  std::string code_cache;  // a directory; "" for none
  std::string out;         // a directory; "" for none
  bool json = false;
  bool quiet = false;
  bool in_process = false;
  std::string kind;            // "" for the program's kind
  std::string image;           // of --kind linux
  std::string directory;       // the same
  std::string diff_file;       // the same
  bool deterministic = false;  // the same
  bool has_terminal = false;   // the same
  std::string platform;        // the same
  PolicyOptions policy;
  PackageOptions packages;
};

// Whether a word in a program's place is rather its text.
bool is_like_code(const std::string& word);
inline constexpr char kTextGoesWithE[] = "A program's text is given with -e: membrane run -e '…'.";

// The program's output as it comes: byte for byte into a pipe or a file, made printable on a terminal.
class ProgramOutput {
 public:
  ProgramOutput();

  void write_out(std::string_view bytes) { write(stdout, out_, bytes); }
  void write_error(std::string_view bytes);
  // The program is over: prints what is left of a character.
  void finish();

 private:
  static void write(std::FILE* to, wasi::TextStream& characters, std::string_view bytes);

  const bool is_one_file_;
  wasi::TextStream out_, error_;
};

// Prints the report of a program whose output is already printed, or with --json all of it.
void show_report(const sandbox::Report& report, const RunCommandOptions& options);

// Runs a program in a language, in the worker or, where it is null, in this process. `seal` may be null.
// Errors: kInvalidArgument for options that only a module has, and for a program above its limit; those of the
// language's template and packages.
Result<sandbox::Report> run_in_language(const RunCommandOptions& options, const std::string& language,
                                        const sandbox::Program& program, sandbox::RunOptions run_options,
                                        const std::shared_ptr<worker::Worker>& worker, RunSeal* seal);

// Chooses the kind if none is named. Returns why it is Linux; "" when it is not.
std::string why_linux(const RunCommandOptions& options);
// The error of a command that was guessed to be of Linux, with what the word was taken for.
Error error_of_guess(Error error, const RunCommandOptions& options);
// Runs the command in a Linux sandbox and prints its report. `why`: that of why_linux(), or "" if the kind was
// named. Returns the exit code. Errors: kUnsupported for options that only the other kinds have; those of
// run_linux().
Result<int> run_in_linux(const RunCommandOptions& options, const std::string& why);

}  // namespace membrane::cli
