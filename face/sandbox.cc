#include "sandbox/sandbox.h"

#include <utility>

#include "face/convert.h"
#include "face/policy.h"
#include "face/report.h"

namespace membrane {

static_assert(static_cast<int>(Outcome::kWaiting) == static_cast<int>(sandbox::Outcome::kWaiting));

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
  return face::report_of(sandbox::run({.source = program.source,
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
  return face::report_of(sandbox::thaw(snapshot, options));
}

void Sandbox::cancel() { state_->cancelled.store(true, std::memory_order_relaxed); }

}  // namespace membrane
