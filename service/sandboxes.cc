#include "service/sandboxes.h"

#include <algorithm>

#include "service/sandbox_record.h"

namespace membrane::service {
namespace {

constexpr std::string_view kStates[] = {"idle", "running", "paused"};

// Used when there is no watcher.
Watcher& no_watcher() {
  static Watcher none;
  return none;
}

}  // namespace

std::string_view name_of(SandboxState state) { return kStates[static_cast<size_t>(state)]; }
std::optional<SandboxState> state_named(std::string_view name) {
  const auto found = std::ranges::find(kStates, name);
  if (found == std::end(kStates)) return std::nullopt;
  return static_cast<SandboxState>(found - std::begin(kStates));
}

ApiError no_sandbox(const std::string& id) {
  return {ApiCode::kNotFound, "there is no sandbox " + id,
          "It may have been ended, or its time to live is over."};
}
ApiError too_busy_error() {
  return {ApiCode::kOverloaded, "the service is too busy, for the token or as a whole", "Try again later."};
}

uint64_t us_since(std::chrono::steady_clock::time_point begin) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin)
          .count());
}

ApiError is_paused_error(const std::string& id) {
  return {ApiCode::kConflict, "the sandbox " + id + " is paused",
          "Resume it: membrane resume " + id + ", or POST /v1/sandboxes/" + id + "/resume."};
}

Sandboxes::Sandboxes(Guests& guests, Images& images, Snapshots& snapshots, SandboxesOptions options)
    : guests_(guests),
      images_(images),
      snapshots_(snapshots),
      options_(std::move(options)),
      watcher_(options_.watcher ? *options_.watcher : no_watcher()),
      held_(std::make_shared<HeldBytes>(options_.most_held_bytes)),
      at_once_({.threads = options_.most_at_once, .queued = options_.most_at_once}),
      pool_({.threads = options_.threads, .queued = options_.most_queued}) {}

Sandboxes::~Sandboxes() {
  drain();
  is_ending_ = true;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, sandbox] : sandboxes_) end(*sandbox);
}

