// E2B's API: sandboxes are created, found and ended.

#include <algorithm>
#include <charconv>

#include "linux/kernel/version.h"
#include "service/client_policy.h"
#include "service/e2b/handlers.h"
#include "service/e2b/languages.h"
#include "service/times.h"

namespace membrane::service::e2b {
namespace {

// The version of the daemon in E2B's own sandboxes: what current clients expect, short of file metadata
// (clients request it from 0.6.2 on, and would be refused).
constexpr std::string_view kEnvdVersion = "0.6.3";
constexpr std::string_view kClient = "membrane";
constexpr uint64_t kUsualTimeoutS = 300;
constexpr uint64_t kMostWallMs = 24ull * 3'600'000;  // clients have timeouts of their own
constexpr size_t kMostListed = 100;

std::string_view state_of(const SandboxInfo& info) {
  return info.state == SandboxState::kPaused ? "paused" : "running";
}

// From the service's name for it.
std::string template_named(const std::string& theirs) {
  return kind_of_template(theirs) == Kind::kLinux ? theirs : std::string(template_of(theirs));
}

int processors_of(const SandboxInfo& info) { return info.kind == Kind::kLinux ? linux::kProcessors : 1; }

policy::Limits limits_of(const Service& service, const std::string& tenant, const SandboxInfo& info) {
  const auto policy = service.sandboxes.policy(tenant, info.id);
  return policy ? policy->limits : service.sandboxes.guests().usual_limits(info.template_name);
}

// What the list and the details have in common.
OrderedJson to_json(const Service& service, const std::string& tenant, const SandboxInfo& info) {
  constexpr uint64_t kMiB = 1u << 20;
  const policy::Limits limits = limits_of(service, tenant, info);
  return {{"sandboxID", info.id},
          {"templateID", info.template_name},
          {"clientID", kClient},
          {"envdVersion", kEnvdVersion},
          {"startedAt", iso_time(info.created_at_ms)},
          {"endAt", iso_time(info.expires_at_ms)},
          {"state", state_of(info)},
          {"cpuCount", processors_of(info)},
          {"memoryMB", limits.memory_bytes / kMiB},
          {"diskSizeMB", info.kind == Kind::kLinux ? limits.disk_bytes / kMiB : 0},
          {"metadata", info.metadata},
          {"volumeMounts", OrderedJson::array()}};
}

// What a client needs to reach it.
Answer<OrderedJson> access_json(const Service& service, const Caller& caller, const SandboxInfo& info) {
  const auto token = service.known.give_access(caller, info.id);
  if (!token) return std::unexpected(token.error());
  return OrderedJson{{"sandboxID", info.id},      {"templateID", info.template_name},
                     {"clientID", kClient},       {"envdVersion", kEnvdVersion},
                     {"envdAccessToken", *token}, {"trafficAccessToken", *token},
                     {"domain", nullptr}};
}

void answer_access(const Service& service, const SharedCall& call, int status, const SandboxInfo& info) {
  const auto json = access_json(service, call->caller, info);
  if (json) call->answer(status, *json);
  else call->refuse(json.error());
}

// Options that a client of E2B can set at creation and that are not supported: anything that changes what a
// program may do is refused, not ignored.
Answer<void> check_wishes(Fields& fields) {
  const auto has = [&](const char* name) { return !fields.object(name).empty(); };
  if (has("mcp")) return std::unexpected(not_here("An MCP gateway (mcp)"));
  if (has("network"))
    return refuse(ApiCode::kUnsupported, "network rules are not read in this form",
                  "Create the sandbox with POST /v1/sandboxes with a policy, then Sandbox.connect() to it.");
  if (has("iam")) return refuse(ApiCode::kUnsupported, "workload identities (iam) are not supported");
  if (fields.flag("autoPause"))
    return refuse(ApiCode::kUnsupported, "a sandbox ends at its timeout; it is not paused then",
                  "Remove lifecycle.onTimeout, and pause the sandbox yourself.");
  return {};
}

// The same bounds as in REST (openapi.json, Metadata).
Answer<void> check_metadata(const std::map<std::string, std::string>& metadata) {
  constexpr size_t kMost = 64, kMostNameBytes = 128, kMostValueBytes = 4096;
  const bool is_too_long = std::ranges::any_of(metadata, [](const auto& each) {
    return each.first.size() > kMostNameBytes || each.second.size() > kMostValueBytes;
  });
  if (metadata.size() <= kMost && !is_too_long) return {};
  return refuse(ApiCode::kInvalidValue,
                "metadata has more than 64 names, or a name or a value that is too long",
                "Names have up to 128 bytes, values up to 4096.");
}

// "linux, linux:debian, ", or "" if there are none.
std::string linux_templates(const Service& service) {
  std::string names;
  for (const TemplateInfo& each : service.sandboxes.guests().templates())
    if (each.kind == Kind::kLinux) names += each.name + ", ";
  return names;
}

// What a body asks for. Errors: for unsupported options.
Answer<SandboxSpec> read_spec(const Service& service, const Caller& caller, const Json& body) {
  Fields fields(body);
  const std::string wanted = fields.text("templateID");
  SandboxSpec spec;
  spec.template_name = template_named(wanted);
  spec.ttl_s = std::max<uint64_t>(fields.number("timeout").value_or(kUsualTimeoutS), 1);
  spec.metadata = fields.texts("metadata");
  spec.environment = fields.texts("envVars");
  const auto wishes = check_wishes(fields);
  if (const auto checked = fields.checked(); !checked) return std::unexpected(checked.error());
  if (!wishes) return std::unexpected(wishes.error());
  if (const auto checked = check_metadata(spec.metadata); !checked) return std::unexpected(checked.error());
  if (body.contains("volumeMounts") && !body["volumeMounts"].empty())
    return std::unexpected(not_here("A volume"));
  if (spec.template_name.empty() && service.sandboxes.snapshots().find(caller.tenant, wanted))
    spec.snapshot = wanted;
  else if (spec.template_name.empty() && service.sandboxes.snapshots().find_template(caller.tenant, wanted))
    spec.template_name = wanted;
  else if (spec.template_name.empty())
    return refuse(ApiCode::kNotFound, "template '" + wanted + "' not found",
                  "There are base and code-interpreter-v1 (Python), javascript, " + linux_templates(service) +
                      "and your snapshots.");
  if (template_named(wanted).empty()) return spec;  // with the policy and the environment that it had
  spec.environment.try_emplace("HOME", kHome);
  auto policy =
      read_client_policy(Json::object(), service.sandboxes.guests().usual_limits(spec.template_name));
  if (!policy) return std::unexpected(policy.error());
  policy->limits.wall_ms = kMostWallMs;
  policy->time.real = true;  // E2B's programs look at the clock, and wait by it
  spec.policy = *std::move(policy);
  return spec;
}

void make_home(const Service& service, const SharedCall& call, const SandboxInfo& made) {
  service.sandboxes.with_files(
      call->actor(), made.id,
      [](Guest& guest) -> Answer<std::string> {
        if (const auto home = guest.make_home(std::string(kHome)); !home)
          return std::unexpected(home.error());
        return "";
      },
      [service, call, made](const Answer<std::string>& home) {
        if (home) return answer_access(service, call, 201, made);
        static_cast<void>(service.sandboxes.kill(call->actor(), made.id));
        call->refuse(home.error());
      });
}

void create(const Service& service, const SharedCall& call) {
  if (!call->caller.may("sandboxes:write")) return call->refuse(noted(service, call, "sandboxes:write"));
  const auto body = read_object(call->request.body);
  if (!body) return call->refuse(body.error());
  auto spec = read_spec(service, call->caller, *body);
  if (!spec) return call->refuse(spec.error());
  service.known.sweep([&](const Known& known) { return !service.sandboxes.get(known.tenant, known.id); });
  // Prepared as E2B's programs expect, before anybody else can use it.
  std::string code;
  if (spec->policy && kind_of_template(spec->template_name) != Kind::kLinux)
    code = code_to_begin_in(spec->template_name, std::string(kHome));
  service.sandboxes.create(
      call->actor(), *std::move(spec), [service, call, code](const Answer<SandboxInfo>& made) {
        if (!made) return call->refuse(made.error());
        if (!code.empty()) {
          const auto begun = service.sandboxes.exec(call->actor(), made->id, {.code = code});
          if (!begun) return call->refuse(begun.error());
        }
        if (made->kind == Kind::kLinux) return make_home(service, call, *made);
        answer_access(service, call, 201, *made);
      });
}

// -- lists --------------------------------------------------------------------------------------------------------

// "key=value&key=value", whose parts were percent-encoded once more than a query.
std::vector<std::pair<std::string, std::string>> pairs_of(std::string_view text) {
  RequestHead once, twice;
  once.target = "/?" + std::string(text);
  if (!read_target(once)) return {};
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const auto& [name, value] : once.query) {
    twice = {};
    twice.target = "/?" + name + "=" + value;
    if (read_target(twice) && twice.query.size() == 1) pairs.push_back(twice.query[0]);
    else pairs.emplace_back(name, value);
  }
  return pairs;
}

bool fits(const SandboxInfo& info, const RequestHead& head) {
  if (const auto states = head.query_value("state")) {
    const std::string list = "," + std::string(*states) + ",";
    if (list.find("," + std::string(state_of(info)) + ",") == std::string::npos) return false;
  }
  if (const auto wanted = head.query_value("template");
      wanted && template_named(std::string(*wanted)) != info.template_name)
    return false;
  if (const auto since = head.query_value("startedAfter"); since && iso_time(info.created_at_ms) < *since)
    return false;
  for (const auto& [name, value] : pairs_of(head.query_value("metadata").value_or(""))) {
    const auto found = info.metadata.find(name);
    if (found == info.metadata.end() || found->second != value) return false;
  }
  return true;
}

void list(const Service& service, const SharedCall& call) {
  const RequestHead& head = call->request;
  size_t limit = kMostListed;
  if (const auto text = head.query_value("limit")) {
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), limit);
    if (error != std::errc() || end != text->data() + text->size() || limit == 0)
      return call->refuse({ApiCode::kInvalidRequest, "\"limit\" is not a number above 0"});
    limit = std::min(limit, kMostListed);
  }
  auto page = service.sandboxes.list(call->caller.tenant,
                                     {.state = {}, .label = {}, .cursor = {}, .limit = SIZE_MAX});
  if (!page) return call->refuse(page.error());
  std::vector<SandboxInfo>& all = page->sandboxes;
  if (head.query_value("order").value_or("desc") != "asc") std::ranges::reverse(all);
  auto at = all.begin();
  if (const auto after = head.query_value("nextToken"); after && !after->empty()) {
    at = std::ranges::find(all, *after, &SandboxInfo::id);
    if (at == all.end())
      return call->refuse({ApiCode::kInvalidRequest, "\"nextToken\" is of no sandbox any more"});
    ++at;
  }
  OrderedJson list = OrderedJson::array();
  std::string last, next;
  for (; at != all.end() && next.empty(); ++at) {
    if (!fits(*at, head)) continue;
    if (list.size() == limit) {
      next = last;
      break;
    }
    list.push_back(to_json(service, call->caller.tenant, *at));
    last = at->id;
  }
  Response response = json_response(200, list.dump());
  if (!next.empty()) response.headers.add("X-Next-Token", next);
  call->reply(std::move(response));
}

