// membrane repl: a session in a language, one entry at a time; state persists between them.
//
// A line that opens something (a bracket, a block, a text over several lines) continues until it is closed
// and, for a block of Python, until an empty line that is typed, or that no line of the block follows. So does one that the language reports as incomplete. Some
// lines that begin with a colon or a slash are commands (agent/terminal/meta_commands.h).

#include <algorithm>
#include <cctype>
#include <csignal>
#include <iostream>
#include <optional>

#include "agent/loop/for_face.h"
#include "agent/terminal/line_reader.h"
#include "agent/terminal/meta_commands.h"
#include "agent/terminal/person.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/package_options.h"
#include "cli/seal.h"
#include "face/inner.h"
#include "lang/language_names.h"
#include "policy/quantity.h"
#include "sandbox/session/language_templates.h"
#include "sandbox/session/session.h"

namespace membrane::cli {
namespace {

std::atomic<bool> interrupted = false;

struct Options {
  std::string language, lang;  // without and with --lang; "": not given
  std::string tier = "auto";
  std::string seal_directory;
  bool json = false;
  bool in_process = false;
  PolicyOptions policy;
  PackageOptions packages;
};

// What is still open at the end of an entry.
struct Open {
  int brackets = 0;
  bool in_text = false;   // of several lines
  bool in_block = false;  // the last line ended in a colon, or was indented
};

// Scans brackets and texts as in Python and JavaScript; a guess, and an empty line ends what it got wrong.
Open open_at_end(std::string_view entry) {
  Open open;
  for (size_t i = 0; i < entry.size(); ++i) {
    const char c = entry[i];
    if (c == '(' || c == '[' || c == '{') ++open.brackets;
    if (c == ')' || c == ']' || c == '}') --open.brackets;
    if (c == '#') {
      while (i + 1 < entry.size() && entry[i + 1] != '\n') ++i;
      continue;
    }
    if (c != '"' && c != '\'' && c != '`') continue;
    const bool is_triple = c != '`' && entry.substr(i).starts_with(std::string(3, c));
    const std::string end(is_triple ? 3 : 1, c);
    size_t at = i + end.size();
    while (at < entry.size() && !entry.substr(at).starts_with(end) &&
           (is_triple || c == '`' || entry[at] != '\n'))
      at += entry[at] == '\\' ? 2 : 1;
    open.in_text = at >= entry.size() && (is_triple || c == '`');
    i = at + end.size() - 1;
  }
  const size_t last = entry.find_last_not_of(" \t\n");
  open.in_block = last != std::string_view::npos && (entry[last] == ':' || entry[last] == '\\');
  const size_t line = entry.rfind('\n');
  if (line != std::string_view::npos && line + 1 < entry.size() &&
      (entry[line + 1] == ' ' || entry[line + 1] == '\t'))
    open.in_block = true;
  return open;
}

// Whether a line after an empty one belongs to the block before it.
bool goes_on_with(std::string_view line) {
  if (line.starts_with(' ') || line.starts_with('\t')) return true;
  const std::string_view word = line.substr(0, line.find_first_of(" :"));
  constexpr std::string_view kWords[] = {"else", "elif", "except", "finally"};
  return std::ranges::find(kWords, word) != std::end(kWords);
}

class Repl {
 public:
  // `is_person`: an empty line that is typed ends a block, as people expect. One that is pasted or read from a
  // pipe belongs to the block if the next line does, as in a file, and two of them end it. `history_file` stores the typed lines for
  // later sessions; "" keeps them for this one. With `receipts` each entry is sealed.
  Repl(const Options& options, policy::Policy policy, std::optional<Receipts> receipts, agent::LineReader& in,
       bool is_person, std::string history_file)
      : options_(options),
        policy_(std::move(policy)),
        receipts_(std::move(receipts)),
        approve_(policy_.trifecta ? agent::approve_for_face(agent::approve_on_terminal()) : nullptr),
        in_(in),
        is_person_(is_person),
        colour_(is_person && use_colour(stderr)),
        history_(agent::History::load(std::move(history_file))) {
    for (const std::string& line : history_.lines()) in_.remember(line);
    in_.complete_by([this](std::string_view before) { return complete(before); });
  }

