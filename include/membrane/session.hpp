// Sessions in a C++ program: Python, JavaScript and other installed languages, turn by turn, behind the wall of membrane.hpp.
//
//   auto python = membrane::Language::open("python");
//   membrane::SessionOptions options;
//   options.functions.push_back({.name = "price", .call = [](const auto&) { return membrane::Answer::value("350"); }});
//   auto session = membrane::Session::create(*python, std::move(options));
//   session->run({.code = "total = price('tea') * 2"});
//   membrane::Report report = session->run({.code = "total"});      // report.result == "700"
//   auto branch = session->fork();                                  // both continue from here, each for itself
//
// State stays between turns. A turn that is stopped (a trap, no fuel, no time, no memory) takes the session back to where it stood before
// the turn; one that ends in an error of the language does not. The policy's limits are for each turn. The clock, randomness and files are
// the session's: seeded and virtual unless granted, or chosen by the embedder (SessionOptions::clock, sleep, entropy).
//
// A function of yours may answer later. The turn then waits in the call (Outcome::kWaiting), the session can be dumped to bytes, and any
// process with the same language loads them and resumes with the answer.
//
// Errors are values; nothing here throws, except std::bad_alloc.
#pragma once

#include <membrane/agents.hpp>
#include <membrane/membrane.hpp>
#include <membrane/sources.hpp>

namespace membrane {

// -- languages ------------------------------------------------------------------------------------------------------

struct LanguageOptions {
  // Of warm images, which are the user's own; "": $XDG_CACHE_HOME/membrane/templates, else ~/.cache/membrane/templates.
  std::string cache_directory{};
  // Hears what takes seconds: "compiling python (99 MiB)". May be null.
  std::function<void(std::string_view step)> on_progress{};
};

// A language that is ready to run, as a warm image from which sessions begin in microseconds. Making the image takes seconds, the first
// time; it is a file from then on. Languages are looked for in $MEMBRANE_LANGUAGES and in the user's data directory, where
// `membrane languages add python` puts them.
//
// Threads: any; copies share the image.
class Language {
 public:
  // A name, or what people call the language: "python", "py", "js", "javascript", "node".
  static Expected<Language> open(std::string_view word, const LanguageOptions& options = {});
  [[nodiscard]] const std::string& name() const;  // "python", "js"

  struct State;
  Language() = default;  // none: open() makes them
  explicit Language(std::shared_ptr<State> state) : state_(std::move(state)) {}
  [[nodiscard]] const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

// -- functions of yours ---------------------------------------------------------------------------------------------

// What a function gives. Values are JSON; what JSON lacks is written as docs/embedded-sessions.md says: {"$bytes":"…"}, {"$integer":"…"}.
struct Answer {
  enum class Kind : uint8_t { kValue, kError, kLater };
  Kind kind = Kind::kValue;
  std::string json = "null";  // of kValue
  // Of kError: raised in the program, as its exception of that name ("ValueError"), else as membrane.HostError.
  std::string type{}, message{};

