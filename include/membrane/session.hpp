// Sessions in a C++ program: Python, JavaScript and other installed languages, turn by turn, in the sandbox of
// membrane.hpp.
//
//   auto python = membrane::Language::open("python");
//   membrane::SessionOptions options;
//   options.functions.push_back({.name = "price", .call = [](const auto&) { return membrane::Answer::value("350"); }});
//   auto session = membrane::Session::create(*python, std::move(options));
//   session->run({.code = "total = price('tea') * 2"});
//   membrane::Report report = session->run({.code = "total"});      // report.result == "700"
//   auto branch = session->fork();                                  // both continue from here, each for itself
//
// State persists between turns. A turn that is stopped (a trap, no fuel, no time, no memory) returns the session to
// its state before the turn; one that ends in an error of the language does not. The policy's limits apply to each
// turn. The clock, randomness and files belong to the session: seeded and virtual unless granted, or chosen by the
// embedder (SessionOptions::clock, sleep, entropy).
//
// One of your functions may answer later. The turn then waits in the call (Outcome::kWaiting), and the session can
// be dumped to bytes; any process with the same language can load them and resume with the answer.
//
// Errors are values; nothing here throws, except std::bad_alloc.
#pragma once

#include <membrane/agents.hpp>
#include <membrane/membrane.hpp>
#include <membrane/sources.hpp>

namespace membrane {

// -- languages ------------------------------------------------------------------------------------------------------

struct LanguageOptions {
  // The directory of warm images, owned by the user; "": $XDG_CACHE_HOME/membrane/templates, else
  // ~/.cache/membrane/templates.
  std::string cache_directory{};
  // Called for steps that take seconds: "compiling python (99 MiB)". May be null.
  std::function<void(std::string_view step)> on_progress{};
};

// A language that is ready to run: a warm image from which sessions start in microseconds. Creating the image takes
// seconds, once; it is then kept in a file. Languages are searched in $MEMBRANE_LANGUAGES and in the user's data
// directory, where `membrane languages add python` puts them.
//
// Threads: any; copies share the image.
class Language {
 public:
  // `word` is a name, or a common alias: "python", "py", "js", "javascript", "node".
  static Expected<Language> open(std::string_view word, const LanguageOptions& options = {});
  [[nodiscard]] const std::string& name() const;  // "python", "js"

  struct State;
  Language() = default;  // empty; use open()
  explicit Language(std::shared_ptr<State> state) : state_(std::move(state)) {}
  [[nodiscard]] const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

// -- functions of yours ---------------------------------------------------------------------------------------------

// The result of a function. Values are JSON; see docs/embedded-sessions.md for values that JSON lacks:
// {"$bytes":"…"}, {"$integer":"…"}.
struct Answer {
  enum class Kind : uint8_t { kValue, kError, kLater };
  Kind kind = Kind::kValue;
  std::string json = "null";  // for kValue
  // For kError: raised in the program as its exception of that name ("ValueError"), or as membrane.HostError for
  // another name.
  std::string type{}, message{};