  Status begin() {
    MEMBRANE_ASSIGN(place_.guests, take_guests(options_.in_process));
    place_.cancel = &interrupted;
    place_.packages_by = sandbox::PackagesBy::kFlag;
    MEMBRANE_ASSIGN(const engine::Tier tier, tier_of(options_.tier));
    sandbox::LanguageTemplates languages(template_options(tier));
    MEMBRANE_ASSIGN(template_, languages.open_for_session(options_.language));
    MEMBRANE_TRY(options_.packages.join(policy_, template_->package().driver));
    MEMBRANE_ASSIGN(template_,
                    options_.packages.provide(template_, policy_, options_.policy.file, &interrupted));
    return reset();
  }

  int run() {
    std::string entry;
    while (read_entry(entry)) {
      if (entry.empty()) continue;
      if (const auto line = agent::meta_line(agent::MetaPlace::kSession, entry)) {
        remember(entry);
        if (!command(*line)) return exit_code_;
        continue;
      }
      if (is_end(entry)) return exit_code_;
      interrupted = false;
      const Report report = session_->run({.code = entry, .pause_at_fuel = pause_fuel_});
      if (report.unsealed) exit_code_ = complain_unsealed(face::error_of(*report.unsealed));
      if (may_go_on_ && !report.failures.empty() && report.failures.front().code == sandbox::kIncomplete) {
        unfinished_ = entry;
        continue;
      }
      remember(entry);
      show(*report.rendered);
      if (ended_) return exit_code_;
    }
    if (is_person_) print("\n");
    return exit_code_;
  }

 private:
  Status reset() {
    SessionOptions options{.policy = face::policy_of(policy_), .receipts = receipts_};
    options.approve = approve_;
    if (!options_.json) options.on_stdout = [](std::string_view text) { print(stdout, text); };
    auto made = face::create_session(face::language_of(template_), std::move(options), place_);
    if (!made) return std::unexpected(face::error_of(made.error()));
    session_ = *std::move(made);
    return {};
  }

  // Commands that would break the chain of receipts of a sealed session.
  [[nodiscard]] bool is_refused_when_sealed(agent::Meta meta) const {
    using enum agent::Meta;
    return receipts_ && (meta == kFork || meta == kBack || meta == kPause);
  }

  void remember(const std::string& entry) {
    in_.remember(entry);
    if (const Status kept = history_.add(entry); !kept) print(stderr, "[" + kept.error().to_string() + "]\n");
  }

  // Completions of the tab key: commands, names of the session, and the indentation of a block.
  agent::Completions complete(std::string_view before) {
    if (before.starts_with(':') || before.starts_with('/'))
      if (auto names = agent::metas_for(agent::MetaPlace::kSession, before); !names.empty())
        return {before.size(), std::move(names)};
    if (before.find_first_not_of(' ') == std::string_view::npos) return {0, {"    "}};
    const auto is_of_name = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || (c & 0x80) != 0;
    };
    size_t begun = 0;
    while (begun < before.size() && is_of_name(before[before.size() - begun - 1])) ++begun;
    return {begun, session_->complete(before)};
  }

  [[nodiscard]] lang::Driver driver() const { return template_->package().driver; }

  // Words that end a session in its language's own REPL.
  [[nodiscard]] bool is_end(std::string_view entry) const {
    const std::string_view word = trimmed(entry);
    switch (driver()) {
      case lang::Driver::kPython:
        return word == "exit" || word == "quit" || word == "exit()" || word == "quit()";
      case lang::Driver::kQuickJs: return word == ".exit";
      case lang::Driver::kStdin: return false;
    }
    return false;
  }

  // A language that parses code itself knows where it ends, and waits for the rest.
  [[nodiscard]] bool takes_lines() const {
    const lang::Package& package = template_->package();
    return package.driver == lang::Driver::kStdin && package.frame == lang::Frame::kText;
  }

  // For a program that reads its input to the end, an entry of several lines ends at an empty line.
  [[nodiscard]] bool takes_texts() const {
    return template_->package().driver == lang::Driver::kStdin &&
           template_->package().frame == lang::Frame::kEof;
  }

  agent::LineEvent read_line(bool is_first, std::string& line) {
    if (!ahead_) return in_.read(is_first ? options_.language + "> " : "... ", line);
    line = *std::exchange(ahead_, std::nullopt);
    return agent::LineEvent::kLine;
  }

  // After an empty line in a block: whether the block continues. The line that decides this is read again.
  bool block_goes_on() {
    if (is_person_ && !in_.has_more()) return false;
    std::string line;
    if (read_line(false, line) != agent::LineEvent::kLine) return false;
    if (line.find_first_not_of(" \t") == std::string::npos) return false;
    const bool goes_on = goes_on_with(line);
    ahead_ = std::move(line);
    return goes_on;
  }

