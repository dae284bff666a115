// membrane agent: a task, or a conversation, to its answers.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <optional>

#include "agent/actions/prompt.h"
#include "agent/loop/executor.h"
#include "agent/loop/loop.h"
#include "agent/loop/transcript.h"
#include "agent/model/model_client.h"
#include "agent/terminal/console.h"
#include "agent/terminal/interrupt.h"
#include "agent/terminal/person.h"
#include "agent/terminal/repl.h"
#include "base/json.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/agent_computer.h"
#include "cli/cli.h"
#include "cli/out_directory.h"
#include "cli/package_options.h"
#include "cli/seal.h"
#include "computers/settings.h"
#include "policy/restrict.h"
#include "sandbox/session/language_templates.h"

namespace membrane::cli {
namespace {

struct Options {
  std::string task;
  std::string model_file;
  std::string replay_file;
  bool in_process = false;
  std::string transcript_file;
  std::string seal_directory;
  std::string catalog_directory;
  std::vector<std::string> languages;
  std::string kind, image, platform;  // the last two, and copies, for --kind linux
  std::vector<std::string> copies;
  std::string diff_file, out_directory;  // also for --kind linux
  std::string task_fuel;
  uint32_t max_steps = 20;
  uint32_t max_repairs = 5;
  uint64_t task_wall_s = 600;
  bool no_tools = false;
  bool thoughts = false;
  bool json = false;
  bool print_prompt = false;
  PolicyOptions policy;
  PackageOptions packages;
};

// The ready programs that come with Membrane: next to the installed command, or in the sources from which it
// was built.
std::string catalog_directory_of(const Options& options) {
  if (!options.catalog_directory.empty()) return options.catalog_directory;
  if (const char* const named = std::getenv("MEMBRANE_CATALOG")) return named;
  std::error_code error;
  const std::filesystem::path command = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const char* const place : {"../share/membrane/catalog", "../../catalog"})
    if (std::filesystem::is_directory(command / place, error))
      return (command / place).lexically_normal().string();
  return {};
}

// Its programs are in WAT: a user of another language has better means, unless the directory is named.
Result<agent::Catalog> load_catalog(const Options& options, bool has_wat) {
  const std::string directory = catalog_directory_of(options);
  if (directory.empty() || (!has_wat && options.catalog_directory.empty())) return agent::Catalog();
  MEMBRANE_ASSIGN(agent::Catalog catalog, agent::Catalog::load(directory));
  for (const Error& problem : catalog.problems())
    print(stderr, "membrane: catalog: " + printable(problem.to_string()) + "\n");
  return catalog;
}

// One prepaid budget for all steps and the models they call. Each task has its own wall time (LoopOptions).
//
// Programs in WAT use little, and --fuel is for all of them. In another language an endless loop is a common
// slip: there --fuel applies to each program, as --wall does.
Result<std::shared_ptr<policy::Budget>> budget_of(const Options& options, policy::Limits limits,
                                                  bool has_session) {
  if (!options.task_fuel.empty()) {
    MEMBRANE_TRY(policy::set_limit(limits, "fuel", options.task_fuel, "--task-fuel"));
  } else if (has_session) {
    limits.fuel = limits.fuel > UINT64_MAX / options.max_steps ? UINT64_MAX : limits.fuel * options.max_steps;
  }
  auto budget = std::make_shared<policy::Budget>(limits);
  budget->set_deadline(std::chrono::steady_clock::time_point::max());
  return budget;
}

// The source of answers: a recording, a file of answers, or a server.
struct Speaker {
  std::optional<agent::Recording> recording;  // kept for comparison
  std::unique_ptr<agent::RecordedModel> recorded;
  std::unique_ptr<agent::ModelClient> client;
  std::optional<agent::HostModel> host_model;
  [[nodiscard]] agent::ChatModel& model() {
    return client ? static_cast<agent::ChatModel&>(*client) : *recorded;
  }
};

Status choose_speaker(const Options& options, const std::atomic<bool>& cancel, Speaker& speaker) {
  if (speaker.recording) {
    speaker.recorded = std::make_unique<agent::RecordedModel>(*speaker.recording);
    return {};
  }
  MEMBRANE_ASSIGN(agent::ModelConfig config,
                  agent::model_config_from([](const char* name) { return std::getenv(name); }));
  config.tools = !options.no_tools;
  MEMBRANE_ASSIGN(speaker.client, agent::ModelClient::create(std::move(config)));
  speaker.host_model.emplace(*speaker.client, &cancel);
  return {};
}

// What --replay or --model-file names, if either is given.
Result<std::optional<agent::Recording>> load_recording(const Options& options) {
  const std::string& file = options.replay_file.empty() ? options.model_file : options.replay_file;
  if (file.empty()) return std::nullopt;
  MEMBRANE_ASSIGN(agent::Recording recording, agent::Recording::load(file));
  return recording;
}

// The named languages, else those of the recording, else the best one that is installed.
Result<std::vector<agent::ActionLanguage>> languages_of(const Options& options,
                                                        const std::optional<agent::Recording>& recording) {
  if (!options.languages.empty() || options.replay_file.empty())
    return agent::choose_languages(options.languages);
  return agent::choose_languages(recording->languages);
}

// The grants: a replay gets no more than when it was recorded, with the recorded limits where none are given.
// Differences are reported.
Result<policy::Policy> policy_of(const Options& options, const std::optional<agent::Recording>& recording,
                                 const policy::Limits& usual) {
  if (options.replay_file.empty() || recording->plain) return options.policy.policy(usual);
  auto recorded = policy::parse_policy(recording->policy_json, options.replay_file + ".json");
  if (!recorded)
    return fail(
        ErrorCode::kInvalidInput,
        "the policy in the header of " + options.replay_file + " cannot be read: " + recorded.error().message,
        "Name a transcript that --transcript or /save has written.");
  MEMBRANE_ASSIGN(const policy::Policy given, options.policy.policy(recorded->limits));
  policy::Restricted restricted = policy::restrict(given, *recorded);
  for (const std::string& difference : restricted.differences)
    print(stderr, "membrane: replay: " + printable_line(difference) + "\n");
  return std::move(restricted.policy);
}

using Templates = std::map<std::string, std::shared_ptr<const sandbox::Template>>;

Result<Templates> open_templates(const Options& options, const policy::Policy& policy,
                                 std::span<const agent::ActionLanguage> languages,
                                 const std::atomic<bool>& cancel) {
  // Never destroyed: the process is about to end, and a language is large.
  static auto* const opened = new sandbox::LanguageTemplates(template_options(engine::Tier::kAuto));
  Templates templates;
  for (const agent::ActionLanguage& language : languages) {
    if (language.name == agent::kWat) continue;
    MEMBRANE_ASSIGN(auto found, opened->open_for_session(language.name));
    MEMBRANE_ASSIGN(templates[language.name],
                    options.packages.provide(std::move(found), policy, options.policy.file, &cancel));
  }
  return templates;
}

// --with is for the one language that supports packages.
Status join_packages(const Options& options, std::span<const agent::ActionLanguage> languages,
                     policy::Policy& policy) {
  if (!options.packages.given()) return {};
  std::optional<lang::Driver> driver;
  for (const agent::ActionLanguage& language : languages) {
    if (language.name == agent::kWat) continue;
    MEMBRANE_ASSIGN(const lang::Package package, lang::find_package(language.name));
    if (package.driver == lang::Driver::kStdin) continue;
    if (driver && *driver != package.driver)
      return fail(ErrorCode::kInvalidArgument,
                  "--with does not say which of the languages its package is for",
                  "Name it in the policy: [packages] python = [\"NAME\"], or javascript = [\"NAME\"].");
    driver = package.driver;
  }
  return options.packages.join(policy, driver.value_or(lang::Driver::kStdin));
}

// The tasks of a replay are the recorded ones, unless another is given.
Result<std::string> task_of(const Options& options, const Speaker& speaker) {
  if (!options.task.empty() || options.replay_file.empty()) return options.task;
  if (speaker.recording->tasks.size() != 1)
    return fail(ErrorCode::kInvalidArgument,
                "the recording has " + count_of(speaker.recording->tasks.size(), "task"),
                "Name the task to replay, word for word.");
  return speaker.recording->tasks.front();
}

nlohmann::ordered_json json_of(const agent::TaskResult& result) {
  nlohmann::ordered_json j;
  j["stop"] = agent::name_of(result.stop);
  j["answer"] = result.answer;
  if (result.error)
    j["error"] = {{"code", name_of(result.error->code)},
                  {"message", result.error->message},
                  {"hint", result.error->hint}};
  else j["error"] = nullptr;
  j["totals"] = read_ordered_json(agent::totals_json(result.totals)).value_or(nullptr);
  return j;
}

int exit_code_of(const agent::TaskResult& result) {
  if (result.stop == agent::Stop::kAnswered) return kExitOk;
  return result.stop == agent::Stop::kModelFailed ? kExitRequest : kExitGuest;
}

// One task, shown as it proceeds (or, with --json, as one object at its end).
int run_task(const Options& options, const std::string& task, agent::Loop& loop, std::atomic<bool>& cancel,
             const std::optional<agent::Recording>& recording) {
  std::ofstream nowhere;
  agent::Console console(options.json ? static_cast<std::ostream&>(nowhere) : std::cout,
                         {.colour = use_colour(stdout), .thoughts = options.thoughts});
  loop.add_observer(console);
  std::optional<agent::ReplayCheck> check;
  if (!options.replay_file.empty() && !recording->plain) loop.add_observer(check.emplace(*recording));
  const agent::TaskResult result = loop.run(task, cancel);
  if (options.json) print_json(json_of(result));
  if (!check || check->divergences().empty()) return exit_code_of(result);
  for (const std::string& divergence : check->divergences())
    print(stderr, "membrane: replay: " + printable(divergence) + "\n");
  return kExitGuest;
}

// What a task needs, whatever the kind.
struct Work {
  policy::Policy policy;
  agent::Catalog catalog;
  agent::LoopOptions loop;
  std::string prompt;
  bool has_session = false;             // --fuel applies to each program (budget_of)
  std::vector<std::string> given = {};  // options that a replay needs again
  // Runs when tasks are over, even without an answer; may be null.
  std::function<Status()> at_end = nullptr;
};

int run_conversation(const Options& options, agent::Loop& loop, agent::LineReader& in,
                     std::atomic<bool>& cancel, const Work& work, const std::string& model) {
  agent::Console console(std::cout, {.colour = use_colour(stdout), .thoughts = options.thoughts});
  loop.add_observer(console);
  agent::ReplOptions repl;
  repl.policy_explanation = policy::explain(work.policy);
  repl.policy_json = policy::to_json(work.policy);
  repl.model = model;
  repl.languages = work.loop.languages;
  repl.given = work.given;
  if (is_terminal(stdin)) repl.history_file = agent::History::default_path();
  if (is_terminal(stdin)) repl.banner = "Membrane. A line is a task; /help lists commands; Ctrl-D leaves.";
  agent::Repl(loop, in, std::cout, cancel, repl).run();
  return kExitOk;
}

// The other parts of an executor.
struct Means {
  std::shared_ptr<policy::Budget> budget;
  host::Model* model = nullptr;
  host::Person* person = nullptr;
  sandbox::ReceiptBook* receipts = nullptr;
  const std::atomic<bool>& cancel;
};
using MakeExecutor = std::function<Result<agent::Executor>(const Means& means)>;

Result<int> converse(const Options& options, Speaker& speaker, const Work& work, const MakeExecutor& make) {
  const std::vector<agent::ActionLanguage>& languages = work.loop.languages;
  MEMBRANE_ASSIGN(const auto budget, budget_of(options, work.policy.limits, work.has_session));
  agent::Interrupt interrupt;
  MEMBRANE_TRY(choose_speaker(options, interrupt.flag(), speaker));
  MEMBRANE_ASSIGN(const std::string task, task_of(options, speaker));
  if (task.empty() && options.json)
    return fail(ErrorCode::kInvalidArgument, "--json gives the result of one task, and there is none",
                "Write the task after agent, in quotes.");

  std::unique_ptr<agent::LineReader> in;
  if (is_terminal(stdin))
    if (auto terminal = agent::terminal_line_reader(interrupt.flag(), use_colour(stdout)))
      in = std::move(*terminal);
  if (!in)
    in = std::make_unique<agent::StreamLineReader>(std::cin, is_terminal(stdin) ? &std::cout : nullptr);
  agent::ConsolePerson person(*in, std::cout);

  MEMBRANE_ASSIGN(const auto book, open_receipt_book(options.seal_directory));
  MEMBRANE_ASSIGN(agent::Executor executor,
                  make({budget, speaker.host_model ? &*speaker.host_model : nullptr,
                        is_terminal(stdin) ? &person : nullptr, book.get(), interrupt.flag()}));
  agent::Loop loop(speaker.model(), std::move(executor), budget, work.catalog, work.prompt, work.loop);

  std::ofstream transcript;
  std::optional<agent::TranscriptWriter> writer;
  if (!options.transcript_file.empty()) {
    transcript.open(options.transcript_file, std::ios::binary);
    if (!transcript) return fail(ErrorCode::kUnavailable, "cannot write " + options.transcript_file);
    writer.emplace([&](std::string_view line) { transcript << line << std::flush; }, speaker.model().name(),
                   policy::to_json(work.policy), languages, work.given);
    loop.add_observer(*writer);
  }
  std::optional<TaskSealer> sealer;
  if (book != nullptr) loop.add_observer(sealer.emplace(*book, work.policy, speaker.model().name()));
  const int code = task.empty()
                       ? run_conversation(options, loop, *in, interrupt.flag(), work, speaker.model().name())
                       : run_task(options, task, loop, interrupt.flag(), speaker.recording);
  if (work.at_end)
    if (const Status done = work.at_end(); !done) return complain(done.error());
  return book != nullptr && book->problem() ? complain_unsealed(*book->problem()) : code;
}

agent::LoopOptions loop_options_of(const Options& options) {
  agent::LoopOptions loop;
  loop.max_steps = options.max_steps;
  loop.max_repairs = options.max_repairs;
  loop.task_wall_ms = options.task_wall_s * 1000;
  loop.tools = !options.no_tools;
  return loop;
}

Result<int> run_in_languages(const Options& options, Speaker& speaker) {
  Work work;
  work.loop = loop_options_of(options);
  MEMBRANE_ASSIGN(work.loop.languages, languages_of(options, speaker.recording));
  const std::vector<agent::ActionLanguage>& languages = work.loop.languages;
  const bool has_wat = agent::find_language(languages, agent::kWat) != nullptr;
  work.has_session = !has_wat || languages.size() > 1;
  MEMBRANE_ASSIGN(work.policy, policy_of(options, speaker.recording,
                                         work.has_session ? policy::language_limits() : policy::Limits()));
  MEMBRANE_TRY(join_packages(options, languages, work.policy));
  MEMBRANE_ASSIGN(work.catalog, load_catalog(options, has_wat));
  const std::vector<std::string_view> ungranted = agent::ungranted(work.policy);
  work.prompt = agent::build_system_prompt(
      {agent::functions_prompt(languages, ungranted), policy::explain_briefly(work.policy), &work.catalog,
       options.max_steps, work.loop.observation_bytes, ungranted, languages});
  if (options.print_prompt) {
    print(work.prompt);
    return kExitOk;
  }

  MEMBRANE_TRY(check_granted(work.policy));
  MEMBRANE_ASSIGN(const worker::Guests guests, take_guests(options.in_process));
  return converse(options, speaker, work, [&](const Means& means) -> Result<agent::Executor> {
    MEMBRANE_ASSIGN(Templates templates, open_templates(options, work.policy, languages, means.cancel));
    return agent::sandbox_executor({work.policy, means.budget, means.model, means.person,
                                    std::move(templates), means.receipts, guests,
                                    agent::approve_on_terminal()});
  });
}

// Options that only the other kind has are refused, not ignored.
Status check_for_linux(const Options& options) {
  const std::pair<bool, const char*> absent[] = {{!options.languages.empty(), "--language"},
                                                 {!options.catalog_directory.empty(), "--catalog"},
                                                 {!options.task_fuel.empty(), "--task-fuel"},
                                                 {options.in_process, "--in-process"},
                                                 {options.packages.given(), "--with"}};
  for (const auto& [is_given, name] : absent)
    if (is_given)
      return fail(ErrorCode::kUnsupported, std::string(name) + " is not for --kind linux", "Remove it.");
  return {};
}

// A replay in a sandbox with other initial contents differs in everything that follows.
void print_given_options(const Options& options, const std::optional<agent::Recording>& recording,
                         const std::vector<std::string>& given) {
  if (options.replay_file.empty() || recording->plain) return;
  for (const std::string& each : recording->given)
    if (std::ranges::find(given, each) == given.end())
      print(stderr, "membrane: replay: " + printable_line(each) +
                        " was given in the recording, and is not given now\n");
}

// Checks that the results of a task can be written before the task begins.
Status check_results(const Options& options) {
  if (!options.out_directory.empty()) {
    MEMBRANE_TRY(OutDirectory::open(options.out_directory));
  }
  if (options.diff_file.empty()) return {};
  std::ofstream file(options.diff_file, std::ios::binary | std::ios::app);
  if (file) return {};
  return fail(ErrorCode::kUnavailable, "cannot write " + options.diff_file + ": " + std::strerror(errno),
              "Name a file in a writable directory.");
}

Result<int> run_in_computer(const Options& options, Speaker& speaker) {
  constexpr size_t kObservationBytes = 16'000;  // a test's output, part of a file
  MEMBRANE_TRY(check_for_linux(options));
  Work work;
  work.loop = loop_options_of(options);
  work.loop.observation_bytes = kObservationBytes;
  work.loop.history_tokens *= 2;
  work.has_session = true;
  MEMBRANE_ASSIGN(work.policy, policy_of(options, speaker.recording, computers::usual_limits()));
  MEMBRANE_ASSIGN(const auto computer, AgentComputer::start({.image = options.image,
                                                             .platform = options.platform,
                                                             .copies = options.copies,
                                                             .policy = work.policy,
                                                             .max_steps = options.max_steps,
                                                             .observation_bytes = kObservationBytes}));
  agent::ActionLanguage shell = agent::shell();
  shell.without = computer->without();
  work.loop.languages = {std::move(shell)};
  work.prompt = computer->prompt();
  if (options.print_prompt) {
    print(work.prompt);
    return kExitOk;
  }
  for (const std::string& copy : options.copies) work.given.push_back("--copy " + copy);
  if (!options.image.empty()) work.given.push_back("--image " + options.image);
  print_given_options(options, speaker.recording, work.given);
  MEMBRANE_TRY(check_results(options));
  work.at_end = [&]() -> Status {
    if (!options.diff_file.empty()) MEMBRANE_TRY(computer->write_diff(options.diff_file));
    return options.out_directory.empty() ? Status() : computer->write_out(options.out_directory);
  };
  return converse(options, speaker, work,
                  [&](const Means& means) { return computer->executor(means.receipts); });
}

// A transcript names its kind.
bool is_linux(const Options& options, const std::optional<agent::Recording>& recording) {
  if (!options.kind.empty() || options.replay_file.empty()) return options.kind == "linux";
  return std::ranges::find(recording->languages, agent::kShell) != recording->languages.end();
}

Result<int> run(const Options& options) {
  if (!options.kind.empty() && options.kind != "wasm" && options.kind != "linux")
    return fail(ErrorCode::kInvalidArgument, "--kind " + options.kind + " is unknown",
                "Write wasm or linux.");
  Speaker speaker;
  MEMBRANE_ASSIGN(speaker.recording, load_recording(options));
  if (is_linux(options, speaker.recording)) return run_in_computer(options, speaker);
  const std::pair<bool, const char*> absent[] = {{!options.image.empty(), "--image"},
                                                 {!options.copies.empty(), "--copy"},
                                                 {!options.diff_file.empty(), "--diff"},
                                                 {!options.out_directory.empty(), "--out"},
                                                 {!options.platform.empty(), "--platform"}};
  for (const auto& [is_given, name] : absent)
    if (is_given)
      return fail(ErrorCode::kInvalidArgument, std::string(name) + " is for --kind linux",
                  "Add --kind linux, or remove it.");
  return run_in_languages(options, speaker);
}

}  // namespace