// -- one sandbox ----------------------------------------------------------------------------------------------------

void get(const Service& service, const SharedCall& call, const std::string& id) {
  const auto info = service.sandboxes.get(call->caller.tenant, id);
  if (!info) return call->refuse(info.error());
  OrderedJson json = to_json(service, call->caller.tenant, *info);
  json["lifecycle"] = {{"autoResume", false}, {"onTimeout", "kill"}};
  json["allowInternetAccess"] = false;
  call->answer(200, json);
}

// One entry, of this moment; none for a paused sandbox.
void get_metrics(const Service& service, const SharedCall& call, const std::string& id) {
  const auto info = service.sandboxes.get(call->caller.tenant, id);
  if (!info) return call->refuse(info.error());
  if (info->kind != Kind::kLinux) return call->refuse(needs_linux("A metric"));
  if (info->state == SandboxState::kPaused) return call->reply(json_response(200, "[]"));
  const auto usage = std::make_shared<GuestUsage>();
  service.sandboxes.with_files(
      call->actor(), id,
      [usage](Guest& guest) -> Answer<std::string> {
        auto used = guest.usage();
        if (!used) return std::unexpected(used.error());
        *usage = *std::move(used);
        return "";
      },
      [service, call, usage, of = *info](const Answer<std::string>& done) {
        if (!done) return call->refuse(done.error());
        constexpr int64_t kMsInS = 1000;
        constexpr double kPercent = 100;
        const int64_t now_ms = system_now_ms();
        const double share =
            service.known.of(call->caller, of.id)->cpu_share(usage->cpu_us, now_ms, of.created_at_ms);
        const policy::Limits limits = limits_of(service, call->caller.tenant, of);
        OrderedJson list = OrderedJson::array();
        list.push_back({{"timestamp", iso_time(now_ms)},
                        {"timestampUnix", now_ms / kMsInS},
                        {"cpuCount", processors_of(of)},
                        {"cpuUsedPct", share * kPercent},
                        {"memUsed", usage->memory_bytes},
                        {"memTotal", limits.memory_bytes},
                        {"memCache", 0},
                        {"diskUsed", usage->disk_bytes},
                        {"diskTotal", limits.disk_bytes}});
        call->reply(json_response(200, json_text(list)));
      });
}

