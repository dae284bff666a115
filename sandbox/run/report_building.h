// The parts that the reports of runs and of turns share.
//
// Threads: any.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "host/calls/dispatch.h"
#include "host/world/world.h"
#include "lang/package.h"
#include "policy/policy.h"
#include "sandbox/report/report.h"
#include "sandbox/run/guest_instance.h"
#include "sandbox/run/sandbox.h"
#include "wasi/system/system.h"

namespace membrane::sandbox {

double microseconds_since(std::chrono::steady_clock::time_point start);

// For a kTimedOut report: the run had `timeout_ms`, less than the policy's `wall_ms`, and that is what ran out.
void report_timeout(uint64_t timeout_ms, uint64_t wall_ms, Report& report);

// For a kTimedOut report that has its flows: what was still waiting for a person's approval.
void report_unanswered(Report& report);

// Lists the files, and passes them to the options' listener.
void report_files(const RunOptions& options, const wasi::System& system, std::vector<ReportFile> files,
                  Report& report);

// How to grant a refused call, as a sentence for a hint; "" if no grant would help.
std::string allowed_by(const std::string& grant);

// The path that a language's error is about, as in "No such file or directory: 'data/x.csv'": the last quoted text.
// "" when there is none.
std::string path_in(std::string_view message);

// For a program that tries to write to `path`, absolute, below a directory that does not exist: how to create it.
// Begins with kNoDirectory.
inline constexpr std::string_view kNoDirectory = "There is no directory ";
std::string hint_of_missing_directory(std::string_view path, lang::Driver driver);

// The granted directories, each with what is allowed, for a program that did not find its file. Their paths on this
// machine are for its own user only.
enum class HostPaths : uint8_t { kHidden, kNamed };
std::string granted_directories(const policy::Policy& policy, HostPaths paths = HostPaths::kHidden);

// Moves the output and the submitted answer to the report.
void report_output(Conversation output, Report& report);
void report_host_calls(const host::Dispatcher& dispatcher, Report& report);
// Converts a line of the report, and back. An unknown error name becomes kHost.
HostCallRecord line_of(const host::CallRecord& call);
host::CallRecord call_of(const HostCallRecord& line);
// The replay requested something else, so that other errors do not matter. `same` names what must be unchanged,
// besides the input.
void report_divergence(const std::string& divergence, std::string_view same, Report& report);
// Ends the replay: a program that ended by itself must have requested everything in the journal; otherwise it
// diverged.
void end_replay(host::World& world, const Report& report);
// The same for a run of one program, whose report says where the replay left the journal.
void report_end_of_replay(host::World& world, Report& report);

}  // namespace membrane::sandbox