  static Answer value(std::string json) { return {.json = std::move(json)}; }
  static Answer error(std::string type, std::string message) {
    return {.kind = Kind::kError, .json = {}, .type = std::move(type), .message = std::move(message)};
  }
  // The turn waits; Session::resume() has the value.
  static Answer later() { return {.kind = Kind::kLater, .json = {}}; }
};

struct FunctionCall {
  std::string name;       // "price"; of a module "shop.price"; of a class "Account.deposit"
  std::string arguments;  // a JSON array
  std::string keywords;   // a JSON object
  std::string object;     // of a method: the id of its object, as JSON; else ""
  // Whether the turn is to end: it was cancelled, or its time is up. It ends when the function has returned and not before, so one that
  // takes long asks, on any thread, until it returns. Null in what Session::waits_for() gives.
  std::function<bool()> must_stop{};
};

// What programs call by its name, or import: `from shop import price`.
struct GuestFunction {
  std::string module{};  // "": it is among the program's own names
  std::string name;      // an identifier
  std::string
      signature{};  // as Python has it, for help() and for checking calls: "(item: str, count: int = 1) -> int"
  std::string doc{};
  bool is_async =
      false;  // programs await it; those that are awaited together are called at once, by one call of call_many
  // On the thread of the turn. May be null where SessionOptions::call_many is there.
  std::function<Answer(const FunctionCall&)> call{};
};

// An object of yours that programs hold a reference to: {"$object":{"id":7,"type":"Account"}} in a value. They see its methods and
// attributes that are listed, and nothing else; each use is a call, "Account.deposit".
struct GuestType {
  std::string name;
  std::string module{};
  std::string doc{};
  std::vector<GuestFunction> methods{};
  std::vector<std::string> attributes{};
};

// -- sessions -------------------------------------------------------------------------------------------------------

struct SessionOptions {
  // Policy::for_languages() has limits that suit them.
  Policy policy = Policy::for_languages();
  std::vector<GuestFunction> functions{};
  std::vector<GuestType> types{};
  std::vector<std::pair<std::string, std::string>> modules{};  // name and doc, of modules among the functions
  std::vector<std::pair<std::string, std::string>>
      inputs{};  // names of the program's own, and their values as JSON
  // In the place of the functions' own: answers calls that are made at once, in their order, on the thread of the turn.
  std::function<std::vector<Answer>(std::span<const FunctionCall>)> call_many{};
  // Hear UTF-8 as the program writes it, on the thread of the turn.
  std::function<void(std::string_view)> on_stdout{}, on_stderr{};
  // Called now and then while a turn runs or sleeps, on its thread, for what an owner looks after meanwhile, as signals; it may cancel() the
  // turn. Not while a function of yours or a request to the network takes its time.
  std::function<void()> on_poll{};
  // Shared with other runs; without, each turn has the policy's limits.
  std::optional<Budget> budget{};
  // In the place of the policy's clock and randomness; how sleeps pass (sources.hpp). Session::load() is given them anew.
  SessionClock clock{};
  SessionSleep sleep{};
  SessionEntropy entropy{};
  // Of local time, in Python and JavaScript: a name of the IANA database ("Europe/Berlin"), whose rules this machine's tzdata has, or an
  // offset ("+02:00"); "": UTC.
  std::string timezone{};
  // What agents.hpp says of them. Without: nothing leaves that needs a yes; what was read is the session's own; ai.* and agent.ask answer
  // ENOTSUP; nothing is sealed. Forks share them, and Session::load() is given them anew.
  Approve approve{};
  std::optional<Flows> flows{};
  Model model{};
  Ask ask{};
  std::optional<Receipts> receipts{};
  // In a process of its own, behind walls (docs/walls.md): a fault in the engine that gives a program the rights of its process gives it
  // those of one that has nothing but memory and a socket. Needs the program membrane-worker beside the library, or named by the
  // environment's MEMBRANE_WORKER. Functions, listeners and sources are called in this process, as without. Forks have a process each.
  bool isolated = false;
  // Of an isolated session: names of walls that it may do without ("user_namespace"). It is refused where this machine lacks another.
  std::vector<std::string> accepted_missing_walls{};
};

struct Cell {
  std::string code;
  std::string name{};        // for tracebacks; "": "<cell 1>", and so on
  bool is_script = false;    // a whole program, which leaves no state but files
  bool only_checks = false;  // says what is wrong with the text, and runs nothing of it
  bool declares_calls =
      false;  // Python: names that the code calls and nobody has defined are functions of yours
  std::vector<std::string> arguments{};  // sys.argv, process.argv
  std::string input{};                   // its standard input
  // Variables of this turn, as SessionOptions::inputs has them: set before the code runs, as by an assignment, so that they take the places
  // of the program's own and stay there after the turn. Together at most 16 MiB. Not of a script, nor of a sealed session; a text that is
  // only checked is run without them. A name that is none, or a keyword, and a value that is no JSON are errors of the report (kInvalid).
  std::vector<std::pair<std::string, std::string>> inputs{};
  std::optional<uint64_t> pause_at_fuel{};
};

// Threads: one at a time, but for cancel(); forks are independent.
class Session {
 public:
  static Expected<Session> create(const Language& language, SessionOptions options = {});
  // Continues from what dump() gave, in this or another process that has the same language: the same as the dumped session, with the
  // functions and the policy of these options. Loading the same bytes twice forks it, with the same randomness. `bytes` are borrowed for the
  // call. Bytes that somebody forged can do what their program could, under this policy.
  static Expected<Session> load(const Language& language, std::span<const uint8_t> bytes,
                                SessionOptions options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  // Runs a turn to its end; or to a function that answers later (kWaiting, see Report::waits_for), or to `pause_at_fuel` (kFrozen).
  Report run(const Cell& cell);
  // Resumes a turn that waits, with the answers to the calls of Report::waits_for, in their order. Those that are missing keep it waiting.
  Report resume(std::vector<Answer> answers);
  // Gives up the turn that waits or is paused: the session stands as it did before the turn. Errors: none waits; "lost", after which the
  // session is to be ended.
  Expected<void> abandon();
  // Resumes a turn that was paused by its fuel.
  Report resume_paused(std::optional<uint64_t> pause_at_fuel = {});
  // The calls that the session waits for; none when it waits for nothing.
  [[nodiscard]] std::vector<FunctionCall> waits_for() const;
  // What the turn that is paused, or waits, has used so far; nothing when none is.
  [[nodiscard]] std::optional<uint64_t> paused_at_fuel() const;

  // As it stands now, between two turns or where one waits or is paused. Its randomness is its own.
  Expected<Session> fork();
  // The same as bytes, with a checksum: what the session is besides its language.
  [[nodiscard]] Expected<std::vector<uint8_t>> dump() const;

  // Files of its own tree, by absolute paths; those of granted directories are the host's.
  [[nodiscard]] Expected<std::string> read_file(std::string_view path) const;
  Expected<void> write_file(std::string_view path, std::string_view bytes);
  [[nodiscard]] std::vector<Report::File> files() const;  // that it has made or changed

  // The names that the one at the end of `code` could become.
  std::vector<std::string> complete(std::string_view code);
  // Stops the turn that runs, at its next safepoint, or when the function of yours that it calls has returned; any thread.
  void cancel();

  struct State;
  explicit Session(std::unique_ptr<State> state);

 private:
  std::unique_ptr<State> state_;
};

}  // namespace membrane
