// Handlers of sandboxes, snapshots, contexts and policies.
#include <charconv>

#include "lang/language_names.h"
#include "policy/restrict.h"
#include "service/client_policy.h"
#include "service/environments.h"
#include "service/rest_call.h"
#include "service/times.h"

namespace membrane::service {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

OrderedJson to_json(const SnapshotInfo& info) {
  OrderedJson json = {{"id", info.id},
                      {"sandbox", info.sandbox},
                      {"template", info.template_name},
                      {"name", nullptr},
                      {"created_at", iso_time(info.created_at_ms)},
                      {"size_bytes", info.size_bytes}};
  if (!info.name.empty()) json["name"] = info.name;
  return json;
}

OrderedJson to_json(const ContextInfo& info) {
  return {{"id", info.id}, {"template", info.template_name}, {"created_at", iso_time(info.created_at_ms)}};
}

Answer<Environment> environment_of(const Json& body) {
  auto environment = body.value("env", Environment());
  if (const auto checked = check_environment(environment); !checked) return std::unexpected(checked.error());
  return environment;
}

// The version that If-Match names. Errors: kInvalidRequest for anything but an ETag of ours.
Answer<std::optional<uint64_t>> wanted_version(const SharedCall& call) {
  const auto given = call->request.headers.find("If-Match");
  if (!given || *given == "*") return std::nullopt;
  uint64_t version = 0;
  const std::string_view text = *given;
  const bool is_quoted = text.size() > 2 && text.starts_with('"') && text.ends_with('"');
  if (is_quoted) {
    const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size() - 1, version);
    if (error == std::errc() && end == text.data() + text.size() - 1) return version;
  }
  return refuse(ApiCode::kPreconditionFailed, "If-Match is not an ETag of a sandbox",
                "Send the ETag from GET unchanged.");
}

class Lifecycle {
 public:
  Lifecycle(Sandboxes& sandboxes, Secrets& secrets) : sandboxes_(sandboxes), secrets_(secrets) {}

  void list_templates(const SharedCall& call) const {
    OrderedJson list = OrderedJson::array();
    for (const TemplateInfo& each : sandboxes_.guests().templates())
      list.push_back({{"name", each.name}, {"version", each.version}, {"description", each.description}});
    for (const SnapshotInfo& each : sandboxes_.snapshots().list(call->caller.tenant))
      if (!each.name.empty())
        list.push_back(
            {{"name", each.name},
             {"version", ""},
             {"description", "as the sandbox " + each.sandbox + " stood: the snapshot " + each.id}});
    call->answer(200, {{"templates", list}});
  }

  void delete_template(const SharedCall& call) const {
    const std::string& name = call->parameter("template");
    const auto removed = sandboxes_.remove_template(call->actor(), name);
    if (!removed && removed.error().code == ApiCode::kNotFound &&
        std::ranges::any_of(sandboxes_.guests().templates(),
                            [&](const TemplateInfo& each) { return each.name == name; }))
      return call->refuse({ApiCode::kConflict, "the template " + name + " is built in",
                           "Only templates that snapshots were promoted to can be removed."});
    answer_done(call, removed);
  }

  void create(const SharedCall& call) const {
    auto spec = read_spec(call);
    if (!spec) sandboxes_.note_refusal(call->actor(), "", spec.error());
    if (!spec) return call->refuse(spec.error());
    sandboxes_.create(call->actor(), *std::move(spec),
                      [call](const Answer<SandboxInfo>& made) { answer_sandbox(call, 201, made); });
  }
  void get(const SharedCall& call) const {
    answer_sandbox(call, 200, sandboxes_.get(call->caller.tenant, id_of(call)));
  }
  void kill(const SharedCall& call) const { answer_done(call, sandboxes_.kill(call->actor(), id_of(call))); }

