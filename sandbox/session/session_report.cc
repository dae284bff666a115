// The result of a turn, as its report presents it.

#include "base/terminal.h"
#include "base/text.h"
#include "policy/quantity.h"
#include "sandbox/run/output_limit.h"
#include "sandbox/session/missing_package.h"
#include "sandbox/session/session_impl.h"
#include "wasi/files/file_tree.h"
#include "wasm/explain.h"

namespace membrane::sandbox {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostDisplays = 1000;
constexpr size_t kMostTypes = 64;                                    // per display
constexpr std::string_view kLeadsOut = "Capabilities insufficient";  // strerror() of WASI's ENOTCAPABLE

RichValue rich_value(const Json& bundle) {
  RichValue value;
  if (!bundle.is_object()) return value;
  for (const auto& [type, data] : bundle.items()) {
    if (value.size() == kMostTypes) break;
    if (data.is_string()) value.push_back({type, data.get<std::string>(), false});
    else if (data.is_object() && data.contains("base64") && data["base64"].is_string())
      value.push_back({type, data["base64"].get<std::string>(), true});
    else value.push_back({type, json_text(data), false});
  }
  return value;
}

// The line and column found by a check.
ReportPlace place_in(const Json& error) {
  const auto number = [&](const char* name) {
    const auto found = error.find(name);
    return found != error.end() && found->is_number_unsigned()
               ? static_cast<uint32_t>(std::min<uint64_t>(found->get<uint64_t>(), UINT32_MAX))
               : 0u;
  };
  ReportPlace place;
  place.line = number("line");
  place.column = number("column");
  return place;
}

std::string text_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::vector<std::string> texts_at(const Json& object, const char* name) {
  std::vector<std::string> texts;
  if (const auto found = object.find(name); found != object.end() && found->is_array())
    for (const Json& each : *found)
      if (each.is_string()) texts.push_back(each.get<std::string>());
  return texts;
}

MissingPackage missing_package_of(const Json& missing) {
  if (!missing.is_object()) return {};
  return {text_at(missing, "module"), texts_at(missing, "near"), texts_at(missing, "install")};
}

}  // namespace

void Session::Impl::report_result(Report& report) {
  const std::string outcome = text_at(*result_, "outcome");
  if (outcome == "exit") {
    const auto code = result_->find("exit_code");
    if (code == result_->end()) report.exit_code = 0;
    else if (code->is_number_integer())
      report.exit_code = exit_code_of_process(
          code->get<int64_t>());  // values above 2^63 become negative, and so out of range
  }
  if (const auto value = result_->find("value"); value != result_->end()) report.value = rich_value(*value);
  for (const MimePart& part : report.value)
    if (part.type == "text/plain") report.result = part.data;
  if (const auto displays = result_->find("displays"); displays != result_->end() && displays->is_array())
    for (const Json& each : *displays)
      if (report.displays.size() < kMostDisplays) report.displays.push_back(rich_value(each));
  if (outcome == "incomplete") {
    report.outcome = Outcome::kRaised;
    report.errors.push_back(
        {std::string(kIncomplete), "the code is incomplete", {}, "Give all of it.", {}, {}});
  }
  if (outcome == "error") report_language_error((*result_)["error"], report);
}

std::string Session::Impl::memory_limit() const {
  const uint64_t limit = options_.policy.limits.memory_bytes;
  const uint64_t whole = language_instance_limits(options_.policy.limits, template_->image()).memory_bytes;
  const bool is_whole = whole < template_->image().memory_bytes() + limit;
  return "The memory limit is " + policy::format_size(is_whole ? whole : limit) +
         (is_whole ? ", the interpreter's own among them" : " beyond the interpreter's own") +
         ". Make it hold less" + (is_whole ? "" : or_raise_memory(limit)) + ".";
}

namespace {

// CPython and NumPy refuse a size that no pointer of 32 bits could reach before they ask for the memory.
bool is_too_large_to_address(const ReportError& error) {
  return (error.code == "OverflowError" && error.message.contains("index-sized integer")) ||
         (error.code == "ValueError" && (error.message.contains("array is too big") ||
                                         error.message.contains("Maximum allowed dimension exceeded")));
}

bool is_of_quota(const ReportError& error) {
  return error.message.contains("No space left on device") || error.message.starts_with("ENOSPC: ");
}

std::string hint_of_quota() {
  const wasi::FileQuota quota;
  return "A program's own files may have " + policy::format_size(quota.bytes) + " together, and " +
         policy::format_count(quota.files) + " names: remove some, or write to a directory that is granted.";
}

// JavaScript did not find the file of a module, and the reason names that file.
bool is_module_of(std::string_view message, std::string_view reason) {
  constexpr std::string_view kHead = "there is no ";
  const size_t at =
      message.starts_with("Cannot find module '") ? message.find(kHead) : std::string_view::npos;
  if (at == std::string_view::npos) return false;
  const std::string_view path = message.substr(at + kHead.size());
  return reason.contains(" " + std::string(path.substr(0, path.find(", nor with "))) + ".");
}

}  // namespace

