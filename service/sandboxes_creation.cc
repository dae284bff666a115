// New sandboxes: from a template, or from a snapshot, which may be promoted to one.
#include <algorithm>

#include "base/diagnostic.h"
#include "base/text.h"
#include "computers/network/authority.h"
#include "computers/network/connection_bound.h"
#include "lang/language_names.h"
#include "service/sandbox_record.h"
#include "service/tokens.h"

namespace membrane::service {

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

void Sandboxes::create(const Actor& actor, SandboxSpec spec, Then<SandboxInfo> then) {
  const std::string& tenant = actor.tenant;
  then = noting_refusal(actor, "", std::move(then));
  const uint64_t ttl_s = std::min(spec.ttl_s.value_or(options_.usual_ttl_s), options_.most_ttl_s);
  const uint64_t memory_bytes = memory_of(tenant, spec);
  if (const Answer<void> room = take_room(tenant, 1, memory_bytes); !room)
    return then(std::unexpected(room.error()));
  const auto began = std::chrono::steady_clock::now();
  const bool posted = pool_.post(tenant, [this, actor, tenant, spec = std::move(spec), ttl_s, then, began,
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
    if (const auto noted =
            watcher_.created(actor, info_of(*sandbox), sandbox->spec.policy, spec.snapshot, us_since(began));
        !noted) {
      give_room_back(tenant, 1, memory_bytes);
      return then(std::unexpected(noted.error()));
    }
    put_in(sandbox);
    then(info_of(*sandbox));
  });
  if (posted) return;
  give_room_back(tenant, 1, memory_bytes);
  then(std::unexpected(too_busy_error()));
}

}  // namespace membrane::service
