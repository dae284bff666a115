// The messages between a worker and its supervisor. The frame's subject is the session that it concerns; 0
// for none.
//
//   supervisor                          worker
//   kOpenTemplate spec ───────────────▶ opens a template by the file of its warm image
//   kRaiseWalls ──────────────────────▶ from here on it is locked up
//   kRehearse ────────────────────────▶ runs programs of its own, so that the first guest finds every page in place
//   kCreate, kExec, kFork, … ─────────▶ one at a time
//        ◀─────────────── kRequest ───  a call of the broker; answered by kAnswer before anything else
//        ◀────── kOutput, kFile ──────  as the program writes; not answered
//        ◀──────────────── kDone ─────  the command is over: its answer
//
// The commands are listed once, with their payloads: a kDone follows each command of the supervisor, a
// kAnswer each request of the worker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "sandbox/check.h"
#include "sandbox/template.h"
#include "wasi/owner_files.h"
#include "worker/walls.h"
#include "worker/wire_types.h"

namespace membrane {
inline auto wire_fields(Place& p) { return std::tie(p.line, p.column, p.offset, p.end_offset); }
}  // namespace membrane

namespace membrane::sandbox {
inline auto wire_fields(Finding& f) {
  return std::tie(f.code, f.message, f.place, f.function, f.expected, f.found, f.hint, f.text);
}
inline auto wire_fields(CheckRequest& r) { return std::tie(r.source, r.name, r.expands, r.wall_ms); }
inline auto wire_fields(CheckAnswer& a) { return std::tie(a.findings, a.plain, a.was_stopped); }
inline auto wire_fields(TemplateSpec& s) {
  return std::tie(s.package_directory, s.modules, s.cache_directory, s.tier, s.layer_path, s.layer_key,
                  s.imports);
}
}  // namespace membrane::sandbox

namespace membrane::wasi {
constexpr FileAct wire_last(FileAct) { return FileAct::kTellTime; }
constexpr FileType wire_last(FileType) { return FileType::kSymbolicLink; }
inline auto wire_fields(FileRequest& r) { return std::tie(r.act, r.path, r.to, r.is_deep, r.time_ns); }
inline auto wire_fields(FileFact& f) { return std::tie(f.path, f.type, f.size_bytes, f.modified_ns); }
}  // namespace membrane::wasi

namespace membrane::worker {

enum class Kind : uint16_t {
  // Of the supervisor.
  kOpenTemplate = 1,  // TemplateSpec ─▶ Status
  kRaiseWalls,        // WallLimits ─▶ Walls
  kRehearse,          // ─▶ nothing
  kSpawn,             // to a zygote: nothing ─▶ Status, with a socket and a process descriptor
  kEndOf,             // to a zygote: number of a worker ─▶ int, how it ended as in waitpid()
  kRun,               // GuestOptions, Program ─▶ Report
  kThaw,              // GuestOptions, bytes ─▶ Report
  kCreate,            // GuestOptions, TemplateSpec ─▶ Status
  kRestore,           // GuestOptions, TemplateSpec, bytes, whose state the supervisor has restored ─▶ Status
  kKeep,              // number of a fork, or nothing for itself, and SaidAlong::Sources ─▶ Result<bytes>
  kExec,              // SharedLeft, Turn, whether it has input of its own ─▶ TurnEnd
  kGoOn,              // SharedLeft, pause_at_fuel ─▶ TurnEnd
  kResume,            // SharedLeft, answers of functions ─▶ TurnEnd
  kFork,              // number, subject of the fork ─▶ Status
  kComplete,          // subject of a scratch fork, text ─▶ names
  kFiles,             // ─▶ files
  kReadFile,          // path ─▶ HostResult<bytes>
  kPutFile,           // path, bytes ─▶ HostResult<void>
  kActOnFiles,        // FileRequest ─▶ HostResult<facts>
  kPrivateBytes,      // ─▶ optional<uint64_t>
  kSkipped,           // ─▶ uint64_t, ns
  kClose,             // ─▶ nothing
  kCheck,             // CheckRequest ─▶ CheckAnswer
  kAbandon,           // the turn that is paused ─▶ Status
  kAnswer,            // to a request
  // Of the worker.
  kRequest = 64,  // Request ─▶ its answer
  kOutput,        // is_error, text; repeatedly
  kFile,          // path, bytes
  kDone,          // the answer to a command
};

// The worker's requests while a command runs: a call of the broker by its number (broker_calls.h), or one of
// these.
enum class Question : uint8_t {
  kBroker,       // call, left_for_call, arguments
  kDirectories,  // granted ─▶ HostResult<vector<string>>
  kLeft,         // ─▶ World::Amounts
  kTakeAfter,    // World::Amounts ─▶ nothing
  kPosition,     // ─▶ World::Position
  kGoTo,         // World::Position ─▶ nothing
  kHasStore,     // ─▶ bool
  kInput,        // patience in ms ─▶ InputPiece
  kFunctions,    // calls of functions of the embedder ─▶ their answers
  kSleep,        // ns ─▶ whether they have passed: for a session that asks its embedder
};
constexpr Question wire_last(Question) { return Question::kSleep; }

// What a session's program needs to know of host::Sources. Its clock and entropy are calls of the broker.
struct GuestSources {
  host::Sources::Sleep sleep = host::Sources::Sleep::kByClock;
  std::optional<RandomStream::Key> key;
  uint64_t skipped_ns = 0;
};
inline auto wire_fields(GuestSources& s) { return std::tie(s.sleep, s.key, s.skipped_ns); }

// The parts of RunOptions that a guest's run or session needs in the worker.
struct GuestOptions {
  policy::Policy policy;
  engine::Tier tier = engine::Tier::kAuto;
  std::optional<uint64_t> fuel_left, wall_left_ms;  // of a shared budget
  bool hears_stdout = false, hears_stderr = false, hears_bytes = false, hears_files = false;
  bool reads_input = false, input_is_ambient = false;
  std::optional<uint64_t> freeze_after_fuel;
  sandbox::PackagesBy packages_by = sandbox::PackagesBy::kPolicy;
  bool is_single_turn = false;
  std::optional<std::string> functions;  // the embedder's: their description
  std::optional<GuestSources> sources;
  std::optional<host::TimeZone> time_zone;
};
inline auto wire_fields(GuestOptions& o) {
  return std::tie(o.policy, o.tier, o.fuel_left, o.wall_left_ms, o.hears_stdout, o.hears_stderr,
                  o.hears_bytes, o.hears_files, o.reads_input, o.input_is_ambient, o.freeze_after_fuel,
                  o.packages_by, o.is_single_turn, o.functions, o.sources, o.time_zone);
}

inline auto wire_fields(WallLimits& l) { return std::tie(l.hashes, l.memory_bytes); }

// What is left for a turn of a budget that others share.
struct SharedLeft {
  std::optional<uint64_t> fuel, wall_ms;
};
inline auto wire_fields(SharedLeft& l) { return std::tie(l.fuel, l.wall_ms); }

struct TurnEnd {
  sandbox::Report report;
  std::optional<uint64_t> paused_at_fuel;
  std::vector<sandbox::FunctionCall> waits_for;
};
inline auto wire_fields(TurnEnd& t) { return std::tie(t.report, t.paused_at_fuel, t.waits_for); }

}  // namespace membrane::worker