  bool read_entry(std::string& entry) {
    entry = std::exchange(unfinished_, {});
    may_go_on_ = false;
    bool in_block = false;  // before the current line
    std::string line;
    for (;;) {
      switch (read_line(entry.empty(), line)) {
        case agent::LineEvent::kEnd: return !entry.empty();
        case agent::LineEvent::kInterrupted: entry.clear(); continue;
        case agent::LineEvent::kLine: break;
      }
      const bool ends_block = line.find_first_not_of(" \t") == std::string::npos;
      if (entry.empty() && ends_block) return true;
      may_go_on_ = !ends_block;
      if (!entry.empty()) entry += '\n';
      entry += line;
      if (takes_lines() || agent::meta_line(agent::MetaPlace::kSession, entry)) return true;
      if (takes_texts()) {
        if (ends_block) return true;
        continue;
      }
      const Open open = open_at_end(entry);
      if (open.in_text || open.brackets > 0) continue;
      if (!(ends_block ? in_block && block_goes_on() : open.in_block)) return true;
      in_block = true;
    }
  }

  // `used_before` belongs to the entry, and was reported before.
  void show(const sandbox::Report& report, uint64_t used_before = 0) {
    fuel_last_ = report.fuel_used;
    fuel_all_ += report.fuel_used - std::min(report.fuel_used, used_before);
    // An entry that ended the program ends the session, as in the language's own REPL; otherwise another
    // program ended by itself.
    if (report.exit_code && driver() != lang::Driver::kStdin && report.outcome == sandbox::Outcome::kOk) {
      ended_ = true;
      exit_code_ = std::clamp(*report.exit_code, 0, 255);
    }
    if (options_.json) return print_json(sandbox::render_json(report, false));
    if (!report.stdout_text.empty() && !report.stdout_text.ends_with('\n')) print("\n");
    if (!report.stderr_text.empty()) print(stderr, report.stderr_text);
    for (const sandbox::RichValue& value : report.displays)
      for (const sandbox::MimePart& part : value)
        if (part.type == "text/plain") print(stdout, part.data + "\n");
        else if (value.size() == 1) print("[" + printable_line(part.type) + "]\n");
    if (!report.value.empty()) print(stdout, report.result + "\n");
    for (const sandbox::ReportError& error : report.errors) {
      print_error(error.traceback.empty() ? error.code + ": " + error.message + "\n" : error.traceback);
      const std::string hint = hint_for(error);
      if (!hint.empty()) print(stderr, "  hint: " + hint + "\n");
    }
    if (report.output_bytes_cut != 0)
      print(stderr, count_of(report.output_bytes_cut, "byte") +
                        (report.output_bytes_cut == 1 ? " of output was" : " of output were") +
                        " cut: the output limit is reached\n");
    if (session_->paused_at_fuel()) print("paused; :go resumes it\n");
    std::fflush(stdout);
  }

  // An entry cannot ask for a line: the lines are entries.
  static std::string hint_for(const sandbox::ReportError& error) {
    if (!error.hint.empty() || error.code != "EOFError") return error.hint;
    return "An entry has no input: assign the text, as name = \"Ada\". A program that asks for input reads "
           "it from "
           "a pipe or a file: membrane run FILE --input FILE.";
  }

  void print_error(const std::string& text) const {
    if (colour_)
      print_styled(stderr, std::string(terminal::kRed) + printable(text) + std::string(terminal::kPlain));
    else print(stderr, text);
  }

