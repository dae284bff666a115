#include "sandbox/sandbox.h"

#include <utility>

#include "face/convert.h"
#include "face/policy.h"
#include "face/report.h"
#include "policy/granted_files.h"

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
  sandbox::OwnFunction own = face::own_function(std::move(function));
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
  if (const Status there = policy::check_granted_files(options.policy); !there)
    return face::report_of(sandbox::refusal(there.error()));
  return face::report_of(sandbox::run({.source = program.source,
                                       .name = program.name,
                                       .language = sandbox::Language::kAuto,
                                       .entry = program.entry,
                                       .arguments = program.arguments,
                                       .input = program.input,
                                       .environment = program.environment},
                                      options));
}

namespace {

Report go_on(sandbox::RunOptions options, std::span<const uint8_t> snapshot, const sandbox::OwnAnswer* answer,
             std::optional<uint64_t> freeze_after_fuel) {
  options.freeze_after_fuel = freeze_after_fuel;
  options.answer = answer;
  return face::report_of(sandbox::thaw(snapshot, options));
}

}  // namespace

Report Sandbox::thaw(std::span<const uint8_t> snapshot, std::optional<uint64_t> freeze_after_fuel) const {
  return go_on(state_->options, snapshot, nullptr, freeze_after_fuel);
}

Report Sandbox::resume(std::span<const uint8_t> snapshot, HostResults answer,
                       std::optional<uint64_t> freeze_after_fuel) const {
  const sandbox::OwnAnswer given = face::own_answer(answer);
  return go_on(state_->options, snapshot, &given, freeze_after_fuel);
}

Report Sandbox::resume(std::span<const uint8_t> snapshot, std::function<HostResults(HostCall&)> answer,
                       std::optional<uint64_t> freeze_after_fuel) const {
  if (!answer) return resume(snapshot, std::unexpected("the answer has nothing to call"), freeze_after_fuel);
  const sandbox::OwnAnswer given = face::own_answer(std::move(answer));
  return go_on(state_->options, snapshot, &given, freeze_after_fuel);
}

void Sandbox::cancel() { state_->cancelled.store(true, std::memory_order_relaxed); }

}  // namespace membrane