int64_t Sandboxes::now_ms() const {
  if (options_.now_ms) return options_.now_ms();
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// -- what a sandbox has to do -------------------------------------------------------------------------------------

Answer<void> Sandboxes::post(const std::shared_ptr<Sandbox>& sandbox, Task task, Turn turn) {
  const std::lock_guard lock(sandbox->mutex);
  if (sandbox->is_dead) return std::unexpected(no_sandbox(sandbox->id));
  if (turn == Turn::kLast && sandbox->tasks.size() >= options_.most_waiting)
    return refuse(ApiCode::kTooManyRequests, "the sandbox has too many requests waiting",
                  "Wait for them, or fork it.");
  if (turn == Turn::kIdle && sandbox->is_at_work) return refuse(ApiCode::kConflict, "the sandbox is in use");
  const auto work = [this, sandbox] { work_on(sandbox); };
  if (!sandbox->is_at_work && turn == Turn::kAtEnd) pool_.post_rest(sandbox->tenant, work);
  else if (!sandbox->is_at_work && !pool_.post(sandbox->tenant, work))
    return std::unexpected(too_busy_error());
  sandbox->is_at_work = true;
  const bool is_use = turn != Turn::kIdle;
  sandbox->uses += is_use ? 1 : 0;
  if (turn == Turn::kNext) sandbox->tasks.push_front({std::move(task), is_use});
  else sandbox->tasks.push_back({std::move(task), is_use});
  return {};
}

// What a dead sandbox holds when no task has it. Under its mutex.
void Sandboxes::let_go(Sandbox& sandbox) {
  sandbox.guest.reset();
  sandbox.parked.reset();
  if (sandbox.kept && !is_ending_) drop_images(images_, *sandbox.kept);
  sandbox.kept.reset();
}

// Runs one task; the sandbox's other tasks queue after those of other sandboxes.
void Sandboxes::work_on(const std::shared_ptr<Sandbox>& sandbox) {
  Sandbox::Queued task;
  {
    const std::lock_guard lock(sandbox->mutex);
    task = std::move(sandbox->tasks.front());
    sandbox->tasks.pop_front();
  }
  const std::function<void()> tell = task.act(*sandbox);
  task.act = nullptr;
  if (task.is_use) look_for_watches(*sandbox);
  bool has_more = false;
  {
    const std::lock_guard lock(sandbox->mutex);
    if (task.is_use) {
      sandbox->last_used_at_ms = now_ms();
      sandbox->cannot_be_kept = false;
      --sandbox->uses;
    }
    has_more = sandbox->is_at_work = !sandbox->tasks.empty();
    if (!has_more && sandbox->is_dead && sandbox->at_once.empty()) let_go(*sandbox);
  }
  tell();  // before the next task's notification
  if (has_more) pool_.post_rest(sandbox->tenant, [this, sandbox] { work_on(sandbox); });
}

// -- finding and ending -------------------------------------------------------------------------------------------

bool Sandboxes::is_over(const Sandbox& sandbox, int64_t now) const {
  if (sandbox.expires_at_ms <= now) return true;
  if (!sandbox.idle_timeout_s || sandbox.uses > 0 || sandbox.is_paused) return false;
  return sandbox.last_used_at_ms + static_cast<int64_t>(*sandbox.idle_timeout_s) * 1000 <= now;
}

Answer<std::shared_ptr<Sandboxes::Sandbox>> Sandboxes::find(const std::string& tenant,
                                                            const std::string& id) {
  const int64_t now = now_ms();
  const std::lock_guard lock(mutex_);
  const auto found = sandboxes_.find(id);
  if (found == sandboxes_.end() || found->second->tenant != tenant) {
    ApiError error = no_sandbox(id);
    if (const std::string why = watcher_.why_gone(tenant, id); !why.empty()) {
      error.message = "the sandbox " + id + " is lost: " + why;
      error.hint =
          "Create another; pause a sandbox, or take a snapshot of it, to make it outlive the service's "
          "process.";
    }
    return std::unexpected(std::move(error));
  }
  const std::lock_guard lock_sandbox(found->second->mutex);
  if (is_over(*found->second, now))
    return std::unexpected(no_sandbox(id));  // whether or not expire() has seen it
  return found->second;
}

// It only does what it is doing at this moment, which is stopped.
void Sandboxes::end(Sandbox& sandbox) {
  const std::lock_guard lock(sandbox.mutex);
  sandbox.is_dead = true;
  for (const auto& watch : sandbox.watches) watch->end();
  sandbox.watches.clear();
  if (sandbox.guest != nullptr) sandbox.guest->end();
  if (!sandbox.is_at_work && sandbox.at_once.empty()) let_go(sandbox);
}

Answer<void> Sandboxes::kill(const Actor& actor, const std::string& id) {
  const std::string& tenant = actor.tenant;
  auto sandbox = find(tenant, id);
  if (!sandbox) return std::unexpected(sandbox.error());
  {
    const std::lock_guard lock(mutex_);
    if (sandboxes_.erase(id) == 0) return std::unexpected(no_sandbox(id));
    forget_some_of(tenant, 1, (*sandbox)->memory_bytes);
  }
  end(**sandbox);
  watcher_.ended(actor, id, EndReason::kKilled);
  if (options_.receipts != nullptr) options_.receipts->forget(id);
  return {};
}

void Sandboxes::expire() {
  const int64_t now = now_ms();
  std::vector<std::shared_ptr<Sandbox>> over;
  {
    const std::lock_guard lock(mutex_);
    for (auto at = sandboxes_.begin(); at != sandboxes_.end();) {
      const std::lock_guard lock_sandbox(at->second->mutex);
      if (!is_over(*at->second, now)) {
        ++at;
        continue;
      }
      forget_some_of(at->second->tenant, 1, at->second->memory_bytes);
      over.push_back(at->second);
      at = sandboxes_.erase(at);
    }
  }
  for (const auto& sandbox : over) {
    end(*sandbox);
    watcher_.ended({sandbox->tenant}, sandbox->id,
                   sandbox->expires_at_ms <= now ? EndReason::kExpired : EndReason::kIdle);
    if (options_.receipts != nullptr) options_.receipts->forget(sandbox->id);
  }
}

void Sandboxes::drain(std::function<void()> when_over) {
  {
    const std::lock_guard lock(mutex_);
    draining_ = true;
    if (unfinished_execs_ > 0) {
      when_execs_are_over_ = std::move(when_over);
      return;
    }
  }
  if (when_over) when_over();
}

std::vector<std::shared_ptr<Sandboxes::Sandbox>> Sandboxes::all_sandboxes() const {
  std::vector<std::shared_ptr<Sandbox>> all;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, sandbox] : sandboxes_) all.push_back(sandbox);
  return all;
}

// -- the audit log --------------------------------------------------------------------------------------------------

Answer<void> Sandboxes::note(const Actor& actor, std::string_view event,
                             const std::map<std::string, std::string>& fields) {
  return watcher_.acted(actor, event, fields);
}

Answer<void> Sandboxes::note(const Sandbox& in, std::string_view event,
                             std::map<std::string, std::string> fields) {
  fields.emplace("sandbox", in.id);
  return watcher_.acted(in.actor, event, fields);
}

void Sandboxes::note_refusal(const Actor& actor, const std::string& sandbox, const ApiError& error) {
  if (error.code != ApiCode::kForbidden && error.code != ApiCode::kQuotaExceeded) return;
  std::map<std::string, std::string> fields = {{"code", std::string(name_of(error.code))},
                                               {"why", error.message}};
  if (!sandbox.empty()) fields.emplace("sandbox", sandbox);
  static_cast<void>(watcher_.acted(actor, "request.refused", fields));
}

