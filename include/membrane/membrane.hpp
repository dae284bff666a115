// Membrane in a C++ program: runs the programs that a language model writes, inside a wall.
//
//   membrane::Policy policy;                                     // grants nothing
//   policy.allow("http:GET:https://example.org/*");
//   policy.limit("fuel", "1000000");
//   membrane::Sandbox sandbox(policy);
//   membrane::Report report = sandbox.run({.source = text});     // text a model wrote
//   if (report.outcome == membrane::Outcome::kOk) std::cout << report.stdout_text;
//
// Two layers. Sandbox runs one program under one policy, with all capabilities, and reports what it did. Module,
// Instance and Call are the engine below it: compile once, instantiate often, call exports with typed values, pause
// when the fuel is used up; an instance has no access to its host except through the host functions that you define.
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

// Limits all linear memories of the process together; a program that would exceed the limit meets its memory limit.
// UINT64_MAX, the default: no ceiling. Any thread, at any time; memory in use is not taken away. Whether a run meets
// the ceiling depends on what runs beside it: only the limits of its own policy are reproducible.
void set_memory_ceiling(uint64_t bytes);
uint64_t memory_in_use_bytes();

// An error, in words for a person or a model.
struct Failure {
  // A place in the program; members are empty or 0 where unknown.
  struct Place {
    std::string function;  // "$name", else "#8 (export \"run\")", else "#8"
    uint32_t offset = 0;   // bytes into the text or the binary
    uint32_t line = 0;     // of the text, from 1
    uint32_t column = 0;   // in bytes, from 1
  };
  std::string code;     // stable: "unknown-function", "memory_out_of_bounds", "EACCES", "invalid_argument"
  std::string message;  // what happened
  std::string hint{};   // how to fix it; may be empty
  Place place{};
  std::vector<Place> backtrace{};  // for traps and pauses, innermost first
  std::string traceback{};         // for an error of a language, as the language prints it
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

// A call of a host function in progress; do not keep it. The guest is not trusted: each address is checked here
// against its memory.
class HostCall {
 public:
  [[nodiscard]] std::span<const Value> arguments() const;
  [[nodiscard]] const Signature& signature() const;
  // The caller's linear memory. Valid until write_string(), or until the function returns.
  [[nodiscard]] std::span<uint8_t> memory() const;
  // The string at `address`: a length of 4 bytes, little endian, then the bytes. Nothing if it is not inside the
  // memory. Borrowed from memory().
  [[nodiscard]] std::optional<std::string_view> read_string(int32_t address) const;
  // Allocates a string in the caller's memory and returns its address. Nothing when there is no room.
  std::optional<int32_t> write_string(std::string_view bytes);
  // Takes fuel for work done on the caller's behalf; call it before the work. False: there is not enough. Then
  // return at once: the guest pauses before the call, which is repeated once fuel has been added. The call
  // instruction itself costs its usual price.
  [[nodiscard]] bool charge(uint64_t fuel);
  // Announces that the answer comes later. Then return at once; the return value is ignored. The program stops in
  // the call (Outcome::kWaiting, Call::Status::kWaiting), and is resumed with the answer. Charged fuel stays
  // charged. `note` is for your own use, and is stored with the call in the report and in the bytes: what the
  // arguments refer to, the number of a job.
  void answer_later(std::string note = {});

  struct State;
  explicit HostCall(State& state) : state_(state) {}

 private:
  State& state_;
};

// A function that you provide for `(import "module" "name" (func …))`. The returned values must match the signature;
// returning a string instead traps the program, with that message. It runs on the thread of the run, and
// concurrently if several runs are active.
using HostResults = std::expected<std::vector<Value>, std::string>;
struct HostFunction {
  std::string module;
  std::string name;
  Signature signature;
  std::function<HostResults(HostCall&)> call;
};

// -- policy ------------------------------------------------------------------------------------------

// What a program may do, and its limits. For the language see docs/policy.md. A field that is unknown, or a control
// that could not be enforced, is refused.
//
// Threads: a value; copies are independent.
class Policy {
 public:
  Policy();  // grants nothing; the default limits of WebAssembly programs
  // Grants nothing; the default limits of programs in languages.
  static Policy for_languages();
  // Parses a file's text: TOML, or JSON when `name` ends in ".json". Limits that it does not set are those of
  // WebAssembly programs or, in the second overload, those of `unless_given`, such as for_languages().
  static Expected<Policy> parse(std::string_view text, std::string_view name = "policy.toml");
  static Expected<Policy> parse(std::string_view text, std::string_view name, const Policy& unless_given);
  static Expected<Policy> load(const std::string& path);

