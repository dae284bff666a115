// The interface to a language's module: one class for each driver of lang/package.h.
//
// An interpreter has no state except what it found out while the template was warmed: that is stored with the image,
// as bytes, and is the same for all sessions.
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
#include "engine/code/trap.h"
#include "engine/instance/host_call.h"
#include "engine/instance/value.h"
#include "host/limits/host_memory.h"
#include "lang/package.h"
#include "sandbox/report/report.h"

namespace membrane::sandbox {

// The operations of an interpreter on its instance.
class Calls {
 public:
  virtual ~Calls() = default;

  // Calls an export. False when it did not return: the session knows the reason, and the caller must return.
  [[nodiscard]] virtual bool call(std::string_view name, std::span<const engine::Value> arguments) = 0;
  // The same for a call in which the program itself runs, which may be paused: then it returns false, too, and the
  // caller that resumes the turn calls Interpreter::go_on() once the call has returned.
  [[nodiscard]] virtual bool call_program(std::string_view name,
                                          std::span<const engine::Value> arguments) = 0;
  // The result of the last call; 0 without one.
  [[nodiscard]] virtual uint64_t result() const = 0;
  // For a program that reads its input as it runs: starts an export with this input, until it waits for more; or
  // gives more input to the waiting one. False when it did not come to wait.
  [[nodiscard]] virtual bool begin_reading(std::string_view name, std::string_view input) = 0;
  [[nodiscard]] virtual bool go_on_reading(std::string_view input) = 0;
  // Runs an export with all of its input, from the place where the program waits for it, if it does; true when it
  // returned, or exited. Also false when it was paused.
  [[nodiscard]] virtual bool run_to_end(std::string_view name, std::string_view input) = 0;
  // Inside a host function: calls an export, and returns its result. Nothing when it did not return.
  [[nodiscard]] virtual std::optional<uint64_t> call_back(engine::HostCall& during, std::string_view name,
                                                          std::span<const engine::Value> arguments) = 0;
  [[nodiscard]] virtual std::span<uint8_t> memory() = 0;
  // Sets a global that the module exports. False when it exports no mutable one of type i32 by this name.
  [[nodiscard]] virtual bool set_global(std::string_view name, uint32_t value) = 0;
  // Ends the run as if its last call had trapped; returns false.
  virtual bool trap(engine::TrapKind kind, std::string message) = 0;
  [[nodiscard]] virtual host::HostMemory& host_memory() = 0;
  // The program's request to the host, as JSON (host/calls/door.h). Nothing when the program must not continue.
  [[nodiscard]] virtual std::optional<std::string> ask(engine::HostCall& during,
                                                       std::string_view request) = 0;
  // Prints to stdout or stderr. False when the output limit ends the run.
  [[nodiscard]] virtual bool print(engine::HostCall& during, bool is_error, std::string_view text) = 0;
  // Lets time pass on the session's clock. False when the run must end.
  [[nodiscard]] virtual bool sleep(engine::HostCall& during, double ns) = 0;
  // Numbers that an interpreter records in a host function for use after the call. Empty when a run starts. False
  // when the memory limit has no room for them, which ends the run.
  [[nodiscard]] virtual bool note(std::initializer_list<uint32_t> numbers) = 0;
  [[nodiscard]] virtual std::vector<uint32_t> take_notes() = 0;
  // The progress of its turn, for go_on(). A fork of a paused turn has both.
  [[nodiscard]] virtual std::vector<uint32_t>& progress() = 0;

  // For Interpreter::places(), once the turn was stopped; the host pays, and nothing leaves the program. Calls an
  // export on top of the stopped call, and returns its result. Nothing when it did not return.
  [[nodiscard]] virtual std::optional<uint64_t> call_beside(std::string_view name,
                                                            std::span<const engine::Value> arguments) = 0;
  // Lets the stopped call run on for a short time. True when it returned; see result(). Its imports trap, except for
  // the interpreter's own functions, which recognise this state by `stacks()`.
  [[nodiscard]] virtual bool run_on() = 0;
  // Where host functions put the language's descriptions of the place; null while the program runs normally.
  [[nodiscard]] virtual std::vector<std::string>* stacks() = 0;
};

class Interpreter {
 public:
  static std::unique_ptr<Interpreter> of(const lang::Package& package);
  virtual ~Interpreter() = default;

  // An import of the module besides WASI and capabilities. Nothing for an unknown one.
  struct Import {
    wasm::FuncType type;
    std::function<engine::HostAction(Calls& calls, engine::HostCall& call)> function;
  };
  [[nodiscard]] virtual std::optional<Import> import(std::string_view module,
                                                     std::string_view name) const = 0;

  // Brings a new instance to the state for its image. False when a call did not return; kUnsupported if the module
  // does not meet the driver's requirements.
  virtual Result<bool> warm(Calls& calls, const lang::Package& package) = 0;
  // Imports modules of the language into a fresh warm instance. As warm().
  virtual Result<bool> import_modules(Calls& /*calls*/, std::span<const std::string> /*names*/) {
    return fail(ErrorCode::kUnsupported, "this language has no modules that could be imported ahead", "");
  }
  // The findings of warm(), to be restored later; empty for most drivers.
  [[nodiscard]] virtual std::vector<uint8_t> state() const { return {}; }
  virtual void set_state(std::span<const uint8_t>) {}

  // Whether the program is a single run that reads its turns as input, and waits inside a call between them.
  [[nodiscard]] virtual bool reads() const { return false; }
  // Whether each turn starts the program, which ends with the turn. Only files persist between turns.
  [[nodiscard]] virtual bool restarts() const { return false; }
  // Whether it requests its turns at the door, with all their members; otherwise it gets only their code.
  [[nodiscard]] virtual bool asks() const { return true; }

  // Whether it requests its files at the door, since its module imports no WASI functions for them.
  [[nodiscard]] virtual bool asks_for_files() const { return false; }
  // Whether it can report what is wrong with a text without running it (Turn::only_checks).
  [[nodiscard]] virtual bool checks() const { return false; }
  // Whether it can complete names (Session::complete).
  [[nodiscard]] virtual bool completes() const { return false; }

  // Words that cannot be names of variables; empty where the language does not say.
  [[nodiscard]] virtual std::span<const std::string_view> keywords() const { return {}; }

  // Whether it gets its turns as requests, in the JSON that the door uses; otherwise as code.
  [[nodiscard]] virtual bool takes_requests() const { return false; }
  // Runs the program's next turn, with this code or request. False when it did not return, or did not come to wait.
  [[nodiscard]] virtual bool turn(Calls& calls, std::string_view code) const = 0;
  // The program's places when its turn was stopped, innermost first. Empty when unknown. The program could forge
  // them; it ends here.
  [[nodiscard]] virtual std::vector<ReportPlace> places(Calls& /*calls*/) const { return {}; }
  // The rest of a turn that was paused in a call of the program, which has since returned. As turn().
  [[nodiscard]] virtual bool go_on(Calls& /*calls*/) const { return true; }
};

}  // namespace membrane::sandbox
