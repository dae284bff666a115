// Freezing a run into a snapshot, and taking it up again.
#include <algorithm>
#include <utility>

#include "sandbox/run/run.h"

namespace membrane::sandbox {

// Checked before anything runs, since a run that cannot be frozen in the end would be lost.
bool Run::can_freeze() {
  if (!options_.freeze_after_fuel) return true;
  if (Status can = is_freezable(entry_, entry_name_); !can) return stop(Outcome::kInvalid, can.error());
  if (*options_.freeze_after_fuel < fuel_before())
    return stop(Outcome::kInvalid, "invalid_argument",
                "the program should be frozen after " + std::to_string(*options_.freeze_after_fuel) +
                    " fuel, but has used " + std::to_string(fuel_before()) + " already",
                "Fuel counts from the start of the run: freeze it after more.");
  return true;
}

// While `called` runs, which only the run itself has called.
Status Run::is_freezable(const engine::FunctionInstance* called, std::string_view name) const {
  if (called->code == nullptr)
    return fail(ErrorCode::kUnsupported,
                "\"" + std::string(name) + "\" is a function of the host, which cannot be frozen",
                "Call it from a function of the program.");
  const auto& kv = options_.policy.kv;
  const auto is_kv = [](const wasm::Import& import) { return import.module == "kv"; };
  if (kv && kv->path.empty() && options_.replay == nullptr &&
      std::ranges::any_of(compiled_->module().imports, is_kv))
    return fail(ErrorCode::kUnsupported,
                "the program uses a key-value store in memory, which a snapshot does not hold",
                "Grant one in a file, which is found again when it is thawed.");
  return {};
}

// Everything except the WASI state.
FrozenState Run::state_at(RunPhase phase) const {
  const host::World::Amounts now = world().left();
  const auto used = [](uint64_t before, uint64_t at_start, uint64_t left) {
    return before + (at_start - std::min(at_start, left));
  };
  const FrozenState nothing;
  const FrozenState& before = frozen_ == nullptr ? nothing : frozen_->state;
  FrozenState state;
  state.program_name = program_.name;
  state.entry = entry_name_;
  state.phase = phase;
  state.arguments = program_.arguments;
  state.input = output().input;
  state.stdout_text = output().stdout_text;
  state.stderr_text = output().stderr_text;
  state.result = output().result;
  state.answer = output().answer;
  state.submitted = output().submitted;
  state.written_bytes = output().written_bytes;
  state.heap_next = guest_->heap_next();
  state.memory_limit_was_hit = memory_limit_was_hit();
  state.sources = world().position();
  state.flows = world().flow_state();
  state.host_calls = used(before.host_calls, amounts_at_start_.host_calls, now.host_calls);
  state.bytes_in = used(before.bytes_in, amounts_at_start_.bytes_in, now.bytes_in);
  state.bytes_out = used(before.bytes_out, amounts_at_start_.bytes_out, now.bytes_out);
  state.tokens = used(before.tokens, amounts_at_start_.tokens, now.tokens);
  state.tokens_reported = before.tokens_reported + world().tokens_used();
  state.history = dispatcher_->history();
  if (waits_for_) state.waits = waits_for_->note;
  return state;
}

void Run::freeze(RunPhase phase) {
  if (waits_for_) {
    const std::string name = phase == RunPhase::kEntry ? entry_name_ : waits_for_->name;
    if (Status can = is_freezable(function_of(phase), name); !can) {
      stop(Outcome::kInvalid, can.error());
      report_.errors.back().message += "; it waits for " + waits_for_->name;
      return;
    }
  }
  FrozenState state = state_at(phase);
  if (wasi_) {
    auto frozen = wasi_->freeze();
    if (!frozen) {
      stop(Outcome::kFailed, frozen.error());
      return;
    }
    state.wasi.assign(frozen->begin(), frozen->end());
    std::vector<uint8_t>().swap(*frozen);
  }
  auto snapshot = engine::freeze(*execution_, *instance_, write_state(std::move(state)), fuel_before());
  if (!snapshot) {
    stop(Outcome::kFailed, snapshot.error());
    return;
  }
  report_.outcome = waits_for_ ? Outcome::kWaiting : Outcome::kFrozen;
  if (waits_for_) report_.waits_for.push_back(*std::move(waits_for_));
  report_.snapshot = std::move(*snapshot);
  report_.snapshot_bytes = report_.snapshot.size();
}

// Output and usage of a frozen run precede those of its continuation.
void Run::take_up(const FrozenState& state) {
  output().stdout_text = state.stdout_text;
  output().stderr_text = state.stderr_text;
  output().result = state.result;
  output().answer = state.answer;
  output().submitted = state.submitted;
  output().written_bytes = state.written_bytes;
  world().go_to(state.sources);
  world().add_flows(state.flows);
  report_.fuel_used = fuel_before();
  world().take_after({state.host_calls, state.bytes_in, state.bytes_out, state.tokens});
}

// The answer for a waiting run must fit the call.
bool Run::take_up_call() {
  if (!frozen_->state.waits) {
    if (options_.answer == nullptr) return true;
    return stop(Outcome::kInvalid, "invalid_argument", "the run waits for no answer, but was given one",
                "Thaw it without an answer.");
  }
  const auto awaited = frozen_->snapshot.awaited();
  const OwnFunction* function = nullptr;
  for (const wasm::Import& import : compiled_->module().imports)
    if (awaited && import.kind == wasm::ExternKind::kFunc && import.index == *awaited)
      function = find_own(import);
  if (function == nullptr)
    return stop(Outcome::kInvalid, "invalid_input", "the run waits for a function that is not defined",
                "Define it before the run is resumed. If it is defined, the snapshot is damaged.");
  if (options_.answer != nullptr)
    if (Status fits = options_.answer->check(*function); !fits) return stop(Outcome::kInvalid, fits.error());
  in_kept_call_ = true;
  return true;
}

}  // namespace membrane::sandbox
