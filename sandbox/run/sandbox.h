// Runs one program under one policy and reports exactly what it did.
//
//   Program ─(lang: preprocess, parse, validate)─▶ Module ─(engine)─▶ Instance
//   Instance ─(host functions: capability ─▶ broker)─▶ Report
//
// run() never throws and never prints; any failure is an outcome in the report, with a cause and a fix.
//
// A run can be frozen (RunOptions::freeze_after_fuel) and thawed later, in another process, tier or machine: it ends
// as one that was never frozen, with the same results, output, host calls and fuel. Thawing the same bytes twice
// forks it. See docs/snapshot-format.md for what a snapshot includes; the policy is not included: the thawing caller
// decides what is granted. The limits cover the whole run, including what was used before (fuel, host calls, bytes,
// tokens, output); only the wall-clock time starts again.
//
// An embedder's function that answers later freezes the run in the call (Outcome::kWaiting): see
// sandbox/run/own_function.h.
//
// Threads: run() may be called from many threads concurrently; each call has its own instance. They may share a
// Budget.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/code/tier.h"
#include "engine/native/code_cache.h"
#include "host/broker/broker.h"
#include "host/journal/journal.h"
#include "host/sources/sources.h"
#include "host/sources/time_zone.h"
#include "host/world/world.h"
#include "lang/source_format.h"
#include "policy/budget.h"
#include "policy/policy.h"
#include "sandbox/report/report.h"
#include "sandbox/run/guest_functions.h"
#include "sandbox/run/own_function.h"

namespace membrane::sandbox {

struct Program {
  std::string source;                // text, or the bytes of a binary
  std::string name = "program.wat";  // for messages
  lang::SourceFormat format = lang::SourceFormat::kAuto;
  std::string
      entry;  // an export; empty: _start, else run, else main. A reactor's _initialize is called before it
  // Converted to the types of the entry's parameters. An entry without parameters gets them from io.argument, or as
  // the arguments of a WASI program, after the program's name.
  std::vector<std::string> arguments;
  std::string input;  // the result of io.input, and the standard input of a WASI program
  // The complete environment of a WASI program: name, value.
  std::vector<std::pair<std::string, std::string>> environment{};
};

// Neither bytes nor an end: nothing has arrived yet.
struct InputPiece {
  std::string bytes;
  bool is_end = false;
};

// How the person who runs a program can provide packages, for the hint of a failed import.
enum class PackagesBy : uint8_t {
  kPolicy,  // only by [packages] of the policy
  kFlag,    // also by --with of the command
};

struct RunOptions {
  policy::Policy policy;
  engine::Tier tier = engine::Tier::kAuto;  // selects how code is executed; the report is the same
  const engine::native::CodeCache* code_cache = nullptr;  // for large modules; borrowed; null: no cache
  std::shared_ptr<policy::Budget>
      budget;                       // shared with others; null: a budget of its own, from the policy's limits
  host::Model* model = nullptr;     // for ai.*; borrowed; null: ai.* answers ENOTSUP
  host::Person* person = nullptr;   // for agent.ask; borrowed
  host::Secrets secrets = nullptr;  // resolves the policy's secrets for headers; null: environment variables
  // For the trifecta rule: what was read, shared with others and with forks; null: its own, and each fork gets a
  // copy of its parent's. Then, who approves what leaves; null: no one, so nothing leaves.
  std::shared_ptr<host::Flows> flows = nullptr;
  host::Approve approve = nullptr;
  host::EgressWatch* egress_watch = nullptr;  // observes http requests that are sent; borrowed
  // For a session: the embedder's replacement for the policy's clock and randomness, and how sleeps pass; null: as
  // in the policy. Then, the local time zone; null: UTC. Refused if the language has no local time.
  std::shared_ptr<const host::Sources> sources = nullptr;
  std::shared_ptr<const host::TimeZone> time_zone = nullptr;
  const host::JournalSource* replay = nullptr;  // answers host calls from here instead of the outside world
  host::JournalSink* record = nullptr;          // when set, receives every host call
  const std::atomic<bool>* cancel = nullptr;    // set it to stop the run at its next safepoint
  std::vector<OwnFunction>
      functions;  // of the embedder; they take precedence over a capability of the same name
  const OwnAnswer* answer = nullptr;  // for thaw(): the answer to the call that the run waits for; borrowed
  std::shared_ptr<const GuestFunctions> guest_functions =
      nullptr;  // of the embedder, for programs in languages
  // Called with output as the program writes it; may be null. They get UTF-8, or with `hears_bytes` the exact bytes
  // that a WASI program writes. The report has UTF-8 in any case.
  std::function<void(std::string_view)> on_stdout, on_stderr;
  bool hears_bytes = false;
  // Called for each file that the program has created in its own tree, with its absolute path there, when the run or
  // the turn has ended; may be null.
  std::function<void(std::string_view path, std::string_view bytes)> on_file;
  // More of the program's input, after Program::input; null: there is no more. Called on the run's thread, and must
  // return within `patience`. A WASI program gets the input as it reads. Other programs get all of it before they
  // start, for io.input, and so does a program that is to be frozen, for its snapshot: at most limits.bytes_in. In a
  // session, a turn without input of its own reads it on demand, in whole blocks of 64 KiB (its standard input in
  // Python and JavaScript, {"session":"input"} of the door elsewhere); forks have none of it.
  std::function<InputPiece(std::chrono::milliseconds patience)> read_input;
  // The input was not requested explicitly: it is only a WASI program's standard input, and not part of a snapshot.
  bool input_is_ambient = false;
  // Pauses when the whole run has used this much fuel, as if there were no more, and freezes: the outcome is
  // kFrozen, and Report::snapshot has the bytes. A program that ends before is not frozen.
  std::optional<uint64_t> freeze_after_fuel;
  PackagesBy packages_by = PackagesBy::kPolicy;
  bool is_single_turn =
      false;  // for a session: no turn follows the first one, so errors do not mention later turns
  // Creates the World that answers host calls, for a run or a session and for each of its forks; null: in this
  // process, from the policy, model, person, replay and record above.
  std::function<std::unique_ptr<host::World>()> make_world = {};
  // Called repeatedly on the run's thread while code runs; may be null.
  std::function<void()> on_poll = {};
};

Report run(const Program& program, const RunOptions& options);

// Resumes a frozen run. The report covers the whole run, including earlier output, calls and usage, but on_stdout
// gets only output printed from now on, and record only calls made from now on. `snapshot` is borrowed for the call.
// A snapshot that is damaged, has another version, or does not fit the options (a missing function of the embedder,
// a limit that is already exceeded) gives the outcome kInvalid, kOutOfMemory or kFailed, with cause and fix.
//
// Forged bytes can do what their program could, under this policy, and can lie about what it did before; they cannot
// leave the sandbox. Store snapshots where no other user can write.
//
// A run that waits for the answer to a call is resumed if the options have one. Without it, nothing runs, and the
// report lists the call again, with the same bytes. An answer that does not fit (of other types, or for a run that
// waits for nothing) is kInvalid, and the snapshot remains usable.
Report thaw(std::span<const uint8_t> snapshot, const RunOptions& options);

}  // namespace membrane::sandbox