void Session::Impl::report_language_error(const Json& error, Report& report) {
  ReportError reported;
  if (error.is_object()) {
    reported.code = text_at(error, "type");
    reported.message = text_at(error, "message");
    reported.traceback = text_at(error, "traceback");
    reported.place = place_in(error);
  }
  if (reported.code.empty()) reported.code = "error";
  report.outcome = Outcome::kRaised;
  if (body_->instance().limit_was_hit() && (reported.code.ends_with("MemoryError") ||
                                            reported.code == "InternalError" || reported.code == "null")) {
    // When QuickJS has no room for an error, it throws null.
    if (reported.code == "null") {
      reported.message = "out of memory";
      reported.traceback = "Uncaught InternalError: out of memory";
    }
    // What fills the memory may be referenced by the session's names: the session could not do anything any more.
    report.outcome = Outcome::kOutOfMemory;
    reported.hint = and_goes_on(memory_limit());
  }
  if (reported.code == "MemoryError" && reported.message.empty()) {  // CPython raises it without a message
    reported.message = "out of memory";
    if (reported.hint.empty()) reported.hint = memory_limit();
  }
  if (is_too_large_to_address(reported))
    reported.hint =
        "Memory has 32-bit addresses here, and no object can have 2 GiB or more: make it smaller, or work in "
        "parts.";
  const host::CallRecord* const denial = body_->dispatcher().last_denial();
  const host::HostError* const denied_file = body_->system().last_denial();
  const std::string grant = denial != nullptr        ? denial->grant
                            : denied_file != nullptr ? denied_file->grant
                                                     : "";
  // A language reports a write below a read-only grant as a read-only file system.
  const bool is_read_only = denied_file != nullptr && reported.message.contains("Read-only file system");
  // Languages report a path that no grant covers as missing.
  const bool is_not_there = reported.code == "FileNotFoundError" || reported.message.starts_with("ENOENT: ");
  const std::string path = is_not_there ? path_in(reported.message) : "";
  const bool is_not_led_to =
      denied_file != nullptr && ((!path.empty() && denied_file->reason.contains(path)) ||
                                 is_module_of(reported.message, denied_file->reason));
  // No grant would allow it, so the message suggests none.
  const bool is_held_back = denial != nullptr && denial->reason.starts_with(host::kTrifectaRule) &&
                            reported.message.contains(host::kTrifectaRule);
  const bool is_denial = reported.code.ends_with("PermissionError") || is_read_only || is_held_back ||
                         (!grant.empty() && reported.message.find(grant) != std::string::npos);
  if (is_denial && (denial != nullptr || denied_file != nullptr)) {
    report.outcome = Outcome::kDenied;
    if (!grant.empty() && !is_held_back)
      reported.hint = allowed_by(is_read_only ? denied_file->grant : grant);
  } else if (is_not_led_to) {
    const std::string_view reason = denied_file->reason;
    constexpr std::string_view kToWrite = " to write ";
    if (const size_t at = reason.find(kToWrite); at != std::string_view::npos)
      reported.hint =
          hint_of_missing_directory(reason.substr(at + kToWrite.size()), template_->package().driver) + " ";
    reported.hint += granted_directories(options_.policy) + " " + allowed_by(denied_file->grant);
  } else if (reported.message.contains(kLeadsOut)) {
    report.outcome = Outcome::kDenied;
    reported.hint =
        "The path leads out of what the program sees. Grant the directory at a place, and open the file "
        "there: "
        "--allow fs:read:../data:/data, and /data/x.csv.";
  } else if (path.starts_with("/tmp/") && reported.hint.empty()) {
    reported.hint = "/tmp is the program's own: it has what programs have put there.";
    if (is_missing_directory(path.substr(0, path.rfind('/'))))
      reported.hint += " " + hint_of_missing_directory(path, template_->package().driver);
  } else if (!path.empty() && reported.hint.empty()) {
    reported.hint = granted_directories(options_.policy);
  }
  if (reported.hint.empty() && is_of_quota(reported)) reported.hint = hint_of_quota();
  if (reported.hint.empty() && error.is_object())
    if (const auto missing = error.find("missing"); missing != error.end())
      reported.hint = hint_of_missing(missing_package_of(*missing), options_.packages_by);
  report.errors.push_back(std::move(reported));
}

ReportPlace Session::Impl::place(const engine::CodePlace& at) const {
  return {wasm::place_of_function(body_->instance().module(), at.function), at.code_offset, 0, 0};
}

