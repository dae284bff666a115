// Sandboxes as bytes: paused, snapshots, forks; and changes of the guest as a whole.
#include <algorithm>

#include "base/text.h"
#include "policy/grants.h"
#include "policy/restrict.h"
#include "service/audit.h"
#include "service/sandbox_record.h"
#include "service/tokens.h"

namespace membrane::service {
namespace {

using Fields = std::map<std::string, std::string>;

// The names of its variables: values may be secret.
Fields names_in(const Environment& environment) {
  std::vector<std::string> names;
  for (const auto& [name, value] : environment) names.push_back(name);
  return {{"names", listed(names)}};
}

// What a changed policy grants, and what it grants no longer, and the limits that it changes.
Fields changes_of(const policy::Policy& before, const policy::Policy& after) {
  const std::vector<std::string> had = policy::grants_of(before), has = policy::grants_of(after);
  const auto without = [](std::vector<std::string> grants, const std::vector<std::string>& others) {
    std::erase_if(grants,
                  [&](const std::string& grant) { return std::ranges::find(others, grant) != others.end(); });
    return listed(grants);
  };
  Fields fields = {{"grants", listed(has)}};
  if (const std::string added = without(has, had); !added.empty()) fields["added"] = added;
  if (const std::string revoked = without(had, has); !revoked.empty()) fields["revoked"] = revoked;
  std::vector<std::string> limits;
#define LIMIT(member, name, ...)                                                     \
  if (before.limits.member != after.limits.member)                                   \
    limits.push_back(std::string(name) + "=" + std::to_string(after.limits.member));
#include "policy/limits.def"
#undef LIMIT
  if (!limits.empty()) fields["limits"] = listed(limits);
  return fields;
}

}  // namespace

// The answer describes the sandbox after its task.
Sandboxes::Then<SandboxInfo> Sandboxes::as_it_stands(const Actor& actor, const std::string& id,
                                                     Then<SandboxInfo> then) {
  return [this, tenant = actor.tenant, id, then = std::move(then)](const Answer<SandboxInfo>& info) {
    then(info ? get(tenant, id) : info);
  };
}

void Sandboxes::pause(const Actor& actor, const std::string& id, Then<SandboxInfo> then) {
  with_sandbox<SandboxInfo>(actor, id, as_it_stands(actor, id, std::move(then)),
                            [this](Sandbox& in) -> Answer<SandboxInfo> {
                              if (in.is_paused) return std::unexpected(is_paused_error(in.id));
                              if (const auto put = put_away(in, true); !put)
                                return std::unexpected(put.error());
                              return info_of(in);
                            });
}

void Sandboxes::resume(const Actor& actor, const std::string& id, Then<SandboxInfo> then) {
  with_sandbox<SandboxInfo>(actor, id, as_it_stands(actor, id, std::move(then)),
                            [this](Sandbox& in) -> Answer<SandboxInfo> {
                              if (!in.is_paused)
                                return refuse(ApiCode::kConflict, "the sandbox " + in.id + " is not paused",
                                              "It can be used as it is.");
                              if (const auto guest = bring_back(in); !guest)
                                return std::unexpected(guest.error());
                              return info_of(in);
                            });
}

void Sandboxes::snapshot(const Actor& actor, const std::string& id, Then<SnapshotInfo> then) {
  then = noting_refusal(actor, id, std::move(then));
  with_sandbox<SnapshotInfo>(actor, id, std::move(then), [this](Sandbox& in) -> Answer<SnapshotInfo> {
    Answer<KeptGuest> kept;
    if (in.kept) {
      kept = share_images(images_, without_seals(*in.kept));
    } else {
      auto contexts = kept_contexts(in);
      if (!contexts) return std::unexpected(contexts.error());
      for (KeptContext& context : *contexts) context.seal.clear();
      GuestSpec spec = in.spec;
      spec.seals = false;
      kept = put_images(images_, std::move(spec), *contexts);
    }
    if (!kept) return std::unexpected(kept.error());
    auto added = snapshots_.add({.id = new_id("snp"),
                                 .tenant = in.tenant,
                                 .sandbox = in.id,
                                 .template_name = in.template_name,
                                 .name = {},
                                 .created_at_ms = now_ms()},
                                *std::move(kept));
    if (!added) return added;
    if (const auto noted = note(in, "snapshot.taken", {{"snapshot", added->id}}); !noted) {
      static_cast<void>(snapshots_.remove(in.tenant, added->id));
      return std::unexpected(noted.error());
    }
    return added;
  });
}

void Sandboxes::reset(const Actor& actor, const std::string& id, const std::string& snapshot,
                      Then<SandboxInfo> then) {
  with_sandbox<SandboxInfo>(actor, id, as_it_stands(actor, id, std::move(then)),
                            [this, snapshot](Sandbox& in) -> Answer<SandboxInfo> {
                              if (const auto done = go_back(in, snapshot); !done)
                                return std::unexpected(done.error());
                              return info_of(in);
                            });
}

Answer<void> Sandboxes::go_back(Sandbox& in, const std::string& to) {
  const auto snapshot = snapshots_.find(in.tenant, to);
  if (!snapshot)  // it is the sandbox that the request is of, and that exists
    return refuse(ApiCode::kInvalidValue, snapshot.error().message, snapshot.error().hint);
  if (in.is_paused) return std::unexpected(is_paused_error(in.id));
  if (in.spec.seals)
    return refuse(ApiCode::kUnsupported, "a sandbox that seals cannot be reset",
                  "Its receipts cover all its turns: create another one from the snapshot.");
  if (snapshot->guest.spec.template_name != in.spec.template_name)
    return refuse(ApiCode::kConflict,
                  "the snapshot is of the template " + snapshot->guest.spec.template_name +
                      ", and the sandbox of " + in.spec.template_name,
                  "Create another sandbox from the snapshot.");
  const auto contexts = get_images(images_, snapshot->guest);
  if (!contexts) return std::unexpected(contexts.error());
  if (memory_of(in.spec.template_name, in.spec.policy.limits, std::max<size_t>(contexts->size(), 1), false) >
      in.memory_bytes)
    return refuse(ApiCode::kConflict, "the snapshot has more contexts than the sandbox has memory for",
                  "Create another sandbox from the snapshot.");
  const auto awake = wake(in);  // so that nothing kept of it is left
  if (!awake) return std::unexpected(awake.error());
  auto guest = guests_.restore(for_tenant(in.tenant, in.spec), *contexts);
  if (!guest) return std::unexpected(guest.error());
  if (const auto noted = note(in, "sandbox.reset", {{"snapshot", to}}); !noted) return noted;
  end_at_once(in);
  std::shared_ptr<Guest> ended;  // outside of the lock
  const std::lock_guard lock(in.mutex);
  ended = std::exchange(in.guest, *std::move(guest));
  in.contexts.clear();
  for (const KeptContext& context : *contexts)
    if (!context.id.empty()) in.contexts.push_back({context.id, context.template_name, now_ms()});
  return {};
}

// -- what becomes of snapshots ------------------------------------------------------------------------------------

Answer<SnapshotInfo> Sandboxes::promote_snapshot(const Actor& actor, const std::string& snapshot,
                                                 const std::string& name) {
  auto promoted = snapshots_.promote(actor.tenant, snapshot, name);
  if (!promoted) return promoted;
  if (const auto noted = note(actor, "snapshot.promoted", {{"snapshot", snapshot}, {"template", name}});
      !noted)
    return std::unexpected(noted.error());
  return promoted;
}

Answer<void> Sandboxes::remove_template(const Actor& actor, const std::string& name) {
  if (const auto removed = snapshots_.remove_template(actor.tenant, name); !removed) return removed;
  return note(actor, "template.removed", {{"template", name}});
}

Answer<void> Sandboxes::remove_snapshot(const Actor& actor, const std::string& snapshot) {
  if (const auto removed = snapshots_.remove(actor.tenant, snapshot); !removed) return removed;
  return note(actor, "snapshot.removed", {{"snapshot", snapshot}});
}

// -- forks --------------------------------------------------------------------------------------------------------

Answer<std::vector<Sandboxes::Made>> Sandboxes::fork_guest(Sandbox& in, size_t count) {
  const auto parent = wake(in);
  if (!parent) return std::unexpected(parent.error());
  std::vector<Made> all;
  Answer<std::vector<KeptContext>> contexts;
  for (size_t i = 0; i < count; ++i) {
    const bool is_for_any = contexts && std::ranges::any_of(*contexts, [](const KeptContext& each) {
                              return each.file != nullptr;
                            });
    ++in.forks;
    if (!is_for_any) contexts = (*parent)->keep(in.forks);
    if (!contexts) return std::unexpected(contexts.error());
    Made made{nullptr, in.spec, {}};
    made.spec.seals = false;  // its past is in the receipts of another
    auto guest = guests_.restore(made.spec, *contexts);
    if (!guest) return std::unexpected(guest.error());
    made.guest = *std::move(guest);
    const std::lock_guard lock(in.mutex);
    made.contexts = in.contexts;
    all.push_back(std::move(made));
  }
  return all;
}

uint64_t Sandboxes::memory_of_fork(Sandbox& of) {
  const std::lock_guard lock(of.mutex);
  return memory_of(of.spec.template_name, of.spec.policy.limits, 1 + of.contexts.size(),
                   false);  // a fork does not seal
}

std::shared_ptr<Sandboxes::Sandbox> Sandboxes::fork_of(Sandbox& of, Made made) {
  const auto fork = std::make_shared<Sandbox>();
  fork->id = new_id("sbx");
  fork->created_at_ms = fork->last_used_at_ms = now_ms();
  {
    const std::lock_guard lock(of.mutex);
    fork->tenant = of.tenant;
    fork->template_name = of.template_name;
    fork->ttl_s = of.ttl_s;
    fork->idle_timeout_s = of.idle_timeout_s;
    fork->metadata = of.metadata;
    fork->labels = of.labels;
    fork->execs_run = of.execs_run;
    fork->parent = of.id;
  }
  fork->expires_at_ms = fork->created_at_ms + static_cast<int64_t>(fork->ttl_s) * 1000;
  fork->memory_bytes = memory_of(made);
  fork->egress_bytes = of.egress_bytes;
  fork->contexts = std::move(made.contexts);
  fork->spec = std::move(made.spec);
  fork->guest = std::move(made.guest);
  return fork;
}

// All or none.
Answer<std::vector<SandboxInfo>> Sandboxes::put_forks(Sandbox& of, std::vector<Made> made, uint64_t took_us) {
  std::vector<std::shared_ptr<Sandbox>> forks;
  for (Made& each : made) {
    const auto fork = fork_of(of, std::move(each));
    const auto noted =
        watcher_.created(of.actor, info_of(*fork), fork->spec.policy, "", took_us / made.size());
    if (!noted) {
      for (const auto& other : forks) watcher_.ended(of.actor, other->id, EndReason::kKilled);
      return std::unexpected(noted.error());
    }
    forks.push_back(fork);
  }
  std::vector<SandboxInfo> infos;
  for (const auto& fork : forks) {
    infos.push_back(info_of(*fork));
    put_in(fork);
  }
  return infos;
}

void Sandboxes::fork(const Actor& actor, const std::string& id, size_t count,
                     Then<std::vector<SandboxInfo>> then) {
  using Infos = std::vector<SandboxInfo>;
  const std::string& tenant = actor.tenant;
  then = noting_refusal(actor, id, std::move(then));
  if (count == 0 || count > options_.most_forks)
    return then(
        refuse(ApiCode::kInvalidValue, "\"count\" is not from 1 to " + std::to_string(options_.most_forks)));
  const auto found = find(tenant, id);
  if (!found) return then(std::unexpected(found.error()));
  const uint64_t memory_bytes = memory_of_fork(**found);
  if (const Answer<void> room = take_room(tenant, count, memory_bytes); !room)
    return then(std::unexpected(room.error()));
  const auto shown = [this, tenant, count, then, memory_bytes](Answer<Infos> infos) {
    if (!infos) give_room_back(tenant, count, memory_bytes);
    then(std::move(infos));
  };
  with_sandbox<Infos>(actor, id, shown, [this, count, memory_bytes](Sandbox& in) -> Answer<Infos> {
    if (memory_of_fork(in) != memory_bytes)
      return refuse(ApiCode::kConflict, "the sandbox's policy has changed meanwhile", "Fork it again.");
    const auto began = std::chrono::steady_clock::now();
    auto made = fork_guest(in, count);
    if (!made) return std::unexpected(made.error());
    return put_forks(in, *std::move(made), us_since(began));
  });
}

// -- contexts -----------------------------------------------------------------------------------------------------

// Called by a task: what it counts for with that many more contexts.
uint64_t Sandboxes::memory_with(const Sandbox& in, size_t more) {
  return memory_of(in.spec.template_name, in.spec.policy.limits, 1 + in.contexts.size() + more,
                   in.spec.seals);
}

void Sandboxes::open_context(const Actor& actor, const std::string& id, std::string template_name,
                             Then<ContextInfo> then) {
  with_sandbox<ContextInfo>(
      actor, id, noting_refusal(actor, id, std::move(then)),
      [this, template_name = std::move(template_name)](Sandbox& in) -> Answer<ContextInfo> {
        const auto guest = wake(in);
        if (!guest) return std::unexpected(guest.error());
        ContextInfo info{new_id("ctx"), template_name.empty() ? in.spec.template_name : template_name,
                         now_ms()};
        {
          const std::lock_guard lock(in.mutex);
          if (in.contexts.size() >= options_.most_contexts)
            return refuse(
                ApiCode::kQuotaExceeded,
                "the sandbox has " + count_of(in.contexts.size(), "context") + ", which is the limit",
                "Close contexts that are not needed.");
        }
        if (const auto room = hold_memory(in, memory_with(in, 1)); !room)
          return std::unexpected(room.error());
        if (const auto opened = (*guest)->open_context(info.id, template_name); !opened) {
          static_cast<void>(hold_memory(in, memory_with(in, 0)));
          return std::unexpected(error_of_template(info.template_name, {}, opened.error()));
        }
        const std::lock_guard lock(in.mutex);
        in.contexts.push_back(info);
        return info;
      });
}

void Sandboxes::close_context(const Actor& actor, const std::string& id, std::string context,
                              Then<void> then) {
  with_sandbox<void>(
      actor, id, std::move(then), [this, context = std::move(context)](Sandbox& in) -> Answer<void> {
        const auto guest = wake(in);
        if (!guest) return std::unexpected(guest.error());
        if (const auto closed = (*guest)->close_context(context); !closed) return closed;
        {
          const std::lock_guard lock(in.mutex);
          std::erase_if(in.contexts, [&](const ContextInfo& each) { return each.id == context; });
        }
        return hold_memory(in, memory_with(in, 0));
      });
}

Answer<std::vector<ContextInfo>> Sandboxes::contexts(const std::string& tenant, const std::string& id) {
  const auto sandbox = find(tenant, id);
  if (!sandbox) return std::unexpected(sandbox.error());
  const std::lock_guard lock((*sandbox)->mutex);
  return (*sandbox)->contexts;
}

// -- the environment and the policy -------------------------------------------------------------------------------

void Sandboxes::set_environment(const Actor& actor, const std::string& id, Environment environment,
                                Then<SandboxInfo> then) {
  with_sandbox<SandboxInfo>(actor, id, as_it_stands(actor, id, std::move(then)),
                            [this, environment = std::move(environment)](Sandbox& in) -> Answer<SandboxInfo> {
                              const auto guest = wake(in);
                              if (!guest) return std::unexpected(guest.error());
                              if (const auto set = (*guest)->set_environment(environment); !set)
                                return std::unexpected(set.error());
                              static_cast<void>(note(in, "environment.changed", names_in(environment)));
                              {
                                const std::lock_guard lock(in.mutex);
                                in.spec.environment = environment;
                                ++in.version;
                              }
                              return info_of(in);
                            });
}

Answer<policy::Policy> Sandboxes::policy(const std::string& tenant, const std::string& id) {
  const auto sandbox = find(tenant, id);
  if (!sandbox) return std::unexpected(sandbox.error());
  const std::lock_guard lock((*sandbox)->mutex);
  return (*sandbox)->spec.policy;
}

void Sandboxes::set_policy(const Actor& actor, const std::string& id, policy::Policy wanted, bool may_widen,
                           Then<SandboxInfo> then) {
  then = noting_refusal(actor, id, std::move(then));
  const auto sandbox = find(actor.tenant, id);
  if (!sandbox) return then(std::unexpected(sandbox.error()));
  const auto check = [may_widen](Sandbox& in, policy::Policy& policy) -> Answer<void> {
    const std::lock_guard lock(in.mutex);
    const policy::Policy& has = in.spec.policy;
    policy.packages = has.packages;
    policy.time.start_ms = has.time.start_ms;  // no grants, and of the program's past
    policy.random.seed = has.random.seed;
    if (may_widen || policy::restrict(policy, has).policy == policy) return {};
    return refuse(
        ApiCode::kForbidden, "the policy grants more than the sandbox has",
        "GET …/policy says what it grants; remove the rest, or use a token with the scope policy:widen.");
  };
  if (const auto checked = check(**sandbox, wanted); !checked) return then(std::unexpected(checked.error()));
  with_sandbox<SandboxInfo>(
      actor, id, as_it_stands(actor, id, std::move(then)),
      [this, wanted, check](Sandbox& in) mutable -> Answer<SandboxInfo> {
        if (const auto checked = check(in, wanted); !checked) return std::unexpected(checked.error());
        GuestSpec spec = in.spec;
        spec.policy = wanted;
        spec = for_tenant(in.tenant, std::move(spec));
        const uint64_t before = in.memory_bytes, after = memory_of(in.spec.template_name, wanted.limits,
                                                                   1 + in.contexts.size(), in.spec.seals);
        if (const auto room = hold_memory(in, std::max(before, after)); !room)
          return std::unexpected(room.error());
        if (in.guest)
          if (const auto set = in.guest->set_policy(spec.policy, spec.secrets); !set) {
            static_cast<void>(hold_memory(in, before));
            return std::unexpected(set.error());
          }
        if (const auto noted = note(in, "policy.changed", changes_of(in.spec.policy, wanted)); !noted) {
          if (in.guest) static_cast<void>(in.guest->set_policy(in.spec.policy, in.spec.secrets));
          static_cast<void>(hold_memory(in, before));
          return std::unexpected(noted.error());
        }
        static_cast<void>(hold_memory(in, after));
        {
          const std::lock_guard lock(in.mutex);
          in.spec = std::move(spec);
          if (in.kept) in.kept->spec.policy = wanted;
          ++in.version;
        }
        if (const auto noted = write_change(in); !noted) return std::unexpected(noted.error());
        return info_of(in);
      },
      Turn::kNext);
  const std::lock_guard lock((*sandbox)->mutex);
  stop_all_that_runs(**sandbox);
}

}  // namespace membrane::service
