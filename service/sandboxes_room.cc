// The room that a tenant's sandboxes take: their number and their limits, which its quota bounds; and the
// service's memory for what is kept of them.
#include <algorithm>

#include "base/text.h"
#include "service/sandbox_record.h"

namespace membrane::service {
namespace {

std::unexpected<ApiError> no_room_for_memory(uint64_t quota_bytes) {
  return refuse(ApiCode::kQuotaExceeded,
                "the memory limits of the token's sandboxes would come to more than its quota of " +
                    count_of(quota_bytes, "byte"),
                "End those that are not needed, or use a smaller \"policy.limits.memory\".");
}

}  // namespace

// -- number and limits --------------------------------------------------------------------------------------------

Answer<void> Sandboxes::take_room(const std::string& tenant, size_t wanted, uint64_t memory_bytes) {
  const Quotas quotas = watcher_.quotas_of(tenant);
  const std::lock_guard lock(mutex_);
  if (draining_)
    return refuse(ApiCode::kDraining, "the service is shutting down", "Try again when it is back.");
  if (sandboxes_.size() + being_made_ + wanted > options_.most_sandboxes)
    return refuse(ApiCode::kOverloaded, "the service has too many sandboxes",
                  "End those that are not needed, or try again later.");
  const Held held = of_tenant_.contains(tenant) ? of_tenant_[tenant] : Held();
  const uint64_t most = most_of(quotas);
  if (held.sandboxes + wanted > most)
    return refuse(
        ApiCode::kQuotaExceeded,
        "the token has " + count_of(held.sandboxes, "sandbox") + ", and its quota is " + std::to_string(most),
        "End those that are not needed.");
  const uint64_t most_bytes = quotas.memory_bytes.value_or(UINT64_MAX);
  if (held.memory_bytes > most_bytes || memory_bytes > (most_bytes - held.memory_bytes) / wanted)
    return no_room_for_memory(most_bytes);
  being_made_ += wanted;
  Held& holds = of_tenant_[tenant];
  holds.sandboxes += wanted;
  holds.memory_bytes += wanted * memory_bytes;
  return {};
}

void Sandboxes::give_room_back(const std::string& tenant, size_t count, uint64_t memory_bytes) {
  const std::lock_guard lock(mutex_);
  being_made_ -= count;
  forget_some_of(tenant, count, memory_bytes);
}

void Sandboxes::forget_some_of(const std::string& tenant, size_t count, uint64_t memory_bytes) {
  Held& holds = of_tenant_[tenant];
  holds.memory_bytes -= count * memory_bytes;
  holds.sandboxes -= count;
  if (holds.sandboxes == 0) of_tenant_.erase(tenant);
}

Answer<void> Sandboxes::hold_memory(Sandbox& sandbox, uint64_t memory_bytes) {
  const Quotas quotas = watcher_.quotas_of(sandbox.tenant);
  const std::lock_guard lock(mutex_);
  if (!sandboxes_.contains(sandbox.id)) return {};  // it has ended, and no longer counts
  Held& holds = of_tenant_[sandbox.tenant];
  const uint64_t others = holds.memory_bytes - sandbox.memory_bytes;
  const uint64_t most = quotas.memory_bytes.value_or(UINT64_MAX);
  if (memory_bytes > sandbox.memory_bytes && (others > most || memory_bytes > most - others))
    return no_room_for_memory(most);
  holds.memory_bytes = others + memory_bytes;
  sandbox.memory_bytes = memory_bytes;
  return {};
}

// The disk of a Linux sandbox is host memory too.
uint64_t Sandboxes::memory_of(const std::string& template_name, const policy::Limits& limits, size_t contexts,
                              bool seals) {
  uint64_t of_each = 0, bytes = 0;
  const bool is_too_much =
      __builtin_add_overflow(limits.memory_bytes, seals ? receipt_bytes(limits) : 0, &of_each) ||
      (kind_of_template(template_name) == Kind::kLinux &&
       __builtin_add_overflow(of_each, limits.disk_bytes, &of_each)) ||
      __builtin_mul_overflow(of_each, contexts, &bytes);
  return is_too_much ? UINT64_MAX : bytes;
}

uint64_t Sandboxes::memory_of(const Made& made) {
  return memory_of(made.spec.template_name, made.spec.policy.limits, 1 + made.contexts.size(),
                   made.spec.seals);
}

uint64_t Sandboxes::memory_of(const std::string& tenant, const SandboxSpec& spec) const {
  const auto snapshot = spec.snapshot.empty() ? snapshots_.find_template(tenant, spec.template_name)
                                              : snapshots_.find(tenant, spec.snapshot);
  const policy::Policy& policy = spec.policy ? *spec.policy
                                 : snapshot  ? snapshot->guest.spec.policy
                                             : policy::Policy();
  const size_t contexts = snapshot ? std::max<size_t>(snapshot->guest.images.size(), 1) : 1;
  return memory_of(snapshot ? snapshot->guest.spec.template_name : spec.template_name, policy.limits,
                   contexts, spec.seals);
}

uint64_t Sandboxes::most_of(const Quotas& quotas) const {
  return std::min<uint64_t>(options_.most_of_tenant, quotas.sandboxes.value_or(UINT64_MAX));
}

size_t Sandboxes::most_of(const std::string& tenant) const { return most_of(watcher_.quotas_of(tenant)); }

// -- the service's memory -----------------------------------------------------------------------------------------

Answer<HeldBytes::Hold> Sandboxes::hold(const std::string& tenant, uint64_t bytes) {
  HeldBytes::Hold hold(held_, tenant);
  if (const auto held = grow(hold, tenant, bytes); !held) return std::unexpected(held.error());
  return hold;
}

Answer<void> Sandboxes::grow(HeldBytes::Hold& hold, const std::string& tenant, uint64_t bytes) {
  if (const auto held = hold.try_grow(bytes)) return held;
  make_room(tenant, bytes);
  return hold.try_grow(bytes);
}

void Sandboxes::make_room(const std::string& tenant, uint64_t bytes) {
  const uint64_t goal = options_.most_held_bytes / 4 * 3;  // so that this does not run for each exec
  std::vector<std::pair<std::shared_ptr<Exec>, std::shared_ptr<Sandbox>>> over;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, sandbox] : sandboxes_) {
      if (sandbox->tenant != tenant) continue;
      const std::lock_guard lock_sandbox(sandbox->mutex);
      for (const auto& exec : sandbox->execs)
        if (exec->state() == ExecState::kDone) over.emplace_back(exec, sandbox);
    }
  }
  std::ranges::sort(over, {}, [](const auto& each) { return each.first->created_at_ms; });
  for (auto& [exec, sandbox] : over) {
    const uint64_t held = held_->of(tenant);
    if (held <= goal && bytes <= goal - held) return;
    {
      const std::lock_guard lock(sandbox->mutex);
      std::erase(sandbox->execs, exec);
    }
    exec.reset();
  }
}

void Sandboxes::forget_old_execs(Sandbox& in) const {
  uint64_t kept_bytes = 0;
  for (const auto& exec : in.execs) kept_bytes += exec->held_bytes();
  while (in.execs.size() > 1 && in.execs.front()->state() == ExecState::kDone &&
         (in.execs.size() > options_.most_kept_execs || kept_bytes > options_.most_kept_bytes)) {
    kept_bytes -= in.execs.front()->held_bytes();
    in.execs.pop_front();
  }
}

}  // namespace membrane::service