void add_agent(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand(
      "agent", "Let a model work on a task: it thinks, runs programs in the sandbox, observes, answers");
  command->add_option("task", options->task, "The task; without one, a conversation");
  command->add_option("--model-file", options->model_file, "Recorded answers instead of a model")
      ->type_name("FILE");
  command
      ->add_option("--replay", options->replay_file,
                   "Run a transcript again, without a model and with no more than was granted then")
      ->type_name("FILE");
  command->add_option("--transcript", options->transcript_file, "Write what happens as JSON lines")
      ->type_name("FILE");
  command
      ->add_option("--seal", options->seal_directory,
                   "Write a signed receipt of each program and of each task into this directory")
      ->type_name("DIR")
      ->excludes("--replay");
  command->add_option("--catalog", options->catalog_directory, "Directory of ready programs")
      ->type_name("DIR");
  add_repeatable(*command, "--language", options->languages,
                 "The model's languages: python, js, wat or an added one; several with commas "
                 "(default: python, else js, else wat, whichever is installed)")
      ->type_name("LANGUAGE,…")
      ->delimiter(',');
  command
      ->add_option("--kind", options->kind,
                   "wasm, or linux: the model acts by shell commands and edits in a sandbox of its own "
                   "(docs/agent.md)")
      ->type_name("KIND");
  command
      ->add_option("--image", options->image, "With --kind linux: the image, or its file (default: debian)")
      ->type_name("IMAGE");
  add_repeatable(*command, "--copy", options->copies,
                 "With --kind linux: copy a directory or file into the sandbox, to /root/NAME or to GUEST; "
                 "what the model "
                 "does to it stays there; may be repeated")
      ->type_name("HOST[:GUEST]");
  command
      ->add_option(
          "--diff", options->diff_file,
          "With --kind linux: write the changes since the task began as a git patch, relative to the one "
          "directory that was copied, or else of the whole sandbox")
      ->type_name("FILE");
  command
      ->add_option(
          "--out", options->out_directory,
          "With --kind linux: write the files that were added or changed since the task began into this "
          "directory, with the paths of --diff")
      ->type_name("DIR");
  command->add_option("--platform", options->platform, "With --kind linux: trap or kvm")
      ->type_name("PLATFORM");
  command->add_option("--max-steps", options->max_steps, "How many programs may run (default: 20)")
      ->type_name("N")
      ->check(CLI::Range(1, 10000).description(""));
  command
      ->add_option("--max-repairs", options->max_repairs,
                   "How many invalid programs in a row are tolerated (default: 5)")
      ->type_name("N")
      ->check(CLI::Range(0, 1000).description(""));
  command
      ->add_option("--task-wall", options->task_wall_s,
                   "Seconds for a task as a whole (default: 600); --wall is for each program")
      ->type_name("S")
      ->check(CLI::Range(1, 1'000'000).description(""));
  command
      ->add_option(
          "--task-fuel", options->task_fuel,
          "Fuel for all programs together (as --fuel; but in a language other than WAT, where --fuel is "
          "for each program, --max-steps times that)")
      ->type_name("F");
  command->add_flag("--no-tools", options->no_tools, "Request only fenced code, not tool calls");
  command->add_flag("--thoughts", options->thoughts, "Show the reasoning of reasoning models");
  command->add_flag("--json", options->json, "Print the result as one JSON object, and nothing else");
  command->add_flag("--print-prompt", options->print_prompt, "Print the system prompt, and exit");
  add_in_process(*command, options->in_process);
  options->policy.add_to(*command, PolicyOptions::Of::kThisMachine, PolicyOptions::Kinds::kBoth);
  options->packages.add_to(*command);
  command->footer(
      "The model is an OpenAI-compatible server: MEMBRANE_MODEL, MEMBRANE_BASE_URL, MEMBRANE_API_KEY "
      "(docs/agent.md).\n"
      "Examples:\n"
      "  membrane agent \"Which paper is newest?\" --allow 'http:GET:http://127.0.0.1:8000/*' --transcript "
      "run.jsonl\n"
      "  membrane agent --language python,wat \"Which of data/*.csv has the largest sum?\" --allow "
      "fs:read:./data:/data\n"
      "  membrane agent --kind linux --copy ./repo --diff fix.patch \"Find the failing test, and fix it\"\n"
      "  membrane agent --replay run.jsonl --allow 'http:GET:http://127.0.0.1:8000/*'\n"
      "Exit codes: 0 answered; 1 a budget was used up, stopped, or a replay differs; 2 no model or wrong "
      "usage.");
  command->callback([options, &exit_code] {
    const Result<int> code = run(*options);
    exit_code = code ? *code : complain(code.error(), options->json ? Reader::kJson : Reader::kPerson);
  });
}

}  // namespace membrane::cli
