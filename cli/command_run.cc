// membrane run and membrane thaw: one program, one report.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>

#include "agent/model_client.h"
#include "agent/person.h"
#include "base/stop_scope.h"
#include "base/until_exit.h"
#include "cli/cli.h"
#include "cli/input_source.h"
#include "cli/linux_run.h"
#include "cli/out_directory.h"
#include "cli/package_options.h"
#include "cli/seal.h"
#include "engine/memory/region_pool.h"
#include "host/journal_file.h"
#include "lang/language_names.h"
#include "linux/platform/trap/host_file.h"
#include "policy/granted_files.h"
#include "sandbox/languages.h"
#include "sandbox/report_building.h"
#include "sandbox/sandbox.h"
#include "sandbox/session.h"
#include "wasi/text_stream.h"
#include "worker/worker.h"

namespace membrane::cli {
namespace {

std::atomic<bool> interrupted = false;

constexpr uint64_t kMaxJournalBytes = 1u << 30;
// The limit for a program, unless a policy or --module says otherwise: more than the library's default, since
// the user names the program.
constexpr uint64_t kUsualProgramBytes = 256u << 20;
constexpr uint64_t kMaxProgramBytes = 1u << 30;  // whatever the limit

constexpr uint64_t kMaxSnapshotBytes = 16ull << 30;

struct Options {
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

Result<sandbox::Program> program_of(const Options& options) {
  sandbox::Program program;
  if (options.text) {
    program.source = *options.text;
    program.name = "-e";
  } else {
    MEMBRANE_ASSIGN(program.source, read_input(options.file, kMaxProgramBytes));
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

// Options that only a module has.
Status check_for_language(const Options& options, const std::string& language) {
  const auto refused = [&](const char* what, const char* instead) {
    return fail(ErrorCode::kInvalidArgument,
                std::string(what) + " is for WebAssembly, and the program is " + language, instead);
  };
  if (options.entry) return refused("--invoke", "Call the function in the program.");
  if (!options.freeze_after.empty())
    return refused("--freeze-after", "Fork a session: membrane repl has :fork.");
  if (!options.code_cache.empty())
    return refused("--code-cache", "A language keeps its code with its warm image.");
  if (!options.environment.empty())
    return refused("--env", "Give the program arguments, or a file that the policy grants.");
  return {};
}

// Null: programs run in this process.
using OwnWorker = std::shared_ptr<worker::Worker>;

// The worker opens the language's warm image, or that of the packages over it; a missing image is created
// here.
Result<sandbox::TemplateSpec> open_in(worker::Worker& worker, sandbox::Languages& languages,
                                      const Options& options, const std::string& language,
                                      const sandbox::Program& program, sandbox::RunOptions& run_options,
                                      RunSeal* seal, const sandbox::Turn& turn) {
  MEMBRANE_ASSIGN(auto located, languages.locate(language, program.source));
  MEMBRANE_TRY(options.packages.join(run_options.policy, located.package.driver));
  const policy::Packages& packages = run_options.policy.packages;
  if (packages.python.empty() && packages.javascript.empty() && seal == nullptr) {
    const Status opened = worker.open(located.spec);
    if (opened) return located.spec;
    if (opened.error().code != ErrorCode::kNotFound) return std::unexpected(opened.error());
  }
  MEMBRANE_ASSIGN(auto made, languages.open(language, program.source));
  MEMBRANE_ASSIGN(
      made, options.packages.provide(std::move(made), run_options.policy, options.policy.file, &interrupted));
  if (seal != nullptr) seal->in_language(made, run_options.policy, turn);
  MEMBRANE_TRY(worker.open(made->spec()));
  return made->spec();
}

Result<std::unique_ptr<sandbox::Session>> session_in_process(sandbox::Languages& languages,
                                                             const Options& options,
                                                             const std::string& language,
                                                             const sandbox::Program& program,
                                                             sandbox::RunOptions run_options, RunSeal* seal,
                                                             const sandbox::Turn& turn) {
  MEMBRANE_ASSIGN(auto opened, languages.open(language, program.source));
  MEMBRANE_TRY(options.packages.join(run_options.policy, opened->package().driver));
  MEMBRANE_ASSIGN(opened, options.packages.provide(std::move(opened), run_options.policy, options.policy.file,
                                                   &interrupted));
  if (seal != nullptr) seal->in_language(opened, run_options.policy, turn);
  engine::RegionPool::instance().keep_none();  // no other guest follows
  return sandbox::Session::create(std::move(opened), std::move(run_options));
}

Result<sandbox::Report> run_in_language(const Options& options, const std::string& language,
                                        const sandbox::Program& program, sandbox::RunOptions run_options,
                                        const OwnWorker& worker, RunSeal* seal) {
  MEMBRANE_TRY(check_for_language(options, language));
  const uint64_t limit = run_options.policy.limits.module_bytes;
  if (program.source.size() > limit)
    return fail(ErrorCode::kInvalidArgument,
                "the program has " + std::to_string(program.source.size()) + " bytes, and the limit is " +
                    std::to_string(limit),
                "Make it smaller, or raise --module.");
  // Never destroyed: the process is about to end, and a language is large.
  static auto* const languages = new sandbox::Languages(template_options(run_options.tier));
  MEMBRANE_ASSIGN(const auto located, languages->locate(language, program.source));
  std::string input;  // for languages other than Python and JavaScript, which read on demand
  if (!options.input_file.empty() && located.package.driver == lang::Driver::kStdin) {
    MEMBRANE_ASSIGN(input, read_input(options.input_file, run_options.policy.limits.bytes_in));
  }
  const std::string name = lang::program_name(program.name, options.language);
  const sandbox::Turn turn{.code = program.source,
                           .name = options.text && name == program.name ? "" : name,
                           .is_script = !options.text,
                           .arguments = program.arguments,
                           .input = std::move(input)};
  std::unique_ptr<sandbox::Session> made;
  if (worker) {
    MEMBRANE_ASSIGN(const auto spec,
                    open_in(*worker, *languages, options, language, program, run_options, seal, turn));
    MEMBRANE_ASSIGN(made, worker->create(spec, std::move(run_options)));
  } else {
    MEMBRANE_ASSIGN(
        made, session_in_process(*languages, options, language, program, std::move(run_options), seal, turn));
  }
  sandbox::Session& session = keep_until_exit(std::move(made));  // as the languages
  sandbox::Report report = session.exec(turn);
  session.end(report);
  return report;
}

// The program's output as it comes: byte for byte into a pipe or a file, made printable on a terminal.
class Output {
 public:
  Output() : is_one_file_(same_file(stdout, stderr)) {}

  void write_out(std::string_view bytes) { write(stdout, out_, bytes); }
  void write_error(std::string_view bytes) {
    if (is_one_file_) std::fflush(stdout);  // keeps the order of output
    write(stderr, error_, bytes);
  }
  // The program is over: prints what is left of a character.
  void finish() {
    print(stdout, out_.finish());
    std::fflush(stdout);
    print(stderr, error_.finish());
  }

 private:
  static void write(std::FILE* to, wasi::TextStream& characters, std::string_view bytes) {
    if (is_terminal(to)) print(to, characters.add(bytes));
    else print(to, bytes);
  }

  const bool is_one_file_;
  wasi::TextStream out_, error_;
};

// Files and images that only --out writes.
bool has_files(const sandbox::Report& report) {
  const auto has_image = [](const sandbox::RichValue& value) {
    return std::ranges::any_of(value,
                               [](const sandbox::MimePart& part) { return part.type.starts_with("image/"); });
  };
  return !report.files.empty() || has_image(report.value) || std::ranges::any_of(report.displays, has_image);
}

void show(const sandbox::Report& report, const Options& options) {
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

// The value of --freeze-after, written like --fuel.
Result<std::optional<uint64_t>> freeze_after(const Options& options) {
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

Result<Source> source_of(const Options& options) {
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

Result<sandbox::Report> report_of(const Options& options, const Source& source,
                                  const sandbox::RunOptions& run_options, const OwnWorker& worker,
                                  RunSeal* seal) {
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

// The first quoted text of a message; "" if none.
std::string first_in_quotes(std::string_view text) {
  const size_t begin = text.find('\'');
  const size_t end = begin == std::string_view::npos ? begin : text.find('\'', begin + 1);
  return end == std::string_view::npos ? "" : std::string(text.substr(begin + 1, end - begin - 1));
}

// Whether the directory contains such a module, as the two languages look for it.
bool is_module_in(const std::filesystem::path& folder, const std::filesystem::path& module, bool is_python) {
  namespace fs = std::filesystem;
  constexpr const char* kOfPython[] = {".py"};
  constexpr const char* kOfJavaScript[] = {"", ".js", ".json", ".mjs", ".cjs", ".ts", ".mts", ".cts"};
  std::error_code failed;
  if (fs::is_directory(folder / module, failed)) return true;
  return std::ranges::any_of(
      is_python ? std::span<const char* const>(kOfPython) : kOfJavaScript,
      [&](const char* ending) { return fs::is_regular_file(folder / (module.string() + ending), failed); });
}

// For a module that the program did not find, and that is next to it. JavaScript's message names a flag with
// a directory to fill in: this does that.
bool hint_at_module_beside(const std::string& file, sandbox::ReportError& error) {
  namespace fs = std::filesystem;
  const bool is_python = error.code == "ModuleNotFoundError";
  const std::string name = is_python ? sandbox::path_in(error.message) : first_in_quotes(error.message);
  if (!is_python && !(error.message.starts_with("Cannot find module '") && name.starts_with("./")))
    return false;
  const fs::path module = fs::path(name).lexically_normal();
  if (module.empty() || module.is_absolute() || *module.begin() == "..") return is_python;
  const fs::path folder = fs::path(file).parent_path();
  const fs::path here = folder.empty() ? fs::path(".") : folder;
  if (!is_module_in(here, module, is_python)) return is_python;
  const std::string flag = "--dir " + here.string() + ":/:ro";
  error.hint = name + " is next to the program, and not granted: " + flag + " grants it.";
  for (std::string* const text : {&error.message, &error.traceback})
    for (size_t at; (at = text->find("--allow fs:read:HOST_DIRECTORY:")) != std::string::npos;)
      text->replace(at, text->find_first_of(" '\n", at + sizeof "--allow") - at, flag);
  return true;
}

// A path of this machine, without following symbolic links and without a trailing slash.
std::filesystem::path absolute_path(const std::filesystem::path& path) {
  std::error_code failed;
  const std::filesystem::path absolute = std::filesystem::absolute(path, failed).lexically_normal();
  return absolute.has_filename() ? absolute : absolute.parent_path();
}

// Where the program sees a file of this machine: "/data/x.csv" for "data/x.csv". "" if no grant covers it.
std::string seen_at(const policy::Policy& policy, const std::filesystem::path& path) {
  const std::filesystem::path wanted = absolute_path(path);
  for (const policy::FsGrant& grant : policy.fs) {
    const std::filesystem::path rest = wanted.lexically_relative(absolute_path(grant.host));
    if (rest.empty() || *rest.begin() == "..") continue;
    return (rest == "." ? std::filesystem::path(grant.guest) : std::filesystem::path(grant.guest) / rest)
        .string();
  }
  return "";
}

// For a path below the working directory that is not granted: the flag that grants it, or that it does not
// exist here either.
std::string hint_at_path_below(const std::filesystem::path& path, const policy::Policy& policy,
                               const std::string& hint) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const auto here = [](const fs::path& what, const std::string& grant) {
    return what.string() + " is here, and not granted: " + policy::allow_flag(grant) + " grants it.";
  };
  const fs::path below = path.lexically_normal();
  const fs::path folder = below.has_parent_path() ? below.parent_path() : below;
  if (hint.starts_with(sandbox::kNoDirectory))  // the program writes
    return fs::is_directory(folder, failed)
               ? here(folder, "fs:write:" + folder.string() + ":/" + folder.string())
               : hint;
  if (fs::exists(below, failed)) return here(path, "fs:read:" + folder.string() + ":/" + folder.string());
  if (failed) return hint;
  return path.string() + " is not here, either." +
         (policy.fs.empty() ? "" : " " + sandbox::granted_directories(policy));
}

// A file that a program in a language did not find may exist here, and be visible elsewhere or not granted: a
// file of a grant, a file below the working directory, or a module next to the program. Nothing is said of
// other places: a program must not learn what exists on this machine.
void hint_at_file_here(const Options& options, const policy::Policy& policy, sandbox::Report& report) {
  namespace fs = std::filesystem;
  if (report.errors.empty()) return;
  sandbox::ReportError& error = report.errors.front();
  const fs::path path(sandbox::path_in(error.message));
  if (path.empty()) return;
  if (!options.file.empty() && hint_at_module_beside(options.file, error)) return;
  if (error.code != "FileNotFoundError" && !error.message.starts_with("ENOENT: ")) return;
  std::error_code failed;
  const std::string seen = seen_at(policy, path);
  if (!seen.empty() && seen != ("/" / path).lexically_normal() &&
      fs::exists(fs::symlink_status(path, failed))) {
    error.hint = path.string() + " is granted, and the program sees it as " + seen + ": open that.";
    return;
  }
  if (path.is_absolute() || *path.lexically_normal().begin() == "..") return;
  error.hint = hint_at_path_below(path, policy, error.hint);
}

// The program's input: what --input names, else standard input, unless the program itself came from there. At
// a terminal a program in a language has none: reads return the end of file.
Result<std::optional<InputSource>> input_of(const Options& options, bool is_engines) {
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

// Options that only the other kinds have are refused, not ignored.
Status check_for_linux(const Options& options) {
  const std::pair<bool, const char*> absent[] = {{!options.language.empty(), "--lang"},
                                                 {options.entry.has_value(), "--invoke"},
                                                 {!options.journal_file.empty(), "--journal"},
                                                 {!options.replay_file.empty(), "--replay"},
                                                 {!options.freeze_after.empty(), "--freeze-after"},
                                                 {!options.snapshot_file.empty(), "--snapshot"},
                                                 {!options.out.empty(), "--out"},
                                                 {options.tier != "auto", "--tier"},
                                                 {!options.code_cache.empty(), "--code-cache"},
                                                 {options.in_process, "--in-process"},
                                                 {options.packages.given(), "--with"}};
  for (const auto& [is_given, name] : absent)
    if (is_given)
      return fail(ErrorCode::kUnsupported, std::string(name) + " is not for --kind linux",
                  "Remove it; docs/linux.md lists the options of this kind.");
  if (!options.has_terminal) return {};
  if (!options.seal_file.empty())
    return fail(ErrorCode::kUnsupported, "what is typed on a terminal is not sealed",
                "Leave --tty or --seal out.");
  if (options.json)
    return fail(ErrorCode::kInvalidArgument, "--json keeps what a command prints, and --tty shows it",
                "Remove one of them.");
  if (!options.input_file.empty())
    return fail(ErrorCode::kInvalidArgument,
                "with --tty the terminal is the input, and --input names another", "Remove one of them.");
  return {};
}

// The file of --input, unread: standard input for "" and "-".
class HostInput {
 public:
  static Result<HostInput> open(const std::string& path) {
    HostInput input;
    if (path.empty() || path == "-") return input;
    input.file_ = linux::HostFile(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!input.file_)
      return fail(ErrorCode::kNotFound, path + " cannot be read: " + std::strerror(errno), "");
    return input;
  }
  [[nodiscard]] int number() const { return file_ ? file_.number() : STDIN_FILENO; }
  // The whole input, for a receipt: it is read to its end first. A terminal gives nothing.
  Result<std::string> read_all(uint64_t most_bytes) {
    std::string bytes;
    if (!file_ && is_terminal(stdin)) return bytes;
    std::string piece(64u << 10, '\0');
    for (;;) {
      const ssize_t count = ::read(number(), piece.data(), piece.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0)
        return fail(ErrorCode::kUnavailable,
                    std::string("the input cannot be read: ") + std::strerror(errno));
      if (count == 0) break;
      bytes.append(piece, 0, static_cast<size_t>(count));
      if (bytes.size() > most_bytes)
        return fail(ErrorCode::kExhausted, "the input has more than " + std::to_string(most_bytes) + " bytes",
                    "Remove --seal, or raise --bytes-in.");
    }
    linux::HostFile again(memfd_create("membrane-input", MFD_CLOEXEC));
    for (size_t at = 0; again && at < bytes.size();) {
      const ssize_t done =
          ::pwrite(again.number(), bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
      if (done <= 0) return fail(ErrorCode::kExhausted, "there is not enough memory for the command's input");
      at += static_cast<size_t>(done);
    }
    file_ = std::move(again);
    return bytes;
  }

 private:
  linux::HostFile file_;
};

// A script for the sandbox's shell, with its name and its arguments.
std::vector<std::string> shell_command(std::string script, std::string name) {
  return {"/bin/sh", "-c", "s=/bin/sh; [ -x /bin/bash ] && s=/bin/bash; exec $s -c \"$0\" \"$@\"",
          std::move(script), std::move(name)};
}

// Whether the first line names a shell: sh, bash or dash, however they are found.
bool is_for_shell(std::string_view script) {
  if (!script.starts_with("#!")) return false;
  std::string_view line = script.substr(2, script.find('\n') - 2);
  line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
  const std::string_view word = line.substr(line.find_last_of(" /") + 1);
  return word == "sh" || word == "bash" || word == "dash";
}

bool is_shell_file(const std::string& path) {
  if (path.ends_with(".sh")) return true;
  std::string head(128, '\0');
  std::ifstream(path).read(head.data(), static_cast<std::streamsize>(head.size()));
  return is_for_shell(head);
}

// If no kind is named, chooses the least powerful one that works: a word that is not a file here is a command
// of an image, and a shell script needs one. Returns why it is Linux; "" when it is not.
std::string why_linux(const Options& options) {
  if (!options.image.empty()) return "--image names one";
  if (options.text || options.file.empty() || options.file == "-" || !options.language.empty()) return "";
  std::error_code error;
  // A directory is not a program: `node -v` in a place with a directory node.
  if (!std::filesystem::exists(options.file, error) || std::filesystem::is_directory(options.file, error))
    return options.file.find_first_of("./") == std::string::npos
               ? "there is no file " + options.file + " here, and a command may have that name"
               : "";
  return is_shell_file(options.file) ? options.file + " is a script for a shell" : "";
}

// Whether the word in a command's place is a script of this machine for the sandbox's shell. If the kind is
// named, a path belongs to the sandbox, and so does a name that is not a script's.
bool is_script_here(const Options& options, bool is_guessed) {
  if (options.text || options.file.empty()) return false;
  if (options.file == "-") return true;
  if (!is_guessed && options.file.contains('/')) return false;
  std::error_code error;
  return std::filesystem::is_regular_file(options.file, error) && is_shell_file(options.file);
}

// The word to run is not a program of the sandbox, but a file of this machine.
void hint_at_host_file(const Options& options, const policy::Policy& policy, bool is_guessed,
                       sandbox::Report& report) {
  constexpr int kNotThere = 127;
  if (options.text || options.file.empty() || report.errors.empty() || report.exit_code != kNotThere ||
      report.outcome != sandbox::Outcome::kInvalid)
    return;
  std::string& hint = report.errors.front().hint;
  std::error_code error;
  const bool is_image_named = !options.image.empty();
  if (!std::filesystem::is_regular_file(options.file, error)) {
    if (options.arguments.empty() && options.file.contains(' '))
      hint = "A command and its arguments are several words; pass a script for the shell with -e.";
    else if (is_guessed && !is_image_named)
      hint = "There is no file " + options.file + " here, and no such program in the image.";
    return;
  }
  const std::string name = std::filesystem::path(options.file).filename().string();
  if (!policy.fs.empty()) {
    hint = options.file + " is a file of this machine: name it as the sandbox sees it, as ./" + name +
           " where its directory is granted.";
    return;
  }
  if (is_shell_file(options.file)) {
    hint = options.file +
           " is a script of this machine, which the sandbox does not see. Its shell runs it as " +
           (is_image_named ? "membrane run --kind linux --image " + options.image + " - < " + options.file
                           : "membrane run " + options.file) +
           "; --dir . grants this directory, as /work.";
    return;
  }
  const std::string interpreter = name.ends_with(".py") ? "python3" : name.ends_with(".js") ? "node" : "";
  hint = options.file + " is a file of this machine, which the sandbox does not see. ";
  hint += interpreter.empty() ? "--dir . grants this directory, as /work."
                              : "Give it to a program: membrane run --kind linux -- " + interpreter +
                                    " - < " + options.file + "; or grant this directory with --dir .";
}

Result<std::vector<std::string>> linux_words(const Options& options, bool is_script) {
  std::vector<std::string> words;
  if (options.text) {
    words = shell_command(*options.text, "-e");
    if (!options.file.empty()) words.push_back(options.file);
  } else if (is_script) {
    MEMBRANE_ASSIGN(std::string script, read_input(options.file, kMaxProgramBytes));
    words = shell_command(std::move(script), options.file);
  } else {
    if (!options.file.empty()) words = {options.file};
  }
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  return words;
}

// Programs that talk to a person when nothing tells them what to do.
bool wants_terminal(const Options& options) {
  constexpr std::string_view kOnes[] = {"bash", "sh",   "python3", "python", "node",
                                        "irb",  "psql", "sqlite3", "gdb"};
  constexpr std::string_view kEditors[] = {"vi", "vim", "nano", "emacs", "less", "top", "htop"};
  if (options.has_terminal || options.text) return false;
  const auto is_one = [&](const auto& names) {
    return std::ranges::find(names, options.file) != std::end(names);
  };
  return is_one(kEditors) || (is_one(kOnes) && options.arguments.empty());
}

// `--kind linux`: the words are a command, not a program's file. `why`: the reason, if no kind was named.
Result<int> run_in_linux(const Options& options, const std::string& why) {
  LinuxCommand command;
  const bool is_guessed = !why.empty() && options.image.empty(),
             is_script = is_script_here(options, is_guessed);
  command.is_whole = options.text.has_value() || is_guessed || is_script;
  command.image = options.image;
  command.directory = options.directory;
  command.platform = options.platform;
  command.diff_file = options.diff_file;
  MEMBRANE_ASSIGN(command.arguments, linux_words(options, is_script));
  MEMBRANE_ASSIGN(command.environment, linux_environment(options.environment));
  MEMBRANE_TRY(check_for_linux(options));
  MEMBRANE_ASSIGN(command.policy,
                  linux_policy(options.policy, options.has_terminal ? terminal_limits() : linux_limits()));
  if (options.deterministic)
    command.deterministic =
        linux::Determinism{.start_ms = command.policy.time.start_ms, .seed = command.policy.random.seed};
  HostInput input;
  MEMBRANE_ASSIGN(input, HostInput::open(options.input_file));
  MEMBRANE_ASSIGN(const auto seal, RunSeal::open(options.seal_file, options.force));
  if (seal != nullptr) {
    MEMBRANE_ASSIGN(std::string given, input.read_all(command.policy.limits.bytes_in));
    command.on_made = [&seal, given = std::move(given)](std::string description,
                                                        sandbox::Invocation invocation) {
      invocation.given_input = given;
      seal->in_computer(std::move(description), std::move(invocation));
    };
  }
  command.input = input.number();
  command.has_terminal = options.has_terminal;
  if (wants_terminal(options) && options.input_file.empty() && is_terminal(stdin) && is_terminal(stdout))
    print(stderr, "note: " + options.file +
                      " has no terminal here; -t gives it this one, and membrane shell is one\n");
  std::signal(SIGINT, [](int) { interrupted = true; });
  Output output;
  if (!options.json) {
    command.on_output = [&](std::string_view bytes) {
      output.write_out(bytes);
      std::fflush(stdout);  // readers of a pipe or file see it at once, even if this process dies
    };
    command.on_error = [&](std::string_view bytes) { output.write_error(bytes); };
  }
  MEMBRANE_ASSIGN(sandbox::Report report, run_linux(command, interrupted));
  report.kind_reason = why;
  hint_at_host_file(options, command.policy, is_guessed, report);
  output.finish();
  sandbox::Program program;
  if (!command.arguments.empty()) program.source = command.arguments.front();
  const Status sealed = seal == nullptr ? Status() : seal->finish(program, command.policy, report);
  show(report, options);
  return sealed ? exit_code_of(report) : complain_unsealed(sealed.error());
}

// A program of the host's Linux is refused with a hint where such programs run.
Status check_no_elf(const Options& options) {
  if (options.is_thaw || options.text || options.file.empty() || options.file == "-") return {};
  if (!is_elf(options.file)) return {};
  return fail(ErrorCode::kInvalidArgument,
              options.file + " is an ELF program, neither a WebAssembly binary nor WAT",
              "Programs of Linux run in an image, which has its own: membrane run --kind linux -- " +
                  std::filesystem::path(options.file).filename().string());
}

Result<int> run(const Options& options) {
  if (!options.kind.empty() && options.kind != "wasm" && options.kind != "linux")
    return fail(ErrorCode::kInvalidArgument, "--kind " + options.kind + " is unknown",
                "Write wasm or linux.");
  if (options.kind == "linux") return run_in_linux(options, "");
  if (options.kind.empty())
    if (const std::string why = why_linux(options); !why.empty()) return run_in_linux(options, why);
  if (options.has_terminal)
    return fail(ErrorCode::kInvalidArgument, "--tty is for --kind linux", "Remove it.");
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
                "Add --kind linux, or remove it.");
  if (!options.diff_file.empty())
    return fail(ErrorCode::kInvalidArgument, "--diff is for --kind linux", "Add --kind linux, or remove it.");
  if (options.file.empty() && !options.text)
    return fail(ErrorCode::kInvalidArgument, "no program was given", "Pass a file, or -e and the text.");
  if (options.entry && options.entry->empty())
    return fail(ErrorCode::kInvalidArgument, "--invoke names no function",
                "Pass the name of an export, or remove --invoke to call _start, run or main.");
  MEMBRANE_TRY(check_no_elf(options));
  OwnWorker worker;
  if (!options.in_process && options.code_cache.empty()) {
    MEMBRANE_ASSIGN(worker, take_worker());
    keep_shared_until_exit(worker);  // so that nobody waits for its end
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
    MEMBRANE_ASSIGN(NewFile file, NewFile::create(options.snapshot_file));
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
  std::signal(SIGINT, [](int) { interrupted = true; });
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // readers of a pipe see each line at once
  Output output;
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
  const Status sealed = seal == nullptr ? Status() : seal->finish(source.program, run_options.policy, report);
  hint_at_file_here(options, run_options.policy, report);
  output.finish();
  if (out) {
    out->keep_images(report);
    report.kept = out->kept();
  }
  if (report.outcome == sandbox::Outcome::kFrozen) MEMBRANE_TRY(snapshot->commit(report.snapshot));
  show(report, options);
  if (out && !out->status()) return complain(out->status().error());
  if (!sealed) return complain_unsealed(sealed.error());
  if (recorded == nullptr) return exit_code_of(report);
  // The report is already printed; so this goes to standard error, with --json, too.
  const Status written = recorded->finish();
  return written ? exit_code_of(report) : complain(written.error());
}

// Shared by run and thaw.
void add_options(CLI::App* command, Options* options) {
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

void add_run(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
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
      ->add_option(
          "-w,--workdir", options->directory,
          "Of --kind linux: where the command begins (default: as the image says, /work where that is "
          "granted, else /root)")
      ->type_name("DIR");
  command->add_flag("-t,--tty", options->has_terminal,
                    "With --kind linux: this terminal is the command's, as with membrane shell");
  add_repeatable(
      *command, "--env", options->environment,
      "An environment variable of a WASI program; NAME alone passes the one of this process; may be "
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
  auto options = std::make_shared<Options>();
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