void kill(const Service& service, const SharedCall& call, const std::string& id) {
  const auto killed = service.sandboxes.kill(call->actor(), id);
  if (!killed) return call->refuse(killed.error());
  service.known.forget(id);
  call->reply({.status = 204});
}

SandboxChange life_of(uint64_t seconds) {
  SandboxChange change;
  change.ttl_s = seconds;
  return change;
}

// Sets the time to live, in seconds from now.
void set_timeout(const Service& service, const SharedCall& call, const std::string& id, const char* member) {
  const auto body = read_object(call->request.body);
  if (!body) return call->refuse(body.error());
  Fields fields(*body);
  const auto seconds = fields.number(member);
  if (const auto checked = fields.checked(); !checked) return call->refuse(checked.error());
  const auto info = service.sandboxes.update(call->actor(), id, life_of(seconds.value_or(kUsualTimeoutS)));
  if (info) call->reply({.status = 204});
  else call->refuse(info.error());
}

// Extends the time to live if the requested one is longer than what is left; resumes a paused sandbox.
void connect(const Service& service, const SharedCall& call, const std::string& id) {
  const auto body = read_object(call->request.body);
  if (!body) return call->refuse(body.error());
  Fields fields(*body);
  const uint64_t seconds = fields.number("timeout").value_or(kUsualTimeoutS);
  if (const auto checked = fields.checked(); !checked) return call->refuse(checked.error());
  const auto answer = [service, call, id, seconds](Answer<SandboxInfo> info) {
    if (info && info->expires_at_ms < system_now_ms() + static_cast<int64_t>(seconds) * 1000)
      info = service.sandboxes.update(call->actor(), id, life_of(seconds));
    if (info) answer_access(service, call, 200, *info);
    else call->refuse(info.error());
  };
  const auto info = service.sandboxes.get(call->caller.tenant, id);
  if (info && info->state == SandboxState::kPaused) service.sandboxes.resume(call->actor(), id, answer);
  else answer(info);
}

