#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/environment.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/cli.h"
#include "host/egress/http_egress.h"
#include "lang/foreign_source.h"
#include "lang/language_names.h"
#include "lang/program_language.h"
#include "policy/directory_flag.h"
#include "policy/granted_files.h"
#include "sandbox/report/report.h"
#include "sandbox/session/language_templates.h"

namespace membrane::cli {
CLI::Option* add_repeatable(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                            const std::string& help) {
  // Otherwise an option of a list takes every word that follows it.
  return command.add_option(name, values, help)->expected(1)->take_all()->allow_extra_args(false);
}

void PolicyOptions::add_to(CLI::App& command, Of of, Kinds kinds) {
  command.add_option("--policy", file, "Policy file, TOML or JSON (docs/policy.md)")
      ->type_name("FILE")
      ->group("Policy");
  add_repeatable(
      command, "--allow", allow_,
      of == Of::kService
          ? "Grant, on top of the policy: http:GET:https://example.org/*, kv, time, random, and for a "
            "Linux sandbox http:HOST; may be repeated"
      : kinds == Kinds::kLinux
          ? "Grant, on top of the policy: http:example.org, http:GET:https://example.org/*, fs:read:./data; "
            "may be "
            "repeated"
          : "Grant, on top of the policy: http:GET:https://example.org/*, fs:read:./data, kv, "
            "sql:name:file.db, ai, time, random, ask; in a Linux sandbox http and fs alone, and http:HOST "
            "for a whole host; may be repeated")
      ->type_name("GRANT")
      ->group("Policy");
  add_repeatable(
      command, "--dir", directories_,
      kinds == Kinds::kLinux
          ? "Grant a directory, to be read and written, or with :ro only read. It is mounted under the same "
            "relative path (. at /work, where the command begins then), or at GUEST; may be repeated"
      : kinds == Kinds::kBoth
          ? "Grant a directory, to be read and written, or with :ro only read. The program sees it under "
            "the same relative path (. is /; in a Linux sandbox /work, where the command begins then), or "
            "at GUEST; may be repeated"
          : "Grant a directory, to be read and written, or with :ro only read. The program sees it under "
            "the same relative path (. is /), or at GUEST; may be repeated")
      ->type_name("HOST[:GUEST][:ro]")
      ->group(of == Of::kService ? "" : "Policy");
  constexpr const char* kOfAll = "Limits";
  const bool is_both = kinds == Kinds::kBoth, is_linux = kinds == Kinds::kLinux;
  add_limit(command, kOfAll, "memory", "SIZE",
            is_linux  ? "Memory of all processes, as 512MiB (default: 2GiB)"
            : is_both ? "Memory, as 64MiB (default: 64MiB; in a language 512MiB; of a Linux sandbox 2GiB)"
                      : "Memory, as 64MiB (default: 64MiB; in a language 512MiB)");
  add_limit(command, kOfAll, "wall", "TIME",
            is_linux ? "Time on the clock, as 10s or 5min (default: a week)"
            : is_both
                ? "Time on the clock, as 10s or 500ms (default: 10s; in a language 30s; in a Linux sandbox "
                  "10min)"
                : "Time on the clock, as 10s or 500ms (default: 10s; in a language 30s)");
  add_limit(command, kOfAll, "output", "SIZE",
            is_linux                        ? "Output limit (default: 1GiB)"
            : is_both && of == Of::kService ? "Output limit (default: 1MiB; in a Linux sandbox 16MiB)"
            : is_both                       ? "Output limit (default: 1MiB; in a Linux sandbox 64MiB)"
                                            : "Output limit (default: 1MiB)");
  if (!is_linux) add_limits_of_wasm(command, is_both ? "Limits of WebAssembly and of languages" : kOfAll);
  if (kinds != Kinds::kWasm) add_limits_of_linux(command, is_both ? "Limits of --kind linux" : kOfAll);
}

// "--call-depth" for the limit call_depth.
static std::string flag_of(const std::string& limit) {
  std::string flag = "--" + limit;
  std::ranges::replace(flag, '_', '-');
  return flag;
}

void PolicyOptions::add_limit(CLI::App& command, const char* group, const char* name, const char* type,
                              const char* help) {
  limits_.push_back(std::make_unique<Limit>(Limit{name, {}}));
  command.add_option(flag_of(name), limits_.back()->value, help)->type_name(type)->group(group);
}

void PolicyOptions::add_limits_of_wasm(CLI::App& command, const char* group) {
  const auto add = [&](const char* name, const char* type, const char* help) {
    add_limit(command, group, name, type, help);
  };
  add("fuel", "N", "Instructions that may run, as 1000000 or 2e9 (default: 1e9; in a language 1e11)");
  add("stack", "SIZE", "Value stack (default: 1MiB; in a language 64MiB)");
  add("call_depth", "N", "Nested calls (default: 10000; in a language 1000000)");
  add("table_elements", "N", "Elements of tables (default: 100000)");
  add("module", "SIZE", "Size of the program itself (default: 64MiB; 256MiB for run)");
  add("host_calls", "N", "Host calls that reach outside (default: 1000; in a language 10000)");
  add("bytes_in", "SIZE", "Bytes from outside to the program (default: 64MiB; in a language 1GiB)");
  add("bytes_out", "SIZE", "Bytes from the program to the outside (default: 16MiB; in a language 256MiB)");
  add("tokens", "N", "Tokens of models (default: 100000)");
}

void PolicyOptions::add_limits_of_linux(CLI::App& command, const char* group) {
  add_limit(command, group, "disk", "SIZE", "Bytes that the sandbox may write (default: 1GiB)");
  add_limit(command, group, "tasks", "N", "Processes and threads at a time (default: 512)");
  add_limit(command, group, "cpu", "TIME",
            "CPU time of all processes, as long as the sandbox lives (default: a week)");
}

Result<policy::Policy> PolicyOptions::policy(const policy::Limits& unless_given) const {
  policy::Policy policy;
  policy.limits = unless_given;
  if (!file.empty()) {
    MEMBRANE_ASSIGN(policy, policy::load_policy(file, unless_given));
  }
  for (const std::string& grant : allow_) MEMBRANE_TRY(policy::allow(policy, grant));
  for (const std::string& directory : directories_) MEMBRANE_TRY(policy::allow_directory(policy, directory));
  MEMBRANE_TRY(set_limits(policy.limits));
  return policy;
}

Result<policy::Policy> PolicyOptions::changed(const policy::Policy& has) const {
  if (has_grants()) return policy(has.limits);
  policy::Policy policy = has;
  MEMBRANE_TRY(set_limits(policy.limits));
  return policy;
}

bool PolicyOptions::is_empty() const {
  return !has_grants() &&
         std::ranges::all_of(limits_, [](const auto& limit) { return limit->value.empty(); });
}

Status check_granted(const policy::Policy& policy) {
  MEMBRANE_TRY(policy::check_granted_files(policy));
  return host::check_granted_secrets(policy.http);
}

uint64_t PolicyOptions::most_program_bytes(uint64_t usual, uint64_t most) const {
  policy::Limits limits;
  limits.module_bytes = file.empty() ? usual : most;
  return set_limits(limits) ? std::max(usual, limits.module_bytes) : most;
}

Status PolicyOptions::set_limits(policy::Limits& limits) const {
  for (const auto& limit : limits_) {
    if (limit->value.empty()) continue;
    MEMBRANE_TRY(policy::set_limit(limits, limit->name, limit->value, flag_of(limit->name)));
  }
  return {};
}

namespace {

constexpr std::string_view kNotebook = "a notebook";

// What a file that no installed language claims contains, by the end of its name; "" if it may be one of ours.
std::string_view foreign_program(std::string_view name) {
  constexpr std::pair<std::string_view, std::string_view> kEndings[] = {
      {".rb", "Ruby"},      {".pl", "Perl"}, {".php", "PHP"},     {".lua", "Lua"},
      {".r", "R"},          {".R", "R"},     {".go", "Go"},       {".rs", "Rust"},
      {".c", "C"},          {".cc", "C++"},  {".cpp", "C++"},     {".java", "Java"},
      {".kt", "Kotlin"},    {".cs", "C#"},   {".swift", "Swift"}, {".ps1", "PowerShell"},
      {".ipynb", kNotebook}};
  const auto* const found =
      std::ranges::find_if(kEndings, [&](const auto& each) { return name.ends_with(each.first); });
  return found == std::end(kEndings) ? std::string_view() : found->second;
}

}  // namespace

Result<std::string> program_language(const std::string& word, const std::string& file,
                                     std::string_view source) {
  if (!word.empty()) return lang::language_named(word);
  if (std::string language = lang::language_of(file, source); !language.empty()) return language;
  const std::string name = file == "-" ? "standard input" : std::filesystem::path(file).filename().string();
  const std::string_view what = foreign_program(name);
  if (what == kNotebook)
    return fail(ErrorCode::kInvalidArgument, name + " is a notebook, and not a program",
                "Make one of its code: jupyter nbconvert --to script " + file + ".");
  // A text of no installed language, or an empty or binary one, is reported as WAT.
  const auto foreign = lang::foreign_source(source, name);
  if (foreign && !foreign->found.contains("Python") && !foreign->found.contains("JavaScript")) return "wat";
  if (!what.empty())
    return fail(
        ErrorCode::kInvalidArgument,
        name + " is " + std::string(what) + ", which is not among the installed languages",
        "membrane languages list shows them. Any WASI command can be added as one (docs/languages.md), and a "
        "Linux sandbox runs what its image has: membrane run --kind linux.");
  const std::string guess = lang::guessed_language(source);
  if (guess.empty())
    return fail(ErrorCode::kInvalidArgument, name + " does not say what language it is in",
                "Pass --lang python, js or wat.");
  print(stderr, "membrane: " + name + " looks like " + (guess == "js" ? "JavaScript" : "Python") +
                    ", and runs as that; --lang says what it is\n");
  return guess;
}

int exit_code_of(const sandbox::Report& report) {
  using enum sandbox::Outcome;
  // The last two are for Linux commands that a signal ended, and that could not be started.
  constexpr sandbox::Outcome kWithCode[] = {kOk, kDenied, kRaised, kTrapped, kInvalid};
  if (!report.exit_code || std::ranges::find(kWithCode, report.outcome) == std::end(kWithCode))
    return sandbox::exit_code_of(report.outcome);
  return sandbox::exit_code_of_process(*report.exit_code);
}

Result<std::vector<std::pair<std::string, std::string>>> environment_of(
    const std::vector<std::string>& written) {
  std::vector<std::pair<std::string, std::string>> environment;
  for (const std::string& each : written) {
    const size_t equals = each.find('=');
    std::string name = each.substr(0, equals);
    if (name.empty())
      return fail(ErrorCode::kInvalidArgument, "--env " + each + " names no variable",
                  "Write --env NAME=VALUE, or --env NAME to pass the one of this process.");
    std::optional<std::string> value;
    if (equals != std::string::npos) value = each.substr(equals + 1);
    else if (const char* const inherited = std::getenv(name.c_str())) value = inherited;
    else
      print_styled(stderr,
                   "membrane: no variable " + printable_line(name) + " is set here, and --env " +
                       printable_line(name) + " passes none\n  hint: Write --env NAME=VALUE to give one. " +
                       printable_line(advice_to_pass_on("membrane run FILE", "--env " + name)) + "\n");
    std::erase_if(environment, [&](const auto& before) { return before.first == name; });
    if (value) environment.emplace_back(std::move(name), *std::move(value));
  }
  return environment;
}

Result<engine::Tier> tier_of(const std::string& name) {
  if (const auto tier = engine::find_tier(name)) return *tier;
  return fail(ErrorCode::kInvalidArgument, "there is no tier \"" + name + "\"",
              "Use interpreter, compiler or auto.");
}

std::string head_of(const std::string& path, size_t bytes) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return "";
  std::string head(bytes, '\0');
  std::ifstream(path, std::ios::binary).read(head.data(), static_cast<std::streamsize>(bytes));
  return head;
}

