// Runs one program under one policy and says exactly what it did.
//
//   Program ─(lang: preprocess, parse, validate)─▶ Module ─(engine)─▶ Instance
//   Instance ─(host functions: capability ─▶ broker)─▶ Report
//
// run() never throws and never prints; whatever goes wrong is an outcome of the
// report, with a cause and a fix.
//
// A run can be frozen (RunOptions::freeze_after_fuel) and thawed later, in another process,
// tier or machine: it ends as one that was never frozen, with the same results, output, host
// calls and fuel. Thawing the same bytes twice forks it. What goes along, and what cannot, is
// in docs/snapshot-format.md; the policy does not: whoever thaws says what is granted. Its
// limits are the whole run's, with what was used before (fuel, host calls, bytes, tokens,
// output); only the time on the clock begins anew.
//
// A function of the embedder's that answers later freezes the run in the call (Outcome::kWaiting): sandbox/own_function.h.
//
// Threads: run() may be called from many threads at once; each call has its own
// instance. A Budget may be shared among them.
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
#include "host/broker.h"
#include "host/journal.h"
#include "host/sources.h"
#include "host/time_zone.h"
#include "host/world.h"
#include "policy/budget.h"
#include "policy/policy.h"
#include "sandbox/guest_functions.h"
#include "sandbox/own_function.h"
#include "sandbox/report.h"

namespace membrane::sandbox {

enum class Language : uint8_t {
  kAuto,  // binary when it starts with "\0asm", else WAT
  kWat,   // with the preprocessor's forms
  kWasm,
};

struct Program {
  std::string source;                // text, or the bytes of a binary
  std::string name = "program.wat";  // for messages
  Language language = Language::kAuto;
  std::string
      entry;  // an export; empty: _start, else run, else main. A reactor's _initialize is called before it
  // Typed by the entry's parameters. An entry without parameters gets them from io.argument, or as the arguments of a
  // WASI program, whose first is the program's name.
  std::vector<std::string> arguments;
  std::string input;  // what io.input gives to the program, and the standard input of a WASI program
  // Environment variables of a WASI program: name, value. It has no others.
  std::vector<std::pair<std::string, std::string>> environment{};
};

// Neither bytes nor an end: nothing has come yet.
struct InputPiece {
  std::string bytes;
  bool is_end = false;
};

// How the person who runs a program can give it packages, for the hint of an import that fails.
enum class PackagesBy : uint8_t {
  kPolicy,  // by [packages] of the policy alone
  kFlag,    // by --with of the command, too
};

struct RunOptions {
  policy::Policy policy;
  engine::Tier tier = engine::Tier::kAuto;                // who runs the code; the report is the same
  const engine::native::CodeCache* code_cache = nullptr;  // of large modules; borrowed; null: none is kept
  std::shared_ptr<policy::Budget>
      budget;                       // shared with others; null: one of its own, from the policy's limits
  host::Model* model = nullptr;     // for ai.*; borrowed; null: ai.* answers ENOTSUP
  host::Person* person = nullptr;   // for agent.ask; borrowed
  host::Secrets secrets = nullptr;  // what headers of the policy name; null: the environment's variables
  // Of the trifecta rule: what was read, shared with others and with forks; null: of its own, and each fork has one of its own
  // that begins with all of its parent's. Who is asked before something leaves; null: nobody, so nothing does.
  std::shared_ptr<host::Flows> flows = nullptr;
  host::Approve approve = nullptr;
  host::EgressWatch* egress_watch = nullptr;  // hears of http requests that are sent; borrowed
  // Of a session: what its embedder has in the place of the policy's clock and randomness, and how sleeps pass. Null: as the
  // policy says. The zone of its local time; null: UTC. Refused where the language has no local time.
  std::shared_ptr<const host::Sources> sources = nullptr;
  std::shared_ptr<const host::TimeZone> time_zone = nullptr;
  const host::JournalSource* replay = nullptr;  // answers host calls from here instead of the world
  host::JournalSink* record = nullptr;          // when set, every host call is written here
  const std::atomic<bool>* cancel = nullptr;    // set it to stop the run at its next safepoint
  std::vector<OwnFunction> functions;           // of the embedder; found before a capability of the same name
  const OwnAnswer* answer = nullptr;            // of thaw(): to the call that the run waits for; borrowed
  std::shared_ptr<const GuestFunctions> guest_functions =
      nullptr;  // of the embedder, for programs in languages
  // Called as the program writes; may be null. They hear UTF-8, or with `hears_bytes` what a WASI program writes byte
  // for byte. The report has UTF-8 in any case.
  std::function<void(std::string_view)> on_stdout, on_stderr;
  bool hears_bytes = false;
  // Each file that the program has made in its own tree, by its absolute path there, when the run or the turn is over;
  // may be null.
  std::function<void(std::string_view path, std::string_view bytes)> on_file;
  // More of the program's input than Program::input; null: that is all. Called on the run's thread, and returns after
  // `patience` at the latest. A WASI program is given the input as it reads. Other programs are given all of it before
  // they start, for io.input, and so is a program that is to be frozen, for its snapshot: at most limits.bytes_in.
  // In a session, a turn without input of its own reads it when it asks, in whole blocks of 64 KiB (its standard input in
  // Python and JavaScript, {"session":"input"} of the door elsewhere); forks have none of it.
  std::function<InputPiece(std::chrono::milliseconds patience)> read_input;
  // Nobody asked for this input: it is a WASI program's standard input and nothing else, and no part of a snapshot.
  bool input_is_ambient = false;
  // Pauses when the whole run has used so much fuel, as if there were no more, and freezes: the outcome is
  // kFrozen, and Report::snapshot has the bytes. A program that ends before is not frozen.
  std::optional<uint64_t> freeze_after_fuel;
  PackagesBy packages_by = PackagesBy::kPolicy;
  bool is_single_turn =
      false;  // of a session: nothing comes after its first turn, so errors say nothing of what would
  // What answers host calls, for a run or a session and each fork of it; null: this process, by the policy, model,
  // person, replay and record above.
  std::function<std::unique_ptr<host::World>()> make_world = {};
  // Called now and then on the run's thread while code runs; may be null.
  std::function<void()> on_poll = {};
};

// A piece of input from `source` (RunOptions::read_input, or a turn's own), which counts in `world` as read.
InputPiece read_input(const std::function<InputPiece(std::chrono::milliseconds)>& source, host::World& world,
                      std::chrono::milliseconds patience);

// What the options say, or a World in this process that pays from `budget`. The options outlive it.
std::unique_ptr<host::World> world_of(const RunOptions& options,
                                      const std::shared_ptr<policy::Budget>& budget);

Report run(const Program& program, const RunOptions& options);

// Goes on with a frozen run. The report is of the whole run: what it printed, called and used before is in it,
// but on_stdout hears what is printed from now on, and record gets what is called from now on. `snapshot` is
// borrowed for the call. A snapshot that is damaged, of another version, or does not fit the options (a
// function of the embedder's that is not there, a limit that is passed already) is an outcome: kInvalid,
// kOutOfMemory or kFailed, with cause and fix.
//
// Bytes that somebody forged can do what their program could, under this policy, and can lie about what it
// did before; they cannot leave the wall. Who minds keeps snapshots where nobody else writes.
//
// A run that waits for the answer to a call goes on when the options have one. Without, nothing runs, and the report says
// again what it waits for, with the same bytes. An answer that does not fit (of other types, or to a run that waits for
// nothing) is kInvalid, and the snapshot is as good as before.
Report thaw(std::span<const uint8_t> snapshot, const RunOptions& options);

}  // namespace membrane::sandbox
