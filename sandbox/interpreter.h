// How a language's module is spoken to: one class for each driver of lang/package.h.
//
// An interpreter has no state of its own besides what it found out while the template was warmed: that is kept with
// the image, as bytes, and is the same for all sessions.
//
// Threads: constant once warmed; the Calls belong to one session.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/instance/host_call.h"
#include "engine/instance/value.h"
#include "lang/package.h"
#include "sandbox/report.h"

namespace membrane::sandbox {

// What an interpreter does to its instance.
class Calls {
 public:
  virtual ~Calls() = default;

  // Calls an export. False when it did not return: the session knows why, and nothing more is to be done.
  [[nodiscard]] virtual bool call(std::string_view name, std::span<const engine::Value> arguments) = 0;
  // The same, where the program itself runs and may be paused: then it is false, too, and who lets the turn go on calls
  // Interpreter::go_on() when the call has returned.
  [[nodiscard]] virtual bool call_program(std::string_view name,
                                          std::span<const engine::Value> arguments) = 0;
  // What the last call returned; 0 without.
  [[nodiscard]] virtual uint64_t result() const = 0;
  // Of a program that reads its input as it goes: begins an export with it, which is to come to where it waits for
  // more; and gives more to the one that waits. False when it did not come to wait.
  [[nodiscard]] virtual bool begin_reading(std::string_view name, std::string_view input) = 0;
  [[nodiscard]] virtual bool go_on_reading(std::string_view input) = 0;
  // Runs an export with all of its input, from where the program waits for it, if it does; true when it returned, or
  // exited. False also when it was paused.
  [[nodiscard]] virtual bool run_to_end(std::string_view name, std::string_view input) = 0;
  // Inside of a host function: calls an export, and gives what it returned. Nothing when it did not.
  [[nodiscard]] virtual std::optional<uint64_t> call_back(engine::HostCall& during, std::string_view name,
                                                          std::span<const engine::Value> arguments) = 0;
  [[nodiscard]] virtual std::span<uint8_t> memory() = 0;
  // What the program asks of the host, as JSON (host/door.h). Nothing when it does not go on.
  [[nodiscard]] virtual std::optional<std::string> ask(engine::HostCall& during,
                                                       std::string_view request) = 0;
  // Says it on stdout or stderr. False when the output limit ends the run.
  [[nodiscard]] virtual bool print(engine::HostCall& during, bool is_error, std::string_view text) = 0;
  // Lets time pass, on the clock that there is. False when the run is to end.
  [[nodiscard]] virtual bool sleep(engine::HostCall& during, double ns) = 0;
  // Whatever an interpreter notes in a host function for after the call. None are there when a run begins. False when the
  // memory limit has no room for them, which ends the run.
  [[nodiscard]] virtual bool note(std::initializer_list<uint32_t> numbers) = 0;
  [[nodiscard]] virtual std::vector<uint32_t> take_notes() = 0;
  // How far its turn is, for go_on(). A fork of a turn that is paused has both.
  [[nodiscard]] virtual std::vector<uint32_t>& progress() = 0;

  // For Interpreter::places(), once the turn was stopped. All of it is at the host's cost, and nothing leaves the program.
  // Calls an export beside what was stopped, and gives what it returned. Nothing when it did not.
  [[nodiscard]] virtual std::optional<uint64_t> call_beside(std::string_view name,
                                                            std::span<const engine::Value> arguments) = 0;
  // Lets what was stopped run on for a little while. True when it returned, which result() then has. Whatever it imports
  // traps, but for the interpreter's own functions: `places_text()` is what they know that by.
  [[nodiscard]] virtual bool run_on() = 0;
  // Where a host function puts what the language says of the place; null while the program runs for itself.
  [[nodiscard]] virtual std::string* places_text() = 0;
};

class Interpreter {
 public:
  static std::unique_ptr<Interpreter> of(const lang::Package& package);
  virtual ~Interpreter() = default;

  // What the module imports besides WASI and capabilities. Nothing for what is not known.
  struct Import {
    wasm::FuncType type;
    std::function<engine::HostAction(Calls& calls, engine::HostCall& call)> function;
  };
  [[nodiscard]] virtual std::optional<Import> import(std::string_view module,
                                                     std::string_view name) const = 0;

  // Brings a new instance to where its image is made. False when a call did not return; Errors for what the module
  // is not, as kUnsupported.
  virtual Result<bool> warm(Calls& calls, const lang::Package& package) = 0;
  // Imports modules of the language into a warm instance that nobody has used. As warm().
  virtual Result<bool> import_modules(Calls& /*calls*/, std::span<const std::string> /*names*/) {
    return fail(ErrorCode::kUnsupported, "this language has no modules that could be imported ahead", "");
  }
  // What warm() found out, and to be told it again: nothing, of most.
  [[nodiscard]] virtual std::vector<uint8_t> state() const { return {}; }
  virtual void set_state(std::span<const uint8_t>) {}

  // Whether it is one run that reads its turns as input: in between, it waits in the middle of a call.
  [[nodiscard]] virtual bool reads() const { return false; }
  // Whether each turn starts the program, which ends with it. Files stay between turns, and nothing else.
  [[nodiscard]] virtual bool restarts() const { return false; }
  // Whether it asks the door for its turns, so that it has all of them: else it has their code alone.
  [[nodiscard]] virtual bool asks() const { return true; }

  // Whether it asks the door for its files, since its module imports no functions of WASI for them.
  [[nodiscard]] virtual bool asks_for_files() const { return false; }
  // Whether it can say what is wrong with a text and run nothing of it (Turn::only_checks).
  [[nodiscard]] virtual bool checks() const { return false; }
  // Whether it can say which names a text could go on with (Session::complete).
  [[nodiscard]] virtual bool completes() const { return false; }

  // Whether it is given its turns as requests, in the JSON that the door has for those that ask for them: else as their code.
  [[nodiscard]] virtual bool takes_requests() const { return false; }
  // Lets the program take its next turn, whose code or request this is. False when it did not return, or come to wait.
  [[nodiscard]] virtual bool turn(Calls& calls, std::string_view code) const = 0;
  // Where the program was when its turn was stopped, innermost first. Empty when it cannot tell. The program, which can
  // make them other than they are, ends here.
  [[nodiscard]] virtual std::vector<ReportPlace> places(Calls& /*calls*/) const { return {}; }
  // The rest of a turn that was paused in a call of the program, which has returned by now. As turn().
  [[nodiscard]] virtual bool go_on(Calls& /*calls*/) const { return true; }
};

}  // namespace membrane::sandbox
