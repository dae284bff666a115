// Membrane in a C++ program: runs the programs that a language model writes, inside a wall.
//
//   membrane::Policy policy;                                     // grants nothing
//   policy.allow("http:GET:https://example.org/*");
//   policy.limit("fuel", "1000000");
//   membrane::Sandbox sandbox(policy);
//   membrane::Report report = sandbox.run({.source = text});     // text a model wrote
//   if (report.outcome == membrane::Outcome::kOk) std::cout << report.stdout_text;
//
// Two layers. Sandbox runs one program under one policy, with all capabilities, and reports
// what it did. Module, Instance and Call are the engine under it: compile once, instantiate
// often, call exports with typed values, pause at the end of the fuel; the only holes in an
// instance are the host functions that you define.
//
// Errors are values. Nothing here throws, except std::bad_alloc when the system has no memory.
// Fuel is counted in units of docs/fuel.md, sizes in bytes. Strings are copied unless a line
// says that they are borrowed.
#pragma once

#include <atomic>
#include <cstdint>
#include <expected>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace membrane {

namespace sandbox {
struct Report;
}

// "0.1.0"
std::string_view version();

// All linear memories of the process together may have so much; a program that would have more meets its memory
// limit. UINT64_MAX, the default: no ceiling. Any thread, at any time; what is in use stays. Whether a run meets
// the ceiling depends on what runs beside it: only the limits of its own policy are the same each time.
void set_memory_ceiling(uint64_t bytes);
uint64_t memory_in_use_bytes();

// What went wrong, in words for a person or a model.
struct Failure {
  // In the program; empty or 0 where unknown.
  struct Place {
    std::string function;  // "$name", else "#8 (export \"run\")", else "#8"
    uint32_t offset = 0;   // bytes into the binary
    uint32_t line = 0;     // of the text, from 1
    uint32_t column = 0;   // in bytes, from 1
  };
  std::string code;     // stable: "unknown-function", "memory_out_of_bounds", "EACCES", "invalid_argument"
  std::string message;  // what happened
  std::string hint{};   // what would mend it; may be empty
  Place place{};
  std::vector<Place> backtrace{};  // of traps and pauses, innermost first
  std::string traceback{};         // of an error of a language, as it prints it
};

template <typename T>
using Expected = std::expected<T, Failure>;

// -- values and host functions -------------------------------------------------------------------

enum class ValueType : uint8_t { kI32, kI64, kF32, kF64 };  // the index of Value's alternative
using Value = std::variant<int32_t, int64_t, float, double>;

struct Signature {
  std::vector<ValueType> parameters;
  std::vector<ValueType> results;
};

// One call of a host function, while it runs; not to be kept. The guest is not to be trusted:
// each address is checked here against its memory.
class HostCall {
 public:
  [[nodiscard]] std::span<const Value> arguments() const;
  [[nodiscard]] const Signature& signature() const;
  // The caller's linear memory. Until write_string(), or until the function returns.
  [[nodiscard]] std::span<uint8_t> memory() const;
  // The string at `address`: a length of 4 bytes, little endian, then the bytes. Nothing when it
  // does not lie inside the memory. Borrowed from memory().
  [[nodiscard]] std::optional<std::string_view> read_string(int32_t address) const;
  // A new string in the caller's memory, and its address. Nothing when there is no room.
  std::optional<int32_t> write_string(std::string_view bytes);
  // Takes fuel for work done on the caller's behalf; call it before the work. False: there is
  // less. Return at once then: the guest pauses before the call, which is made again after
  // more fuel was added. The call itself costs what its instruction costs.
  [[nodiscard]] bool charge(uint64_t fuel);
  // The answer comes later. Return at once then; what is returned does not count. The program stops in the call
  // (Outcome::kWaiting, Call::Status::kWaiting), and is resumed with the answer. What was charged stays charged. `note` is
  // yours, and stands beside the call in the report and in the bytes: what the arguments refer to, the number of a job.
  void answer_later(std::string note = {});

  struct State;
  explicit HostCall(State& state) : state_(state) {}

 private:
  State& state_;
};

// A hole in the wall that you make: what `(import "module" "name" (func …))` gets. The values
// returned must be those of the signature; a string instead traps the program, with that
// message. It runs on the thread of the run, and from several at once when several run.
using HostResults = std::expected<std::vector<Value>, std::string>;
struct HostFunction {
  std::string module;
  std::string name;
  Signature signature;
  std::function<HostResults(HostCall&)> call;
};

// -- policy ------------------------------------------------------------------------------------------