  // False to leave.
  bool command(const agent::MetaLine& line) {
    using enum agent::Meta;
    if (line.command == nullptr) {
      print(stderr, agent::unknown_meta(agent::MetaPlace::kSession, line.word) + "\n");
      return true;
    }
    if (is_refused_when_sealed(line.command->meta)) {
      print(stderr, "a sealed session can be neither forked nor paused\n");
      return true;
    }
    switch (line.command->meta) {
      case kHelp:
        print(agent::meta_help(agent::MetaPlace::kSession, line.word.front()));
        print("Each can begin with : or with /. Ctrl-D leaves, and so does what ends a program.\n");
        break;
      case kFork: fork(); break;
      case kBack: back(); break;
      case kDrop:
        if (!forks_.empty()) forks_.pop_back();
        print(count_of(forks_.size(), "fork") + "\n");
        break;
      case kPause: pause(line.argument); break;
      case kGo:
        if (options_.json || session_->paused_at_fuel()) go_on();
        else print(stderr, "no entry is paused: :pause 1e6 pauses each entry after so much fuel\n");
        return !ended_;
      case kFiles:
        for (const Report::File& file : session_->files())
          print(file.path + "  " + count_of(file.size_bytes, "byte") + "\n");
        break;
      case kSave: save(line.argument); break;
      case kPolicy: print(policy::explain(policy_)); break;
      case kBudget: budget(); break;
      case kHistory:
        for (const std::string& entry : history_.lines()) print(entry + "\n");
        break;
      case kReset:
        if (const Status done = reset(); !done) exit_code_ = complain(done.error());
        break;
      case kQuit: return false;
    }
    return true;
  }

  // With --json, standard output has the reports and what commands print that are asked for something.
  void say(const std::string& done) const { print(options_.json ? stderr : stdout, done); }

  void go_on() {
    interrupted = false;
    const uint64_t used = session_->paused_at_fuel().value_or(0);
    const Report report =
        session_->resume_paused(pause_fuel_ ? std::optional(used + *pause_fuel_) : std::nullopt);
    show(*report.rendered, used);
  }

  void budget() {
    print("last " + std::to_string(fuel_last_) + ", all " + std::to_string(fuel_all_) + "\n");
    const policy::Limits& limits = policy_.limits;
    print("each entry may use " + std::to_string(limits.fuel) + " fuel, " + std::to_string(limits.wall_ms) +
          " ms, " + policy::format_quantity(policy::Quantity::kSize, limits.memory_bytes) +
          " of memory and " + count_of(limits.host_calls, "host call") + "\n");
  }

  static void complain_of(const Failure& failure) { complain(face::error_of(failure)); }

  void fork() {
    auto made = session_->fork();
    if (!made) return complain_of(made.error());
    forks_.push_back(*std::move(made));
    print("fork " + std::to_string(forks_.size()) + "\n");
  }

  void back() {
    if (forks_.empty()) return print(stderr, "there is no fork: make one with :fork\n");
    auto made = forks_.back().fork();
    if (!made) return complain_of(made.error());
    session_ = *std::move(made);
    print("back at fork " + std::to_string(forks_.size()) + "\n");
  }

  void pause(const std::string& argument) {
    if (argument.empty()) {
      pause_fuel_.reset();
      return say("entries run to their end\n");
    }
    const auto fuel = policy::parse_count(argument);
    if (!fuel)
      return print(stderr, ":pause takes an amount of fuel, as :pause 1e6, and nothing to let entries run: " +
                               fuel.error().message + "\n");
    pause_fuel_ = *fuel;
    say("each entry pauses after " + std::to_string(*fuel) + " fuel\n");
  }

  void save(const std::string& argument) {
    const size_t space = argument.find(' ');
    if (space == std::string::npos)
      return print(stderr, "write :save FILE AS, as :save /out.csv out.csv; :files lists the files\n");
    const std::string file = argument.substr(0, space), as(trimmed(argument.substr(space)));
    const auto bytes = session_->read_file(file);
    if (!bytes) {
      complain({ErrorCode::kNotFound, bytes.error().message, ":files lists the files."});
      return;
    }
    if (const Status written = write_output(as, *bytes); !written) complain(written.error());
    else say("wrote " + count_of(bytes->size(), "byte") + " of " + file + " to " + as + "\n");
  }