  // As the flags of `membrane run`: allow("fs:read:./data"), limit("memory", "16 MiB"). On failure the policy is
  // unchanged.
  Expected<void> allow(std::string_view grant);
  Expected<void> limit(std::string_view name, std::string_view value);

  [[nodiscard]] std::string explain() const;  // in sentences, one per line
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

// Fuel, host calls, bytes, tokens and time, prepaid and shared by many runs. Only decreases.
//
// Threads: copies share the same budget; any thread may use it.
class Budget {
 public:
  // As much as the policy's limits; its time starts now.
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
  std::string source;                // WAT, with the preprocessor's forms, or the bytes of a binary
  std::string name = "program.wat";  // for messages
  std::string entry{};               // an export; empty: _start, else run, else main
  std::vector<std::string>
      arguments{};  // as text, converted to the entry's types; if the entry has no parameters, for io.argument
  std::string input{};  // what io.input returns
  // A program that imports WASI gets its name and the arguments as its arguments, the input as its standard input,
  // and these variables, (name, value), as its environment; of the policy's grants it sees the directories.
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
  kDiverged,  // a replay requested something that its journal does not have
  kDenied,    // it needs what no grant allows
  kInvalid,   // the program or the request is not valid
  kFailed,    // Membrane itself failed
  kFrozen,    // paused where the caller asked for it to be frozen: Report::snapshot
  kRaised,    // an error of its own language, such as a Python exception
  kOutOfCpu,  // a sandbox of Linux programs used up its CPU time
  kWaiting,   // waits for the answer of one of your functions: Report::waits_for
};
std::string_view name_of(Outcome outcome);  // "out_of_fuel"

// What a run did, exactly.
struct Report {
  struct Result {
    std::string type;            // "i32"
    std::string text;            // readable
    std::optional<Value> value;  // absent for references and vectors
  };
  // A value in one representation.
  struct Part {
    std::string type;  // "text/plain", "image/png"
    std::string data;  // text; bytes as base64
    bool is_base64 = false;
  };
  struct File {
    std::string path;
    uint64_t size_bytes = 0;
  };
  // A call of one of your functions that has no answer yet.
  struct Waiting {
    std::string name;                 // "shop.price"
    std::string arguments, keywords;  // JSON: an array, an object
    std::string object;               // for a method: the id of its object
    std::vector<Value> values{};      // for a WebAssembly program: the arguments, typed
    std::string note{};               // for a WebAssembly program: the argument of HostCall::answer_later()
  };
  struct Call {
    std::string name;  // "http.get"
    bool allowed = true;
    std::string error;      // "EACCES"; empty on success
    std::string reason;     // why it was refused or failed
    std::string grant;      // the grant that would allow it
    std::string arguments;  // truncated, for people
    uint64_t bytes_in = 0;  // received by the program
    uint64_t bytes_out = 0;
    uint64_t latency_us = 0;
  };

  Outcome outcome = Outcome::kFailed;
  std::vector<Failure> failures;      // empty for kOk; several when a text has several mistakes
  std::vector<Result> results;        // the entry's values
  std::string result;                 // the argument of io.result
  std::optional<std::string> answer;  // the argument of agent.submit
  std::optional<int> exit_code;       // if the program exited by itself, as with WASI's proc_exit
  std::string stdout_text;
  std::string stderr_text;
  uint64_t fuel_used = 0;
  uint32_t cost_version = 0;  // version of the cost table for the fuel
  uint64_t memory_peak_bytes = 0;
  double compile_us = 0;
  double run_us = 0;
  std::vector<Call> host_calls;   // calls to the outside world, or of your functions
  std::vector<uint8_t> snapshot;  // of a frozen or waiting run, for Sandbox::thaw() and resume(); else empty
  // Sessions only.
  std::vector<Part> value{};                  // value of the last expression, in several representations
  std::vector<std::vector<Part>> displays{};  // values displayed during the turn
  std::vector<File> files{};                  // that the session has created or changed so far
  std::vector<Waiting> waits_for{};           // for kWaiting, including programs outside of sessions
  // For sealed runs (membrane/agents.hpp): the file of the receipt, or why there is none.
  std::string receipt{};
  std::optional<Failure> unsealed{};