// What a program may do, and how much of everything. The language: docs/policy.md. A field that
// is unknown, or a control that could not be kept, is refused.
//
// Threads: a value; copies are independent.
class Policy {
 public:
  Policy();  // grants nothing; the usual limits of programs in WebAssembly
  // The same with the limits of programs in languages.
  static Policy for_languages();
  // A file's text: TOML, or JSON when `name` ends in ".json".
  // Limits that it does not name are those of programs in WebAssembly; or, in the second, those of `unless_given`, for_languages().
  static Expected<Policy> parse(std::string_view text, std::string_view name = "policy.toml");
  static Expected<Policy> parse(std::string_view text, std::string_view name, const Policy& unless_given);
  static Expected<Policy> load(const std::string& path);

  // As the flags of `membrane run`: allow("fs:read:./data"), limit("memory", "16 MiB"). On
  // failure the policy is as before.
  Expected<void> allow(std::string_view grant);
  Expected<void> limit(std::string_view name, std::string_view value);

  [[nodiscard]] std::string explain() const;  // in sentences, one a line
  [[nodiscard]] std::string to_json() const;  // canonical; parse() reads it back

  Policy(const Policy&);
  Policy(Policy&&) noexcept;
  Policy& operator=(Policy);
  ~Policy();

  struct State;
  explicit Policy(std::unique_ptr<State> state);
  [[nodiscard]] const State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// Fuel, host calls, bytes, tokens and time, paid once and shared by many runs. Only falls.
//
// Threads: copies share the same budget; any thread may use it.
class Budget {
 public:
  // As much as the policy's limits say; its time begins now.
  explicit Budget(const Policy& policy);
  [[nodiscard]] uint64_t fuel_left() const;
  [[nodiscard]] uint64_t host_calls_left() const;
  [[nodiscard]] uint64_t wall_left_ms() const;

  struct State;
  explicit Budget(std::shared_ptr<State> state) : state_(std::move(state)) {}
  [[nodiscard]] State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

// -- one program, one report ------------------------------------------------------------------------------

struct Program {
  std::string source;                    // WAT, with the preprocessor's forms, or the bytes of a binary
  std::string name = "program.wat";      // for messages
  std::string entry{};                   // an export; empty: _start, else run, else main
  std::vector<std::string> arguments{};  // as text, typed by the entry; without parameters, for io.argument
  std::string input{};                   // what io.input gives
  // A program that imports WASI is given its name and the arguments as its arguments, the input as its standard input,
  // and these variables, (name, value), as its environment; of the policy it sees the directories.
  std::vector<std::pair<std::string, std::string>> environment{};
};

enum class Outcome : uint8_t {
  kOk,
  kTrapped,
  kOutOfFuel,
  kOutOfMemory,
  kOutOfOutput,
  kTimedOut,
  kCancelled,
  kDiverged,  // a replay asked for something else than its journal holds
  kDenied,    // it needs what no grant allows
  kInvalid,   // the program or the request is not valid
  kFailed,    // Membrane itself failed
  kFrozen,    // it stands where it was to be frozen: Report::snapshot
  kRaised,    // an error of its own language, as an exception of Python
  kOutOfCpu,  // a sandbox of Linux programs used up its CPU time
  kWaiting,   // it waits for the answer of a function of yours: Report::waits_for
};
std::string_view name_of(Outcome outcome);  // "out_of_fuel"

// What a run did, exactly.
struct Report {
  struct Result {
    std::string type;            // "i32"
    std::string text;            // as a person reads it
    std::optional<Value> value;  // nothing for references and vectors
  };
  // One form of a value.
  struct Part {
    std::string type;  // "text/plain", "image/png"
    std::string data;  // text; bytes as base64
    bool is_base64 = false;
  };
  struct File {
    std::string path;
    uint64_t size_bytes = 0;
  };
  // A function of yours that was called, and has not answered.
  struct Waiting {
    std::string name;                 // "shop.price"
    std::string arguments, keywords;  // JSON: an array, an object
    std::string object;               // of a method: the id of its object
    std::vector<Value> values{};      // of a program in WebAssembly: the arguments, typed
    std::string note{};               // the same: what HostCall::answer_later() was given
  };
  struct Call {
    std::string name;  // "http.get"
    bool allowed = true;
    std::string error;      // "EACCES"; empty on success
    std::string reason;     // why it was refused or failed
    std::string grant;      // what would allow it
    std::string arguments;  // cut short, for people
    uint64_t bytes_in = 0;  // to the program
    uint64_t bytes_out = 0;
    uint64_t latency_us = 0;
  };

