#include "service/rest.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "base/json.h"
#include "base/text.h"
#include "service/rest_call.h"
#include "service/times.h"

namespace membrane::service {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

OrderedJson to_json(const Quotas& quotas) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [name, value] : quotas.by_name()) json[name] = value;
  return json;
}

OrderedJson to_json(const TokenInfo& info) {
  OrderedJson json = {{"id", info.id},
                      {"tenant", info.tenant},
                      {"name", info.name},
                      {"scopes", info.scopes},
                      {"created_at", iso_time(info.created_at_ms)},
                      {"expires_at", nullptr},
                      {"quotas", to_json(info.quotas)}};
  if (info.expires_at_ms) json["expires_at"] = iso_time(*info.expires_at_ms);
  return json;
}

OrderedJson to_json(const Exec& exec) {
  return {{"exec_id", exec.id},
          {"state", name_of(exec.state())},
          {"created_at", iso_time(exec.created_at_ms)},
          {"report", nullptr}};
}

// Includes its report once it is over, which may be long: it is not parsed again.
std::string json_with_report(const Exec& exec) {
  OrderedJson json = to_json(exec);
  const std::string report = exec.report_json();
  if (report.empty()) return json_text(json);
  json["state"] = name_of(ExecState::kDone);
  json.erase("report");
  std::string text = json_text(json);
  text.pop_back();
  return text + ",\"report\":" + report + "}";
}

Exec::Form form_of(std::string_view output) {
  return output == "base64" ? Exec::Form::kBytes : Exec::Form::kText;
}

}  // namespace

std::string_view Rest::token_of(const RequestHead& head) {
  constexpr std::string_view kBearer = "bearer ";
  if (const auto given = head.headers.find("Authorization"))
    return lower_case(given->substr(0, kBearer.size())) == kBearer ? trimmed(given->substr(kBearer.size()))
                                                                   : std::string_view();
  return head.headers.find("X-API-Key").value_or(std::string_view());
}

struct Rest::Impl {
  using Method = void (Impl::*)(const SharedCall&);

  Impl(Operations of, Sandboxes& of_sandboxes, Tokens& of_tokens, Secrets& of_secrets, Records of_records)
      : operations(std::move(of)),
        sandboxes(of_sandboxes),
        tokens(of_tokens),
        secrets(of_secrets),
        records(of_records) {}

  Operations operations;
  Sandboxes& sandboxes;
  Tokens& tokens;
  Secrets& secrets;
  Records records;
  std::vector<Handler> handlers;  // indexed by operation number

  // -- the service
  void get_health(const SharedCall& call) {
    call->answer(200, {{"status", "ok"}, {"version", MEMBRANE_VERSION}});
  }
  void get_open_api(const SharedCall& call) { call->reply(json_response(200, operations.document())); }

