#include "service/sandboxes.h"

#include <algorithm>
#include <deque>
#include <thread>

#include "base/diagnostic.h"
#include "computers/network/authority.h"
#include "computers/network/connection_bound.h"
#include "lang/language_names.h"
#include "sandbox/report_building.h"
#include "service/client_hint.h"
#include "service/sandbox_record.h"
#include "service/tokens.h"

namespace membrane::service {
namespace {

constexpr std::string_view kExecPrefix = "exe";
constexpr std::string_view kStates[] = {"idle", "running", "paused"};

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

static std::unexpected<ApiError> too_much_to_do() {
  return refuse(ApiCode::kOverloaded, "the service is too busy, for the token or as a whole",
                "Try again later.");
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
  else if (!sandbox->is_at_work && !pool_.post(sandbox->tenant, work)) return too_much_to_do();
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

// -- making and ending --------------------------------------------------------------------------------------------

static std::unexpected<ApiError> no_room_for_memory(uint64_t quota_bytes) {
  return refuse(ApiCode::kQuotaExceeded,
                "the memory limits of the token's sandboxes would come to more than its quota of " +
                    std::to_string(quota_bytes) + " bytes",
                "End those that are not needed, or use a smaller \"policy.limits.memory\".");
}

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
    return refuse(ApiCode::kQuotaExceeded,
                  "the token has " + std::to_string(held.sandboxes) + " sandboxes, and its quota is " +
                      std::to_string(most),
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

GuestSpec Sandboxes::for_tenant(const std::string& tenant, GuestSpec spec) {
  if (options_.secrets_of) spec.secrets = options_.secrets_of(tenant, spec.policy);
  const std::lock_guard lock(connections_mutex_);
  std::weak_ptr<computers::ConnectionBound>& bound = connections_[tenant];
  spec.connections = bound.lock();
  if (spec.connections == nullptr) {
    spec.connections = std::make_shared<computers::ConnectionBound>(options_.most_connections);
    bound = spec.connections;
  }
  return spec;
}

std::vector<std::string> Sandboxes::promoted_names(const std::string& tenant) const {
  std::vector<std::string> names;
  for (const SnapshotInfo& each : snapshots_.list(tenant))
    if (!each.name.empty()) names.push_back(each.name);
  return names;
}

ApiError Sandboxes::error_of_template(const std::string& name, std::vector<std::string> promoted,
                                      const ApiError& error) const {
  const std::string language = lang::language_named(name);
  if (error.code != ApiCode::kInvalidValue || language == "python" || language == "js")
    return error;  // which the service may lack
  std::vector<std::string> names = std::move(promoted);
  for (const TemplateInfo& each : guests_.templates()) {
    if (lang::language_named(each.name) == language) return error;
    names.push_back(each.name);
  }
  const std::string near(nearest(name, {names.begin(), names.end()}));
  return {error.code, "there is no template " + name,
          (near.empty() ? "" : "Did you mean " + near + "? ") + "GET /v1/templates lists them."};
}

Answer<Sandboxes::Made> Sandboxes::make_guest(const std::string& tenant, const SandboxSpec& spec) {
  const auto promoted = spec.snapshot.empty() ? snapshots_.find_template(tenant, spec.template_name)
                                              : Answer<Snapshot>(Snapshot());
  if (spec.seals && options_.receipts == nullptr)
    return refuse(ApiCode::kUnsupported, "this service makes no receipts");
  if (spec.seals && promoted)
    return refuse(ApiCode::kUnsupported, "\"seal\" is not for what begins as a snapshot",
                  "Receipts cover a session from its first turn on: create the sandbox from a language.");
  if (!spec.snapshot.empty()) {
    auto snapshot = snapshots_.find(tenant, spec.snapshot);
    if (!snapshot) return std::unexpected(snapshot.error());
    return make_guest_of(tenant, spec, *snapshot);
  }
  if (promoted) return make_guest_of(tenant, spec, *promoted);
  Made made;
  made.spec =
      for_tenant(tenant, {spec.template_name, spec.policy.value_or(policy::Policy()), spec.environment});
  made.spec.seals = spec.seals;
  made.spec.authority = std::make_shared<computers::Authority>();
  auto guest = guests_.create(made.spec);
  if (!guest)
    return std::unexpected(error_of_template(spec.template_name, promoted_names(tenant), guest.error()));
  made.guest = *std::move(guest);
  return made;
}

Answer<Sandboxes::Made> Sandboxes::make_guest_of(const std::string& tenant, const SandboxSpec& spec,
                                                 const Snapshot& snapshot) {
  Made made;
  made.spec = snapshot.guest.spec;
  if (spec.policy) {
    made.spec.policy = *spec.policy;
    made.spec.policy.packages = snapshot.guest.spec.policy.packages;
  }
  made.spec = for_tenant(tenant, std::move(made.spec));
  const auto contexts = get_images(images_, snapshot.guest);
  if (!contexts) return std::unexpected(contexts.error());
  auto guest = guests_.restore(made.spec, *contexts);
  if (!guest) return std::unexpected(guest.error());
  made.guest = *std::move(guest);
  for (const KeptContext& context : *contexts)
    if (!context.id.empty()) made.contexts.push_back({context.id, context.template_name, now_ms()});
  if (spec.environment.empty()) return made;
  for (const auto& [name, value] : spec.environment) made.spec.environment.insert_or_assign(name, value);
  if (const auto set = made.guest->set_environment(made.spec.environment); !set)
    return std::unexpected(set.error());
  return made;
}

void Sandboxes::put_in(const std::shared_ptr<Sandbox>& sandbox) {
  const std::lock_guard lock(mutex_);
  --being_made_;
  sandboxes_.emplace(sandbox->id, sandbox);
}

void Sandboxes::create(const std::string& tenant, SandboxSpec spec, Then<SandboxInfo> then) {
  const uint64_t ttl_s = std::min(spec.ttl_s.value_or(options_.usual_ttl_s), options_.most_ttl_s);
  const uint64_t memory_bytes = memory_of(tenant, spec);
  if (const Answer<void> room = take_room(tenant, 1, memory_bytes); !room)
    return then(std::unexpected(room.error()));
  const auto began = std::chrono::steady_clock::now();
  const bool posted = pool_.post(tenant, [this, tenant, spec = std::move(spec), ttl_s, then, began,
                                          memory_bytes] {
    auto made = make_guest(tenant, spec);
    if (!made) {
      give_room_back(tenant, 1, memory_bytes);
      return then(std::unexpected(made.error()));
    }
    if (memory_of(*made) > memory_bytes) {
      give_room_back(tenant, 1, memory_bytes);
      return then(refuse(ApiCode::kConflict, "the template was replaced by one with more memory meanwhile",
                         "Create the sandbox again."));
    }
    const auto sandbox = std::make_shared<Sandbox>();
    sandbox->id = new_id("sbx");
    sandbox->tenant = tenant;
    sandbox->template_name = spec.template_name.empty() ? made->spec.template_name : spec.template_name;
    sandbox->memory_bytes = memory_bytes;
    sandbox->egress_bytes = made->spec.policy.limits.bytes_out;
    sandbox->created_at_ms = sandbox->last_used_at_ms = now_ms();
    sandbox->ttl_s = ttl_s;
    sandbox->expires_at_ms = sandbox->created_at_ms + static_cast<int64_t>(ttl_s) * 1000;
    sandbox->idle_timeout_s = spec.idle_timeout_s;
    sandbox->metadata = spec.metadata;
    sandbox->labels = spec.labels;
    sandbox->contexts = std::move(made->contexts);
    sandbox->spec = std::move(made->spec);
    sandbox->guest = std::move(made->guest);
    if (const auto noted = watcher_.created(tenant, info_of(*sandbox), sandbox->spec.policy, us_since(began));
        !noted) {
      give_room_back(tenant, 1, memory_bytes);
      return then(std::unexpected(noted.error()));
    }
    put_in(sandbox);
    then(info_of(*sandbox));
  });
  if (posted) return;
  give_room_back(tenant, 1, memory_bytes);
  then(too_much_to_do());
}

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

Answer<void> Sandboxes::kill(const std::string& tenant, const std::string& id) {
  auto sandbox = find(tenant, id);
  if (!sandbox) return std::unexpected(sandbox.error());
  {
    const std::lock_guard lock(mutex_);
    if (sandboxes_.erase(id) == 0) return std::unexpected(no_sandbox(id));
    forget_some_of(tenant, 1, (*sandbox)->memory_bytes);
  }
  end(**sandbox);
  watcher_.ended(tenant, id, EndReason::kKilled);
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
    watcher_.ended(sandbox->tenant, sandbox->id,
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

void Sandboxes::cancel_execs() {
  is_stopping_ = true;
  for (const auto& sandbox : all_sandboxes()) cancel_all(*sandbox);
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

Answer<SandboxInfo> Sandboxes::update(const std::string& tenant, const std::string& id,
                                      const SandboxChange& change) {
  const auto found = find(tenant, id);
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
  if (const auto noted = note_change(sandbox); !noted) return std::unexpected(noted.error());
  return info_of(sandbox);
}

uint64_t Sandboxes::most_of(const Quotas& quotas) const {
  return std::min<uint64_t>(options_.most_of_tenant, quotas.sandboxes.value_or(UINT64_MAX));
}

size_t Sandboxes::most_of(const std::string& tenant) const { return most_of(watcher_.quotas_of(tenant)); }

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

// -- execs --------------------------------------------------------------------------------------------------------

Answer<std::shared_ptr<Exec>> Sandboxes::exec(const std::string& tenant, const std::string& id,
                                              ExecSpec spec) {
  const auto sandbox = find(tenant, id);
  if (!sandbox) return std::unexpected(sandbox.error());
  auto unfinished = count_exec();
  if (!unfinished) return std::unexpected(unfinished.error());
  {
    const std::lock_guard lock((*sandbox)->mutex);
    if ((*sandbox)->is_paused) return std::unexpected(is_paused_error(id));
    if (!spec.context.empty() &&
        std::ranges::find((*sandbox)->contexts, spec.context, &ContextInfo::id) == (*sandbox)->contexts.end())
      return refuse(ApiCode::kNotFound, "the sandbox has no context " + spec.context,
                    "GET …/contexts lists them.");
    if (const auto checked = check_command(**sandbox, spec); !checked)
      return std::unexpected(checked.error());
    if ((*sandbox)->at_once.size() >= options_.most_at_once_each)
      return refuse(
          ApiCode::kTooManyRequests,
          "the sandbox runs " + std::to_string((*sandbox)->at_once.size()) + " programs, which is the limit",
          "Wait for some, or cancel them; programs that they start do not count.");
  }
  if (const auto may = watcher_.may_exec(tenant); !may) return std::unexpected(may.error());
  if (const auto sealable = check_seal(tenant, **sandbox, spec.seal); !sealable)
    return std::unexpected(sealable.error());
  const auto made = begin_exec(tenant, id, spec);
  if (!made) return made;
  const std::shared_ptr<Exec>& exec = *made;
  {
    const std::lock_guard lock((*sandbox)->mutex);
    if (spec.open_stdin) {
      if (const auto room = has_room_for_input(**sandbox, spec.stdin_text.size()); !room)
        return std::unexpected(room.error());
      if (const auto opened = exec->open_input(std::move(spec.stdin_text)); !opened)
        return std::unexpected(opened.error());
    }
    (*sandbox)->execs.push_back(exec);
  }
  const Answer<void> posted =
      post(*sandbox,
           [this, shared = std::weak_ptr(*sandbox), exec, spec = std::move(spec),
            queued = std::chrono::steady_clock::now(),
            unfinished = *unfinished](Sandbox&) mutable -> std::function<void()> {
             return run(shared.lock(), exec, std::move(spec), us_since(queued), unfinished);
           });
  if (posted) return exec;
  const std::lock_guard lock((*sandbox)->mutex);
  std::erase((*sandbox)->execs, exec);
  return std::unexpected(posted.error());
}

Answer<Sandboxes::Unfinished> Sandboxes::count_exec() {
  const std::lock_guard lock(mutex_);
  if (draining_)
    return refuse(ApiCode::kDraining, "the service is shutting down", "Try again when it is back.");
  ++unfinished_execs_;
  return Unfinished(nullptr, [this](void*) { end_of_exec(); });
}

void Sandboxes::end_of_exec() {
  std::function<void()> tell;
  {
    const std::lock_guard lock(mutex_);
    if (--unfinished_execs_ == 0) tell = std::exchange(when_execs_are_over_, nullptr);
  }
  if (tell) tell();
}

Answer<std::shared_ptr<Exec>> Sandboxes::begin_exec(const std::string& tenant, const std::string& id,
                                                    ExecSpec& spec) {
  uint64_t bytes = spec.other_bytes + spec.code.size() + (spec.open_stdin ? 0 : spec.stdin_text.size());
  for (const std::string& argument : spec.arguments) bytes += argument.size();
  for (const auto& [name, value] : spec.environment) bytes += name.size() + value.size();
  auto held = hold(tenant, bytes);
  if (!held) return std::unexpected(held.error());
  return std::make_shared<Exec>(new_id(kExecPrefix), id, now_ms(), *std::move(held));
}

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

void Sandboxes::forget_old_execs(Sandbox& in) const {
  uint64_t kept_bytes = 0;
  for (const auto& exec : in.execs) kept_bytes += exec->held_bytes();
  while (in.execs.size() > 1 && in.execs.front()->state() == ExecState::kDone &&
         (in.execs.size() > options_.most_kept_execs || kept_bytes > options_.most_kept_bytes)) {
    kept_bytes -= in.execs.front()->held_bytes();
    in.execs.pop_front();
  }
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

Answer<void> Sandboxes::has_room_for_input(const Sandbox& in, size_t bytes) const {
  size_t unread = 0;
  for (const auto& exec : in.execs) unread += exec->unread_input();
  if (bytes == 0 || unread + bytes <= options_.most_input_bytes) return {};
  return refuse(ApiCode::kTooManyRequests,
                "the execs of the sandbox have " + std::to_string(unread) +
                    " bytes of unread input, and the limit is " + std::to_string(options_.most_input_bytes) +
                    " together",
                "Send it again when they have read, or cancel those that wait.");
}

Answer<void> Sandboxes::check_seal(const std::string& tenant, Sandbox& sandbox, bool is_wanted) {
  bool seals = false, is_alone = false;  // each exec is a separate run
  {
    const std::lock_guard lock(sandbox.mutex);
    seals = sandbox.spec.seals;
    const std::string& of = sandbox.spec.template_name;
    is_alone = kind_of_template(of) == Kind::kLinux || lang::language_named(of) == "wat";
  }
  if (!seals && !is_wanted) return {};
  if (options_.receipts == nullptr) return refuse(ApiCode::kUnsupported, "this service makes no receipts");
  if (!seals && !is_alone)
    return refuse(ApiCode::kConflict, "the sandbox was made without \"seal\"",
                  "Create one with \"seal\": true: receipts cover a session from its first turn on.");
  if (const auto room = options_.receipts->has_room(tenant, sandbox.id); !room) return room;
  if (const auto key = options_.receipts->signing_key(); !key) return std::unexpected(key.error());
  return {};
}

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

Answer<void> Sandboxes::check_command(const Sandbox& in, const ExecSpec& spec) {
  if (kind_of_template(in.spec.template_name) == Kind::kLinux) return {};
  if (spec.command.empty() && spec.directory.empty() && !spec.terminal && spec.user.empty()) return {};
  return refuse(
      ApiCode::kUnsupported,
      "a sandbox of the template " + in.template_name + " has no programs, directories, terminals or users",
      "Pass \"code\", or create a sandbox from the template linux.");
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
  watcher_.exec_ended({.tenant = sandbox.tenant,
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

void Sandboxes::stop_all_that_runs(Sandbox& in) {
  if (in.guest != nullptr && (in.running || !in.at_once.empty())) in.guest->stop();
}

void Sandboxes::end_at_once(Sandbox& in) {
  std::unique_lock lock(in.mutex);
  stop_all_that_runs(in);
  in.at_once_changed.wait(lock, [&] { return in.at_once.empty(); });
}

Answer<std::vector<std::shared_ptr<Exec>>> Sandboxes::list_execs(const std::string& tenant,
                                                                 const std::string& id) {
  const auto sandbox = find(tenant, id);
  if (!sandbox) return std::unexpected(sandbox.error());
  const std::lock_guard lock((*sandbox)->mutex);
  return std::vector((*sandbox)->execs.begin(), (*sandbox)->execs.end());
}

Answer<std::shared_ptr<Exec>> Sandboxes::find_exec(const std::string& tenant, const std::string& id,
                                                   const std::string& exec) {
  const auto sandbox = find(tenant, id);
  if (!sandbox) return std::unexpected(sandbox.error());
  const std::lock_guard lock((*sandbox)->mutex);
  const auto found = std::ranges::find((*sandbox)->execs, exec,
                                       [](const auto& each) -> const std::string& { return each->id; });
  if (found == (*sandbox)->execs.end() && (*sandbox)->is_adopted && exec.starts_with(kExecPrefix))
    return refuse(ApiCode::kNotFound, "the sandbox has no exec " + exec + " since the service was started",
                  "Execs are kept in the service's memory: those from before its start are gone. Of "
                  "those since then the last " +
                      std::to_string(options_.most_kept_execs) + " are kept after their end.");
  if (found == (*sandbox)->execs.end())
    return refuse(ApiCode::kNotFound, "the sandbox has no exec " + exec,
                  "The last " + std::to_string(options_.most_kept_execs) +
                      " are kept after their end, fewer where their output is long.");
  return *found;
}

Answer<std::vector<PendingApproval>> Sandboxes::approvals(const std::string& tenant, const std::string& id) {
  const auto sandbox = find(tenant, id);
  if (!sandbox) return std::unexpected(sandbox.error());
  std::shared_ptr<Exec> running;
  {
    const std::lock_guard lock((*sandbox)->mutex);
    running = (*sandbox)->running;
  }
  std::vector<PendingApproval> all;
  if (running != nullptr)
    if (auto pending = running->pending()) all.push_back(*std::move(pending));
  return all;
}

Answer<PendingApproval> Sandboxes::decide(const std::string& tenant, const std::string& id,
                                          const std::string& approval, bool allow) {
  const auto sandbox = find(tenant, id);
  if (!sandbox) return std::unexpected(sandbox.error());
  std::shared_ptr<Exec> running;
  {
    const std::lock_guard lock((*sandbox)->mutex);
    running = (*sandbox)->running;
  }
  if (running != nullptr)
    if (auto decided = running->decide(approval, allow)) return *std::move(decided);
  return refuse(ApiCode::kNotFound, "nothing of the sandbox waits for the approval " + approval,
                "membrane approvals " + id +
                    ", or GET …/approvals, lists what waits; a request that was not answered in its run's "
                    "time is refused.");
}

Answer<void> Sandboxes::write_input(const std::string& tenant, const std::string& id, const std::string& exec,
                                    std::string_view bytes, bool is_end) {
  const auto found = find_exec(tenant, id, exec);
  if (!found) return std::unexpected(found.error());
  const auto sandbox = find(tenant, id);
  if (!sandbox) return std::unexpected(sandbox.error());
  const std::lock_guard lock((*sandbox)->mutex);
  if (const auto room = has_room_for_input(**sandbox, bytes.size()); !room) return room;
  return (*found)->write_input(bytes, is_end);
}

Answer<void> Sandboxes::cancel_exec(const std::string& tenant, const std::string& id,
                                    const std::string& exec) {
  const auto found = find_exec(tenant, id, exec);
  if (!found) return std::unexpected(found.error());
  const auto sandbox = find(tenant, id);
  if (!sandbox) return std::unexpected(sandbox.error());
  const std::lock_guard lock((*sandbox)->mutex);
  if ((*sandbox)->running == *found) (*sandbox)->guest->stop();
  else if ((*found)->state() != ExecState::kDone) (*found)->cancel();
  return {};
}

Answer<void> Sandboxes::signal_exec(const std::string& tenant, const std::string& id, const std::string& exec,
                                    int number) {
  const auto found = find_exec(tenant, id, exec);
  if (!found) return std::unexpected(found.error());
  return (*found)->signal(number);
}

Answer<void> Sandboxes::resize_exec(const std::string& tenant, const std::string& id, const std::string& exec,
                                    linux::TerminalSize size) {
  const auto found = find_exec(tenant, id, exec);
  if (!found) return std::unexpected(found.error());
  return (*found)->resize(size);
}

}  // namespace membrane::service
