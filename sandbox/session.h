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

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/errno.h"
#include "sandbox/report.h"
#include "sandbox/sandbox.h"
#include "sandbox/template.h"

namespace membrane::sandbox {

// The code of the error of a turn whose code goes on, in languages that tell.
inline constexpr std::string_view kIncomplete = "incomplete";

struct Turn {
  std::string code;
  std::string name = {};   // for tracebacks; empty: "<cell 1>", and so on
  bool is_script = false;  // runs as a whole program with a name of its own, and leaves no state but files
  // In Python and JavaScript: says what is wrong with the text, as an error with a place, and runs nothing of it.
  bool only_checks = false;
  std::vector<std::string> arguments = {};
  std::string input = {};                      // for input()
  std::optional<uint64_t> pause_at_fuel = {};  // where the program is paused, when it comes so far
};

class Session {
 public:
  // Of the options, freezing, code_cache and functions are not for sessions. The policy is copied. Errors: kExhausted
  // when there is no room; those of wasi::System for what it cannot mount.
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Template> of, RunOptions options);
  ~Session();

  // The outcome is kFrozen when the turn was paused: then it is not over, and go_on() is what comes next.
  Report exec(const Turn& turn);
  // Lets a turn go on that was paused, to its end or to where it is paused again. The report has all of the turn's fuel,
  // and what was printed since the report before. Its time on the clock begins anew. kInvalid when no turn is paused.
  Report go_on(std::optional<uint64_t> pause_at_fuel = {});
  // No turn comes after the one that ended in `report`. When that one ended by itself, and the journal that it was
  // answered from (RunOptions::replay) has more, it becomes kDiverged.
  void end(Report& report);
  // What the turn that is paused has used so far; nothing when none is.
  [[nodiscard]] std::optional<uint64_t> paused_at_fuel() const;
  // As it stands now, between two turns or where one is paused. `number` tells it from other forks of the same session:
  // the same number, the same randomness. Errors: kUnsupported for a paused program whose frames cannot be kept
  // (engine::freeze_frames()).
  Result<std::unique_ptr<Session>> fork(uint64_t number);

  // The names that the one at the end of `code` could become, as "text" for "s.te" in Python: sorted, at most 200. They are
  // found in a fork, which looks attributes up with little fuel, makes no host calls and is thrown away; so nothing of
  // the session changes, nor of its journal. None where the language cannot, or a turn is paused.
  std::vector<std::string> complete(std::string_view code);

  // Files that it has made, and to be found there.
  [[nodiscard]] std::vector<ReportFile> files() const;
  [[nodiscard]] host::HostResult<std::string> read_file(std::string_view path) const;
  host::HostResult<void> put_file(std::string_view path, std::string_view bytes);

  // Pages of memory that are its own by now, in bytes; nothing when the system does not say.
  [[nodiscard]] std::optional<uint64_t> private_bytes() const;

 private:
  class Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace membrane::sandbox