  void get_metrics(const SharedCall& call) {
    call->reply({.status = 200,
                 .headers = {{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"}},
                 .body = records.metrics.render(sandboxes.counts())});
  }
  void get_usage(const SharedCall& call) {
    const std::string& tenant = call->caller.tenant;
    const Ledger::Used used = records.ledger.used_today(tenant);
    call->answer(200, {{"tenant", tenant},
                       {"day", iso_time(system_now_ms()).substr(0, 10)},
                       {"fuel", used.fuel},
                       {"egress_bytes", used.egress_bytes},
                       {"execs", used.execs},
                       {"quotas", to_json(records.ledger.quotas_of(tenant))}});
  }
  // Operations on tokens are in the audit log, and survive a power cut, before they are answered.
  Status audit(const SharedCall& call, std::string_view event, const TokenInfo& token) {
    if (records.audit == nullptr) return {};
    std::string scopes;
    for (const std::string& scope : token.scopes) scopes += (scopes.empty() ? "" : ", ") + scope;
    const Actor actor{token.tenant, call->caller.token_id, call->request.request_id};
    return records.audit->add(event, actor, {{"token", token.id}, {"name", token.name}, {"scopes", scopes}},
                              Hold::kPowerCut);
  }

  // -- sandboxes
  void list_sandboxes(const SharedCall& call);

  // -- execs
  void exec(const SharedCall& call);
  void list_execs(const SharedCall& call) {
    const auto execs = sandboxes.list_execs(call->caller.tenant, call->parameter("sandbox"));
    if (!execs) return call->refuse(execs.error());
    OrderedJson list = OrderedJson::array();
    for (const auto& exec : *execs) {
      const ExecState seen = exec->state();  // read before the outcome, which only a finished exec has
      const std::string outcome = exec->outcome();
      OrderedJson each = {{"exec_id", exec->id},
                          {"state", name_of(outcome.empty() ? seen : ExecState::kDone)},
                          {"created_at", iso_time(exec->created_at_ms)}};
      if (!outcome.empty()) each["outcome"] = outcome;
      list.push_back(std::move(each));
    }
    call->answer(200, {{"execs", list}});
  }
  void get_exec(const SharedCall& call) {
    const auto found = find_exec(call);
    if (found) call->reply(json_response(200, json_with_report(**found)));
    else call->refuse(found.error());
  }
  void cancel_exec(const SharedCall& call) {
    answer_done(call,
                sandboxes.cancel_exec(call->actor(), call->parameter("sandbox"), call->parameter("exec")));
  }
  void write_stdin(const SharedCall& call) {
    answer_done(
        call, sandboxes.write_input(call->caller.tenant, call->parameter("sandbox"), call->parameter("exec"),
                                    call->request.body, call->query("eof") == "true"));
  }
  void get_exec_events(const SharedCall& call);
  void signal_exec(const SharedCall& call) {
    answer_done(call, sandboxes.signal_exec(call->caller.tenant, call->parameter("sandbox"),
                                            call->parameter("exec"), call->body["signal"].get<int>()));
  }
  void resize_terminal(const SharedCall& call);

  // -- approvals
  void list_approvals(const SharedCall& call) {
    const auto pending = sandboxes.approvals(call->caller.tenant, call->parameter("sandbox"));
    if (!pending) return call->refuse(pending.error());
    OrderedJson list = OrderedJson::array();
    for (const PendingApproval& each : *pending) list.push_back(to_json(each));
    call->answer(200, {{"approvals", list}});
  }
  void decide_approval(const SharedCall& call);

  // -- tokens
  void create_token(const SharedCall& call);
  void list_tokens(const SharedCall& call) {
    OrderedJson list = OrderedJson::array();
    for (const TokenInfo& info : tokens.list()) list.push_back(to_json(info));
    call->answer(200, {{"tokens", list}});
  }
  void delete_token(const SharedCall& call) {
    if (call->parameter("token") == kOwnerTokenId)
      return call->refuse({ApiCode::kConflict, "the owner's token cannot be removed while the service runs",
                           std::string("Stop the service and remove the file ") + kOwnerTokenFile +
                               ": the next one has a new token."});
    const ApiError missing = {ApiCode::kNotFound, "there is no token " + call->parameter("token"),
                              "GET /v1/tokens lists them."};
    const std::vector<TokenInfo> all = tokens.list();
    const auto found = std::ranges::find(all, call->parameter("token"), &TokenInfo::id);
    if (found == all.end()) return call->refuse(missing);
    if (const Status noted = audit(call, "token.removed", *found); !noted)
      return call->refuse(disk_error(noted.error()));
    const auto removed = tokens.remove(found->id);
    if (!removed) return call->refuse(disk_error(removed.error()));
    if (*removed) call->answer_nothing();
    else call->refuse(missing);
  }

  // -- what handlers share
  Answer<std::shared_ptr<Exec>> find_exec(const SharedCall& call) {
    return sandboxes.find_exec(call->caller.tenant, call->parameter("sandbox"), call->parameter("exec"));
  }

  // The caller, for this operation. Errors: kUnauthorized, kForbidden.
  [[nodiscard]] Answer<Caller> authorize(const Operation& operation, const RequestHead& head) const;
  Status bind();
  // For a POST with an Idempotency-Key: the stored answer, or a reply that stores the new one.
  Answer<std::optional<Response>> begin_once(const Request& request, const Caller& caller, Reply& reply);
};

// -- handlers -----------------------------------------------------------------------------------------------------

void Rest::Impl::list_sandboxes(const SharedCall& call) {
  SandboxFilter filter;
  const RequestHead& head = call->request;
  filter.cursor = std::string(head.query_value("cursor").value_or(""));
  filter.label = std::string(head.query_value("label").value_or(""));
  constexpr std::string_view kMetadata = "metadata.";
  for (const auto& [name, value] : head.query)
    if (name.starts_with(kMetadata)) filter.metadata[name.substr(kMetadata.size())] = value;
  if (const auto limit = head.query_value("limit"))
    std::from_chars(limit->data(), limit->data() + limit->size(), filter.limit);
  if (const auto state = head.query_value("state")) filter.state = state_named(*state);
  const auto page = sandboxes.list(call->caller.tenant, filter);
  if (!page) return call->refuse(page.error());
  OrderedJson list = OrderedJson::array();
  for (const SandboxInfo& info : page->sandboxes) list.push_back(to_json(info));
  OrderedJson json = {{"sandboxes", list}, {"next_cursor", nullptr}};
  if (!page->next_cursor.empty()) json["next_cursor"] = page->next_cursor;
  call->answer(200, json);
}

namespace {
linux::TerminalSize size_of(const Json& json) {
  return {.columns = json["columns"].get<uint16_t>(), .rows = json["rows"].get<uint16_t>()};
}
std::optional<linux::TerminalSize> terminal_of(const Json& body) {
  const auto at = body.find("terminal");
  if (at == body.end() || at->is_null()) return std::nullopt;
  return size_of(*at);
}
}  // namespace

void Rest::Impl::exec(const SharedCall& call) {
  const Json& body = call->body;
  const bool wants_events =
      call->request.headers.find("Accept").value_or("").starts_with("text/event-stream") ||
      body.value("stream", false);
  if (body.value("open_stdin", false) && !wants_events && !body.value("background", false))
    return call->refuse(
        {ApiCode::kInvalidValue, "\"open_stdin\" is for an exec that streams or runs in the background",
         "Add \"stream\": true or \"background\": true: its id is then known while it runs."});
  if (body.contains("code") == body.contains("command"))
    return call->refuse({ApiCode::kInvalidValue, "\"code\" and \"command\": exactly one of them is needed",
                         "Pass \"code\", or for a Linux sandbox \"command\": [\"git\", \"status\"]."});
  const auto begun = sandboxes.exec(call->actor(), call->parameter("sandbox"),
                                    {.code = body.value("code", ""),
                                     .stdin_text = body.value("stdin", ""),
                                     .arguments = body.value("arguments", std::vector<std::string>()),
                                     .timeout_ms = optional_at<uint64_t>(body, "timeout_ms"),
                                     .name = body.value("name", ""),
                                     .context = body.value("context", ""),
                                     .environment = body.value("env", Environment()),
                                     .trace = call->request.trace,
                                     .open_stdin = body.value("open_stdin", false),
                                     .command = body.value("command", std::vector<std::string>()),
                                     .directory = body.value("directory", ""),
                                     .terminal = terminal_of(body),
                                     .seal = body.value("seal", false)});
  if (!begun) return call->refuse(begun.error());
  const std::shared_ptr<Exec>& exec = *begun;
  if (body.value("background", false)) return call->reply(json_response(202, json_with_report(*exec)));
  if (wants_events) {
    Response stream = event_stream(exec->events(0, {.form = form_of(body.value("output", ""))}));
    stream.headers.add("X-Exec-Id", exec->id);  // with which a client resumes after a cut, or cancels
    return call->reply(std::move(stream));
  }
  exec->when_done([call, exec] { call->reply(json_response(200, exec->report_json())); });
}

void Rest::Impl::resize_terminal(const SharedCall& call) {
  answer_done(call, sandboxes.resize_exec(call->caller.tenant, call->parameter("sandbox"),
                                          call->parameter("exec"), size_of(call->body)));
}

void Rest::Impl::get_exec_events(const SharedCall& call) {
  const auto exec = find_exec(call);
  if (!exec) return call->refuse(exec.error());
  const auto after = call->request.query_value("after") ? call->request.query_value("after")
                                                        : call->request.headers.find("Last-Event-ID");
  uint32_t number = 0;
  uint64_t first = 0;
  if (after) {
    const auto [end, error] = std::from_chars(after->data(), after->data() + after->size(), number);
    if (error != std::errc() || end != after->data() + after->size())
      return call->refuse(
          {ApiCode::kInvalidRequest, "Last-Event-ID is not the number of an event", "Leave it out."});
    first = uint64_t{number} + 1;
  }
  const bool hangs_up = call->query("hang_up") == "true";
  if (hangs_up && call->request.presence)
    call->request.presence->when_gone([] {});  // then it is no longer read
  call->reply(
      event_stream((*exec)->events(first, {.form = form_of(call->query("output")), .hangs_up = hangs_up})));
}

// The decision is in the audit log, and survives a power cut, before the request leaves.
void Rest::Impl::decide_approval(const SharedCall& call) {
  const bool allow = call->body["allow"];
  const std::string &tenant = call->caller.tenant, &sandbox = call->parameter("sandbox"),
                    &approval = call->parameter("approval");
  const auto pending = sandboxes.approvals(tenant, sandbox);
  if (!pending) return call->refuse(pending.error());
  const auto found = std::ranges::find(*pending, approval, &PendingApproval::id);
  if (found != pending->end() && records.audit != nullptr) {
    const Status noted = records.audit->add(allow ? "egress.approved" : "egress.refused",
                                            {{"tenant", tenant},
                                             {"sandbox", sandbox},
                                             {"exec", found->exec},
                                             {"approval", approval},
                                             {"function", found->question.function},
                                             {"target", found->question.target},
                                             {"by", call->caller.token_id},
                                             {"request_id", call->request.request_id}},
                                            Hold::kPowerCut);
    if (!noted) return call->refuse(api_error(noted.error()));
  }
  const auto decided = sandboxes.decide(tenant, sandbox, approval, allow);
  if (!decided) return call->refuse(decided.error());
  call->answer_nothing();
}

void Rest::Impl::create_token(const SharedCall& call) {
  const Json& body = call->body;
  const int64_t now = system_now_ms();
  TokenInfo wanted{.id = "",
                   .tenant = body.value("tenant", ""),
                   .name = body["name"],
                   .scopes = body["scopes"].get<std::vector<std::string>>(),
                   .quotas = Quotas::of_names(body.value("quotas", std::map<std::string, uint64_t>()))};
  if (const auto ttl_s = optional_at<int64_t>(body, "ttl_s")) wanted.expires_at_ms = now + *ttl_s * 1000;
  const auto made = tokens.make(std::move(wanted), now);
  if (!made) return call->refuse(disk_error(made.error()));
  if (const Status noted = audit(call, "token.made", made->info); !noted) {
    static_cast<void>(tokens.remove(made->info.id));
    return call->refuse(disk_error(noted.error()));
  }
  Response response =
      json_response(201, json_text(OrderedJson{{"token", made->token}, {"info", to_json(made->info)}}));
  response.headers.add("Cache-Control", "no-store");  // including stored answers of idempotency keys
  call->reply(std::move(response));
}

// -- the way to a handler -----------------------------------------------------------------------------------------

Status Rest::Impl::bind() {
  const std::map<std::string_view, Method> methods = {
      {"getHealth", &Impl::get_health},           {"getOpenApi", &Impl::get_open_api},
      {"getMetrics", &Impl::get_metrics},         {"getUsage", &Impl::get_usage},
      {"listSandboxes", &Impl::list_sandboxes},   {"exec", &Impl::exec},
      {"listExecs", &Impl::list_execs},           {"getExec", &Impl::get_exec},
      {"cancelExec", &Impl::cancel_exec},         {"getExecEvents", &Impl::get_exec_events},
      {"signalExec", &Impl::signal_exec},         {"resizeTerminal", &Impl::resize_terminal},
      {"writeStdin", &Impl::write_stdin},         {"listApprovals", &Impl::list_approvals},
      {"decideApproval", &Impl::decide_approval}, {"createToken", &Impl::create_token},
      {"listTokens", &Impl::list_tokens},         {"deleteToken", &Impl::delete_token}};
  Handlers all;
  for (const auto& [id, method] : methods)
    all.emplace(id, [this, of = method](const SharedCall& call) { (this->*of)(call); });
  add_lifecycle_handlers(all, sandboxes, secrets);
  add_file_handlers(all, sandboxes);
  add_secret_handlers(all, sandboxes, secrets);
  add_receipt_handlers(all, sandboxes, records.audit);
  for (const Operation& operation : operations.all()) {
    const auto found = all.find(operation.id);
    if (found == all.end())
      return fail(ErrorCode::kInternal, "the operation " + operation.id + " has no handler");
    handlers.push_back(found->second);
  }
  if (handlers.size() != all.size()) return fail(ErrorCode::kInternal, "a handler has no operation");
  return {};
}

Answer<Caller> Rest::Impl::authorize(const Operation& operation, const RequestHead& head) const {
  if (!operation.scope) return Caller();
  auto caller = tokens.find(token_of(head), system_now_ms());
  if (!caller || caller->may(*operation.scope)) return caller;
  ApiError error{ApiCode::kForbidden, "the token does not have the scope " + *operation.scope,
                 "Use one that has it; POST /v1/tokens makes them."};
  const auto parameters = operations.match(head.method, head.segments).parameters;
  const auto sandbox = std::ranges::find(parameters, "sandbox", &std::pair<std::string, std::string>::first);
  sandboxes.note_refusal({caller->tenant, caller->token_id, head.request_id},
                         sandbox == parameters.end() ? "" : sandbox->second, error);
  return std::unexpected(std::move(error));
}

Answer<std::optional<Response>> Rest::Impl::begin_once(const Request& request, const Caller& caller,
                                                       Reply& reply) {
  const auto key = request.headers.find("Idempotency-Key");
  if (!key || request.method != "POST") return std::nullopt;
  const std::string asked = request.target + '\0' + request.body;
  auto before = records.idempotency.begin(caller.token_id, *key, asked, system_now_ms());
  if (!before || *before) return before;
  reply = Reply([this, scope = caller.token_id, name = std::string(*key), to = reply](Response response) {
    records.idempotency.finish(scope, name, response);
    to(std::move(response));
  });
  return std::nullopt;
}

Rest::Rest(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Rest::~Rest() = default;

Result<std::unique_ptr<Rest>> Rest::make(Operations operations, Sandboxes& sandboxes, Tokens& tokens,
                                         Secrets& secrets, Records records) {
  auto impl = std::make_unique<Impl>(std::move(operations), sandboxes, tokens, secrets, records);
  MEMBRANE_TRY(impl->bind());
  return std::unique_ptr<Rest>(new Rest(std::move(impl)));
}

bool Rest::serves(const RequestHead& head) const {
  if (head.segments.empty()) return false;
  const std::string& first = head.segments.front();
  return first == "v1" || first == "health" || first == "metrics" || first == "openapi.json";
}

HttpApplication::Admission Rest::admit(const RequestHead& head) {
  const auto refused = [&](const ApiError& error) {
    return Admission{.refusal = error_response(error, head.request_id)};
  };
  const Operations::Match match = impl_->operations.match(head.method, head.segments);
  if (match.operation == nullptr && match.allowed_methods.empty())
    return refused({ApiCode::kNotFound, "there is nothing at " + head.target.substr(0, head.target.find('?')),
                    "GET /openapi.json describes the API."});
  if (match.operation == nullptr) {
    Admission admission = refused({ApiCode::kMethodNotAllowed, "the path has no method " + head.method,
                                   "It has " + match.allowed_methods + "."});
    admission.refusal->headers.add("Allow", match.allowed_methods);
    return admission;
  }
  auto caller = impl_->authorize(*match.operation, head);
  if (!caller) return refused(caller.error());
  if (const auto checked = impl_->operations.check_query(*match.operation, head); !checked)
    return refused(checked.error());
  return {.most_body_bytes = match.operation->most_body_bytes, .tenant = std::move(caller->tenant)};
}

void Rest::handle(Request request, Reply reply) {
  const auto refused = [&](const ApiError& error) { reply(error_response(error, request.request_id)); };
  Operations::Match match = impl_->operations.match(request.method, request.segments);
  auto caller = impl_->authorize(*match.operation, request);  // again: the body may have taken a long time
  if (!caller) return refused(caller.error());
  auto before = impl_->begin_once(request, *caller, reply);
  if (!before) return refused(before.error());
  if (*before) {
    (*before)->headers.add("Idempotent-Replayed", "true");
    return reply(*std::move(*before));
  }
  Json body;
  if (match.operation->body != BodyForm::kBytes) {
    auto read = impl_->operations.read_body(*match.operation, request);
    if (!read) return refused(read.error());
    body = *std::move(read);
    request.body.clear();
  }
  const auto call =
      std::make_shared<const Call>(Call{std::move(request), *std::move(caller), std::move(match.parameters),
                                        std::move(body), std::move(reply)});
  impl_->handlers[match.operation->number](call);
}

}  // namespace membrane::service