  static Answer value(std::string json) { return {.json = std::move(json)}; }
  static Answer error(std::string type, std::string message) {
    return {.kind = Kind::kError, .json = {}, .type = std::move(type), .message = std::move(message)};
  }
  // The turn waits; the value is given to Session::resume().
  static Answer later() { return {.kind = Kind::kLater, .json = {}}; }
};

struct FunctionCall {
  std::string name;       // "price"; of a module "shop.price"; of a class "Account.deposit"
  std::string arguments;  // a JSON array
  std::string keywords;   // a JSON object
  std::string object;     // for a method: the id of its object, as JSON; else ""
  // Whether the turn must end: it was cancelled, or its time is up. The turn cannot end before the function has
  // returned, so a long function should poll this, on any thread, until it returns. Null in the calls from
  // Session::waits_for().
  std::function<bool()> must_stop{};
};

// A function that programs call by its name, or import: `from shop import price`.
struct GuestFunction {
  std::string module{};  // "": a global name of the program
  std::string name;      // an identifier
  std::string
      signature{};  // in Python syntax, for help() and for checking calls: "(item: str, count: int = 1) -> int"
  std::string doc{};
  bool is_async = false;  // programs await it; calls awaited together are passed to one call of call_many
  // Runs on the thread of the turn. May be null if SessionOptions::call_many is set.
  std::function<Answer(const FunctionCall&)> call{};
};

// The type of an object of yours that programs hold a reference to: {"$object":{"id":7,"type":"Account"}} in a
// value. They see only the listed methods and attributes; each use is a call, "Account.deposit".
struct GuestType {
  std::string name;
  std::string module{};
  std::string doc{};
  std::vector<GuestFunction> methods{};
  std::vector<std::string> attributes{};
};

// -- sessions -------------------------------------------------------------------------------------------------------

struct SessionOptions {
  // Policy::for_languages() has suitable limits.
  Policy policy = Policy::for_languages();
  std::vector<GuestFunction> functions{};
  std::vector<GuestType> types{};
  std::vector<std::pair<std::string, std::string>> modules{};  // name and doc of modules among the functions
  std::vector<std::pair<std::string, std::string>>
      inputs{};  // global names of the program, and their values as JSON
  // Replaces the functions' own `call`: answers concurrent calls, in their order, on the thread of the turn.
  std::function<std::vector<Answer>(std::span<const FunctionCall>)> call_many{};
  // Called with UTF-8 as the program writes it, on the thread of the turn.
  std::function<void(std::string_view)> on_stdout{}, on_stderr{};
  // Called repeatedly while a turn runs or sleeps, on its thread, for other duties of the owner, such as signals; it
  // may cancel() the turn. Not called while one of your functions or a network request is in progress.
  std::function<void()> on_poll{};
  // Shared with other runs; by default, each turn has the policy's limits.
  std::optional<Budget> budget{};
  // Replace the policy's clock and randomness, and say how sleeps pass (sources.hpp). Pass them again to
  // Session::load().
  SessionClock clock{};
  SessionSleep sleep{};
  SessionEntropy entropy{};
  // The local time zone, in Python and JavaScript: a name in the IANA database ("Europe/Berlin"), with the rules of
  // this machine's tzdata, or an offset ("+02:00"); "": UTC.
  std::string timezone{};
  // See agents.hpp. By default: everything that needs approval is refused; reads are tracked per session; ai.* and
  // agent.ask return ENOTSUP; nothing is sealed. Forks share these; pass them again to Session::load().
  Approve approve{};
  std::optional<Flows> flows{};
  Model model{};
  Ask ask{};
  std::optional<Receipts> receipts{};
  // Runs the session in a process of its own, behind walls (docs/walls.md): a fault in the engine that would give a
  // program the rights of its process then gives it the rights of a process that has nothing but memory and a
  // socket. Needs the program membrane-worker beside the library, or named by MEMBRANE_WORKER in the environment.
  // Functions, listeners and sources are still called in this process. Each fork has a process of its own.
  bool isolated = false;
  // For an isolated session: names of walls that may be missing ("user_namespace"). The session is refused if this
  // machine lacks any other.
  std::vector<std::string> accepted_missing_walls{};
};

struct Cell {
  std::string code;
  std::string name{};                    // for tracebacks; "": "<cell 1>", and so on
  bool is_script = false;                // a whole program, which leaves no state except files
  bool only_checks = false;              // reports what is wrong with the text, without running it
  bool declares_calls = false;           // Python: undefined names that the code calls are functions of yours
  std::vector<std::string> arguments{};  // sys.argv, process.argv
  std::string input{};                   // standard input
  // Variables of this turn, with the values of SessionOptions::inputs. They are set before the code runs, as by an assignment: they replace
  // the program's own, and stay after the turn. At most 16 MiB together. A script and a sealed session take none, and code that is only
  // checked runs without them. A wrong name, a keyword, or a value that is not JSON is an error of the report (kInvalid).
  std::vector<std::pair<std::string, std::string>> inputs{};
  std::optional<uint64_t> pause_at_fuel{};
};

// Threads: one at a time, except for cancel(); forks are independent.
class Session {
 public:
  static Expected<Session> create(const Language& language, SessionOptions options = {});
  // Continues from the bytes of dump(), in any process that has the same language: the same session, with the
  // functions and the policy of these options. Loading the same bytes twice forks it, with the same randomness.
  // `bytes` are borrowed for the call. Forged bytes can do no more than their program could, under this policy.
  static Expected<Session> load(const Language& language, std::span<const uint8_t> bytes,
                                SessionOptions options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  // Runs a turn until it ends, calls a function that answers later (kWaiting, see Report::waits_for), or reaches
  // `pause_at_fuel` (kFrozen).
  Report run(const Cell& cell);
  // Resumes the waiting turn with the answers to the calls of Report::waits_for, in their order. It keeps waiting
  // while answers are missing.
  Report resume(std::vector<Answer> answers);
  // Abandons the turn that waits or is paused: the session returns to its state before the turn. Errors: no turn
  // waits; "lost", after which the session must be destroyed.
  Expected<void> abandon();
  // Resumes a turn that paused at its fuel.
  Report resume_paused(std::optional<uint64_t> pause_at_fuel = {});
  // The calls that the session waits for; empty when it waits for nothing.
  [[nodiscard]] std::vector<FunctionCall> waits_for() const;
  // Fuel used so far by the turn that is paused or waits; nothing when there is none.
  [[nodiscard]] std::optional<uint64_t> paused_at_fuel() const;

  // The session in its current state, between two turns or with a turn that waits or is paused. The fork's
  // randomness is independent.
  Expected<Session> fork();
  // The same as bytes, with a checksum: the state of the session without its language.
  [[nodiscard]] Expected<std::vector<uint8_t>> dump() const;

  // Files of the session's own tree, by absolute paths; those of granted directories are on the host.
  [[nodiscard]] Expected<std::string> read_file(std::string_view path) const;
  Expected<void> write_file(std::string_view path, std::string_view bytes);
  [[nodiscard]] std::vector<Report::File> files() const;  // files that it has created or changed

  // Completions for the name at the end of `code`.
  std::vector<std::string> complete(std::string_view code);
  // Stops the running turn at its next safepoint, or when a function of yours that it calls has returned; any
  // thread.
  void cancel();

  struct State;
  explicit Session(std::unique_ptr<State> state);

 private:
  std::unique_ptr<State> state_;
};

}  // namespace membrane