  const Options& options_;
  policy::Policy policy_;
  std::optional<Receipts> receipts_;
  Approve approve_;
  agent::LineReader& in_;
  face::Place place_;
  std::shared_ptr<const sandbox::Template> template_;
  std::optional<Session> session_;
  std::vector<Session> forks_;
  bool is_person_;
  bool colour_;  // of errors
  agent::History history_;
  std::optional<std::string> ahead_;  // a line already read, which belongs to the next entry
  std::string unfinished_;            // an entry that the language reported as incomplete
  bool may_go_on_ = false;            // if false, an empty line ends the entry in any case
  std::optional<uint64_t> pause_fuel_;
  uint64_t fuel_last_ = 0, fuel_all_ = 0;
  bool ended_ = false;  // by an entry
  int exit_code_ = kExitOk;
};

// Errors: those of Receipts::open().
Result<std::optional<Receipts>> open_receipts(const std::string& directory) {
  if (directory.empty()) return std::nullopt;
  auto opened = Receipts::open(directory);
  if (!opened) return std::unexpected(face::error_of(opened.error()));
  return *std::move(opened);
}

// From the argument or from --lang: into `language`.
Status choose_language(Options& options) {
  const std::string argument = lang::language_named(options.language),
                    option = lang::language_named(options.lang);
  if (!options.language.empty() && !options.lang.empty() && argument != option)
    return fail(ErrorCode::kInvalidArgument,
                "two languages are named: " + options.language + ", and " + options.lang + " by --lang",
                "Name one: a session has one language.");
  options.language = !options.language.empty() ? argument : !options.lang.empty() ? option : "python";
  return {};
}

Result<int> run(const Options& options) {
  MEMBRANE_ASSIGN(policy::Policy policy, options.policy.policy(policy::language_limits()));
  MEMBRANE_TRY(tier_of(options.tier));
  MEMBRANE_TRY(check_granted(policy));
  std::signal(SIGINT, [](int) { interrupted = true; });
  std::unique_ptr<agent::LineReader> in;
  const bool is_person = is_terminal(stdin) && is_terminal(stdout);
  if (is_person)
    if (auto terminal = agent::terminal_line_reader(interrupted, use_colour(stdout)))
      in = std::move(*terminal);
  if (in == nullptr)
    in = std::make_unique<agent::StreamLineReader>(std::cin, is_person ? &std::cout : nullptr);
  const bool keeps_history = is_person && !options.json;
  MEMBRANE_ASSIGN(const std::optional<Receipts> receipts, open_receipts(options.seal_directory));
  Repl repl(options, std::move(policy), receipts, *in, is_person,
            keeps_history ? agent::History::default_path("history-" + options.language) : "");
  MEMBRANE_TRY(repl.begin());
  if (is_person) print(options.language + " inside Membrane; :help lists the commands, Ctrl-D ends\n");
  const int code = repl.run();
  return receipts && receipts->problem() ? kExitMembrane : code;
}

}  // namespace

void add_repl(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* const command = app.add_subcommand(
      "repl", "Start a session in a language: state persists between entries, and can be forked");
  command->add_option("language", options->language, "python, js, or an added language (default: python)")
      ->type_name("LANGUAGE");
  command->add_option("--lang", options->lang, "The same as an option")->type_name("LANGUAGE");
  command->add_option("--tier", options->tier, "What runs the code: interpreter, compiler, or auto")
      ->type_name("TIER");
  command->add_flag(
      "--json", options->json,
      "Print each entry's report as one JSON object on a line; entries are lines of code as without it");
  add_in_process(*command, options->in_process);
  command
      ->add_option("--seal", options->seal_directory,
                   "Write a signed receipt of each entry, which names the one before, into this directory")
      ->type_name("DIR");
  options->policy.add_to(*command);
  options->packages.add_to(*command);
  command->footer(
      "Examples:\n"
      "  membrane repl\n"
      "  membrane repl js --allow 'http:GET:https://example.org/*'\n"
      "  membrane repl --with rich\n"
      "  printf 'x = 20\\nx + 22\\n' | membrane repl --json\n"
      "An entry is a line of code. One that opens a bracket or a multi-line string continues until that is "
      "closed, and a\n"
      "block (a line that ends in a colon, and what is indented after it) until an empty line; in a pasted "
      "text and in a\n"
      "pipe unless the next line belongs to the block, or is empty, too. The end of the input ends an "
      "entry.\n"
      "With --json each entry is answered by one line: its report (docs/report.schema.json) with outcome, "
      "result, stdout,\n"
      "stderr, error and fuel_used; commands that print answer in plain text (docs/languages.md).\n"
      "Limits are for each entry. Commands, as :fork and :back, are listed by :help. exit(), quit(), "
      "sys.exit(3), .exit,\n"
      "process.exit(3) and Ctrl-D end the session.\n"
      "Exit codes: that of the entry that ended the session, else 0, whatever the entries did; 2 wrong "
      "usage, or a\n"
      "language that is not installed; 3 Membrane failed.");
  command->callback([options, &exit_code] {
    const Status named = choose_language(*options);
    const Result<int> code = named ? run(*options) : std::unexpected(named.error());
    exit_code = code ? *code : complain(code.error(), options->json ? Reader::kJson : Reader::kPerson);
  });
}

}  // namespace membrane::cli
