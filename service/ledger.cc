#include "service/ledger.h"

#include <algorithm>

#include "policy/grants.h"
#include "service/sandboxes.h"
#include "service/times.h"

namespace membrane::service {
namespace {

constexpr int64_t kDayMs = 24ll * 3'600'000;
constexpr const char* kEnded = "its program was in the memory of a service that has ended";

ApiError used_up(const char* what, uint64_t quota, int64_t now_ms) {
  const auto left_s = static_cast<uint32_t>((kDayMs - now_ms % kDayMs + 999) / 1000);
  return {
      .code = ApiCode::kQuotaExceeded,
      .message = std::string("the token's quota of ") + what + " a day is used up: " + std::to_string(quota),
      .hint = "It is renewed at midnight, UTC; the service's owner can grant a larger one.",
      .retry_after_s = left_s};
}

SandboxRow row_of(const std::string& tenant, const SandboxInfo& info) {
  return {.id = info.id,
          .tenant = tenant,
          .template_name = info.template_name,
          .metadata = info.metadata,
          .labels = info.labels,
          .created_at_ms = info.created_at_ms,
          .last_used_at_ms = info.last_used_at_ms,
          .expires_at_ms = info.expires_at_ms,
          .idle_timeout_s = info.idle_timeout_s};
}

// The bytes that the program sent to others. A report does not list every call of very many; then this is
// everything that the policy allowed it to send.
uint64_t egress_bytes(const ExecFacts& facts, const sandbox::Report& report) {
  uint64_t bytes = report.host_calls_dropped > 0 ? facts.most_egress_bytes : 0;
  for (const sandbox::HostCallRecord& call : report.host_calls)
    if (report.host_calls_dropped == 0 && (call.name.starts_with("http.") || call.name.starts_with("ai.")))
      bytes += call.bytes_out;
  return bytes;
}

// For the two states in which a sandbox is in images.
std::string_view row_state(const KeptSandbox& sandbox) {
  return sandbox.info.state == SandboxState::kPaused ? "paused" : "parked";
}

Status read_row(const SandboxRow& row, KeptSandbox& sandbox) {
  sandbox.tenant = row.tenant;
  sandbox.info = {.id = row.id,
                  .template_name = row.template_name,
                  .state = row.state == "paused" ? SandboxState::kPaused : SandboxState::kIdle,
                  .created_at_ms = row.created_at_ms,
                  .last_used_at_ms = row.last_used_at_ms,
                  .expires_at_ms = row.expires_at_ms,
                  .idle_timeout_s = row.idle_timeout_s,
                  .metadata = row.metadata,
                  .labels = row.labels};
  return read_sandbox_record(row.kept, sandbox);
}

std::string_view name_of(EndReason why) {
  constexpr std::string_view kNames[] = {"killed", "expired", "idle"};
  return kNames[static_cast<size_t>(why)];
}

}  // namespace

Result<std::unique_ptr<Ledger>> Ledger::open(Parts parts, Quotas usual) {
  std::unique_ptr<Ledger> ledger(new Ledger(parts, usual));
  const int64_t now = ledger->now_ms();
  MEMBRANE_TRY(parts.state.settle_sandboxes(now, kEnded));
  MEMBRANE_ASSIGN(const std::vector<SandboxRow> rows, parts.state.sandboxes());
  for (const SandboxRow& row : rows) {
    if (row.state == "lost") {
      ledger->lost_.emplace(row.id, Lost{row.tenant, row.reason, row.expires_at_ms});
      continue;
    }
    KeptSandbox& sandbox = ledger->kept_.emplace_back();
    const Status read = read_row(row, sandbox);
    if (read) continue;
    ledger->lose(sandbox, read.error().message);
    ledger->kept_.pop_back();
  }
  ledger->begin_day(now / kDayMs);
  return ledger;
}

void Ledger::lose(const KeptSandbox& sandbox, const std::string& reason) {
  parts_.log.write(Level::kError, "sandbox lost",
                   {{"sandbox", std::string_view(sandbox.info.id)}, {"why", std::string_view(reason)}});
  note("sandbox", parts_.state.settle_sandbox(sandbox.info.id, "lost", reason, Hold::kCrash));
  const std::lock_guard lock(mutex_);
  lost_.insert_or_assign(sandbox.info.id, Lost{sandbox.tenant, reason, sandbox.info.expires_at_ms});
}

// Failures to record something that does not change an answer are logged.
void Ledger::note(std::string_view what, const Status& done) {
  if (done) return;
  parts_.log.write(Level::kError, "state", {{"what", what}, {"why", std::string_view(done.error().message)}});
}

int64_t Ledger::now_ms() const { return parts_.now_ms ? parts_.now_ms() : system_now_ms(); }

void Ledger::begin_day(int64_t day) {
  if (day == day_) return;
  day_ = day;
  today_.clear();
  const auto written = parts_.state.usage(day);
  if (!written) return note("usage", std::unexpected(written.error()));
  for (const UsageRow& row : *written)
    if (row.day == day) today_[row.tenant] = {row.fuel, row.egress_bytes, row.execs};
  for (const auto& [key, used] : unwritten_)
    if (key.first == day) today_[key.second].add(used);
}

// What cannot be removed now is removed by a later flush(): otherwise the next service would report it as
// lost.
void Ledger::remove(const std::string& sandbox) {
  const Status removed = parts_.state.remove_sandbox(sandbox, Hold::kCrash);
  const std::lock_guard lock(mutex_);
  if (removed) {
    unremoved_.erase(sandbox);
    return;
  }
  if (unremoved_.insert(sandbox).second) note("sandbox", removed);
}

void Ledger::flush() {
  const int64_t now = now_ms();
  std::vector<UsageRow> rows;
  std::map<std::pair<int64_t, std::string>, Used> used_since;
  std::vector<std::string> over;
  {
    const std::lock_guard lock(mutex_);
    begin_day(now / kDayMs);
    for (const auto& [key, used] : unwritten_)
      rows.push_back({key.second, key.first, used.fuel, used.egress_bytes, used.execs});
    used_since.swap(unwritten_);
    over.assign(unremoved_.begin(), unremoved_.end());
    for (const auto& [id, lost] : lost_)
      if (lost.expires_at_ms <= now) over.push_back(id);
    for (const std::string& id : over) lost_.erase(id);
  }
  for (const std::string& id : over) {
    remove(id);
    if (forgotten_) forgotten_(id);
  }
  if (rows.empty()) return;
  const Status added = parts_.state.add(rows);
  const std::lock_guard lock(mutex_);
  if (added) {
    cannot_write_usage_ = false;
    return;
  }
  if (!std::exchange(cannot_write_usage_, true)) note("usage", added);
  for (const auto& [key, used] : used_since) unwritten_[key].add(used);
}

Ledger::Used Ledger::used_today(const std::string& tenant) {
  const std::lock_guard lock(mutex_);
  begin_day(now_ms() / kDayMs);
  const auto found = today_.find(tenant);
  return found == today_.end() ? Used() : found->second;
}

Quotas Ledger::quotas_of(const std::string& tenant) {
  Quotas quotas = parts_.tokens.quotas_of(tenant);
  quotas.fill(usual_);
  return quotas;
}

Answer<void> Ledger::may_exec(const std::string& tenant) {
  const Quotas quotas = quotas_of(tenant);
  if (!quotas.fuel_a_day && !quotas.egress_bytes_a_day) return {};
  const int64_t now = now_ms();
  const std::lock_guard lock(mutex_);
  begin_day(now / kDayMs);
  const auto found = today_.find(tenant);
  const Used used = found == today_.end() ? Used() : found->second;
  if (quotas.fuel_a_day)
    if (const auto left = fuel_left(tenant, *quotas.fuel_a_day, now); !left)
      return std::unexpected(left.error());
  if (quotas.egress_bytes_a_day && used.egress_bytes >= *quotas.egress_bytes_a_day)
    return std::unexpected(used_up("bytes sent out", *quotas.egress_bytes_a_day, now));
  return {};
}

Answer<uint64_t> Ledger::fuel_left(const std::string& tenant, uint64_t quota, int64_t now) const {
  const auto today = today_.find(tenant);
  const uint64_t used = today == today_.end() ? 0 : today->second.fuel;
  if (used >= quota) return std::unexpected(used_up("fuel", quota, now));
  const auto holds = held_fuel_.find(tenant);
  const uint64_t held = holds == held_fuel_.end() ? 0 : holds->second;
  if (held < quota - used) return quota - used - held;
  return refuse(ApiCode::kTooManyRequests,
                "running execs hold the rest of the token's quota of fuel a day (fuel_a_day): " +
                    std::to_string(quota - used),
                "Try again when one of them has ended, or use policies with a smaller \"limits.fuel\".");
}

Answer<std::optional<uint64_t>> Ledger::hold_fuel(const std::string& tenant, uint64_t wanted) {
  constexpr uint64_t kLeastParts = 16;
  const std::optional<uint64_t> quota = quotas_of(tenant).fuel_a_day;
  if (!quota) return std::nullopt;
  const int64_t now = now_ms();
  const std::lock_guard lock(mutex_);
  begin_day(now / kDayMs);
  const auto left = fuel_left(tenant, *quota, now);
  if (!left) return std::unexpected(left.error());
  const uint64_t part = std::max(*left - *left / 2, *quota / kLeastParts);
  const uint64_t held = std::min({wanted, *left, part});
  held_fuel_[tenant] += held;
  return held;
}

Answer<void> Ledger::created(const Actor& actor, const SandboxInfo& sandbox, const policy::Policy& policy,
                             const std::string& snapshot, uint64_t took_us) {
  SandboxRow row = row_of(actor.tenant, sandbox);
  row.policy_json = policy::to_json(policy);
  if (const Status put = parts_.state.put(row, Hold::kCrash); !put)
    return std::unexpected(disk_error(put.error()));
  parts_.metrics.created(sandbox.template_name, took_us);
  std::map<std::string, std::string> fields = {{"sandbox", sandbox.id}, {"template", sandbox.template_name}};
  if (!sandbox.parent.empty()) fields["parent"] = sandbox.parent;
  if (!snapshot.empty()) fields["snapshot"] = snapshot;
  fields["grants"] = listed(policy::grants_of(policy));
  auto noted = acted(actor, "sandbox.created", fields);
  if (!noted) remove(sandbox.id);
  return noted;
}

Answer<void> Ledger::changed(const std::string& tenant, const SandboxInfo& sandbox) {
  if (const Status done = parts_.state.update_facts(row_of(tenant, sandbox), Hold::kCrash); !done)
    return std::unexpected(disk_error(done.error()));
  return {};
}

Answer<void> Ledger::kept(const KeptSandbox& sandbox) {
  SandboxRow row = row_of(sandbox.tenant, sandbox.info);
  row.policy_json = policy::to_json(sandbox.guest.spec.policy);
  row.environment = sandbox.guest.spec.environment;
  row.state = row_state(sandbox);
  row.kept = record_of(sandbox);
  row.images = hashes_of(sandbox.guest);
  if (const Status done = parts_.state.update(row, Hold::kPowerCut); !done)
    return std::unexpected(disk_error(done.error()));
  return {};
}

Answer<void> Ledger::resumed(const std::string& sandbox) {
  if (const Status done = parts_.state.settle_sandbox(sandbox, "live", "", Hold::kPowerCut); !done)
    return std::unexpected(disk_error(done.error()));
  return {};
}

Answer<void> Ledger::acted(const Actor& actor, std::string_view event,
                           const std::map<std::string, std::string>& fields) {
  if (parts_.audit == nullptr) return {};
  const Status added = parts_.audit->add(event, actor, fields);
  note("audit", added);
  if (!added) return std::unexpected(disk_error(added.error()));
  return {};
}

void Ledger::ended(const Actor& actor, const std::string& sandbox, EndReason why) {
  remove(sandbox);
  static_cast<void>(
      acted(actor, "sandbox.ended", {{"sandbox", sandbox}, {"why", std::string(name_of(why))}}));
}

void Ledger::exec_ended(const ExecFacts& facts, const sandbox::Report& report) {
  const uint64_t egress = egress_bytes(facts, report);
  parts_.metrics.exec_ended(facts, report, egress);
  const std::string& tenant = facts.actor.tenant;
  const auto denied = std::ranges::count(report.host_calls, false, &sandbox::HostCallRecord::allowed);
  static_cast<void>(
      acted(facts.actor, "exec.ended",
            {{"sandbox", facts.sandbox},
             {"exec", facts.exec},
             {"outcome", std::string(sandbox::name_of(report.outcome))},
             {"host_calls", std::to_string(report.host_calls.size() + report.host_calls_dropped)},
             // Of very many calls, a report does not list all.
             {"denied_calls", std::to_string(denied) + (report.host_calls_dropped > 0 ? " or more" : "")}}));
  // An unusable rest, smaller than the cost of the next step, counts as used: otherwise a day's quota would
  // never be used up.
  const bool is_out = report.outcome == sandbox::Outcome::kOutOfFuel;
  const uint64_t fuel = std::max(report.fuel_used, is_out ? facts.held_fuel : 0);
  const int64_t day = now_ms() / kDayMs;
  const std::lock_guard lock(mutex_);
  begin_day(day);
  if (const auto held = held_fuel_.find(tenant); held != held_fuel_.end()) {
    held->second -= std::min(held->second, facts.held_fuel);
    if (held->second == 0) held_fuel_.erase(held);
  }
  for (Used* const used : {&today_[tenant], &unwritten_[{day, tenant}]}) {
    used->add({fuel, egress, 1});
  }
}

std::string Ledger::why_gone(const std::string& tenant, const std::string& sandbox) {
  const std::lock_guard lock(mutex_);
  const auto found = lost_.find(sandbox);
  return found == lost_.end() || found->second.tenant != tenant ? "" : found->second.reason;
}

}  // namespace membrane::service
