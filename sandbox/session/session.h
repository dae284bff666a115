// A program in a language, turn by turn, in a sandbox of its own that starts as a fork of the language's template.
//
//   auto session = Session::create(python, {.policy = policy});
//   Report first = (*session)->exec({.code = "x = 20"});
//   Report second = (*session)->exec({.code = "x + 22"});    // second.result == "42"
//   auto branch = (*session)->fork();                        // both continue from here, independently
//
// State persists between turns. A turn that is stopped (a trap, no fuel, no time, no memory, or the interpreter's
// own exit) returns the session to its state before the turn; one that ends in an error of the language does not.
//
// The policy's limits apply to each turn. The clock, randomness and files belong to the session: seeded and virtual
// unless granted. See docs/fork-correctness.md for what a fork does not inherit.
//
// Threads: one at a time; forks are independent.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "host/guest/errno.h"
#include "sandbox/report/report.h"
#include "sandbox/run/sandbox.h"
#include "sandbox/session/template.h"
#include "wasi/calls/owner_files.h"

namespace membrane::sandbox {

// The error code of a turn whose code is incomplete, in languages that report this.
inline constexpr std::string_view kIncomplete = "incomplete";

// Names, and values as JSON (sandbox/run/guest_functions.h).
using Inputs = std::vector<std::pair<std::string, std::string>>;

struct Turn {
  std::string code;
  std::string name = {};   // for tracebacks; empty: "<cell 1>", and so on
  bool is_script = false;  // runs as a whole program with a name of its own, and leaves no state except files
  // In Python and JavaScript: reports what is wrong with the text, as an error with a place, without running it.
  bool only_checks = false;
  // In Python, with functions of the embedder: undefined names that the code calls are functions of the embedder,
  // too.
  bool declares_calls = false;
  std::vector<std::string> arguments = {};
  std::string input = {};  // for input()
  // Variables that are set before the code runs, as by an assignment, and stay. A script takes none; they are checked and not set where
  // only_checks.
  Inputs inputs = {};
  std::optional<uint64_t> pause_at_fuel = {};  // pauses the program when it has used this much fuel
  // For this turn alone, replacing those of RunOptions: for a caller that runs turns of several sessions
  // concurrently. The flag is borrowed until the turn has ended, including while it is paused.
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(std::string_view)> on_stdout = {}, on_stderr = {};
  // Input for this turn alone, replacing `input` and RunOptions::read_input, and called in the same way. Each piece
  // is given to the program at once, not in blocks; what the turn does not read is dropped. Not for a turn that is
  // paused.
  std::function<InputPiece(std::chrono::milliseconds patience)> read_input = {};
};

class Session {
 public:
  // In this process. (For sessions in processes of their own see worker/worker.h.) Options for freezing, code_cache
  // and functions do not apply to sessions. The policy is copied. Errors: kExhausted when there is no room; those of
  // wasi::System for grants that it cannot mount.
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Template> of, RunOptions options);
  virtual ~Session() = default;

  // The outcome is kFrozen when the turn was paused: it has not ended then, and go_on() must come next.
  virtual Report exec(const Turn& turn) = 0;
  // Resumes a paused turn, until it ends or pauses again. The report has all of the turn's fuel, and the output
  // since the previous report. The turn's wall-clock time starts again. kInvalid when no turn is paused.
  virtual Report go_on(std::optional<uint64_t> pause_at_fuel) = 0;
  Report go_on() { return go_on(std::nullopt); }
  // Resumes a turn that waits for functions of the embedder (Outcome::kWaiting), with the answers to the calls that
  // its report lists, in their order. It keeps waiting while answers are missing, or are "later" again. Otherwise as
  // go_on().
  virtual Report resume(std::vector<FunctionAnswer> answers) = 0;
  // Abandons the paused turn: the session returns to its state before the turn. Errors: kInvalidArgument when none
  // is paused; kInternal when the session is lost. This default is for sessions whose turns never pause.
  virtual Status abandon();
  // Replaces Turn::cancel for the paused turn: forks and restored sessions have none. Borrowed like Turn::cancel.
  virtual void cancel_by(const std::atomic<bool>* cancel) = 0;
  // The calls that the paused turn waits for; none when it waits for nothing.
  [[nodiscard]] virtual std::vector<FunctionCall> waits_for() const = 0;
  // No turn follows the one that ended in `report`. If that one ended by itself, and the journal that answered it
  // (RunOptions::replay) has more entries, the outcome becomes kDiverged.
  virtual void end(Report& report) = 0;
  // Fuel used so far by the paused turn; nothing when there is none.
  [[nodiscard]] virtual std::optional<uint64_t> paused_at_fuel() const = 0;
  // A copy of the current state, between two turns or with one paused. `number` distinguishes it from other forks of
  // the same session: the same number, the same randomness. Errors: kUnsupported for a paused program whose frames
  // cannot be saved (engine::freeze_frames()).
  virtual Result<std::unique_ptr<Session>> fork(uint64_t number) = 0;

  // The current state, between two turns or with one paused, as bytes (docs/session-format.md), without its
  // template. A session restored from them, in this process or another that has the same template, continues exactly
  // as this one does; two sessions restored from the same bytes draw the same random numbers. Open files in granted
  // directories are reopened by name. Errors: kUnsupported where fork() fails, too, and for a key-value store in
  // memory.
  [[nodiscard]] virtual Result<std::vector<uint8_t>> keep() const = 0;
  // The bytes that fork(number) would give, without creating the fork. Errors: those of keep(); kUnsupported while a
  // turn is paused.
  [[nodiscard]] virtual Result<std::vector<uint8_t>> keep_fork(uint64_t number) const = 0;
  // The options are as in create(): the policy is not in the bytes, which are borrowed for the call. Errors: those
  // of create(); kInvalidInput for bytes that keep() did not make, or made for another template; kUnsupported for
  // another version of the format or of the cost table; kExhausted for a state beyond the policy's limits. Forged
  // bytes can do what their program could, under this policy, and can lie about what it did before.
  static Result<std::unique_ptr<Session>> restore(std::shared_ptr<const Template> of,
                                                  std::span<const uint8_t> bytes, RunOptions options);

  // Completions of the name at the end of `code`, such as "text" for "s.te" in Python: sorted, at most 200. They are
  // found in a fork, which looks attributes up with little fuel, makes no host calls and is discarded; so neither
  // the session nor its journal changes. None if the language does not support it, or a turn is paused.
  virtual std::vector<std::string> complete(std::string_view code) = 0;

  // Files that it has created, and that still exist.
  [[nodiscard]] virtual std::vector<ReportFile> files() const = 0;
  [[nodiscard]] virtual host::HostResult<std::string> read_file(std::string_view path) const = 0;
  virtual host::HostResult<void> put_file(std::string_view path, std::string_view bytes) = 0;
  // Other operations on its own tree; for their results and errors see wasi/calls/owner_files.h.
  virtual host::HostResult<std::vector<wasi::FileFact>> act_on_files(const wasi::FileRequest& request) = 0;

  // Why the session is unusable, when the process that it was in has ended; "" otherwise.
  [[nodiscard]] virtual std::string why_lost() const { return {}; }

  // The time that sleeps which took no real time have added to its clock (host::Sources), for a session in this
  // process or in a worker.
  [[nodiscard]] virtual uint64_t skipped_ns() const { return 0; }

  // Size of the memory pages that it does not share, in bytes; nothing when the system does not report it.
  [[nodiscard]] virtual std::optional<uint64_t> private_bytes() const = 0;

 private:
  class Impl;
  class Local;
};

}  // namespace membrane::sandbox