// -- looking ------------------------------------------------------------------------------------------------------

SandboxInfo Sandboxes::info_of(Sandbox& sandbox) const {
  const std::lock_guard lock(sandbox.mutex);
  return info_under_lock(sandbox);
}

SandboxInfo Sandboxes::info_under_lock(const Sandbox& sandbox) {
  return {.id = sandbox.id,
          .template_name = sandbox.template_name,
          .state = sandbox.is_paused  ? SandboxState::kPaused
                   : sandbox.uses > 0 ? SandboxState::kRunning
                                      : SandboxState::kIdle,
          .created_at_ms = sandbox.created_at_ms,
          .last_used_at_ms = sandbox.last_used_at_ms,
          .expires_at_ms = sandbox.expires_at_ms,
          .idle_timeout_s = sandbox.idle_timeout_s,
          .metadata = sandbox.metadata,
          .labels = sandbox.labels,
          .version = sandbox.version,
          .execs = sandbox.execs_run,
          .parent = sandbox.parent,
          .seals = sandbox.spec.seals,
          .kind = kind_of_template(sandbox.spec.template_name),
          .has_exec = std::ranges::any_of(
              sandbox.execs, [](const auto& exec) { return exec->state() != ExecState::kDone; })};
}

Answer<SandboxInfo> Sandboxes::get(const std::string& tenant, const std::string& id) {
  const auto sandbox = find(tenant, id);
  if (!sandbox) return std::unexpected(sandbox.error());
  return info_of(**sandbox);
}

Answer<SandboxPage> Sandboxes::list(const std::string& tenant, const SandboxFilter& filter) {
  const int64_t now = now_ms();
  std::vector<SandboxInfo> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, sandbox] : sandboxes_) {
      if (sandbox->tenant != tenant) continue;
      const std::lock_guard lock_sandbox(sandbox->mutex);
      if (is_over(*sandbox, now)) continue;
      SandboxInfo info = info_under_lock(*sandbox);
      if (filter.state && info.state != *filter.state) continue;
      if (!filter.label.empty() && std::ranges::find(info.labels, filter.label) == info.labels.end())
        continue;
      const auto is_of = [&](const auto& wanted) {
        const auto has = info.metadata.find(wanted.first);
        return has != info.metadata.end() && has->second == wanted.second;
      };
      if (!std::ranges::all_of(filter.metadata, is_of)) continue;
      all.push_back(std::move(info));
    }
  }
  const auto place_of = [](const SandboxInfo& info) {
    return std::to_string(info.created_at_ms) + "-" + info.id;
  };
  std::ranges::sort(all, {}, place_of);  // times have equally many digits for some centuries
  SandboxPage page;
  for (SandboxInfo& info : all) {
    const std::string place = place_of(info);
    if (place <= filter.cursor) continue;
    if (page.sandboxes.size() == filter.limit) {
      page.next_cursor = place_of(page.sandboxes.back());
      break;
    }
    page.sandboxes.push_back(std::move(info));
  }
  return page;
}

Answer<SandboxInfo> Sandboxes::update(const Actor& actor, const std::string& id,
                                      const SandboxChange& change) {
  const auto found = find(actor.tenant, id);
  if (!found) return std::unexpected(found.error());
  Sandbox& sandbox = **found;
  {
    const std::lock_guard lock(sandbox.mutex);
    if (change.if_version && *change.if_version != sandbox.version)
      return refuse(ApiCode::kPreconditionFailed, "the sandbox has changed since it was read",
                    "Read it again, and send its current ETag.");
    ++sandbox.version;
    if (change.ttl_s) {
      sandbox.ttl_s = std::min(*change.ttl_s, options_.most_ttl_s);
      sandbox.expires_at_ms = now_ms() + static_cast<int64_t>(sandbox.ttl_s) * 1000;
    }
    if (change.idle_timeout_s)
      sandbox.idle_timeout_s = *change.idle_timeout_s == 0 ? std::nullopt : change.idle_timeout_s;
    if (change.metadata) sandbox.metadata = *change.metadata;
    if (change.labels) sandbox.labels = *change.labels;
  }
  if (const auto noted = write_change(sandbox); !noted) return std::unexpected(noted.error());
  return info_of(sandbox);
}

Sandboxes::Counts Sandboxes::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts{.sandboxes = sandboxes_.size(), .queued = pool_.queued()};
  for (const auto& [id, sandbox] : sandboxes_) {
    const std::lock_guard lock_sandbox(sandbox->mutex);
    counts.running += sandbox->at_once.size() + (sandbox->running ? 1 : 0);
    counts.resident += sandbox->guest ? 1 : 0;
    if (sandbox->parked) counts.parked_bytes += sandbox->parked->held.bytes();
    counts.memory_bytes += sandbox->memory_bytes;
  }
  return counts;
}

}  // namespace membrane::service
