// A program in a language, turn by turn, in a sandbox of its own that begins as a fork of the language's template.
//
//   auto session = Session::create(python, {.policy = policy});
//   Report first = (*session)->exec({.code = "x = 20"});
//   Report second = (*session)->exec({.code = "x + 22"});    // second.result == "42"
//   auto branch = (*session)->fork();                        // both go on from here, each for itself
//
// State stays between turns. A turn that ends badly (a trap, no fuel, no time, no memory, or the interpreter's own
// exit) takes the session back to where it stood before; one that ends in an error of the language does not.
//
// The policy's limits are for each turn. The clock, randomness and files are the session's: seeded and virtual
// unless granted. What a fork has anew is in docs/fork-correctness.md.
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
#include "host/errno.h"
#include "sandbox/report.h"
#include "sandbox/sandbox.h"
#include "sandbox/template.h"
#include "wasi/owner_files.h"

namespace membrane::sandbox {

// The code of the error of a turn whose code goes on, in languages that tell.
inline constexpr std::string_view kIncomplete = "incomplete";

// Names, and values as JSON (sandbox/guest_functions.h).
using Inputs = std::vector<std::pair<std::string, std::string>>;

struct Turn {
  std::string code;
  std::string name = {};   // for tracebacks; empty: "<cell 1>", and so on
  bool is_script = false;  // runs as a whole program with a name of its own, and leaves no state but files
  // In Python and JavaScript: says what is wrong with the text, as an error with a place, and runs nothing of it.
  bool only_checks = false;
  // In Python, with functions of the embedder: names that the code calls and nobody has defined are functions of the embedder, too.
  bool declares_calls = false;
  std::vector<std::string> arguments = {};
  std::string input = {};  // for input()
  // Variables that are set before the code runs, as by an assignment: they stay. Not of a script; checked, and not set, where only_checks.
  Inputs inputs = {};
  std::optional<uint64_t> pause_at_fuel = {};  // where the program is paused, when it comes so far
  // Of this turn alone, in the place of those of RunOptions: for who runs the turns of several sessions at once. The flag
  // is borrowed until the turn is over, also while it is paused.
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(std::string_view)> on_stdout = {}, on_stderr = {};
  // Input of this turn alone, in the place of `input` and of RunOptions::read_input; as that is called. What comes is given to
  // the program at once, and not in blocks; what the turn leaves of it is dropped. Not for a turn that is paused.
  std::function<InputPiece(std::chrono::milliseconds patience)> read_input = {};
};

class Session {
 public:
  // In this process. (worker/worker.h has sessions in processes of their own.) Of the options, freezing, code_cache and functions are not for sessions. The policy is copied. Errors: kExhausted
  // when there is no room; those of wasi::System for what it cannot mount.
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Template> of, RunOptions options);
  virtual ~Session() = default;

  // The outcome is kFrozen when the turn was paused: then it is not over, and go_on() is what comes next.
  virtual Report exec(const Turn& turn) = 0;
  // Lets a turn go on that was paused, to its end or to where it is paused again. The report has all of the turn's fuel,
  // and what was printed since the report before. Its time on the clock begins anew. kInvalid when no turn is paused.
  virtual Report go_on(std::optional<uint64_t> pause_at_fuel) = 0;
  Report go_on() { return go_on(std::nullopt); }
  // Resumes a turn that waits for functions of the embedder's (Outcome::kWaiting), with the answers to the calls that its report lists,
  // in their order. Those that are missing, or are "later" again, keep it waiting. As go_on() else.
  virtual Report resume(std::vector<FunctionAnswer> answers) = 0;
  // Gives up the turn that is paused: the session stands as it did before the turn. Errors: kInvalidArgument when none is paused;
  // kInternal where the session is lost. Here: of one whose turns are never paused.
  virtual Status abandon();
  // In the place of Turn::cancel, for the turn that is paused: a fork and what was restored have none. Borrowed as that is.
  virtual void cancel_by(const std::atomic<bool>* cancel) = 0;
  // The calls that the paused turn waits for; none when it waits for nothing.
  [[nodiscard]] virtual std::vector<FunctionCall> waits_for() const = 0;
  // No turn comes after the one that ended in `report`. When that one ended by itself, and the journal that it was
  // answered from (RunOptions::replay) has more, it becomes kDiverged.
  virtual void end(Report& report) = 0;
  // What the turn that is paused has used so far; nothing when none is.
  [[nodiscard]] virtual std::optional<uint64_t> paused_at_fuel() const = 0;
  // As it stands now, between two turns or where one is paused. `number` tells it from other forks of the same session:
  // the same number, the same randomness. Errors: kUnsupported for a paused program whose frames cannot be kept
  // (engine::freeze_frames()).
  virtual Result<std::unique_ptr<Session>> fork(uint64_t number) = 0;

  // As it stands now, between two turns or where one is paused, as bytes (docs/session-format.md): what it is besides its
  // template. Whoever restores them, in this process or another that has the same template, goes on exactly as this one
  // does; restored twice, they draw the same random numbers. Files that are open in granted directories are opened again
  // by their names. Errors: kUnsupported for what fork() cannot have either, and for a key-value store in memory.
  [[nodiscard]] virtual Result<std::vector<uint8_t>> keep() const = 0;
  // What fork(number) would give, as bytes, and without making it. Errors: those of keep(); kUnsupported while a turn is
  // paused.
  [[nodiscard]] virtual Result<std::vector<uint8_t>> keep_fork(uint64_t number) const = 0;
  // The options are as in create(): the policy is not in the bytes, which are borrowed for the call. Errors: those of
  // create(); kInvalidInput for what keep() did not make, or made of another template; kUnsupported for another version of
  // the format or of the cost table; kExhausted for what is beyond the policy's limits. Bytes that somebody forged can do
  // what their program could, under this policy, and can lie about what it did before.
  static Result<std::unique_ptr<Session>> restore(std::shared_ptr<const Template> of,
                                                  std::span<const uint8_t> bytes, RunOptions options);

  // The names that the one at the end of `code` could become, as "text" for "s.te" in Python: sorted, at most 200. They are
  // found in a fork, which looks attributes up with little fuel, makes no host calls and is thrown away; so nothing of
  // the session changes, nor of its journal. None where the language cannot, or a turn is paused.
  virtual std::vector<std::string> complete(std::string_view code) = 0;

  // Files that it has made, and to be found there.
  [[nodiscard]] virtual std::vector<ReportFile> files() const = 0;
  [[nodiscard]] virtual host::HostResult<std::string> read_file(std::string_view path) const = 0;
  virtual host::HostResult<void> put_file(std::string_view path, std::string_view bytes) = 0;
  // The others of its own tree; what each act gives, and its errors, stand there.
  virtual host::HostResult<std::vector<wasi::FileFact>> act_on_files(const wasi::FileRequest& request) = 0;

  // Why it can do nothing any more, when the process that it was in has ended; "" else.
  [[nodiscard]] virtual std::string why_lost() const { return {}; }

  // How far sleeps that took no real time have moved its clock on (host::Sources): of a session in this process or in a worker.
  [[nodiscard]] virtual uint64_t skipped_ns() const { return 0; }

  // Pages of memory that are its own by now, in bytes; nothing when the system does not say.
  [[nodiscard]] virtual std::optional<uint64_t> private_bytes() const = 0;

 private:
  class Impl;
  class Local;
};

}  // namespace membrane::sandbox