  Outcome outcome = Outcome::kFailed;
  std::vector<Failure> failures;      // empty when it is kOk; several when a text has several mistakes
  std::vector<Result> results;        // the entry's values
  std::string result;                 // what it gave to io.result
  std::optional<std::string> answer;  // what it gave to agent.submit
  std::optional<int> exit_code;       // of a program that ended itself, as with WASI's proc_exit
  std::string stdout_text;
  std::string stderr_text;
  uint64_t fuel_used = 0;
  uint32_t cost_version = 0;  // of the table that the fuel was counted by
  uint64_t memory_peak_bytes = 0;
  double compile_us = 0;
  double run_us = 0;
  std::vector<Call> host_calls;   // that reached for the world, or for a function of yours
  std::vector<uint8_t> snapshot;  // of a frozen or waiting run, for Sandbox::thaw() and resume(); else empty
  // Of a session.
  std::vector<Part> value{};                  // the last expression's, in several forms
  std::vector<std::vector<Part>> displays{};  // what it showed on the way
  std::vector<File> files{};                  // that the session has made or changed, by now
  std::vector<Waiting> waits_for{};           // of kWaiting, also of a program that is no session
  // Of what is sealed (membrane/agents.hpp): the file of its receipt; or why it ran and has none.
  std::string receipt{};
  std::optional<Failure> unsealed{};

  [[nodiscard]] std::string to_json() const;  // docs/report.schema.json
  [[nodiscard]] std::string to_text() const;  // for a terminal

  std::shared_ptr<const sandbox::Report> rendered;  // what to_json() and to_text() render
};

// In membrane/agents.hpp.
struct EgressQuestion;
enum class Approval : uint8_t;
class Flows;
struct Model;
class Receipts;

// Runs programs under one policy; each run is a new instance, and nothing is left of it.
//
// Threads: run() and cancel() from any thread, also at once; the rest before the first run.
class Sandbox {
 public:
  explicit Sandbox(const Policy& policy);
  ~Sandbox();
  Sandbox(Sandbox&&) noexcept;
  Sandbox& operator=(Sandbox&&) noexcept;

  // Adds a function of yours to what programs may import; it comes before a capability of that name.
  // Fails when there is nothing to call.
  Expected<void> define(HostFunction function);
  // Runs take from this budget, within the policy's limits. Without one, each run has the whole limits.
  void share(const Budget& budget);
  // Called with what a program prints, as it prints it: UTF-8, in which what is no character is U+FFFD.
  void on_stdout(std::function<void(std::string_view)> listener);
  void on_stderr(std::function<void(std::string_view)> listener);
  // What membrane/agents.hpp says of them: who decides what leaves; what was read, shared with others; who answers ai.* and agent.ask; where
  // each run is sealed. Without, nothing leaves that needs a yes, each run has read nothing, and ai.* and agent.ask answer ENOTSUP.
  void approve_by(std::function<Approval(const EgressQuestion&)> approve);
  void share(const Flows& flows);
  void use(Model model);
  void ask_by(std::function<Expected<std::string>(std::string_view question, uint64_t timeout_ms)> ask);
  void seal_into(const Receipts& receipts);

  // Whatever goes wrong is in the report. With `freeze_after_fuel`, the program pauses when it has used so much
  // and is frozen, unless it ends before.
  [[nodiscard]] Report run(const Program& program, std::optional<uint64_t> freeze_after_fuel = {}) const;
  // Goes on with a frozen program: in another process, on another machine, under this sandbox's policy. The
  // report is of the whole run, and so are the limits and `freeze_after_fuel`. Thawing the same bytes twice
  // forks it. Functions of yours that it imports must be defined. `snapshot` is borrowed for the call.
  [[nodiscard]] Report thaw(std::span<const uint8_t> snapshot,
                            std::optional<uint64_t> freeze_after_fuel = {}) const;
  // Answers the call that a waiting program stands in, and goes on with it as thaw() does: with what the function
  // would have returned. Values of other types than its signature's are refused as kInvalid, and so is an answer to a
  // program that waits for nothing; the bytes are as good as before. Without an answer, by thaw(), nothing runs, and the
  // report says what it waits for. The whole run has the results and uses the fuel of one that was answered at once.
  [[nodiscard]] Report resume(std::span<const uint8_t> snapshot, HostResults answer,
                              std::optional<uint64_t> freeze_after_fuel = {}) const;
  // The same with what is called in the function's place, and can use the caller's memory; it may answer later again.
  [[nodiscard]] Report resume(std::span<const uint8_t> snapshot, std::function<HostResults(HostCall&)> answer,
                              std::optional<uint64_t> freeze_after_fuel = {}) const;
  // Stops what runs, at its next safepoint, and whatever would run later.
  void cancel();

