// One exec of a sandbox, from its turn to its report.
#include "sandbox/run/report_building.h"
#include "service/client_hint.h"
#include "service/sandbox_record.h"

namespace membrane::service {
namespace {

sandbox::Report report_of(sandbox::Outcome outcome, std::string_view code, std::string message,
                          std::string hint = {}) {
  sandbox::Report report;
  report.outcome = outcome;
  sandbox::ReportError& error = report.errors.emplace_back();
  error.code = code;
  error.message = std::move(message);
  error.hint = std::move(hint);
  return report;
}

// For a report that says kCancelled because the service was stopped.
void tell_stop(sandbox::Report& report) {
  if (report.errors.empty()) report.errors.emplace_back().code = "cancelled";
  report.errors.front().message = "the service was stopped before the exec had ended";
  report.errors.front().hint =
      "Its effects so far are kept with its sandbox, if the sandbox can be kept. Run the rest when the "
      "service is back; server.drain_s, or --drain, is the time that execs have to finish.";
}

// For a report that says kOutOfFuel: the exec had less than its policy allows, since a quota had no more for
// it.
void tell_fuel_of_quota(uint64_t given, uint64_t limit, sandbox::Report& report) {
  if (report.outcome != sandbox::Outcome::kOutOfFuel || given >= limit || report.errors.empty()) return;
  report.errors.front().message =
      "the program used up the fuel that the token's quota of a day (fuel_a_day) "
      "had for it: " +
      std::to_string(given);
  report.errors.front().hint =
      "Make it do less, or run it after midnight, UTC: an exec gets at most half of what is left, or a "
      "sixteenth of "
      "the quota. GET /v1/usage says what is left; the service's owner can give a larger quota.";
}

}  // namespace

Answer<std::optional<TurnSeal>> Sandboxes::seal_of(Sandbox& sandbox, const std::shared_ptr<Exec>& exec,
                                                   const ExecSpec& spec) {
  if (const auto sealable = check_seal(sandbox.tenant, sandbox, spec.seal); !sealable)
    return std::unexpected(sealable.error());
  if (!spec.seal && !sandbox.spec.seals) return std::nullopt;
  auto key = options_.receipts->signing_key();  // the newest key: the exec may have waited long
  if (!key) return std::unexpected(key.error());
  const auto is_dead = [&sandbox] {
    const std::lock_guard lock(sandbox.mutex);
    return sandbox.is_dead;
  };
  return TurnSeal{*std::move(key),
                  [this, &sandbox, exec, is_dead, context = spec.context](
                      const sandbox::SealedReceipt& sealed, uint64_t turn) -> Answer<void> {
                    if (is_dead()) return std::unexpected(no_sandbox(sandbox.id));
                    const auto kept = options_.receipts->keep(
                        sandbox.tenant, sandbox.id,
                        {.exec = exec->id, .digest = {}, .context = context, .turn = turn}, sealed);
                    if (is_dead()) options_.receipts->forget(sandbox.id);  // it was ended earlier
                    if (kept) exec->set_receipt(sealed.digest);
                    return kept;
                  }};
}

Sandboxes::Begun Sandboxes::begin(Sandbox& sandbox, const std::shared_ptr<Exec>& exec, ExecSpec spec,
                                  uint64_t waited_us) {
  Begun begun{.exec = exec,
              .spec = std::move(spec),
              .began = std::chrono::steady_clock::now(),
              .waited_us = waited_us};
  bool shall_begin = true;
  {
    const std::lock_guard lock(sandbox.mutex);
    shall_begin = !sandbox.is_dead && !exec->is_cancelled();
  }
  const auto seal = shall_begin ? seal_of(sandbox, exec, begun.spec) : Answer<std::optional<TurnSeal>>();
  if (seal) begun.seal = *seal;
  begun.seals_alone = begun.seal && !sandbox.spec.seals;
  const Answer<void> room =
      begun.seals_alone
          ? hold_memory(sandbox, memory_of(sandbox.spec.template_name, sandbox.spec.policy.limits, 1, true))
          : Answer<void>();
  const Answer<Guest*> guest = !seal         ? std::unexpected(seal.error())
                               : !room       ? std::unexpected(room.error())
                               : shall_begin ? wake(sandbox)
                                             : Answer<Guest*>(nullptr);
  if (shall_begin && guest) {
    const std::lock_guard lock(sandbox.mutex);
    shall_begin = !sandbox.is_dead && !exec->is_cancelled();
    begun.is_at_once = shall_begin && (*guest)->kind() == Kind::kLinux;
    if (begun.is_at_once) {
      sandbox.at_once.push_back(exec);
      ++sandbox.uses;
    } else if (shall_begin) {
      sandbox.running = exec;
    }
    sandbox.execs_run += shall_begin ? 1 : 0;
  }
  if (shall_begin && guest) begun.fuel = watcher_.hold_fuel(sandbox.tenant, sandbox.spec.policy.limits.fuel);
  if (!begun.fuel) {
    const ApiError& error = begun.fuel.error();
    begun.report = report_of(sandbox::Outcome::kOutOfFuel, "out_of_fuel", error.message, error.hint);
  } else if (!guest) {
    const ApiError& error = guest.error();
    begun.report = report_of(sandbox::Outcome::kFailed, name_of(error.code), error.message, error.hint);
  } else if (shall_begin) {
    begun.guest = sandbox.guest;
  } else {
    begun.report =
        report_of(sandbox::Outcome::kCancelled, "cancelled", "the exec was cancelled before it began");
  }
  return begun;
}

void Sandboxes::perform(Sandbox& sandbox, Begun& begun) const {
  const ExecSpec& spec = begun.spec;
  const std::shared_ptr<Exec>& exec = begun.exec;
  exec->begin();
  GuestTurn turn{
      .code = spec.code,
      .stdin_text = spec.stdin_text,
      .arguments = spec.arguments,
      .name = spec.name,
      .is_script = spec.is_script,
      .most_time = {},
      .most_fuel = *begun.fuel,
      .on_stdout = [&](std::string_view text) { exec->add_output(false, text); },
      .on_stderr = [&](std::string_view text) { exec->add_output(true, text); },
      .approve = [&](const host::EgressQuestion& question) { return exec->ask(question, now_ms()); },
      .context = spec.context,
      .environment = spec.environment,
      .read_input = {},
      .seal = begun.seal ? &*begun.seal : nullptr,
      .command = spec.command,
      .directory = spec.directory,
      .terminal = spec.terminal,
      .user = spec.user,
      .flows = spec.flows};
  if (begun.is_at_once) {
    turn.is_cancelled = [&] { return exec->is_cancelled(); };
    turn.on_begun = [&](std::shared_ptr<linux::Command> command) {
      const int process_id = command->process_id();
      exec->set_command(std::move(command));
      if (spec.hear_begun) spec.hear_begun(exec, process_id);
    };
    turn.stop_reading = [&] { exec->stop_reading(); };
  }
  std::shared_ptr<host::EgressWatch> egress;
  if (options_.watch_egress && !spec.trace.empty()) egress = options_.watch_egress(spec.trace);
  turn.egress = egress.get();
  if (spec.open_stdin) {
    turn.stdin_text.clear();
    turn.read_input = [&](std::chrono::milliseconds patience) { return exec->read_input(patience); };
  }
  if (spec.timeout_ms) turn.most_time = std::chrono::milliseconds(*spec.timeout_ms);
  uint64_t wall_ms = 0, fuel = 0;
  {
    const std::lock_guard lock(sandbox.mutex);
    wall_ms = sandbox.spec.policy.limits.wall_ms;
    fuel = sandbox.spec.policy.limits.fuel;
  }
  begun.report = begun.guest->exec(turn);
  if (begun.is_at_once) exec->set_command(nullptr);  // before its sandbox can end
  if (spec.timeout_ms) sandbox::report_timeout(*spec.timeout_ms, wall_ms, begun.report);
  if (*begun.fuel) tell_fuel_of_quota(**begun.fuel, fuel, begun.report);
}

std::function<void()> Sandboxes::conclude(Sandbox& sandbox, Begun begun) {
  sandbox::Report& report = begun.report;
  {
    const std::lock_guard lock(sandbox.mutex);
    if (begun.is_at_once) {
      std::erase(sandbox.at_once, begun.exec);
      --sandbox.uses;
      sandbox.last_used_at_ms = now_ms();
      sandbox.cannot_be_kept = false;
    } else {
      sandbox.running = nullptr;
    }
    if (!sandbox.is_dead && sandbox.guest && sandbox.at_once.empty()) sandbox.guest->allow();
    forget_old_execs(sandbox);
    if (begun.is_at_once && sandbox.is_dead && !sandbox.is_at_work && sandbox.at_once.empty())
      let_go(sandbox);
  }
  if (is_stopping_ && report.outcome == sandbox::Outcome::kCancelled) tell_stop(report);
  for (sandbox::ReportError& error : report.errors) error.hint = client_hint(std::move(error.hint));
  if (begun.seals_alone) static_cast<void>(hold_memory(sandbox, memory_with(sandbox, 0)));
  watcher_.exec_ended({.actor = begun.spec.actor,
                       .sandbox = sandbox.id,
                       .template_name = sandbox.template_name,
                       .exec = begun.exec->id,
                       .waited_us = begun.waited_us,
                       .ran_us = us_since(begun.began),
                       .most_egress_bytes = sandbox.egress_bytes,
                       .held_fuel = begun.fuel ? begun.fuel->value_or(0) : 0},
                      report);
  return [this, exec = begun.exec, tenant = sandbox.tenant, report = std::move(report),
          hear = std::move(begun.spec.hear_report)]() mutable {
    if (hear) hear(report);
    exec->finish(std::move(report));
    if (held_->of(tenant) > options_.most_held_bytes) make_room(tenant, 0);
  };
}

std::function<void()> Sandboxes::run(const std::shared_ptr<Sandbox>& sandbox,
                                     const std::shared_ptr<Exec>& exec, ExecSpec spec, uint64_t waited_us,
                                     const Unfinished& unfinished) {
  Begun begun = begin(*sandbox, exec, std::move(spec), waited_us);
  if (begun.is_at_once && begun.guest != nullptr) return run_at_once(sandbox, std::move(begun), unfinished);
  if (begun.guest != nullptr) perform(*sandbox, begun);
  return [tell = conclude(*sandbox, std::move(begun)), unfinished] { tell(); };
}

std::function<void()> Sandboxes::run_at_once(const std::shared_ptr<Sandbox>& sandbox, Begun begun,
                                             const Unfinished& unfinished) {
  const auto shared = std::make_shared<Begun>(std::move(begun));
  const bool is_posted = at_once_.post(sandbox->tenant, [this, sandbox, shared, unfinished] {
    perform(*sandbox, *shared);
    const auto tell = conclude(*sandbox, std::move(*shared));
    bool is_watched = false;
    {
      const std::lock_guard lock(sandbox->mutex);
      sandbox->at_once_changed.notify_all();
      is_watched = !sandbox->watches.empty();
    }
    tell();
    const auto look = [](Sandbox&) -> std::function<void()> { return [] {}; };
    if (is_watched) static_cast<void>(post(sandbox, look));
  });
  if (is_posted) return [] {};
  shared->report = report_of(sandbox::Outcome::kFailed, name_of(ApiCode::kOverloaded),
                             "the service runs too many programs", "Try again later.");
  return [tell = conclude(*sandbox, std::move(*shared)), unfinished] { tell(); };
}

}  // namespace membrane::service
