#include "sandbox/run/sandbox.h"

#include <utility>

#include "face/agents.h"
#include "face/convert.h"
#include "face/inner.h"
#include "face/policy.h"
#include "face/receipts.h"
#include "face/report.h"
#include "policy/granted_files.h"

namespace membrane {

std::string Report::to_json() const { return rendered ? sandbox::render_json(*rendered, true) : "{}"; }
std::string Report::to_text() const {
  return rendered ? sandbox::render_text(*rendered, false) : std::string();
}

struct Sandbox::State {
  sandbox::RunOptions options;
  face::Company company;
  std::optional<Receipts> receipts;
  std::atomic<bool> cancelled = false;

  // Null: in this process.
  Report run(const Program& program, std::optional<uint64_t> freeze_after_fuel,
             const face::Place* place) const;
  // Resumes a frozen run with the answer. Null: no answer.
  Report go_on(std::span<const uint8_t> snapshot, const sandbox::OwnAnswer* answer,
               std::optional<uint64_t> freeze_after_fuel) const;
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

void Sandbox::approve_by(Approve approve) { state_->options.approve = face::approve_of(std::move(approve)); }

void Sandbox::share(const Flows& flows) { state_->options.flows = flows.state().flows; }

void Sandbox::use(Model model) {
  state_->company.model = face::model_of(std::move(model));
  state_->company.join(state_->options);
}

void Sandbox::ask_by(Ask ask) {
  state_->company.person = face::person_of(std::move(ask));
  state_->company.join(state_->options);
}

void Sandbox::seal_into(const Receipts& receipts) { state_->receipts = receipts; }

Report Sandbox::State::run(const Program& program, std::optional<uint64_t> freeze_after_fuel,
                           const face::Place* place) const {
  if (const Status there = policy::check_granted_files(options.policy); !there)
    return face::refused(there.error());
  if (receipts && freeze_after_fuel) return face::refused(face::not_sealed("is not frozen").error());
  if (receipts && !options.functions.empty())
    return face::refused(face::not_sealed("has no functions of the embedder's").error());
  sandbox::RunOptions how = options;
  how.freeze_after_fuel = freeze_after_fuel;
  if (place != nullptr) {
    how.cancel = place->cancel;
    how.packages_by = place->packages_by;
  }
  std::optional<face::Seal> seal;
  if (receipts) seal.emplace(*receipts, nullptr).attach(how);
  const sandbox::Program what{.source = program.source,
                              .name = program.name,
                              .format = lang::SourceFormat::kAuto,
                              .entry = program.entry,
                              .arguments = program.arguments,
                              .input = program.input,
                              .environment = program.environment};
  Report report = place != nullptr ? face::report_of(place->guests.run(what, how), face::Reader::kCommand)
                                   : face::report_of(sandbox::run(what, how));
  if (seal) seal->keep(what, report);
  return report;
}

Report Sandbox::State::go_on(std::span<const uint8_t> snapshot, const sandbox::OwnAnswer* answer,
                             std::optional<uint64_t> freeze_after_fuel) const {
  if (receipts) return face::refused(face::not_sealed("is not thawed").error());
  sandbox::RunOptions how = options;
  how.freeze_after_fuel = freeze_after_fuel;
  how.answer = answer;
  return face::report_of(sandbox::thaw(snapshot, how));
}

Report Sandbox::run(const Program& program, std::optional<uint64_t> freeze_after_fuel) const {
  return state_->run(program, freeze_after_fuel, nullptr);
}

Report Sandbox::thaw(std::span<const uint8_t> snapshot, std::optional<uint64_t> freeze_after_fuel) const {
  return state_->go_on(snapshot, nullptr, freeze_after_fuel);
}

Report Sandbox::resume(std::span<const uint8_t> snapshot, HostResults answer,
                       std::optional<uint64_t> freeze_after_fuel) const {
  const sandbox::OwnAnswer given = face::own_answer(answer);
  return state_->go_on(snapshot, &given, freeze_after_fuel);
}

Report Sandbox::resume(std::span<const uint8_t> snapshot, std::function<HostResults(HostCall&)> answer,
                       std::optional<uint64_t> freeze_after_fuel) const {
  if (!answer) return resume(snapshot, std::unexpected("the answer has nothing to call"), freeze_after_fuel);
  const sandbox::OwnAnswer given = face::own_answer(std::move(answer));
  return state_->go_on(snapshot, &given, freeze_after_fuel);
}

void Sandbox::cancel() { state_->cancelled.store(true, std::memory_order_relaxed); }

Report face::run_program(const Sandbox& sandbox, const Program& program, const Place& place) {
  return sandbox.state().run(program, std::nullopt, &place);
}

}  // namespace membrane