  [[nodiscard]] std::string to_json() const;  // docs/report.schema.json
  [[nodiscard]] std::string to_text() const;  // for a terminal

  std::shared_ptr<const sandbox::Report> rendered;  // what to_json() and to_text() render
};

// Declared in membrane/agents.hpp.
struct EgressQuestion;
enum class Approval : uint8_t;
class Flows;
struct Model;
class Receipts;

// Runs programs under one policy; each run has a new instance, of which nothing remains.
//
// Threads: run() and cancel() from any thread, concurrently; the rest before the first run.
class Sandbox {
 public:
  explicit Sandbox(const Policy& policy);
  ~Sandbox();
  Sandbox(Sandbox&&) noexcept;
  Sandbox& operator=(Sandbox&&) noexcept;

  // Adds one of your functions to what programs may import; it takes precedence over a capability of that name.
  // Fails if it has nothing to call.
  Expected<void> define(HostFunction function);
  // Runs take from this budget, within the policy's limits. Without one, each run gets the full limits.
  void share(const Budget& budget);
  // Called with what a program prints, as it prints it: UTF-8, with U+FFFD for invalid bytes.
  void on_stdout(std::function<void(std::string_view)> listener);
  void on_stderr(std::function<void(std::string_view)> listener);
  // See membrane/agents.hpp: approval of what leaves; reads shared with others; answers for ai.* and agent.ask; the
  // receipts of each run. By default, everything that needs approval is refused, each run starts without reads, and
  // ai.* and agent.ask return ENOTSUP.
  void approve_by(std::function<Approval(const EgressQuestion&)> approve);
  void share(const Flows& flows);
  void use(Model model);
  void ask_by(std::function<Expected<std::string>(std::string_view question, uint64_t timeout_ms)> ask);
  void seal_into(const Receipts& receipts);

  // Any failure is in the report. With `freeze_after_fuel`, the program pauses after using this much fuel and is
  // frozen, unless it ends before.
  [[nodiscard]] Report run(const Program& program, std::optional<uint64_t> freeze_after_fuel = {}) const;
  // Resumes a frozen program under this sandbox's policy, in any process on any machine. The report, the limits and
  // `freeze_after_fuel` cover the whole run. Thawing the same bytes twice forks the program. The functions of yours
  // that it imports must be defined. `snapshot` is borrowed for the call.
  [[nodiscard]] Report thaw(std::span<const uint8_t> snapshot,
                            std::optional<uint64_t> freeze_after_fuel = {}) const;
  // Answers the call in which a program waits, with what the function would have returned, and resumes it as thaw()
  // does. Values whose types do not match the signature are refused as kInvalid, and so is an answer to a program
  // that waits for nothing; the bytes remain usable. thaw() without an answer runs nothing, and reports what the
  // program waits for. The whole run has the same results and uses the same fuel as if the call had been answered at
  // once.
  [[nodiscard]] Report resume(std::span<const uint8_t> snapshot, HostResults answer,
                              std::optional<uint64_t> freeze_after_fuel = {}) const;
  // The same, but calls a function to get the answer. The function can use the caller's memory, and may defer the
  // answer again.
  [[nodiscard]] Report resume(std::span<const uint8_t> snapshot, std::function<HostResults(HostCall&)> answer,
                              std::optional<uint64_t> freeze_after_fuel = {}) const;
  // Stops running programs at their next safepoint, and any that would run later.
  void cancel();