void pause(const Service& service, const SharedCall& call, const std::string& id) {
  service.sandboxes.pause(call->actor(), id, [call](const Answer<SandboxInfo>& info) {
    if (info) call->reply({.status = 204});
    else call->refuse(info.error());
  });
}

void fork(const Service& service, const SharedCall& call, const std::string& id) {
  const auto body = read_object(call->request.body);
  if (!body) return call->refuse(body.error());
  Fields fields(*body);
  const uint64_t count = fields.number("count").value_or(1);
  const uint64_t seconds = fields.number("timeout").value_or(kUsualTimeoutS);
  if (const auto checked = fields.checked(); !checked) return call->refuse(checked.error());
  service.sandboxes.fork(call->actor(), id, count,
                         [service, call, seconds](const Answer<std::vector<SandboxInfo>>& forks) {
                           if (!forks) return call->refuse(forks.error());
                           OrderedJson list = OrderedJson::array();
                           for (const SandboxInfo& each : *forks) {
                             (void)service.sandboxes.update(call->actor(), each.id, life_of(seconds));
                             auto json = access_json(service, call->caller, each);
                             if (!json) return call->refuse(json.error());
                             list.push_back({{"sandbox", *std::move(json)}});
                           }
                           call->reply(json_response(201, list.dump()));
                         });
}

// -- snapshots ------------------------------------------------------------------------------------------------------

OrderedJson to_json(const SnapshotInfo& info) {
  OrderedJson names = OrderedJson::array();
  if (!info.name.empty()) names.push_back(info.name);
  return {{"snapshotID", info.id}, {"names", names}};
}

