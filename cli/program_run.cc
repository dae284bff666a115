#include "cli/program_run.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>

#include "agent/terminal/person.h"
#include "base/stop_scope.h"
#include "cli/cli.h"
#include "cli/file_hints.h"
#include "cli/interrupt.h"
#include "engine/freeze/snapshot_format.h"
#include "lang/language_names.h"
#include "lang/program_language.h"
#include "worker/worker.h"

namespace membrane::cli {
namespace {

constexpr uint64_t kMaxJournalBytes = 1u << 30;
// The limit for a program, unless a policy or --module says otherwise: more than the library's default, since
// the user names the program.
constexpr uint64_t kUsualProgramBytes = 256u << 20;
// A tool's output goes into a file or a pipe, as that of a Linux command does, which has the same limit.
constexpr uint64_t kUsualWasiOutputBytes = 64u << 20;
constexpr uint64_t kMaxSnapshotBytes = 16ull << 30;

Result<sandbox::Program> program_of(const RunCommandOptions& options) {
  sandbox::Program program;
  if (options.text) {
    program.source = *options.text;
    program.name = "-e";
  } else {
    const uint64_t most = options.policy.most_program_bytes(kUsualProgramBytes, kMaxProgramBytes);
    auto source = read_input(options.file, most);
    if (!source && source.error().code == ErrorCode::kNotFound && is_like_code(options.file))
      source.error().hint = kTextGoesWithE;
    if (!source && source.error().code == ErrorCode::kExhausted)
      return fail(ErrorCode::kInvalidArgument, source.error().message, "Make it smaller, or raise --module.");
    MEMBRANE_ASSIGN(program.source, std::move(source));
    program.name =
        options.file == "-" ? "standard input" : std::filesystem::path(options.file).filename().string();
  }
  program.entry = options.entry.value_or("");
  program.arguments = options.arguments;
  MEMBRANE_ASSIGN(program.environment, environment_of(options.environment));
  return program;
}

// Whether the program, or the one in the snapshot, was built for WASI: it then does the work of a whole tool.
bool is_of_wasi(std::string_view program) {
  return program.contains("wasi_snapshot_preview1") || program.contains("wasi_unstable");
}

// The model for ai.*, if the policy grants it and the environment names one.
Result<std::unique_ptr<agent::ModelClient>> model_for(const policy::Policy& policy) {
  if (!policy.ai) return nullptr;
  MEMBRANE_ASSIGN(agent::ModelConfig config,
                  agent::model_config_from([](const char* name) { return std::getenv(name); }));
  return agent::ModelClient::create(std::move(config));
}

// The value of --freeze-after, written like --fuel.
Result<std::optional<uint64_t>> freeze_after(const RunCommandOptions& options) {
  if (options.freeze_after.empty() != options.snapshot_file.empty())
    return fail(ErrorCode::kInvalidArgument, "--freeze-after and --snapshot go together",
                "Use both: when to freeze, and the file to write.");
  if (options.freeze_after.empty()) return std::optional<uint64_t>();
  if (options.freeze_after == "0") return 0;  // before the first instruction; invalid as a limit
  policy::Limits limits;
  MEMBRANE_TRY(policy::set_limit(limits, "fuel", options.freeze_after, "--freeze-after"));
  return limits.fuel;
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

// For a program that ran as Python or JavaScript, and is in the other language.
void hint_at_language(const RunCommandOptions& options, std::string_view source, const std::string& language,
                      sandbox::Report& report) {
  if (report.errors.empty() || (language != "python" && language != "js")) return;
  sandbox::ReportError& error = report.errors.front();
  const bool is_assumed = options.text && options.language.empty();
  if (error.code != "SyntaxError" && !(is_assumed && error.code == "NameError")) return;
  const std::string guess = lang::guessed_language(source);
  if (guess.empty() || guess == language) return;
  const auto name = [](std::string_view of) { return of == "js" ? "JavaScript" : "Python"; };
  error.hint = std::string("The text ran as ") + name(language) + ", and looks like " + name(guess) +
               ": --lang " + guess + " runs it as that.";
}

// For a program in Python that found no input, or no more of it.
void hint_at_input(const RunCommandOptions& options, sandbox::Report& report) {
  if (report.errors.empty()) return;
  sandbox::ReportError& error = report.errors.front();
  if (error.code != "EOFError" || !error.message.contains("EOF when reading a line") || !error.hint.empty())
    return;
  const bool is_at_terminal = options.input_file.empty() && is_terminal(stdin);
  error.hint =
      options.file == "-" && options.input_file.empty()
          ? "Standard input was the program itself: give the program input by --input FILE."
      : is_at_terminal
          ? "A program in a language does not read the terminal: give it input by a pipe or --input FILE."
          : "There is no input, or no more: give the program input by a pipe or --input FILE.";
}

}  // namespace

Result<int> ProgramRun::run() {
  if (!options_.in_process && options_.code_cache.empty()) {
    MEMBRANE_ASSIGN(worker_, take_worker());
  }
  MEMBRANE_TRY(read_program());
  MEMBRANE_TRY(read_policy());
  MEMBRANE_TRY(open_engine());
  MEMBRANE_TRY(open_receipt_and_model());
  MEMBRANE_TRY(open_journals());
  connect_person();
  MEMBRANE_TRY(open_input());
  MEMBRANE_TRY(open_out());
  if (seal_ != nullptr) seal_->attach(run_options_);
  MEMBRANE_ASSIGN(sandbox::Report done, report());
  return finish(std::move(done));
}

// "wat" and "wasm" are the engine's own; any other name is a session of that language.
bool ProgramRun::is_of_engine() const { return source_.language == "wat" || source_.language == "wasm"; }

Status ProgramRun::read_program() {
  if (options_.is_thaw) {
    MEMBRANE_ASSIGN(source_.snapshot, read_input(options_.file, kMaxSnapshotBytes, engine::kSnapshotMagic));
    return {};
  }
  MEMBRANE_ASSIGN(source_.program, program_of(options_));
  MEMBRANE_ASSIGN(source_.language, program_language(options_.language, options_.text ? "" : options_.file,
                                                     source_.program.source));
  return {};
}

Status ProgramRun::read_policy() {
  const bool is_wasi =
      is_of_engine() && is_of_wasi(options_.is_thaw ? source_.snapshot : source_.program.source);
  policy::Limits usual = is_wasi || !is_of_engine() ? policy::language_limits() : policy::Limits();
  if (is_wasi) usual.output_bytes = kUsualWasiOutputBytes;
  usual.module_bytes = kUsualProgramBytes;
  MEMBRANE_ASSIGN(run_options_.policy, options_.policy.policy(usual));
  return {};
}

Status ProgramRun::open_engine() {
  MEMBRANE_ASSIGN(run_options_.tier, tier_of(options_.tier));
  run_options_.packages_by = sandbox::PackagesBy::kFlag;
  run_options_.is_single_turn = true;
  if (!options_.code_cache.empty()) {
    MEMBRANE_ASSIGN(code_cache_, engine::native::CodeCache::open(options_.code_cache));
    run_options_.code_cache = &*code_cache_;
  }
  MEMBRANE_ASSIGN(run_options_.freeze_after_fuel, freeze_after(options_));
  if (options_.replay_file.empty()) MEMBRANE_TRY(check_granted(run_options_.policy));
  if (run_options_.freeze_after_fuel) {
    MEMBRANE_ASSIGN(NewFile file, create_snapshot(options_.snapshot_file));
    snapshot_.emplace(std::move(file));
  }
  return {};
}

Status ProgramRun::open_receipt_and_model() {
  MEMBRANE_ASSIGN(seal_, RunSeal::open(options_.seal_file, options_.force));
  MEMBRANE_ASSIGN(client_, model_for(run_options_.policy));
  if (client_ != nullptr) run_options_.model = &model_.emplace(*client_, &interrupt_flag());
  return {};
}

Status ProgramRun::open_journals() {
  if (!options_.journal_file.empty()) {
    MEMBRANE_ASSIGN(recorded_, host::JournalFileWriter::create(options_.journal_file));
    run_options_.record = recorded_.get();
  }
  if (!options_.replay_file.empty()) {
    MEMBRANE_ASSIGN(replayed_, open_journal(options_.replay_file, run_options_.policy.limits));
    run_options_.replay = replayed_.get();
  }
  return {};
}

// Ctrl-C, questions, and output as it comes.
void ProgramRun::connect_person() {
  run_options_.cancel = &interrupt_flag();
  if (run_options_.policy.trifecta) run_options_.approve = agent::approve_on_terminal();
  catch_interrupt();
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // readers of a pipe see each line at once
  if (options_.json) return;
  run_options_.hears_bytes = true;
  run_options_.on_stdout = [this](std::string_view bytes) { output_.write_out(bytes); };
  run_options_.on_stderr = [this](std::string_view bytes) { output_.write_error(bytes); };
}

Status ProgramRun::open_input() {
  MEMBRANE_ASSIGN(auto input, input_of(options_, is_of_engine()));
  if (!input) return {};
  input_.emplace(*std::move(input));
  run_options_.input_is_ambient = options_.input_file.empty();
  run_options_.read_input = [this](std::chrono::milliseconds patience) {
    std::fflush(stdout);  // shows a program's question before it reads
    return input_->read(patience);
  };
  return {};
}

Status ProgramRun::open_out() {
  if (options_.out.empty()) return {};
  MEMBRANE_ASSIGN(OutDirectory out, OutDirectory::open(options_.out));
  out_.emplace(std::move(out));
  run_options_.on_file = [this](std::string_view path, std::string_view bytes) { out_->keep(path, bytes); };
  return {};
}

Result<sandbox::Report> ProgramRun::report() {
  if (options_.is_thaw) {
    const std::span<const uint8_t> snapshot(reinterpret_cast<const uint8_t*>(source_.snapshot.data()),
                                            source_.snapshot.size());
    return worker_ ? worker_->thaw(snapshot, run_options_) : sandbox::thaw(snapshot, run_options_);
  }
  if (!is_of_engine())
    return run_in_language(options_, source_.language, source_.program, run_options_, worker_, seal_.get());
  if (options_.packages.given())
    return fail(ErrorCode::kInvalidArgument,
                "--with is for programs in a language, and this one is " + source_.language, "Remove it.");
  return worker_ ? worker_->run(source_.program, run_options_) : sandbox::run(source_.program, run_options_);
}

void ProgramRun::add_hints(sandbox::Report& report) const {
  hint_at_file_here(options_.file, run_options_.policy,
                    options_.json ? HintsFor::kProgram : HintsFor::kPerson, report);
  hint_at_language(options_, source_.program.source, source_.language, report);
  name_interrupt(report);
  hint_at_input(options_, report);
}

Result<int> ProgramRun::finish(sandbox::Report report) {
  if (worker_ != nullptr) worker_->end();  // which takes its time while the report is written
  const Status sealed =
      seal_ == nullptr ? Status() : seal_->finish(source_.program, run_options_.policy, report);
  add_hints(report);
  output_.finish();
  if (out_) {
    out_->keep_images(report);
    report.kept = out_->kept();
  }
  if (report.outcome == sandbox::Outcome::kFrozen)
    MEMBRANE_TRY(write_snapshot(*snapshot_, options_.snapshot_file, report.snapshot));
  show_report(report, options_);
  if (out_ && !out_->status()) return complain(out_->status().error());
  if (!sealed) return complain_unsealed(sealed.error());
  if (seal_ != nullptr && !options_.quiet && !options_.json) seal_->announce();
  const int exit_code = exit_code_after(report);
  if (recorded_ == nullptr) return exit_code;
  // The report is already printed; so this goes to standard error, with --json, too.
  const Status written = recorded_->finish();
  return written ? exit_code : complain(written.error());
}

}  // namespace membrane::cli