  struct State;
  [[nodiscard]] const State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// -- the engine -----------------------------------------------------------------------------------------------

// A validated module, whose functions are compiled when they are first called. Threads: immutable; copies share it.
class Module {
 public:
  struct Export {
    std::string name;
    Signature signature;
  };

  // WAT or a binary. On failure returns all mistakes in the order of the text.
  static std::expected<Module, std::vector<Failure>> compile(std::string_view source,
                                                             std::string_view name = "module.wat");
  // Functions only, without those that take or return a reference or a vector.
  [[nodiscard]] std::vector<Export> exports() const;

  struct State;
  explicit Module(std::shared_ptr<State> state) : state_(std::move(state)) {}
  [[nodiscard]] const std::shared_ptr<State>& state() const { return state_; }

 private:
  std::shared_ptr<State> state_;
};

struct InstanceOptions {
  std::vector<HostFunction> functions{};  // everything that the module may import
  uint64_t memory_bytes = 64ull << 20;    // the limit of its memory
  uint64_t stack_bytes = 1ull << 20;
  uint32_t call_depth = 10'000;
  uint64_t start_fuel = 1'000'000;               // for the start function, if there is one
  const std::atomic<bool>* interrupt = nullptr;  // borrowed; while it is set, calls pause
};

class Call;

// Memory, tables and globals of a module. Threads: one at a time, its calls included.
class Instance {
 public:
  // Fails when an import is missing or has another type, when a segment does not fit, and when the start function
  // does not return.
  static Expected<Instance> create(const Module& module, InstanceOptions options = {});

  // Starts a call of an export and runs it until it ends or the fuel is used up. Fails when there is no such
  // function or the arguments do not have its types.
  Expected<Call> call(std::string_view name, std::span<const Value> arguments, uint64_t fuel);
  Expected<Call> call(std::string_view name, std::initializer_list<Value> arguments, uint64_t fuel);

  // Its current linear memory, empty when it has none. Valid until a call is made or resumed.
  [[nodiscard]] std::span<uint8_t> memory();

  struct State;
  explicit Instance(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

// A call in progress or finished. Keeps its instance alive.
class Call {
 public:
  enum class Status : uint8_t {
    kReturned,     // see results()
    kTrapped,      // see failure()
    kOutOfFuel,    // paused: add_fuel() and resume()
    kInterrupted,  // paused because InstanceOptions::interrupt was set: resume()
    kWaiting,      // one of your functions answers later: answer()
  };

  [[nodiscard]] Status status() const;
  void add_fuel(uint64_t fuel);
  Status resume();  // does nothing after kReturned and kTrapped, and while it waits
  // Resumes a kWaiting call with what the function would have returned, or with the result of calling `function`.
  // Fails, with the call unchanged, when it waits for nothing or the values do not match the signature. The call
  // still waits if `function` could not charge its fuel; add some, and answer again.
  Expected<Status> answer(HostResults results);
  Expected<Status> answer(const std::function<HostResults(HostCall&)>& function);
  [[nodiscard]] std::optional<Report::Waiting> waits_for() const;

  // The instance and this call, paused or waiting, as bytes with a checksum; they include the module. Other calls of
  // the instance are not included. Fails after kReturned and kTrapped, when the entry is one of your functions, and
  // while the host is inside a call of this instance.
  [[nodiscard]] Expected<std::vector<uint8_t>> dump() const;
  // Restores a call from such bytes, in an instance of its own, with this much fuel: it is waiting or paused as it
  // was, and answer() or resume() continues it. Loading the same bytes twice forks the call. Fails for damaged
  // bytes, for bytes beyond the options' limits, and when an import is not among the functions. `start_fuel` is not
  // used. Forged bytes can do no more than their module could.
  static Expected<Call> load(std::span<const uint8_t> bytes, InstanceOptions options, uint64_t fuel);
  [[nodiscard]] Instance instance() const;
  [[nodiscard]] std::vector<Value> results() const;
  [[nodiscard]] Failure failure() const;     // with its place; for a pause, where it paused
  [[nodiscard]] uint64_t fuel_used() const;  // since it started, including before it was loaded
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