  struct State;
  [[nodiscard]] const State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// -- the engine -----------------------------------------------------------------------------------------------

// A validated module, compiled as its functions are called. Threads: immutable; copies share it.
class Module {
 public:
  struct Export {
    std::string name;
    Signature signature;
  };

  // WAT or a binary. Fails with what is wrong with it, in the order of the text.
  static std::expected<Module, std::vector<Failure>> compile(std::string_view source,
                                                             std::string_view name = "module.wat");
  // Functions only; not those that take or give a reference or a vector.
  [[nodiscard]] std::vector<Export> exports() const;

  struct State;
  explicit Module(std::shared_ptr<State> state) : state_(std::move(state)) {}
  [[nodiscard]] const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

struct InstanceOptions {
  std::vector<HostFunction> functions{};  // all that the module can import
  uint64_t memory_bytes = 64ull << 20;    // its memory grows no further
  uint64_t stack_bytes = 1ull << 20;
  uint32_t call_depth = 10'000;
  uint64_t start_fuel = 1'000'000;               // for its start function, if it has one
  const std::atomic<bool>* interrupt = nullptr;  // borrowed; while it is set, calls pause
};

class Call;

// Memory, tables and globals of a module. Threads: one at a time, its calls included.
class Instance {
 public:
  // Fails when an import is not among the functions or has another type, when a segment does not
  // fit, and when the start function does not return.
  static Expected<Instance> create(const Module& module, InstanceOptions options = {});

  // Begins a call of an export and runs it as far as the fuel goes. Fails when there is no such
  // function or the arguments are not of its types.
  Expected<Call> call(std::string_view name, std::span<const Value> arguments, uint64_t fuel);
  Expected<Call> call(std::string_view name, std::initializer_list<Value> arguments, uint64_t fuel);

  // Its linear memory as it is now, empty when it has none. Until a call is made or resumed.
  [[nodiscard]] std::span<uint8_t> memory();

  struct State;
  explicit Instance(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

// A call in progress or done. Keeps its instance alive.
class Call {
 public:
  enum class Status : uint8_t {
    kReturned,     // results() holds the values
    kTrapped,      // failure() says why
    kOutOfFuel,    // a pause: add_fuel() and resume()
    kInterrupted,  // a pause: InstanceOptions::interrupt was set; resume() goes on
    kWaiting,      // a function of yours answers later: answer() goes on
  };

  [[nodiscard]] Status status() const;
  void add_fuel(uint64_t fuel);
  Status resume();  // after kReturned and kTrapped, and while it waits: does nothing
  // Of kWaiting: goes on with what the function would have returned, or with what is called in its place. Fails when it
  // waits for nothing and when the values are not of the signature's types, and is as before. It still waits when what
  // is called could not charge its fuel; add some, and answer again.
  Expected<Status> answer(HostResults results);
  Expected<Status> answer(const std::function<HostResults(HostCall&)>& function);
  [[nodiscard]] std::optional<Report::Waiting> waits_for() const;

  // The instance and this call, paused or waiting, as bytes with a checksum; they hold the module. Other calls of the
  // instance are not among them. Fails after kReturned and kTrapped, when the entry is a function of yours, and while the
  // host is inside a call of this instance.
  [[nodiscard]] Expected<std::vector<uint8_t>> dump() const;
  // A call from such bytes, in an instance of its own, with so much fuel: it waits as it did, or is paused, and answer() or
  // resume() goes on. Loading the same bytes twice forks it. Fails for what is damaged or beyond the options' limits, and
  // when an import is not among the functions. `start_fuel` is of no use. Bytes that somebody forged can do what their
  // module could.
  static Expected<Call> load(std::span<const uint8_t> bytes, InstanceOptions options, uint64_t fuel);
  [[nodiscard]] Instance instance() const;
  [[nodiscard]] std::vector<Value> results() const;
  [[nodiscard]] Failure failure() const;     // with the place; of a pause: where it stands
  [[nodiscard]] uint64_t fuel_used() const;  // since it began, also before it was loaded
  [[nodiscard]] uint64_t fuel_left() const;

  struct State;
  explicit Call(std::unique_ptr<State> state);
  Call(Call&&) noexcept;
  Call& operator=(Call&&) noexcept;
  ~Call();

 private:
  friend class Instance;
  std::unique_ptr<State> state_;
};

}  // namespace membrane
