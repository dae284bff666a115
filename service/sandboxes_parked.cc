// Sandboxes without a process: parked in memory while nobody uses them, in images while they are paused or
// between services, and restored from either.
#include <algorithm>
#include <condition_variable>

#include "service/sandbox_record.h"

namespace membrane::service {
namespace {

constexpr size_t kMostParksAtOnce = 64;  // more would keep execs waiting for a thread

}  // namespace

// -- into bytes ---------------------------------------------------------------------------------------------------

Answer<std::vector<KeptContext>> Sandboxes::kept_contexts(Sandbox& in) {
  if (in.parked) return in.parked->contexts;
  return in.guest->keep();
}

KeptSandbox Sandboxes::kept_of(const Sandbox& in, SandboxInfo info, KeptGuest guest) {
  return {.tenant = in.tenant,
          .info = std::move(info),
          .guest = std::move(guest),
          .contexts = in.contexts,
          .ttl_s = in.ttl_s,
          .memory_bytes = in.memory_bytes,
          .egress_bytes = in.egress_bytes,
          .forks = in.forks};
}

Answer<void> Sandboxes::put_away(Sandbox& in, bool is_paused) {
  if (in.kept) return put_away(in, is_paused, {});
  const auto contexts = kept_contexts(in);
  if (!contexts) return std::unexpected(contexts.error());
  return put_away(in, is_paused, *contexts);
}

// `contexts`: its own, unless it is already in images.
Answer<void> Sandboxes::put_away(Sandbox& in, bool is_paused, const std::vector<KeptContext>& contexts) {
  Answer<KeptGuest> guest;
  if (in.kept) guest = *in.kept;
  else guest = put_images(images_, in.spec, contexts);
  if (!guest) return std::unexpected(guest.error());
  KeptSandbox record;
  {
    const std::lock_guard lock(in.mutex);
    SandboxInfo info = info_under_lock(in);
    info.state = is_paused ? SandboxState::kPaused : SandboxState::kIdle;
    record = kept_of(in, std::move(info), *guest);
  }
  auto noted = watcher_.kept(record);
  if (noted) noted = note(in, is_paused ? "sandbox.paused" : "sandbox.parked");
  if (!noted) {
    if (!in.kept) drop_images(images_, *guest);
    return noted;
  }
  end_at_once(in);
  std::shared_ptr<Guest> ended;  // outside of the lock
  const std::lock_guard lock(in.mutex);
  in.kept = *std::move(guest);
  in.is_paused = is_paused;
  in.parked.reset();
  ended = std::move(in.guest);
  return {};
}

Answer<void> Sandboxes::write_change(Sandbox& in) {
  std::optional<KeptSandbox> record;
  SandboxInfo info;
  {
    const std::lock_guard lock(in.mutex);
    info = info_under_lock(in);
    if (in.kept) record = kept_of(in, info, *in.kept);
  }
  return record ? watcher_.kept(*record) : watcher_.changed(in.tenant, info);
}

// In memory if it is small; otherwise on disk, since a worker's memory is bounded, and the service's is not.
void Sandboxes::park(Sandbox& in) {
  if (in.guest == nullptr) return;
  {
    const std::lock_guard lock(in.mutex);
    if (!in.at_once.empty()) return;  // it is in use again
  }
  if (in.guest->works_by_itself()) {
    const std::lock_guard lock(in.mutex);
    in.cannot_be_kept = true;  // until it is next used
    return;
  }
  auto contexts = in.guest->keep();
  uint64_t bytes = 0;
  if (contexts)
    for (const KeptContext& context : *contexts) bytes += context.size_bytes() + context.seal.size();
  HeldBytes::Hold held(held_, in.tenant);
  const bool is_small = bytes <= options_.most_parked_bytes && held.try_grow(bytes);
  const bool is_on_disk = contexts && !is_small && put_away(in, false, *contexts);
  std::shared_ptr<Guest> ended;
  const std::lock_guard lock(in.mutex);
  in.cannot_be_kept = !contexts || (!is_small && !is_on_disk);
  if (in.cannot_be_kept || is_on_disk || in.is_dead) return;
  for (KeptContext& context : *contexts) context.bytes.shrink_to_fit();
  in.parked.emplace(*std::move(contexts), std::move(held));
  ended = std::move(in.guest);
}

// -- and back -----------------------------------------------------------------------------------------------------

Answer<Guest*> Sandboxes::wake(Sandbox& in) {
  if (in.guest != nullptr) return in.guest.get();
  if (in.is_paused) return std::unexpected(is_paused_error(in.id));
  return bring_back(in);
}

Answer<Guest*> Sandboxes::bring_back(Sandbox& in) {
  Answer<std::vector<KeptContext>> of_images;
  if (in.kept) of_images = get_images(images_, *in.kept);
  if (!of_images) return std::unexpected(of_images.error());
  auto guest = guests_.restore(for_tenant(in.tenant, in.spec), in.kept ? *of_images : in.parked->contexts);
  if (!guest) return std::unexpected(guest.error());
  if (in.kept) {
    auto noted = watcher_.resumed(in.id);
    if (noted) noted = note(in, "sandbox.resumed");
    if (!noted) return std::unexpected(noted.error());
  }
  const std::lock_guard lock(in.mutex);
  in.guest = *std::move(guest);
  in.is_paused = false;
  in.parked.reset();
  if (in.kept) drop_images(images_, *in.kept);
  in.kept.reset();
  return in.guest.get();
}

// -- when ---------------------------------------------------------------------------------------------------------

bool Sandboxes::is_due(const Sandbox& in, int64_t now, uint64_t after_ms) {
  return in.guest != nullptr && !in.is_at_work && in.at_once.empty() && !in.cannot_be_kept &&
         in.watches.empty() && in.last_used_at_ms + static_cast<int64_t>(after_ms) <= now;
}

void Sandboxes::park_idle() {
  if (options_.park_after_ms == 0 || pool_.queued() >= kMostParksAtOnce) return;
  const int64_t now = now_ms();
  using Idle = std::pair<int64_t, std::shared_ptr<Sandbox>>;
  std::vector<Idle> idle;  // by when they were last used
  size_t resident = 0, due = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, sandbox] : sandboxes_) {
      const std::lock_guard lock_sandbox(sandbox->mutex);
      resident += sandbox->guest ? 1 : 0;
      if (!is_due(*sandbox, now, 0)) continue;
      idle.emplace_back(sandbox->last_used_at_ms, sandbox);
      due += is_due(*sandbox, now, options_.park_after_ms) ? 1 : 0;
    }
  }
  const size_t above = resident - std::min(resident, options_.most_resident);
  const size_t count = std::min({std::max(due, above), idle.size(), kMostParksAtOnce});
  std::ranges::partial_sort(idle, idle.begin() + static_cast<ptrdiff_t>(count), {}, &Idle::first);
  for (size_t i = 0; i < count; ++i) {
    const auto task = [this](Sandbox& in) -> std::function<void()> {
      in.actor = {in.tenant};
      park(in);
      return [] {};
    };
    static_cast<void>(post(idle[i].second, task, Turn::kIdle));  // one that is in use again stays
  }
}