  void update(const SharedCall& call) const {
    const Json& body = call->body;
    const auto version = wanted_version(call);
    if (!version) return call->refuse(version.error());
    const auto environment = environment_of(body);
    if (!environment) return call->refuse(environment.error());
    SandboxChange change{.ttl_s = optional_at<uint64_t>(body, "ttl_s"),
                         .idle_timeout_s = optional_at<uint64_t>(body, "idle_timeout_s"),
                         .metadata = optional_at<std::map<std::string, std::string>>(body, "metadata"),
                         .labels = optional_at<std::vector<std::string>>(body, "labels"),
                         .if_version = *version};
    auto changed = sandboxes_.update(call->actor(), id_of(call), change);
    if (!changed || !body.contains("env")) return answer_sandbox(call, 200, changed);
    sandboxes_.set_environment(call->actor(), id_of(call), *environment,
                               [call](const Answer<SandboxInfo>& info) { answer_sandbox(call, 200, info); });
  }

  // -- as bytes
  void pause(const SharedCall& call) const {
    sandboxes_.pause(call->actor(), id_of(call),
                     [call](const Answer<SandboxInfo>& info) { answer_sandbox(call, 200, info); });
  }
  void resume(const SharedCall& call) const {
    sandboxes_.resume(call->actor(), id_of(call),
                      [call](const Answer<SandboxInfo>& info) { answer_sandbox(call, 200, info); });
  }
  void reset(const SharedCall& call) const {
    sandboxes_.reset(call->actor(), id_of(call), call->body.at("snapshot").get<std::string>(),
                     [call](const Answer<SandboxInfo>& info) { answer_sandbox(call, 200, info); });
  }
  void fork(const SharedCall& call) const {
    const size_t count = call->body.is_object() ? call->body.value("count", size_t{1}) : 1;
    sandboxes_.fork(call->actor(), id_of(call), count, [call](const Answer<std::vector<SandboxInfo>>& forks) {
      if (!forks) return call->refuse(forks.error());
      OrderedJson list = OrderedJson::array();
      for (const SandboxInfo& each : *forks) list.push_back(service::to_json(each));
      call->answer(201, {{"sandboxes", list}});
    });
  }
  void snapshot(const SharedCall& call) const {
    sandboxes_.snapshot(call->actor(), id_of(call),
                        [call](const Answer<SnapshotInfo>& made) { answer_snapshot(call, 201, made); });
  }

  // -- snapshots
  void list_snapshots(const SharedCall& call) const {
    OrderedJson list = OrderedJson::array();
    for (const SnapshotInfo& each : sandboxes_.snapshots().list(call->caller.tenant))
      list.push_back(to_json(each));
    call->answer(200, {{"snapshots", list}});
  }
  void get_snapshot(const SharedCall& call) const {
    const auto found = sandboxes_.snapshots().find(call->caller.tenant, call->parameter("snapshot"));
    if (!found) return call->refuse(found.error());
    call->answer(200, to_json(found->info));
  }
  void delete_snapshot(const SharedCall& call) const {
    answer_done(call, sandboxes_.remove_snapshot(call->actor(), call->parameter("snapshot")));
  }
  void promote(const SharedCall& call) const {
    const std::string name = call->body["name"];
    answer_snapshot(call, 200, sandboxes_.promote_snapshot(call->actor(), call->parameter("snapshot"), name));
  }

  // -- contexts
  void create_context(const SharedCall& call) const {
    const std::string name = call->body.is_object() ? call->body.value("template", "") : "";
    sandboxes_.open_context(call->actor(), id_of(call), name, [call](const Answer<ContextInfo>& made) {
      if (!made) return call->refuse(made.error());
      call->answer(201, to_json(*made));
    });
  }
  void list_contexts(const SharedCall& call) const {
    const auto contexts = sandboxes_.contexts(call->caller.tenant, id_of(call));
    if (!contexts) return call->refuse(contexts.error());
    OrderedJson list = OrderedJson::array();
    for (const ContextInfo& each : *contexts) list.push_back(to_json(each));
    call->answer(200, {{"contexts", list}});
  }
  void delete_context(const SharedCall& call) const {
    sandboxes_.close_context(call->actor(), id_of(call), call->parameter("context"),
                             [call](const Answer<void>& done) { answer_done(call, done); });
  }

