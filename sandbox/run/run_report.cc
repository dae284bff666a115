// How a run ended, and its report.
#include <utility>

#include "base/text.h"
#include "sandbox/run/output_limit.h"
#include "sandbox/run/run.h"
#include "sandbox/run/stops.h"
#include "wasm/explain.h"

namespace membrane::sandbox {

bool Run::stop_invalid(const std::vector<Diagnostic>& diagnostics) {
  report_.outcome = Outcome::kInvalid;
  for (const Diagnostic& diagnostic : diagnostics) report_.errors.push_back(report_error(diagnostic));
  return false;
}

void Run::stop_paused(engine::RunState state) {
  report_.outcome = outcome_of({.state = state, .outcome = end_}, memory_limit_was_hit());
  ReportError error = stop_error(report_.outcome, limits_);
  show_places(execution_->backtrace(), error);
  report_.errors.push_back(std::move(error));
}

void Run::stop_trapped(const engine::Trap& trap) {
  ReportError error{std::string(name_of(trap.kind)), trap.message, {}, std::string(hint_of(trap.kind)), {}};
  show_places(trap.backtrace, error);
  const bool is_heap_full = trap.kind == engine::TrapKind::kHeapExhausted;
  report_.outcome = outcome_of({.state = engine::RunState::kTrapped, .outcome = end_},
                               memory_limit_was_hit() || is_heap_full);
  if (failed_call_) {
    error.code =
        failed_call_->code == host::Errno::kOk ? "host" : std::string(host::name_of(failed_call_->code));
    if (failed_line_ != 0) error.place.line = failed_line_;
    if (!failed_call_->grant.empty()) error.hint = allowed_by(failed_call_->grant);
    else if (error.hint.empty()) error.hint = std::string(host::remedy_of(failed_call_->code));
  }
  if (end_ == Outcome::kOutOfOutput && !failed_call_) {
    error.code = std::string(name_of(Outcome::kOutOfOutput));
    error.message =
        "the program wrote more than its output limit of " + count_of(limits_.output_bytes, "byte");
    error.hint = "Write less" + or_raise_output(limits_.output_bytes) + ".";
  }
  if (!end_ && memory_limit_was_hit())
    error.hint = "A memory.grow was refused before: the memory limit is " +
                 count_of(limits_.memory_bytes, "byte") + ". Ask for less" +
                 or_raise_memory(limits_.memory_bytes) + ".";
  if (!end_ && !failed_call_ && wasi_ && wasi_->last_denial() != nullptr) {
    const host::HostError& refused = *wasi_->last_denial();
    error.hint = "A call was refused before: " + refused.reason;
    if (!refused.grant.empty()) error.hint += " " + allowed_by(refused.grant);
  }
  const host::CallRecord* const denial = dispatcher_->last_denial();
  const bool is_denied = failed_call_ ? failed_call_->code == host::Errno::kAccess : !wasi_;
  if (!end_ && denial != nullptr && is_denied) {
    report_.outcome = Outcome::kDenied;
    if (!failed_call_) error.hint = denial->name + " was refused before: " + denial->reason;
    if (!failed_call_ && !denial->grant.empty()) error.hint += " " + allowed_by(denial->grant);
  }
  report_.errors.push_back(std::move(error));
}

// The program exited by itself: with an exit code if it is a WASI program. Only the program knows whether it failed
// because of an earlier refusal; the report lists the refusals.
void Run::report_exit() {
  if (!wasi_ || !wasi_->exit_code()) return;
  report_.exit_code = static_cast<int>(*wasi_->exit_code());
  const host::HostError* const denial = wasi_->last_denial();
  if (report_.exit_code == 0 || denial == nullptr) return;
  report_.errors.push_back({std::string(host::name_of(denial->code)),
                            "a call was refused before: " + denial->reason,
                            {},
                            allowed_by(denial->grant),
                            {}});
}

// The innermost place is where it happened, the others are callers.
void Run::show_places(const std::vector<engine::CodePlace>& places, ReportError& error) const {
  if (places.empty()) return;
  error.place = show_place(places.front());
  for (size_t i = 1; i < places.size(); ++i) error.backtrace.push_back(show_place(places[i]));
}

ReportPlace Run::show_place(const engine::CodePlace& place) const {
  ReportPlace shown;
  shown.function = wasm::place_of_function(compiled_->module(), place.function);
  shown.offset = place.code_offset;
  if (place.text_offset != UINT32_MAX) {
    const Place in_text = loaded_.author_place(place.text_offset);
    shown.offset = in_text.offset;
    shown.line = in_text.line;
    shown.column = in_text.column;
  }
  return shown;
}

void Run::finish() {
  const uint64_t written_bytes = output().written_bytes;
  report_all();
  limit_output(report_, written_bytes, limits_.output_bytes);
}

void Run::report_all() {
  if (wasi_ && guest_ && !is_kept()) {
    wasi_->finish(*guest_);
    for (host::CallRecord& record : wasi_->take_records()) dispatcher_->record(std::move(record));
    std::vector<ReportFile> files;
    for (const wasi::FileEntry& file : wasi_->written_files())
      if (file.type == wasi::FileType::kRegularFile) files.push_back({file.path, file.size});
    report_files(options_, *wasi_, std::move(files), report_);
  }
  report_.result = std::move(output().result);
  report_output(std::move(output()), report_);
  report_.tokens_used = world().tokens_used();
  report_.flows = world().flow_report();
  report_unanswered(report_);
  if (frozen_ != nullptr) report_.tokens_used += frozen_->state.tokens_reported;
  if (instance_ != nullptr) report_.memory_peak_bytes = instance_->memory_bytes();  // it never shrinks
  if (!dispatcher_) return;
  report_host_calls(*dispatcher_, report_);
  report_end_of_replay(world(), report_);
}

}  // namespace membrane::sandbox
