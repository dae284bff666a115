// membrane run and membrane thaw: one program, one report.
#include "cli/command_run.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>

#include "cli/arguments.h"
#include "cli/cli.h"
#include "cli/program_run.h"

namespace membrane::cli {
namespace {

// A program of the host's Linux is refused with a hint where such programs run.
Status check_no_elf(const RunCommandOptions& options) {
  if (options.is_thaw || options.text || options.file.empty() || options.file == "-") return {};
  if (!is_elf(options.file)) return {};
  return fail(ErrorCode::kInvalidArgument,
              options.file + " is an ELF program, neither a WebAssembly binary nor WAT",
              "Programs of Linux run in an image, which has its own: membrane run --kind linux -- " +
                  std::filesystem::path(options.file).filename().string());
}

// Elsewhere -e sets a variable: `docker run -e NAME=VALUE`.
Status check_no_variable(const RunCommandOptions& options) {
  if (!options.text || options.arguments.empty()) return {};
  const std::string& text = *options.text;
  const std::string& file = options.arguments.front();
  const bool is_variable = text.find_first_of(" \n\t()[]'\"") == std::string::npos && text.find('=') != 0 &&
                           std::ranges::all_of(text.substr(0, text.find('=')), [](unsigned char c) {
                             return std::isalnum(c) != 0 || c == '_';
                           });
  std::error_code error;
  if (!is_variable || !text.contains('=') || !std::filesystem::is_regular_file(file, error)) return {};
  return fail(ErrorCode::kInvalidArgument, "-e gives a program's text, and " + text + " is a variable",
              "Write membrane run --env " + text + " " + file + ".");
}

// Options that only --kind linux has are refused, and so is one that names no program or function.
Status check_for_wasm(const RunCommandOptions& options) {
  if (options.has_terminal)
    return fail(
        ErrorCode::kInvalidArgument, "--tty is for --kind linux",
        options.arguments.empty() ? "Remove it." : "Remove it, or write -- before the program's arguments.");
  if (options.deterministic)
    return fail(ErrorCode::kInvalidArgument, "--deterministic is for --kind linux: other programs always are",
                "Remove it.");
  if (!options.platform.empty())
    return fail(ErrorCode::kInvalidArgument, "--platform is for --kind linux",
                "Add --kind linux, or remove it.");
  if (!options.image.empty())
    return fail(ErrorCode::kInvalidArgument, "--image is for --kind linux", "Remove it, or --kind wasm.");
  if (!options.directory.empty())
    return fail(ErrorCode::kInvalidArgument, "--workdir is for --kind linux",
                options.arguments.empty()
                    ? "Add --kind linux, or remove it."
                    : "Add --kind linux, remove it, or write -- before the program's arguments.");
  if (!options.diff_file.empty())
    return fail(ErrorCode::kInvalidArgument, "--diff is for --kind linux", "Add --kind linux, or remove it.");
  if (options.file.empty() && !options.text)
    return fail(ErrorCode::kInvalidArgument, "no program was given", "Pass a file, or -e and the text.");
  if (options.entry && options.entry->empty())
    return fail(ErrorCode::kInvalidArgument, "--invoke names no function",
                "Pass the name of an export, or remove --invoke to call _start, run or main.");
  return {};
}

Result<int> run(const RunCommandOptions& options) {
  if (!options.kind.empty() && options.kind != "wasm" && options.kind != "linux")
    return fail(ErrorCode::kInvalidArgument, "--kind " + options.kind + " is unknown",
                "Write wasm or linux.");
  MEMBRANE_TRY(check_no_variable(options));
  if (options.kind == "linux") return run_in_linux(options, "");
  if (options.kind.empty())
    if (const std::string why = why_linux(options); !why.empty()) {
      auto code = run_in_linux(options, why);
      return code ? code : std::unexpected(error_of_guess(std::move(code.error()), options));
    }
  MEMBRANE_TRY(check_for_wasm(options));
  MEMBRANE_TRY(check_no_elf(options));
  return ProgramRun(options).run();
}

// Shared by run and thaw.
void add_options(CLI::App* command, RunCommandOptions* options) {
  command->add_option("--journal", options->journal_file, "Write the result of every host call to this file")
      ->type_name("FILE");
  command
      ->add_option("--replay", options->replay_file, "Answer host calls from a journal instead of the world")
      ->type_name("FILE");
  command
      ->add_option("--freeze-after", options->freeze_after,
                   "Freeze the program when the whole run has used this much fuel; exit code 4")
      ->type_name("FUEL");
  command
      ->add_option("--snapshot", options->snapshot_file,
                   "The file for the frozen program (docs/snapshot-format.md)")
      ->type_name("FILE");
  command
      ->add_option("--out", options->out,
                   "Write the files that the program made, and the images that it showed, into this "
                   "directory of yours")
      ->type_name("DIR");
  command
      ->add_option("--tier", options->tier,
                   "What runs the code: interpreter, compiler, or auto, which compiles what uses much fuel")
      ->type_name("TIER");
  command
      ->add_option("--code-cache", options->code_cache,
                   "Keep the compiled code of large modules in this directory of yours, and find it there")
      ->type_name("DIR");
  CLI::Option* const json = command->add_flag(
      "--json", options->json, "Print the whole report as one JSON object (docs/report.schema.json)");
  command->add_flag("-q,--quiet", options->quiet, "No report of a program that ran to its end")
      ->excludes(json);
  add_in_process(*command, options->in_process);
  options->policy.add_to(*command, PolicyOptions::Of::kThisMachine,
                         options->is_thaw ? PolicyOptions::Kinds::kWasm : PolicyOptions::Kinds::kBoth);
}

}  // namespace

bool is_like_code(const std::string& word) { return word.find_first_of(" ()=;\"") != std::string::npos; }

void add_run(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RunCommandOptions>();
  CLI::App* const command =
      app.add_subcommand("run", "Run a program (Python, JavaScript, WAT, Wasm) and report what it did");
  command->add_option("file", options->file, "The program, or - for standard input")->type_name("FILE");
  command->add_option("-e,--evaluate", options->text, "The program's text itself")->type_name("TEXT");
  command
      ->add_option("--lang", options->language,
                   "python, js, wat, or an added language (default: by the file name; Python with -e)")
      ->type_name("LANGUAGE");
  command->add_option("--invoke", options->entry, "Export to call (default: _start, else run, else main)")
      ->type_name("NAME");
  command->add_option("arguments", options->arguments,
                      "The program's: of the export, by its types; else what io.argument, sys.argv or WASI's "
                      "args give. Options that are not Membrane's, too; write -- before those that are");
  command
      ->add_option("--kind", options->kind,
                   "wasm, or linux: a command of an image, with shell, files and processes (docs/linux.md)")
      ->type_name("KIND");
  command->add_flag(
      "--deterministic", options->deterministic,
      "With --kind linux: the same run each time, with the policy's virtual clock and seed (docs/linux.md)");
  command
      ->add_option("--platform", options->platform,
                   "With --kind linux: trap or kvm (default: the faster one of this machine; docs/linux.md)")
      ->type_name("PLATFORM");
  command
      ->add_option("--diff", options->diff_file,
                   "With --kind linux: write the command's changes into a file, as a git patch")
      ->type_name("FILE");
  command
      ->add_option("--image", options->image, "With --kind linux: the image, or its file (default: debian)")
      ->type_name("IMAGE");
  command
      ->add_option("-w,--workdir", options->directory,
                   "With --kind linux: the directory in which the command begins (default: as the image "
                   "says, /work where that is "
                   "granted, else /root)")
      ->type_name("DIR");
  command->add_flag("-t,--tty", options->has_terminal,
                    "With --kind linux: this terminal is the command's, as with membrane shell");
  add_repeatable(*command, "--env", options->environment,
                 "A variable of the program's environment; NAME alone passes the one of this process; may be "
                 "repeated")
      ->type_name("NAME[=VALUE]");
  command
      ->add_option("--input", options->input_file,
                   "File that is the program's standard input (for WebAssembly io.input, too), or -; without "
                   "it what is piped "
                   "to membrane, read when the program asks")
      ->type_name("FILE");
  add_options(command, options.get());
  command
      ->add_option("--seal", options->seal_file,
                   "Write a signed receipt of the run to this file, and what it was made of to FILE.private")
      ->type_name("FILE")
      ->excludes("--replay", "--freeze-after");
  add_force(*command, options->force);
  options->packages.add_to(*command);
  command->footer(
      "Examples:\n"
      "  membrane run -e 'print(2+2)'\n"
      "  membrane run --with rich --with httpx report.py\n"
      "  membrane run analyse.py --allow fs:read:./data data/log.csv\n"
      "  membrane run chart.py --allow fs:read:./data --out ./results\n"
      "  membrane run script.js < data.txt\n"
      "  membrane run program.wat --allow fs:read:./data --fuel 2e6\n"
      "  membrane run tool.wasm --dir . --env LANG=C notes.txt\n"
      "  membrane run tool.wasm --dir data:/data:ro -- --fuel high --verbose < notes.txt > result.bin\n"
      "  membrane run module.wasm --invoke add 2 2\n"
      "  membrane run -e '(func (export \"main\") (result i32) (i32.add (i32.const 2) (i32.const 2)))'\n"
      "  membrane run program.wat --allow kv --journal run.journal\n"
      "  membrane run program.wat --allow kv --replay run.journal\n"
      "  membrane run program.wat --allow kv --seal run.receipt\n"
      "  membrane run program.wat --freeze-after 1e6 --snapshot program.snap\n"
      "  membrane run --kind linux -- sh -c 'echo $((2+2)) | tee /tmp/x; gcc --version'\n"
      "What the program prints goes to standard output and standard error as it comes, results to standard\n"
      "output, the report to standard error.\n"
      "An option that stands here is Membrane's, before and after the program; another one after the program "
      "is\n"
      "the program's, unless it is one slip away from Membrane's (--fule), which is refused. All after -- is "
      "the program's.\n"
      "Exit codes: 0 fine; 1 the program failed, or a replay differs; 2 it was denied or is "
      "invalid, or wrong usage; 3 Membrane failed; 4 it is frozen. A program that ended itself (proc_exit,\n"
      "sys.exit) with a code of 0 to 255 gives membrane run that code, and with a larger one 255; the report "
      "has\n"
      "it as \"exit code\".");
  command->callback([options, &exit_code] {
    // With -e there is no file: what stands in its place is the first argument.
    if (options->text && !options->file.empty())
      options->arguments.insert(options->arguments.begin(), std::exchange(options->file, {}));
    Result<int> code = run(*options);
    if (!code)  // the option may have been meant for the program
      code.error() = with_advice_to_pass_on(std::move(code.error()),
                                            "membrane run " + (options->text ? "-e …" : options->file),
                                            options->input_file);
    exit_code = code ? *code : complain(code.error(), options->json ? Reader::kReport : Reader::kPerson);
  });
}

void add_thaw(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<RunCommandOptions>();
  options->is_thaw = true;
  CLI::App* const command = app.add_subcommand(
      "thaw", "Resume a frozen program; grants must be given again, and limits are for the whole run");
  command->add_option("file", options->file, "The snapshot, or - for standard input")
      ->type_name("FILE")
      ->required();
  add_options(command, options.get());
  command->footer(
      "Examples:\n"
      "  membrane run program.wat --freeze-after 1e6 --snapshot program.snap\n"
      "  membrane thaw program.snap --fuel 2e9 --allow fs:read:./data\n"
      "  membrane thaw program.snap --freeze-after 2e6 --snapshot program.snap\n"
      "What the program prints goes to standard output, the report of the whole run to standard error.\n"
      "Exit codes: those of membrane run.");
  command->callback([options, &exit_code] {
    const Result<int> code = run(*options);
    exit_code = code ? *code : complain(code.error(), options->json ? Reader::kReport : Reader::kPerson);
  });
}

}  // namespace membrane::cli
