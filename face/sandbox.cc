#include "sandbox/sandbox.h"

#include <utility>

#include "face/convert.h"
#include "face/policy.h"

namespace membrane {
namespace {

static_assert(static_cast<int>(Outcome::kOutOfCpu) == static_cast<int>(sandbox::Outcome::kOutOfCpu));

Report::Result result_of(const sandbox::ReportValue& value) {
  Report::Result result{value.type, value.value, std::nullopt};
  for (const ValueType type : {ValueType::kI32, ValueType::kI64, ValueType::kF32, ValueType::kF64})
    if (value.type == wasm::name_of(face::wasm_type_of(type)))
      result.value = face::value_of(type, value.bits);
  return result;
}

Report report_of(sandbox::Report made) {
  Report report;
  report.outcome = static_cast<Outcome>(made.outcome);
  for (const sandbox::ReportError& error : made.errors) report.failures.push_back(face::failure_of(error));
  for (const sandbox::ReportValue& value : made.results) report.results.push_back(result_of(value));
  report.result = made.result;
  if (made.submitted) report.answer = made.answer;
  report.exit_code = made.exit_code;
  report.stdout_text = made.stdout_text;
  report.stderr_text = made.stderr_text;
  report.fuel_used = made.fuel_used;
  report.cost_version = made.cost_version;
  report.memory_peak_bytes = made.memory_peak_bytes;
  report.compile_us = made.compile_us;
  report.run_us = made.run_us;
  for (const sandbox::HostCallRecord& c : made.host_calls)
    report.host_calls.push_back(
        {c.name, c.allowed, c.error, c.reason, c.grant, c.arguments, c.bytes_in, c.bytes_out, c.latency_us});
  report.snapshot = std::exchange(made.snapshot, {});
  report.rendered = std::make_shared<const sandbox::Report>(std::move(made));
  return report;
}

}  // namespace

std::string_view name_of(Outcome outcome) { return sandbox::name_of(static_cast<sandbox::Outcome>(outcome)); }

std::string Report::to_json() const { return rendered ? sandbox::render_json(*rendered, true) : "{}"; }
std::string Report::to_text() const {
  return rendered ? sandbox::render_text(*rendered, false) : std::string();
}

struct Sandbox::State {
  sandbox::RunOptions options;
  std::atomic<bool> cancelled = false;
};

Sandbox::Sandbox(const Policy& policy) : state_(std::make_unique<State>()) {
  state_->options.policy = policy.state().policy;
  state_->options.cancel = &state_->cancelled;
}
Sandbox::~Sandbox() = default;
Sandbox::Sandbox(Sandbox&&) noexcept = default;
Sandbox& Sandbox::operator=(Sandbox&&) noexcept = default;

Expected<void> Sandbox::define(HostFunction function) {
  if (auto wrong = face::check(function)) return std::unexpected(std::move(*wrong));
  sandbox::OwnFunction own{function.module, function.name, face::wasm_type_of(function.signature), {}};
  own.call = [function = std::move(function)](host::Guest& guest, engine::HostCall& call) {
    return face::invoke(function, guest, call);
  };
  std::erase_if(state_->options.functions,
                [&](const auto& known) { return known.module == own.module && known.name == own.name; });
  state_->options.functions.push_back(std::move(own));
  return {};
}

void Sandbox::share(const Budget& budget) { state_->options.budget = budget.state().budget; }

void Sandbox::on_stdout(std::function<void(std::string_view)> listener) {
  state_->options.on_stdout = std::move(listener);
}

void Sandbox::on_stderr(std::function<void(std::string_view)> listener) {
  state_->options.on_stderr = std::move(listener);
}

Report Sandbox::run(const Program& program, std::optional<uint64_t> freeze_after_fuel) const {
  sandbox::RunOptions options = state_->options;
  options.freeze_after_fuel = freeze_after_fuel;
  return report_of(sandbox::run({.source = program.source,
                                 .name = program.name,
                                 .language = sandbox::Language::kAuto,
                                 .entry = program.entry,
                                 .arguments = program.arguments,
                                 .input = program.input,
                                 .environment = program.environment},
                                options));
}

Report Sandbox::thaw(std::span<const uint8_t> snapshot, std::optional<uint64_t> freeze_after_fuel) const {
  sandbox::RunOptions options = state_->options;
  options.freeze_after_fuel = freeze_after_fuel;
  return report_of(sandbox::thaw(snapshot, options));
}

void Sandbox::cancel() { state_->cancelled.store(true, std::memory_order_relaxed); }

}  // namespace membrane