// Ends what it runs, what waits, and its file watches.
void Sandboxes::cancel_all(Sandbox& in) {
  const std::lock_guard lock(in.mutex);
  stop_all_that_runs(in);
  for (const auto& exec : in.execs)
    if (exec->state() == ExecState::kQueued) exec->cancel();
  for (const auto& watch : in.watches) watch->end();
  in.watches.clear();
}

size_t Sandboxes::keep_all(std::chrono::milliseconds patience, const std::function<void()>& end_guests) {
  cancel_execs();
  const std::vector<std::shared_ptr<Sandbox>> all = all_sandboxes();
  struct Progress {
    std::mutex mutex;
    std::condition_variable changed;
    size_t left = 0, lost = 0;
  };
  const auto progress = std::make_shared<Progress>();
  progress->left = all.size();
  const auto done = [progress](bool is_kept) {
    const std::lock_guard lock(progress->mutex);
    --progress->left;
    progress->lost += is_kept ? 0 : 1;
    progress->changed.notify_all();
  };
  for (const auto& sandbox : all) {
    const auto task = [this, done](Sandbox& in) -> std::function<void()> {
      in.actor = {in.tenant};
      const bool is_kept = in.kept || put_away(in, false).has_value();
      return [done, is_kept] { done(is_kept); };
    };
    if (!post(sandbox, task, Turn::kAtEnd)) done(false);
  }
  const auto is_done = [&] { return progress->left == 0; };
  std::unique_lock lock(progress->mutex);
  if (!progress->changed.wait_for(lock, patience, is_done)) {
    lock.unlock();
    if (end_guests) end_guests();
    for (const auto& sandbox : all) {
      const std::lock_guard lock_sandbox(sandbox->mutex);
      if (sandbox->guest != nullptr) sandbox->guest->end();
    }
    lock.lock();
    progress->changed.wait_for(lock, patience, is_done);
  }
  return progress->lost + progress->left;
}

Status Sandboxes::adopt(KeptSandbox kept) {
  auto shared = share_images(images_, kept.guest);
  if (!shared) return fail(ErrorCode::kNotFound, shared.error().message);
  const auto sandbox = std::make_shared<Sandbox>();
  sandbox->id = kept.info.id;
  sandbox->tenant = kept.tenant;
  sandbox->template_name = kept.info.template_name;
  sandbox->memory_bytes = kept.memory_bytes;
  sandbox->egress_bytes = kept.egress_bytes;
  sandbox->created_at_ms = kept.info.created_at_ms;
  sandbox->last_used_at_ms = kept.info.last_used_at_ms;
  sandbox->expires_at_ms = kept.info.expires_at_ms;
  sandbox->ttl_s = kept.ttl_s;
  sandbox->idle_timeout_s = kept.info.idle_timeout_s;
  sandbox->metadata = kept.info.metadata;
  sandbox->labels = kept.info.labels;
  sandbox->version = kept.info.version;
  sandbox->execs_run = kept.info.execs;
  sandbox->parent = kept.info.parent;
  sandbox->contexts = std::move(kept.contexts);
  sandbox->spec = for_tenant(kept.tenant, shared->spec);
  sandbox->is_paused = kept.info.state == SandboxState::kPaused;
  sandbox->kept = *std::move(shared);
  sandbox->forks = kept.forks;
  sandbox->is_adopted = true;
  const std::lock_guard lock(mutex_);
  Held& holds = of_tenant_[kept.tenant];
  ++holds.sandboxes;
  holds.memory_bytes += kept.memory_bytes;
  sandboxes_.emplace(sandbox->id, sandbox);
  return {};
}

}  // namespace membrane::service