  // -- policies
  void get_policy(const SharedCall& call) const {
    const auto policy = sandboxes_.policy(call->caller.tenant, id_of(call));
    if (!policy) return call->refuse(policy.error());
    call->reply(json_response(200, policy::to_json(*policy)));
  }
  void set_policy(const SharedCall& call) const {
    const auto has = sandboxes_.policy(call->caller.tenant, id_of(call));
    if (!has) return call->refuse(has.error());
    auto wanted = read_policy(call, call->body, has->limits);
    if (!wanted) sandboxes_.note_refusal(call->actor(), id_of(call), wanted.error());
    if (!wanted) return call->refuse(wanted.error());
    sandboxes_.set_policy(call->actor(), id_of(call), *std::move(wanted), call->caller.may("policy:widen"),
                          [call](const Answer<SandboxInfo>& info) { answer_sandbox(call, 200, info); });
  }

 private:
  static const std::string& id_of(const SharedCall& call) { return call->parameter("sandbox"); }
  static void answer_snapshot(const SharedCall& call, int status, const Answer<SnapshotInfo>& info) {
    if (info) call->answer(status, to_json(*info));
    else call->refuse(info.error());
  }
  Answer<SandboxSpec> read_spec(const SharedCall& call) const;
  Answer<policy::Policy> read_policy(const SharedCall& call, const Json& json,
                                     const policy::Limits& usual) const {
    auto policy = read_client_policy(json, usual, call->caller.may("admin"));
    if (!policy) return policy;
    if (const auto checked = secrets_.check(call->caller.tenant, *policy); !checked)
      return std::unexpected(checked.error());
    return policy;
  }

  // What is not specified is taken from the snapshot.
  Answer<policy::Policy> read_policy_of_snapshot(const SharedCall& call, const SandboxSpec& spec) const;

  Sandboxes& sandboxes_;
  Secrets& secrets_;
};

Answer<policy::Policy> Lifecycle::read_policy_of_snapshot(const SharedCall& call,
                                                          const SandboxSpec& spec) const {
  const std::string& tenant = call->caller.tenant;
  const auto snapshot = spec.snapshot.empty()
                            ? sandboxes_.snapshots().find_template(tenant, spec.template_name)
                            : sandboxes_.snapshots().find(tenant, spec.snapshot);
  if (!snapshot) return std::unexpected(snapshot.error());
  const policy::Policy& has = snapshot->guest.spec.policy;
  auto policy = read_policy(call, call->body["policy"], has.limits);
  if (!policy || call->caller.may("policy:widen")) return policy;
  policy::Policy compared = *policy;
  compared.packages = has.packages;
  compared.time.start_ms = has.time.start_ms;
  compared.random.seed = has.random.seed;
  if (policy::restrict(compared, has).policy == compared) return policy;
  return refuse(ApiCode::kForbidden, "the policy grants more than the snapshot's",
                "Remove the policy, or use a token with the scope policy:widen.");
}

Answer<SandboxSpec> Lifecycle::read_spec(const SharedCall& call) const {
  const Json& body = call->body;
  SandboxSpec spec{.template_name = body.value("template", ""),
                   .snapshot = body.value("snapshot", ""),
                   .policy = {},
                   .environment = {},
                   .ttl_s = optional_at<uint64_t>(body, "ttl_s"),
                   .idle_timeout_s = optional_at<uint64_t>(body, "idle_timeout_s"),
                   .metadata = body.value("metadata", std::map<std::string, std::string>()),
                   .labels = body.value("labels", std::vector<std::string>()),
                   .seals = body.value("seal", false)};
  if (spec.template_name.empty() && spec.snapshot.empty())
    return refuse(ApiCode::kInvalidValue, "\"template\" is missing",
                  "Pass a template, such as python, or the id of a snapshot.");
  if (!spec.template_name.empty() && !spec.snapshot.empty())
    return refuse(ApiCode::kInvalidValue, "\"template\" and \"snapshot\" exclude each other",
                  "Remove \"template\": a snapshot continues in its own language.");
  auto environment = environment_of(body);
  if (!environment) return std::unexpected(environment.error());
  spec.environment = *std::move(environment);
  const bool is_of_snapshot =
      !spec.snapshot.empty() || sandboxes_.snapshots().find_template(call->caller.tenant, spec.template_name);
  const auto packages = body.value("packages", std::vector<std::string>());
  if (is_of_snapshot && !packages.empty())
    return refuse(ApiCode::kInvalidValue, "\"packages\" are those of the snapshot", "Leave them out.");
  if (is_of_snapshot && !body.contains("policy")) return spec;
  auto policy = is_of_snapshot ? read_policy_of_snapshot(call, spec)
                               : read_policy(call, body.value("policy", Json::object()),
                                             sandboxes_.guests().usual_limits(spec.template_name));
  if (!policy) return std::unexpected(policy.error());
  const std::string language = lang::language_named(spec.template_name);
  auto& named = language == "js" ? policy->packages.javascript : policy->packages.python;
  if (!packages.empty() && language != "js" && language != "python")
    return refuse(ApiCode::kUnsupported, "the template " + spec.template_name + " takes no packages",
                  "Use python or javascript.");
  named.insert(named.end(), packages.begin(), packages.end());
  spec.policy = *std::move(policy);
  return spec;
}

}  // namespace

