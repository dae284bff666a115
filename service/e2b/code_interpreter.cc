// The part of E2B's sandboxes that runs code (their port 49999): /execute streams a line of JSON for each
// event; /contexts hold state.

#include <algorithm>

#include "base/json.h"
#include "service/e2b/cell.h"
#include "service/e2b/exec_stream.h"
#include "service/e2b/handlers.h"
#include "service/e2b/languages.h"
#include "service/times.h"

namespace membrane::service::e2b {
namespace {

constexpr std::string_view kDefaultContext = "default";

// The clients' names for the formats of a value.
struct Form {
  std::string_view type, name;
};
constexpr Form kForms[] = {{"text/plain", "text"},        {"text/html", "html"},
                           {"text/markdown", "markdown"}, {"image/svg+xml", "svg"},
                           {"image/png", "png"},          {"image/jpeg", "jpeg"},
                           {"application/pdf", "pdf"},    {"text/latex", "latex"},
                           {"application/json", "json"},  {"application/javascript", "javascript"},
                           {"e2b/data", "data"}};

// Escaped to ASCII: the clients decode what arrives piece by piece, and a piece may end within a character.
std::string line_of(const OrderedJson& json) {
  return json.dump(-1, ' ', true, OrderedJson::error_handler_t::replace) + "\n";
}

// As in E2B's server: the quotes around Python or JavaScript text are removed, and its escapes stay.
std::string without_quotes(std::string text) {
  const auto is_in = [&](char quote) { return text.starts_with(quote) && text.ends_with(quote); };
  if (!is_in('\'') && !is_in('"')) return text;
  return text.size() < 2 ? "" : text.substr(1, text.size() - 2);
}

// A value or a display in the form of reports: {"text/plain": "…", "image/png": {"base64": "…"}}.
std::string result_line(const OrderedJson& value, bool is_main) {
  OrderedJson line = {{"type", "result"}};
  for (const auto& [type, form] : value.items()) {
    const OrderedJson& data = form.is_object() && form.contains("base64") ? form["base64"] : form;
    const auto* const known = std::ranges::find(kForms, type, &Form::type);
    if (known == std::end(kForms)) {
      line[type] = line["extra"][type] = data;  // the JavaScript client looks here, the Python client there
      continue;
    }
    line[std::string(known->name)] = data;
    if (known->name == "text" && data.is_string()) line["text"] = without_quotes(data.get<std::string>());
    if ((known->name != "json" && known->name != "data") || !data.is_string()) continue;
    if (auto parsed = read_ordered_json(data.get<std::string>(), "the value"))
      line[std::string(known->name)] = *std::move(parsed);
  }
  line["is_main_result"] = is_main;
  return line_of(line);
}

std::string error_line(std::string_view name, std::string_view value, std::string_view traceback) {
  return line_of({{"type", "error"}, {"name", name}, {"value", value}, {"traceback", traceback}});
}

// What a report contains besides output and displays.
std::string lines_of_report(const std::string& text) {
  const auto report = read_ordered_json(text, "the report");
  std::string lines;
  if (!report) return lines;
  if (report->contains("value")) lines += result_line((*report)["value"], true);
  if (report->contains("error")) {
    const OrderedJson& error = (*report)["error"];
    std::string value = error.value("message", "");
    if (const std::string hint = error.value("hint", ""); !hint.empty()) value += ". " + hint;
    lines += error_line(error.value("code", ""), value, error.value("traceback", value));
  } else if (const int code = report->value("exit_code", 0); code != 0) {
    lines += error_line("SystemExit", std::to_string(code), "SystemExit: " + std::to_string(code));
  }
  return lines + line_of({{"type", "end_of_execution"}});
}

std::string lines_of(const Exec::Event& event) {
  constexpr int64_t kNsInMs = 1'000'000;
  switch (event.kind) {
    case Exec::Kind::kStdout:
    case Exec::Kind::kStderr:
      return line_of({{"type", event.kind == Exec::Kind::kStdout ? "stdout" : "stderr"},
                      {"text", event.text},
                      {"timestamp", system_now_ms() * kNsInMs}});
    case Exec::Kind::kDisplay: {
      const auto value = read_ordered_json(event.text, "the display");
      return value ? result_line(*value, false) : "";
    }
    case Exec::Kind::kApproval: return "";  // E2B's clients know of none
    case Exec::Kind::kReport: return lines_of_report(event.text);
  }
  return "";
}

// -- /execute -------------------------------------------------------------------------------------------------------

ApiError no_language(const std::string& name) {
  return {
      ApiCode::kNotFound,
      "there is no language '" + name + "' in this sandbox, which is an interpreter in WebAssembly",
      "It has python, javascript and typescript; commands.run() of a sandbox of the linux kind runs others."};
}

// The code that a language needs before the user's code runs.
Answer<void> prepare(const Service& service, const SharedCall& call, std::string_view language,
                     uint64_t number, ExecSpec& spec) {
  if (language == "typescript") spec.name = "cell-" + std::to_string(number) + ".ts";
  constexpr size_t kMostBytesOfCell = 1u << 20;  // it is parsed on the server's thread
  if (spec.code.size() > kMostBytesOfCell)
    return refuse(ApiCode::kTooLarge, "the code has more than 1 MiB",
                  "Write its data into files, and read them.");
  if (language != "python") return {};
  PythonCell cell = python_cell(spec.code);
  spec.code = std::move(cell.code);
  if (!cell.has_commands) return {};
  const auto begun = service.sandboxes.exec(call->actor(), call->known->id,
                                            {.code = code_for_commands(), .context = spec.context});
  if (!begun) return std::unexpected(begun.error());
  return {};
}

// Runs code of a language in an existing context, and streams its lines as the answer.
void run(const Service& service, const SharedCall& call, std::string_view language, ExecSpec spec) {
  const uint64_t number = call->known->count_execution(spec.context);
  if (const auto prepared = prepare(service, call, language, number, spec); !prepared)
    return call->refuse_in_words(prepared.error());
  const auto begun = service.sandboxes.exec(call->actor(), call->known->id, std::move(spec));
  if (!begun) return call->refuse_in_words(begun.error());
  const std::shared_ptr<Exec>& exec = *begun;
  const auto cancel = [service, actor = call->actor(), sandbox = call->known->id, id = exec->id] {
    (void)service.sandboxes.cancel_exec(actor, sandbox, id);  // it may already be over or gone
  };
  // At once, as E2B interrupts its kernel: a client whose timeout has passed closes the connection and sends
  // nothing else.
  if (call->request.presence) call->request.presence->when_gone(cancel);
  const OrderedJson count = {{"type", "number_of_executions"}, {"execution_count", number}};
  call->reply({.status = 200,
               .headers = {{"Content-Type", "application/x-ndjson"}, {"Cache-Control", "no-store"}},
               .source = std::make_shared<ExecStream>(
                   exec, ExecStreamForm{.beginning = line_of(count),
                                        .render = lines_of,
                                        .keep_alive = line_of({{"type", "keepalive"}}),
                                        .when_abandoned = cancel})});
}

// Opens a context that starts in a directory, and registers it under the client's id, or its own when none is
// given.
void open_context(const Service& service, const SharedCall& call, CodeContext wanted,
                  std::function<void(const CodeContext&)> then) {
  service.sandboxes.open_context(
      call->actor(), call->known->id, std::string(template_that_runs(wanted.language)),
      [service, call, wanted, then = std::move(then)](const Answer<ContextInfo>& info) {
        if (!info) return call->refuse_in_words(info.error());
        CodeContext context = wanted;
        context.own_id = info->id;
        if (context.id.empty()) context.id = info->id;
        const auto begun = service.sandboxes.exec(
            call->actor(), call->known->id,
            {.code = code_to_begin_in(template_that_runs(context.language), context.directory),
             .context = context.own_id});
        if (!begun) return call->refuse_in_words(begun.error());
        call->known->put_context(context);
        then(context);
      });
}
ApiError no_context(const std::string& id) {
  return {ApiCode::kNotFound, "there is no context " + id, "GET /contexts lists them."};
}

// A context by the id that clients use, opened here or by another interface. Nothing if it
// does not exist.
std::optional<CodeContext> find_context(const Service& service, const SharedCall& call,
                                        const std::string& id) {
  if (auto known = call->known->find_context(id)) return known;
  const auto all = service.sandboxes.contexts(call->known->tenant, call->known->id);
  if (!all) return std::nullopt;
  const auto found = std::ranges::find(*all, id, &ContextInfo::id);
  if (found == all->end()) return std::nullopt;
  return CodeContext{id, id, found->template_name, std::string(kHome)};
}

void execute(const Service& service, const SharedCall& call) {
  const auto body = read_object(call->request.body);
  if (!body) return call->refuse_in_words(body.error());
  Fields fields(*body);
  const auto code = fields.optional_text("code");
  const auto language = fields.optional_text("language");
  const std::string id = fields.text("context_id", std::string(kDefaultContext));
  ExecSpec spec{.code = code.value_or(""), .environment = fields.texts("env_vars")};
  if (const auto checked = fields.checked(); !checked) return call->refuse_in_words(checked.error());
  if (!code) return call->refuse_in_words({ApiCode::kInvalidRequest, "\"code\" is missing"});
  if (id != kDefaultContext) {
    const auto context = find_context(service, call, id);
    if (!context) return call->refuse_in_words(no_context(id));
    spec.context = context->own_id;
    return run(service, call, context->language, std::move(spec));
  }
  const auto info = service.sandboxes.get(call->known->tenant, call->known->id);
  if (!info) return call->refuse_in_words(info.error());
  const std::string wanted(language ? language_of(*language) : std::string_view(info->template_name));
  if (wanted.empty()) return call->refuse_in_words(no_language(*language));
  if (wanted == info->template_name) return run(service, call, wanted, std::move(spec));
  // Each other language has one default context.
  if (const auto context = call->known->find_context(wanted)) {
    spec.context = context->own_id;
    return run(service, call, wanted, std::move(spec));
  }
  open_context(service, call, {wanted, "", wanted, std::string(kHome)},
               [service, call, spec](const CodeContext& context) {
                 ExecSpec in = spec;
                 in.context = context.own_id;
                 run(service, call, context.language, std::move(in));
               });
}

// -- /contexts ------------------------------------------------------------------------------------------------------

OrderedJson to_json(const CodeContext& context) {
  return {{"id", context.id}, {"language", context.language}, {"cwd", context.directory}};
}

void list_contexts(const Service& service, const SharedCall& call) {
  const auto info = service.sandboxes.get(call->known->tenant, call->known->id);
  const auto all = service.sandboxes.contexts(call->known->tenant, call->known->id);
  if (!info) return call->refuse_in_words(info.error());
  if (!all) return call->refuse_in_words(all.error());
  OrderedJson list = OrderedJson::array();
  list.push_back(
      to_json(CodeContext{std::string(kDefaultContext), "", info->template_name, std::string(kHome)}));
  for (const ContextInfo& each : *all)
    list.push_back(to_json(call->known->find_context_by_own_id(each.id).value_or(
        CodeContext{each.id, each.id, each.template_name, std::string(kHome)})));
  call->reply(json_response(200, json_text(list)));
}

void create_context(const Service& service, const SharedCall& call) {
  const auto body = read_object(call->request.body);
  if (!body) return call->refuse_in_words(body.error());
  Fields fields(*body);
  const std::string language = fields.text("language", "python");
  CodeContext wanted{"", "", std::string(language_of(language)), absolute_path(fields.text("cwd"))};
  if (const auto checked = fields.checked(); !checked) return call->refuse_in_words(checked.error());
  if (wanted.language.empty()) return call->refuse_in_words(no_language(language));
  open_context(service, call, wanted,
               [call](const CodeContext& context) { call->answer(201, to_json(context)); });
}

void remove_context(const Service& service, const SharedCall& call, const std::string& id) {
  const auto context = find_context(service, call, id);
  if (!context) return call->refuse_in_words(no_context(id));
  service.sandboxes.close_context(call->actor(), call->known->id, context->own_id,
                                  [call, id](const Answer<void>& closed) {
                                    call->known->forget_context(id);
                                    if (closed) call->reply({.status = 204});
                                    else call->refuse_in_words(closed.error());
                                  });
}

// Replaces it by another one with the same id.
void restart_context(const Service& service, const SharedCall& call, const std::string& id) {
  const auto context = find_context(service, call, id);
  if (!context) return call->refuse_in_words(no_context(id));
  open_context(service, call, {id, "", context->language, context->directory},
               [service, call, old = context->own_id](const CodeContext&) {
                 service.sandboxes.close_context(call->actor(), call->known->id, old,
                                                 [call](const Answer<void>& closed) {
                                                   if (closed) call->reply({.status = 204});
                                                   else call->refuse_in_words(closed.error());
                                                 });
               });
}

}  // namespace

void handle_code(const Service& service, const SharedCall& call) {
  const Request& request = call->request;
  if (!call->caller.may("exec")) return call->refuse_in_words(noted(service, call, "exec"));
  const auto info = service.sandboxes.get(call->known->tenant, call->known->id);
  if (info && info->kind == Kind::kLinux)
    return call->refuse_in_words(
        {ApiCode::kUnsupported, "a Linux sandbox has no interpreter that keeps state between pieces of code",
         "Run programs by commands.run(), or make a sandbox of the template base."});
  if (request.segments[0] == "execute" && request.segments.size() == 1 && request.method == "POST")
    return execute(service, call);
  if (request.segments[0] == "contexts") {
    const size_t count = request.segments.size();
    if (count == 1 && request.method == "GET") return list_contexts(service, call);
    if (count == 1 && request.method == "POST") return create_context(service, call);
    if (count == 2 && request.method == "DELETE") return remove_context(service, call, request.segments[1]);
    if (count == 3 && request.method == "POST" && request.segments[2] == "restart")
      return restart_context(service, call, request.segments[1]);
  }
  call->refuse_in_words(
      {ApiCode::kUnsupported, "the sandbox has no " + request.method + " " + request.target});
}

}  // namespace membrane::service::e2b