// A program that was to have a result, but ended.
bool Session::Impl::has_exited() const {
  const Stop& stop = body_->stop();
  const bool may_return = template_->interpreter().reads() || template_->interpreter().restarts();
  return stop.state == engine::RunState::kExited ||
         (stop.state == engine::RunState::kFinished && !stop.outcome && may_return);
}

void Session::Impl::report_stop(Report& report) {
  ReportError error;
  if (has_exited()) {
    report.exit_code = static_cast<int>(body_->system().exit_code().value_or(0));
    if (report.exit_code == 0 || template_->interpreter().restarts()) return;
    report.outcome = Outcome::kRaised;
    error.code = std::string(name_of(report.outcome));
    error.message = "the program ended the interpreter with exit code " + std::to_string(*report.exit_code);
    error.hint = options_.is_single_turn            ? ""
                 : template_->interpreter().reads() ? "A program that has ended cannot run another turn."
                                                    : "End with sys.exit() to keep the session's state.";
  } else {
    report.outcome = input_problem_.empty() ? outcome_of(body_->stop(), body_->instance().limit_was_hit())
                                            : Outcome::kInvalid;
    error = error_of_stop(report.outcome);
  }
  error.hint = and_goes_on(std::move(error.hint));
  report_places(error);
  report.errors.push_back(std::move(error));
}

ReportError Session::Impl::error_of_stop(Outcome outcome) const {
  const Stop& stop = body_->stop();
  const policy::Limits& limits = options_.policy.limits;
  ReportError error;
  error.code = std::string(name_of(outcome));
  const bool is_trapped = stop.state == engine::RunState::kTrapped;
  switch (outcome) {
    case Outcome::kInvalid:
      error.message = input_problem_;
      error.hint = "Give it less, or raise limits.bytes_in (--bytes-in).";
      break;
    case Outcome::kOutOfFuel:
    case Outcome::kTimedOut:
    case Outcome::kCancelled:
      error = stop_error(outcome, limits);
      if (outcome != Outcome::kTimedOut || !waits_for_input_) break;
      error.message += ", waiting for its standard input, which has not ended";
      error.hint = "Give it an input that ends; < /dev/null is an empty one.";
      break;
    case Outcome::kOutOfOutput:
      error.message =
          "the program printed more than its output limit of " + count_of(limits.output_bytes, "byte");
      error.hint = "Print less" + or_raise_output(limits.output_bytes) + ".";
      break;
    case Outcome::kOutOfMemory:
      error.message = is_trapped ? stop.trap.message : "there was no memory left for the program's result";
      error.hint = memory_limit();
      break;
    case Outcome::kTrapped:
      error.code = std::string(name_of(stop.trap.kind));
      error.message = stop.trap.message;
      error.hint = std::string(hint_of(stop.trap.kind));
      break;
    case Outcome::kRaised:
      error.message = "the program has no result: it changed objects that the interpreter itself relies on";
      error.hint = "Leave the built-in objects as they are.";
      break;
    default: error.message = stop.message.empty() ? "the interpreter did not answer" : stop.message;
  }
  const bool is_of_trap = outcome == Outcome::kTrapped || outcome == Outcome::kOutOfMemory;
  if (is_of_trap && !stop.trap.backtrace.empty()) error.place = place(stop.trap.backtrace.front());
  return error;
}

// This cannot happen while the engine is deterministic; if it does, no one must continue unaware from the wrong
// state.
void Session::Impl::report_lost_steps(const Error& error, Report& report) {
  report.outcome = Outcome::kFailed;
  report.errors.insert(report.errors.begin(),
                       {"lost",
                        "the session could not be returned to its state before this turn: " + error.message,
                        {},
                        "End it, and start a new session.",
                        {},
                        {}});
}

// Its own places are better than those in its interpreter's machine code.
void Session::Impl::report_places(ReportError& error) {
  std::vector<ReportPlace> places = template_->interpreter().places(*body_);
  if (places.empty()) return;
  error.place = std::move(places.front());
  error.backtrace.assign(std::make_move_iterator(places.begin() + 1), std::make_move_iterator(places.end()));
}

void Session::Impl::report_rest(Report& report) {
  if (!body_->is_paused()) body_->system().finish(body_->guest());
  const uint64_t written_bytes = context_.output().written_bytes;
  report_output(std::move(context_.output()), report);
  body_->list_calls_of_system();
  report_host_calls(body_->dispatcher(), report);
  report.flows = world().flow_report();
  report_unanswered(report);
  report_files(options_, body_->system(), files(), report);
  if (const auto& divergence = world().divergence()) report_divergence(*divergence, "turns", report);
  const uint64_t given_bytes = written_bytes + report.answer.size();
  limit_output(report, written_bytes, output_left());
  output_of_turn_bytes_ += given_bytes;
}

}  // namespace membrane::sandbox
