// What a run did, exactly: one value, rendered as text for a person and as JSON for a
// program (docs/report.schema.json; field names are stable).
//
// Threads: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "base/result.h"
#include "host/gate/flows.h"
#include "membrane/membrane.hpp"

namespace membrane::sandbox {

// How a run ended, by the outcomes of the public face. `name` is the JSON value, `exit` the command's exit code:
// 0 fine; 1 the guest's own failure, or a replay that differs; 2 a denied or invalid request; 3 Membrane failed;
// 4 frozen or waiting, to be resumed.
#define MEMBRANE_OUTCOMES(X)                                                                 \
  X(kOk, "ok", 0, "The program ran to its end.")                                             \
  X(kTrapped, "trapped", 1, "The program trapped.")                                          \
  X(kOutOfFuel, "out_of_fuel", 1, "The program used up its fuel.")                           \
  X(kOutOfMemory, "out_of_memory", 1, "The program asked for more memory than its limit.")   \
  X(kOutOfOutput, "out_of_output", 1, "The program printed more than its output limit.")     \
  X(kTimedOut, "timed_out", 1, "The program ran past its wall-clock limit.")                 \
  X(kCancelled, "cancelled", 1, "The owner stopped the program.")                            \
  X(kDiverged, "diverged", 1, "The replay asked for something else than its journal holds.") \
  X(kDenied, "denied", 2, "The program needs what no grant allows.")                         \
  X(kInvalid, "invalid", 2, "The program or the request is not valid.")                      \
  X(kFailed, "failed", 3, "Membrane itself failed.")                                         \
  X(kFrozen, "frozen", 4, "The program is frozen, and continues when it is thawed.")         \
  X(kRaised, "raised", 1, "The program ended in an error of its own language.")              \
  X(kOutOfCpu, "out_of_cpu", 1, "The sandbox used up its CPU time.")                         \
  X(kWaiting, "waiting", 4, "The program waits for the answer of one of your functions.")

using Outcome = membrane::Outcome;
using membrane::name_of;
std::string_view describe(Outcome outcome);
int exit_code_of(Outcome outcome);
// A program's own exit code, as far as a process can return it: a code outside of 0 to 255 becomes 255, so that no
// failure looks like a success.
int exit_code_of_process(int64_t code);

// The place of a failure inside the program. Empty or 0 where unknown.
struct ReportPlace {
  bool operator==(const ReportPlace&) const = default;

  std::string function;  // "$name", else "#8 (export \"run\")", else "#8"
  uint32_t offset = 0;   // bytes into the binary (or into the module's code bytes)
  uint32_t line = 0;     // of the text, 1-based
  uint32_t column = 0;
  std::string file = {};  // for a program in a language, as the language names it
};

struct ReportError {
  std::string code;  // stable: a diagnostic's name, a trap kind ("memory_out_of_bounds"), an ErrorCode's name
  std::string message;
  ReportPlace place;
  std::string hint;
  std::vector<ReportPlace> backtrace;  // the callers of `place`, innermost first
  std::string traceback = {};          // kRaised: as the language prints it
};

// One representation of a value: "text/plain", "image/png", …
struct MimePart {
  std::string type;
  std::string data;  // text; bytes as base64
  bool is_base64 = false;
};
using RichValue = std::vector<MimePart>;  // the same value in several representations

struct ReportFile {
  std::string path;
  uint64_t size_bytes = 0;
};

struct HostCallRecord {
  std::string name;  // "http.get"
  bool allowed = true;
  std::string error;      // "EACCES"; empty on success
  std::string reason;     // why it was refused or failed, in words
  std::string grant;      // the grant that would allow it
  std::string arguments;  // bounded, for people: the URL, the path, the key
  uint64_t bytes_in = 0;  // received by the program
  uint64_t bytes_out = 0;
  uint64_t latency_us = 0;
  // For a Linux sandbox: the complete data that a policy decides by (host/gate/recorded_calls.h), for a receipt. Not
  // rendered.
  std::vector<std::string> decided_by = {};
};

struct ReportValue {
  std::string type;   // "i32"
  std::string value;  // decimal; "nan:0x…" where JSON has no number
  uint64_t bits = 0;  // for i32, i64, f32, f64
};

// A call of an embedder's function that has no answer yet (sandbox/run/guest_functions.h, sandbox/run/own_function.h).
struct WaitingCall {
  std::string name;
  std::string arguments, keywords;  // JSON: an array, an object
  std::string object;               // for a method: the id of its object; "" for a function
  // For a WebAssembly program: the arguments, which are also in `arguments` as JSON, and the function's note about
  // the call.
  std::vector<ReportValue> values = {};
  std::string note = {};
};

struct LimitReached {
  std::string name;    // as in the policy: "tasks"
  uint64_t times = 0;  // how often the limit caused a refusal or an end
};

struct Report {
  Outcome outcome = Outcome::kOk;
  std::vector<ReportError> errors;   // the first is "error" in JSON; more only for diagnostics
  std::vector<ReportValue> results;  // the export's values
  std::string result;                // the argument of io.result
  RichValue value;                   // for a language: value of the last expression
  std::vector<RichValue> displays;   // values displayed during the turn
  std::vector<ReportFile> files;     // that the session has created or changed so far
  std::vector<std::string> kept;     // paths of files and images that were saved on this machine
  std::optional<int> exit_code;      // for a program that exited by itself: sys.exit(3)
  std::string answer;                // the argument of agent.submit
  bool submitted = false;
  std::string stdout_text;  // may be invalid UTF-8 for a Linux sandbox
  std::string stderr_text;
  uint64_t fuel_used = 0;
  uint32_t cost_version = 0;
  uint64_t memory_peak_bytes = 0;
  uint64_t tokens_used = 0;  // by ai.* calls
  double compile_us = 0;     // from the program's text or bytes to an instance
  double run_us = 0;
  std::vector<HostCallRecord> host_calls;
  uint64_t output_bytes_cut = 0;           // dropped because of the output limit
  uint64_t host_calls_dropped = 0;         // made, but not listed, since the list is bounded
  std::optional<host::FlowReport> flows;   // if the policy has the trifecta rule
  std::vector<WaitingCall> waits_for;      // for kWaiting
  std::vector<uint8_t> snapshot;           // of a frozen run; not rendered
  std::optional<uint64_t> snapshot_bytes;  // if freezing was requested; 0: the program ended before
  std::string platform = {};               // for a Linux sandbox: "trap", "kvm"
  std::vector<LimitReached> limits_reached =
      {};                        // for a Linux sandbox, including limits after which the program continued
  std::string kind_reason = {};  // why this kind of sandbox was chosen, unless it was requested
};

// As a JSON array, in the report's format.
std::string json_of(const std::vector<ReportValue>& values);

// The report's entry for an error of Membrane, and for a mistake in the program.
ReportError report_error(const Error& error);
ReportError report_error(const Diagnostic& diagnostic);
// For a request that ran nothing: kFailed for an internal error, else kInvalid.
Report refusal(const Error& error);

// A line for each display, and for a value that has no text, as in render_text().
std::string render_shown(const Report& report);
// For a terminal: outcome, error with place and hint, output, a table of host calls, costs. Text from the program is
// made printable (base/terminal.h).
std::string render_text(const Report& report, bool colour);
// One JSON object. `pretty` indents by two.
std::string render_json(const Report& report, bool pretty);
// For a model: what it needs to continue, within `max_bytes`; long parts are cut in the middle, with a note.
std::string render_observation(const Report& report, size_t max_bytes);

}  // namespace membrane::sandbox
