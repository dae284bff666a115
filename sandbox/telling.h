// What a run and a session's turn do alike to be ended, and what their reports tell alike.
//
// Threads: any.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "engine/instance/host_call.h"
#include "host/dispatch.h"
#include "host/world.h"
#include "lang/package.h"
#include "policy/policy.h"
#include "sandbox/guest_instance.h"
#include "sandbox/report.h"
#include "sandbox/sandbox.h"
#include "wasi/system.h"

namespace membrane::sandbox {

// What a host call that did not return makes of the run: how it goes on, and the outcome, where the call decides that.
struct Consequence {
  engine::HostAction action;
  std::optional<Outcome> outcome;
};
Consequence consequence_of(host::CallEnd end);

// How long a run waits for input before it looks whether it is to end.
inline constexpr std::chrono::milliseconds kInputPatience(20);

double microseconds_since(std::chrono::steady_clock::time_point start);

// kCancelled when the owner says so (`cancel` may be null), kTimedOut when the time is over.
std::optional<Outcome> stop_asked_for(const std::atomic<bool>* cancel,
                                      std::chrono::steady_clock::time_point deadline);

// Why it was stopped, and what helps: kOutOfFuel, kTimedOut or kCancelled.
ReportError stop_error(Outcome outcome, const policy::Limits& limits);

// ", or raise limits.output (--output 4MiB)": to more than there is now; "" where there can be no more.
std::string or_raise_memory(uint64_t limit_bytes);
std::string or_raise_output(uint64_t limit_bytes);

// Of a report that says kTimedOut: the run had `timeout_ms`, less than the policy's `wall_ms`, and that is what ran out.
void tell_timeout(uint64_t timeout_ms, uint64_t wall_ms, Report& report);

// Of a report that says kTimedOut and has its flows: what waited for a person's yes until then.
void tell_unanswered(Report& report);

// Lets the options hear what the program writes.
void hear_output(const RunOptions& options, Conversation& said);

// Why the program did not even begin: kTimedOut or kCancelled while it was compiled.
ReportError compile_stop_error(Outcome outcome, const policy::Limits& limits);

// Lists the files, and gives them to whom the options say.
void tell_files(const RunOptions& options, const wasi::System& system, std::vector<ReportFile> files,
                Report& report);

// How a refused call would be granted, as a sentence for a hint; "" where no grant would help.
std::string allowed_by(const std::string& grant);

// The path that an error of a language is about, as in "No such file or directory: 'data/x.csv'": what stands in the
// last quotes. "" when there is none.
std::string path_in(std::string_view message);

// Of a program that would write to `path`, absolute, below a directory that is not there: what makes it. Begins with
// kNoDirectory.
inline constexpr std::string_view kNoDirectory = "There is no directory ";
std::string hint_of_missing_directory(std::string_view path, lang::Driver driver);

// What a program finds at its paths, for one that was not there: the granted directories, each with what is allowed.
std::string granted_directories(const policy::Policy& policy);

// What it printed and submitted.
void tell_conversation(Conversation said, Report& report);
void tell_host_calls(const host::Dispatcher& dispatcher, Report& report);
// A line of the report, and back. The number of an error whose name is none is kHost.
HostCallRecord line_of(const host::CallRecord& call);
host::CallRecord call_of(const HostCallRecord& line);
// The replay asked for something else: other errors are no news. `same` is what has to be as it was, besides the input.
void tell_divergence(const std::string& divergence, std::string_view same, Report& report);
// The run is over: a program that ended by itself has asked for all that the journal has, or has left it.
void end_replay(host::World& world, const Report& report);
// The same of a run of one program, whose report says where its replay left the journal.
void tell_end_of_replay(host::World& world, Report& report);

}  // namespace membrane::sandbox