bool is_elf(const std::string& path) {
  constexpr std::string_view kElf =
      "\x7f"
      "ELF";
  return head_of(path, kElf.size()) == kElf;
}

Result<std::string> read_input(const std::string& path, uint64_t max_bytes, std::string_view magic) {
  if (path.empty())
    return fail(ErrorCode::kInvalidArgument, "a file's name is empty",
                "Name a file; \"-\" reads standard input.");
  const bool is_stdin = path == "-";
  std::FILE* const file = is_stdin ? stdin : std::fopen(path.c_str(), "rb");
  if (file == nullptr)
    return fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                "cannot open " + path + ": " + std::strerror(errno),
                "Check the path; \"-\" reads standard input.");
  std::string text;
  std::error_code error;
  const uint64_t size = is_stdin ? 0 : std::filesystem::file_size(path, error);  // there is room for one copy
  if (!error) text.reserve(std::min(size, max_bytes));
  char buffer[65536];
  for (bool more = true;
       more && text.size() <= max_bytes && text.starts_with(magic.substr(0, text.size()));) {
    const size_t got = std::fread(buffer, 1, sizeof buffer, file);
    text.append(buffer, got);
    more = got == sizeof buffer;  // less is the end, or a failure
  }
  const bool failed = std::ferror(file) != 0;
  const int why = errno;
  if (!is_stdin) std::fclose(file);
  if (failed)
    return fail(ErrorCode::kUnavailable, "cannot read " + path + ": " + std::strerror(why),
                why == EISDIR ? "Name a file in it." : "");
  if (text.size() > max_bytes)
    return fail(ErrorCode::kExhausted, path + " has more than " + count_of(max_bytes, "byte"));
  return text;
}