nlohmann::ordered_json to_json(const SandboxInfo& info) {
  OrderedJson json = {{"id", info.id},
                      {"template", info.template_name},
                      {"state", name_of(info.state)},
                      {"created_at", iso_time(info.created_at_ms)},
                      {"last_used_at", iso_time(info.last_used_at_ms)},
                      {"expires_at", iso_time(info.expires_at_ms)},
                      {"idle_timeout_s", nullptr},
                      {"metadata", OrderedJson::object()},
                      {"labels", info.labels},
                      {"seal", info.seals}};
  if (info.idle_timeout_s) json["idle_timeout_s"] = *info.idle_timeout_s;
  for (const auto& [name, value] : info.metadata) json["metadata"][name] = value;
  return json;
}

void answer_sandbox(const SharedCall& call, int status, const Answer<SandboxInfo>& info) {
  if (!info) return call->refuse(info.error());
  Response response = json_response(status, json_text(to_json(*info)));
  response.headers.add("ETag", "\"" + std::to_string(info->version) + "\"");
  if (status == 201) response.headers.add("Location", "/v1/sandboxes/" + info->id);
  call->reply(std::move(response));
}

Response event_stream(std::shared_ptr<BodySource> source) {
  return {.status = 200,
          .headers = {{"Content-Type", "text/event-stream"}, {"Cache-Control", "no-store"}},
          .source = std::move(source)};
}

void add_lifecycle_handlers(Handlers& handlers, Sandboxes& sandboxes, Secrets& secrets) {
  using Method = void (Lifecycle::*)(const SharedCall&) const;
  constexpr std::pair<std::string_view, Method> kMethods[] = {
      {"listTemplates", &Lifecycle::list_templates}, {"deleteTemplate", &Lifecycle::delete_template},
      {"createSandbox", &Lifecycle::create},         {"getSandbox", &Lifecycle::get},
      {"updateSandbox", &Lifecycle::update},         {"killSandbox", &Lifecycle::kill},
      {"pauseSandbox", &Lifecycle::pause},           {"resumeSandbox", &Lifecycle::resume},
      {"resetSandbox", &Lifecycle::reset},           {"forkSandbox", &Lifecycle::fork},
      {"snapshotSandbox", &Lifecycle::snapshot},     {"listSnapshots", &Lifecycle::list_snapshots},
      {"getSnapshot", &Lifecycle::get_snapshot},     {"deleteSnapshot", &Lifecycle::delete_snapshot},
      {"promoteSnapshot", &Lifecycle::promote},      {"createContext", &Lifecycle::create_context},
      {"listContexts", &Lifecycle::list_contexts},   {"deleteContext", &Lifecycle::delete_context},
      {"getPolicy", &Lifecycle::get_policy},         {"setPolicy", &Lifecycle::set_policy}};
  for (const auto& [id, method] : kMethods)
    handlers.emplace(id, [lifecycle = Lifecycle(sandboxes, secrets), of = method](const SharedCall& call) {
      (lifecycle.*of)(call);
    });
}

}  // namespace membrane::service