void snapshot(const Service& service, const SharedCall& call, const std::string& id) {
  const auto body = read_object(call->request.body);
  if (!body) return call->refuse(body.error());
  Fields fields(*body);
  const auto name = fields.optional_text("name");
  if (const auto checked = fields.checked(); !checked) return call->refuse(checked.error());
  if (name)
    if (const auto checked = service.sandboxes.snapshots().check_name(*name); !checked)
      return call->refuse(checked.error());
  service.sandboxes.snapshot(call->actor(), id, [service, call, name](Answer<SnapshotInfo> info) {
    const std::string made = info ? info->id : "";
    if (info && name) info = service.sandboxes.promote_snapshot(call->actor(), made, *name);
    if (info) return call->answer(201, to_json(*info));
    if (!made.empty())
      static_cast<void>(service.sandboxes.remove_snapshot(call->actor(), made));  // its id is unknown
    call->refuse(info.error());
  });
}

// ?sandboxID: by sandbox; ?name: by name or id.
void list_snapshots(const Service& service, const SharedCall& call) {
  const auto of = call->request.query_value("sandboxID");
  const auto name = call->request.query_value("name");
  const auto is_meant = [&](const SnapshotInfo& info) {
    return (!of || *of == info.sandbox) && (!name || *name == info.name || *name == info.id);
  };
  OrderedJson list = OrderedJson::array();
  for (const SnapshotInfo& info : service.sandboxes.snapshots().list(call->caller.tenant))
    if (is_meant(info)) list.push_back(to_json(info));
  call->reply(json_response(200, list.dump()));
}

// E2B's snapshots are its templates: the name is removed with the snapshot.
void delete_snapshot(const Service& service, const SharedCall& call, const std::string& id) {
  const auto found = service.sandboxes.snapshots().find(call->caller.tenant, id);
  if (found && !found->info.name.empty())
    if (const auto taken = service.sandboxes.remove_template(call->actor(), found->info.name); !taken)
      return call->refuse(taken.error());
  const auto removed = service.sandboxes.remove_snapshot(call->actor(), id);
  if (removed) call->reply({.status = 204});
  else call->refuse(removed.error());
}

void refuse_rest(const SharedCall& call) {
  call->refuse({ApiCode::kUnsupported,
                "the service has no " + call->request.method + " " + call->request.target,
                "docs/e2b.md lists what works here."});
}

using OfSandbox = void (*)(const Service&, const SharedCall&, const std::string&);
struct Route {
  std::string_view method;
  std::string_view path;  // after /sandboxes/{id}
  std::string_view scope;
  OfSandbox handle;
};
constexpr Route kRoutes[] = {
    {"GET", "", "sandboxes:read", get},
    {"GET", "metrics", "sandboxes:read", get_metrics},
    {"DELETE", "", "sandboxes:write", kill},
    {"POST", "timeout", "sandboxes:write",
     [](const Service& service, const SharedCall& call, const std::string& id) {
       set_timeout(service, call, id, "timeout");
     }},
    {"POST", "refreshes", "sandboxes:write",
     [](const Service& service, const SharedCall& call, const std::string& id) {
       set_timeout(service, call, id, "duration");
     }},
    {"POST", "connect", "sandboxes:write", connect},
    {"POST", "resume", "sandboxes:write", connect},
    {"POST", "pause", "sandboxes:write", pause},
    {"POST", "fork", "sandboxes:write", fork},
    {"POST", "snapshots", "sandboxes:write", snapshot},
};

}  // namespace

void handle_api(const Service& service, const SharedCall& call) {
  const std::vector<std::string>& all = call->request.segments;
  const std::string& method = call->request.method;
  if (all.size() == 1 && all[0] == "snapshots" && method == "GET" && call->caller.may("sandboxes:read"))
    return list_snapshots(service, call);
  if (all.size() == 2 && all[0] == "templates" && method == "DELETE" && call->caller.may("sandboxes:write"))
    return delete_snapshot(service, call, all[1]);
  const size_t first = all[0] == "v2" ? 1 : 0;
  if (all.size() <= first || all[first] != "sandboxes" || all.size() > first + 3) return refuse_rest(call);
  if (all.size() == first + 1) {
    if (method == "POST") return create(service, call);
    if (method == "GET" && call->caller.may("sandboxes:read")) return list(service, call);
    return refuse_rest(call);
  }
  const std::string_view rest =
      all.size() == first + 3 ? std::string_view(all[first + 2]) : std::string_view();
  const auto* const route = std::ranges::find_if(
      kRoutes, [&](const Route& each) { return each.method == method && each.path == rest; });
  if (route == std::end(kRoutes)) return refuse_rest(call);
  if (!call->caller.may(route->scope)) return call->refuse(noted(service, call, std::string(route->scope)));
  route->handle(service, call, all[first + 1]);
}

}  // namespace membrane::service::e2b