Status write_output(const std::string& path, std::string_view text) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr)
    return fail(ErrorCode::kUnavailable, "cannot write " + path + ": " + std::strerror(errno));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !written)
    return fail(ErrorCode::kUnavailable, "cannot write " + path + ": " + std::strerror(errno));
  return {};
}

void print_styled(std::FILE* to, std::string_view text) { std::fwrite(text.data(), 1, text.size(), to); }

void print(std::FILE* to, std::string_view text) {
  if (is_terminal(to)) print_styled(to, printable(text));
  else print_styled(to, text);
}

std::string size_text(uint64_t bytes) {
  return std::to_string((bytes >> 20) + ((bytes & ((1u << 20) - 1)) != 0 ? 1 : 0)) + " MiB";
}

void print_json(std::string json) {
  if (is_terminal(stdout)) json = printable_json(json);
  print(json + "\n");
}

void print_json(const nlohmann::ordered_json& json) {
  print_json(
      json.dump(is_terminal(stdout) ? 2 : -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

int complain(const Error& error, Reader reader) {
  const sandbox::Report report = sandbox::refusal(error);
  if (reader == Reader::kPerson) {
    print_styled(stderr, "membrane: " + printable(error.message) + "\n");
    if (!error.hint.empty()) print_styled(stderr, "  hint: " + printable(error.hint) + "\n");
  } else if (reader == Reader::kReport) {
    print_json(sandbox::render_json(report, is_terminal(stdout)));
  } else {
    const nlohmann::ordered_json object = {
        {"outcome", name_of(report.outcome)},
        {"error", {{"code", name_of(error.code)}, {"message", error.message}, {"hint", error.hint}}}};
    print_json(object);
  }
  return sandbox::exit_code_of(report.outcome);
}

sandbox::TemplateOptions template_options(engine::Tier tier) {
  const auto complain_of = [](std::string_view what) {
    print(stderr, "membrane: " + std::string(what) + "\n");
  };
  sandbox::TemplateOptions options{.cache_directory = sandbox::LanguageTemplates::default_cache_directory(),
                                   .tier = tier,
                                   .on_progress = progress_line(),
                                   .on_problem = complain_of};
  if (!options.on_progress) options.on_wait = complain_of;
  return options;
}

std::function<void(std::string_view step)> progress_line() {
  if (!is_terminal(stderr)) return nullptr;
  struct Line {
    ~Line() { print_styled(stderr, terminal::kEmptyLine); }
  };
  return [line = std::make_shared<Line>()](std::string_view step) {
    print_styled(stderr, std::string(terminal::kEmptyLine) + printable_line(step) + " …");
    std::fflush(stderr);
  };
}

namespace {
std::shared_ptr<worker::Worker> early_worker;
std::shared_ptr<worker::Zygote> early_zygote;
}  // namespace

void start_early(EarlyProcess what) {
  if (what == EarlyProcess::kWorker) {
    if (auto started = worker::Worker::start()) early_worker = *std::move(started);
  } else if (auto started = worker::Zygote::start()) {
    early_zygote = *std::move(started);
  }
}

void end_early() {
  early_worker = nullptr;
  early_zygote = nullptr;
  worker::Worker::reap_ended();
}

Result<std::shared_ptr<worker::Worker>> take_worker() {
  if (early_worker) return std::exchange(early_worker, nullptr);
  return worker::Worker::start();
}

Result<worker::Guests> take_guests(bool in_process) {
  if (in_process) return worker::Guests();
  if (early_zygote) return worker::Guests(std::exchange(early_zygote, nullptr));
  MEMBRANE_ASSIGN(auto zygote, worker::Zygote::start());
  return worker::Guests(std::move(zygote));
}

void add_in_process(CLI::App& command, bool& in_process) {
  command.add_flag("--in-process", in_process,
                   "Run programs in this process, not inside the walls of a worker (docs/walls.md)");
}

bool is_terminal(std::FILE* file) { return isatty(fileno(file)) != 0; }

bool same_file(std::FILE* a, std::FILE* b) {
  struct stat of_a = {}, of_b = {};
  return fstat(fileno(a), &of_a) == 0 && fstat(fileno(b), &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

bool use_colour(std::FILE* to) { return environment_variable("NO_COLOR").empty() && is_terminal(to); }

}  // namespace membrane::cli
