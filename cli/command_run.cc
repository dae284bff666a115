// membrane run and membrane thaw: one program, one report.
#include "cli/command_run.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>

#include "agent/model/model_client.h"
#include "agent/terminal/person.h"
#include "base/private_file.h"
#include "base/stop_scope.h"
#include "cli/cli.h"
#include "cli/file_hints.h"
#include "cli/input_source.h"
#include "cli/out_directory.h"
#include "cli/seal.h"
#include "host/journal/journal_file.h"
#include "lang/language_names.h"
#include "lang/program_language.h"
#include "policy/granted_files.h"
#include "worker/worker.h"

namespace membrane::cli {
namespace {

std::atomic<bool> interrupted = false;

constexpr uint64_t kMaxJournalBytes = 1u << 30;
// The limit for a program, unless a policy or --module says otherwise: more than the library's default, since
// the user names the program.
constexpr uint64_t kUsualProgramBytes = 256u << 20;
constexpr uint64_t kMaxSnapshotBytes = 16ull << 30;

Result<sandbox::Program> program_of(const RunCommandOptions& options) {
  sandbox::Program program;
  if (options.text) {
    program.source = *options.text;
    program.name = "-e";
  } else {
    auto source = read_input(options.file, kMaxProgramBytes);
    if (!source && source.error().code == ErrorCode::kNotFound && is_like_code(options.file))
      source.error().hint = kTextGoesWithE;
    MEMBRANE_ASSIGN(program.source, std::move(source));
    program.name =
        options.file == "-" ? "standard input" : std::filesystem::path(options.file).filename().string();
  }
  program.entry = options.entry.value_or("");
  program.arguments = options.arguments;
  MEMBRANE_ASSIGN(program.environment, environment_of(options.environment));
  return program;
}

// The model for ai.*, if the policy grants it and the environment names one.
Result<std::unique_ptr<agent::ModelClient>> model_for(const policy::Policy& policy) {
  if (!policy.ai) return nullptr;
  MEMBRANE_ASSIGN(agent::ModelConfig config,
                  agent::model_config_from([](const char* name) { return std::getenv(name); }));
  return agent::ModelClient::create(std::move(config));
}

// "wat" and "wasm" are the engine's own; any other name is a session of that language.
bool is_of_engine(const std::string& language) { return language == "wat" || language == "wasm"; }

// The value of --freeze-after, written like --fuel.
Result<std::optional<uint64_t>> freeze_after(const RunCommandOptions& options) {
  if (options.freeze_after.empty() != options.snapshot_file.empty())
    return fail(ErrorCode::kInvalidArgument, "--freeze-after and --snapshot go together",
                "Use both: when to freeze, and the file to write.");
  if (options.freeze_after.empty()) return std::optional<uint64_t>();
  if (options.freeze_after == "0") return 0;  // before the first instruction; invalid as a limit
  policy::Limits limits;
  if (const Status set = policy::set_limit(limits, "fuel", options.freeze_after); !set)
    return fail(ErrorCode::kInvalidArgument,
                "--freeze-after " + options.freeze_after + " is not an amount of fuel",
                "Write it as 1000000 or 2e9.");
  return limits.fuel;
}

// What to run: a program and its language, or a snapshot, which is the engine's.
struct Source {
  sandbox::Program program;
  std::string language = "wasm";
  std::string snapshot;
};

Result<Source> source_of(const RunCommandOptions& options) {
  Source source;
  if (options.is_thaw) {
    MEMBRANE_ASSIGN(source.snapshot, read_input(options.file, kMaxSnapshotBytes));
    return source;
  }
  MEMBRANE_ASSIGN(source.program, program_of(options));
  MEMBRANE_ASSIGN(source.language, program_language(options.language, options.text ? "" : options.file,
                                                    source.program.source));
  return source;
}

policy::Limits usual_limits(const Source& source) {
  policy::Limits limits = is_of_engine(source.language) ? policy::Limits() : policy::language_limits();
  limits.module_bytes = kUsualProgramBytes;
  return limits;
}

Result<sandbox::Report> report_of(const RunCommandOptions& options, const Source& source,
                                  const sandbox::RunOptions& run_options,
                                  const std::shared_ptr<worker::Worker>& worker, RunSeal* seal) {
  if (!options.is_thaw) {
    const bool is_engines = is_of_engine(source.language);
    if (is_engines && options.packages.given())
      return fail(ErrorCode::kInvalidArgument,
                  "--with is for programs in a language, and this one is " + source.language, "Remove it.");
    if (is_engines)
      return worker ? worker->run(source.program, run_options) : sandbox::run(source.program, run_options);
    return run_in_language(options, source.language, source.program, run_options, worker, seal);
  }
  const std::span<const uint8_t> snapshot(reinterpret_cast<const uint8_t*>(source.snapshot.data()),
                                          source.snapshot.size());
  return worker ? worker->thaw(snapshot, run_options) : sandbox::thaw(snapshot, run_options);
}

// The program's input: what --input names, else standard input, unless the program itself came from there. At
// a terminal a program in a language has none: reads return the end of file.
Result<std::optional<InputSource>> input_of(const RunCommandOptions& options, bool is_engines) {
  if (options.input_file.empty() && !is_engines && is_terminal(stdin)) return std::optional<InputSource>();
  const std::string path = options.input_file.empty() ? "-" : options.input_file;
  if (path == "-" && options.file == "-") {
    if (options.input_file.empty()) return std::optional<InputSource>();
    return fail(ErrorCode::kInvalidArgument, "standard input cannot be both the program and its input",
                "Pass one of the two as a file.");
  }
  MEMBRANE_ASSIGN(InputSource source, InputSource::open(path));
  return std::optional<InputSource>(std::move(source));
}

// Input that is not a rereadable file is read into memory. Reading it may take as long as the run that it is
// for.
Result<std::unique_ptr<host::JournalSource>> open_journal(const std::string& path,
                                                          const policy::Limits& limits) {
  using Clock = std::chrono::steady_clock;
  std::error_code error;
  if (path == "-" || !std::filesystem::is_regular_file(path, error)) {
    MEMBRANE_ASSIGN(const std::string text, read_input(path, kMaxJournalBytes));
    MEMBRANE_ASSIGN(host::Journal journal, host::Journal::parse(text));
    return std::make_unique<host::Journal>(std::move(journal));
  }
  const Clock::time_point deadline = Clock::now() + std::chrono::milliseconds(limits.wall_ms);
  const StopScope scope([&] { return Clock::now() >= deadline; });
  auto opened = host::JournalFileReader::open(path);
  if (opened) return *std::move(opened);
  if (!scope.stopped()) return std::unexpected(std::move(opened).error());
  return fail(ErrorCode::kExhausted,
              "reading " + path + " takes longer than the " + std::to_string(limits.wall_ms) +
                  " ms that the run may take",
              "Raise --wall.");
}

// A program of the host's Linux is refused with a hint where such programs run.
Status check_no_elf(const RunCommandOptions& options) {
  if (options.is_thaw || options.text || options.file.empty() || options.file == "-") return {};
  if (!is_elf(options.file)) return {};
  return fail(ErrorCode::kInvalidArgument,
              options.file + " is an ELF program, neither a WebAssembly binary nor WAT",
              "Programs of Linux run in an image, which has its own: membrane run --kind linux -- " +
                  std::filesystem::path(options.file).filename().string());
}

// Created before the program runs, so that a path that cannot be written ends the command.
Result<NewFile> create_snapshot(const std::string& path) {
  auto file = NewFile::create(path);
  if (file) return file;
  return fail(ErrorCode::kUnavailable, "cannot write " + path + ": " + std::strerror(errno),
              "Use a path in a writable directory.");
}

Status write_snapshot(NewFile& file, const std::string& path, std::span<const uint8_t> bytes) {
  if (file.write(0, bytes) && file.sync() && file.publish()) return {};
  return fail(ErrorCode::kUnavailable, "cannot write " + path + ": " + std::strerror(errno));
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

// For a text that ran as Python because nothing named its language.
void hint_at_language(const RunCommandOptions& options, const Source& source, sandbox::Report& report) {
  if (!options.text || !options.language.empty() || source.language != "python" || report.errors.empty())
    return;
  constexpr std::string_view kOfOtherCode[] = {"SyntaxError", "NameError"};
  sandbox::ReportError& error = report.errors.front();
  if (std::ranges::find(kOfOtherCode, error.code) == std::end(kOfOtherCode)) return;
  if (lang::guessed_language(*options.text) == "js")
    error.hint = "The text ran as Python, and looks like JavaScript: --lang js runs it as that.";
}

// Whether Ctrl-C stopped the run.
bool was_interrupted(const sandbox::Report& report) {
  return interrupted && report.outcome == sandbox::Outcome::kCancelled;
}

// The one who stops a run is here at the terminal.
void name_interrupt(sandbox::Report& report) {
  constexpr std::string_view kOwner = "the owner ";
  if (!was_interrupted(report) || report.errors.empty()) return;
  std::string& message = report.errors.front().message;
  if (message.starts_with(kOwner)) message.replace(0, kOwner.size(), "Ctrl-C ");
}

// For a program in Python that read its input at a terminal, where it has none.
void hint_at_input(const RunCommandOptions& options, sandbox::Report& report) {
  if (report.errors.empty() || !options.input_file.empty() || !is_terminal(stdin)) return;
  sandbox::ReportError& error = report.errors.front();
  if (error.code == "EOFError" && error.hint.empty())
    error.hint =
        "A program in a language does not read the terminal: pipe its input to membrane, or name a file "
        "with --input.";
}

Result<int> run(const RunCommandOptions& options) {
  if (!options.kind.empty() && options.kind != "wasm" && options.kind != "linux")
    return fail(ErrorCode::kInvalidArgument, "--kind " + options.kind + " is unknown",
                "Write wasm or linux.");
  if (options.kind == "linux") return run_in_linux(options, "");
  if (options.kind.empty())
    if (const std::string why = why_linux(options); !why.empty()) {
      auto code = run_in_linux(options, why);
      return code ? code : std::unexpected(error_of_guess(std::move(code.error()), options));
    }
  MEMBRANE_TRY(check_for_wasm(options));
  MEMBRANE_TRY(check_no_elf(options));
  std::shared_ptr<worker::Worker> worker;  // null: the program runs in this process
  if (!options.in_process && options.code_cache.empty()) {
    MEMBRANE_ASSIGN(worker, take_worker());
  }
  sandbox::RunOptions run_options;
  MEMBRANE_ASSIGN(const Source source, source_of(options));
  MEMBRANE_ASSIGN(run_options.policy, options.policy.policy(usual_limits(source)));
  MEMBRANE_ASSIGN(run_options.tier, tier_of(options.tier));
  run_options.packages_by = sandbox::PackagesBy::kFlag;
  run_options.is_single_turn = true;
  std::optional<engine::native::CodeCache> code_cache;
  if (!options.code_cache.empty()) {
    MEMBRANE_ASSIGN(code_cache, engine::native::CodeCache::open(options.code_cache));
    run_options.code_cache = &*code_cache;
  }
  MEMBRANE_ASSIGN(run_options.freeze_after_fuel, freeze_after(options));
  if (options.replay_file.empty()) MEMBRANE_TRY(policy::check_granted_files(run_options.policy));
  std::optional<NewFile> snapshot;
  if (run_options.freeze_after_fuel) {
    MEMBRANE_ASSIGN(NewFile file, create_snapshot(options.snapshot_file));
    snapshot.emplace(std::move(file));
  }
  MEMBRANE_ASSIGN(const auto seal, RunSeal::open(options.seal_file, options.force));
  MEMBRANE_ASSIGN(const auto client, model_for(run_options.policy));
  std::optional<agent::HostModel> model;
  if (client) run_options.model = &model.emplace(*client, &interrupted);

  std::unique_ptr<host::JournalFileWriter> recorded;
  std::unique_ptr<host::JournalSource> replayed;
  if (!options.journal_file.empty()) {
    MEMBRANE_ASSIGN(recorded, host::JournalFileWriter::create(options.journal_file));
    run_options.record = recorded.get();
  }
  if (!options.replay_file.empty()) {
    MEMBRANE_ASSIGN(replayed, open_journal(options.replay_file, run_options.policy.limits));
    run_options.replay = replayed.get();
  }
  run_options.cancel = &interrupted;
  if (run_options.policy.trifecta) run_options.approve = agent::approve_on_terminal();
  catch_interrupt();
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // readers of a pipe see each line at once
  ProgramOutput output;
  if (!options.json) {
    run_options.hears_bytes = true;
    run_options.on_stdout = [&](std::string_view bytes) { output.write_out(bytes); };
    run_options.on_stderr = [&](std::string_view bytes) { output.write_error(bytes); };
  }
  MEMBRANE_ASSIGN(auto input, input_of(options, is_of_engine(source.language)));
  if (input) {
    run_options.input_is_ambient = options.input_file.empty();
    run_options.read_input = [&](std::chrono::milliseconds patience) {
      std::fflush(stdout);  // shows a program's question before it reads
      return input->read(patience);
    };
  }

  std::optional<OutDirectory> out;
  if (!options.out.empty()) {
    MEMBRANE_ASSIGN(OutDirectory opened, OutDirectory::open(options.out));
    out.emplace(std::move(opened));
    run_options.on_file = [&](std::string_view path, std::string_view bytes) { out->keep(path, bytes); };
  }

  if (seal != nullptr) seal->attach(run_options);
  MEMBRANE_ASSIGN(sandbox::Report report, report_of(options, source, run_options, worker, seal.get()));
  if (worker != nullptr) worker->end();  // which takes its time while the report is written
  const Status sealed = seal == nullptr ? Status() : seal->finish(source.program, run_options.policy, report);
  hint_at_file_here(options.file, run_options.policy, report);
  hint_at_language(options, source, report);
  name_interrupt(report);
  hint_at_input(options, report);
  output.finish();
  if (out) {
    out->keep_images(report);
    report.kept = out->kept();
  }
  if (report.outcome == sandbox::Outcome::kFrozen)
    MEMBRANE_TRY(write_snapshot(*snapshot, options.snapshot_file, report.snapshot));
  show_report(report, options);
  if (out && !out->status()) return complain(out->status().error());
  if (!sealed) return complain_unsealed(sealed.error());
  if (seal != nullptr && !options.quiet && !options.json) seal->announce();
  const int exit_code = was_interrupted(report) ? kEndBySignal : exit_code_of(report);
  if (recorded == nullptr) return exit_code;
  // The report is already printed; so this goes to standard error, with --json, too.
  const Status written = recorded->finish();
  return written ? exit_code : complain(written.error());
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

std::atomic<bool>& interrupt_flag() { return interrupted; }

void catch_interrupt() {
  std::signal(SIGINT, [](int) { interrupted = true; });
}

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
      "An option that stands here is Membrane's, before and after the program; all else after the program "
      "is\n"
      "the program's, and so is everything after --.\n"
      "Exit codes: 0 fine; 1 the program failed, or a replay differs; 2 it was denied or is "
      "invalid, or wrong usage; 3 Membrane failed; 4 it is frozen. A program that ended itself (proc_exit,\n"
      "sys.exit) with a code of 0 to 255 hands on that code, above it 255; the report has it as \"exit "
      "code\".");
  command->callback([options, &exit_code] {
    // With -e there is no file: what stands in its place is the first argument.
    if (options->text && !options->file.empty())
      options->arguments.insert(options->arguments.begin(), std::exchange(options->file, {}));
    const Result<int> code = run(*options);
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
