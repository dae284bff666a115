#include "mcp/server.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/utf8.h"
#include "mcp/message.h"
#include "mcp/notifier.h"
#include "mcp/peer.h"
#include "mcp/request.h"
#include "mcp/resources.h"
#include "mcp/tools.h"

namespace membrane::mcp {
namespace {

constexpr int kAccepted = 202, kBadRequest = 400, kMissing = 404;
constexpr std::string_view kServerInfoKey = "io.modelcontextprotocol/serverInfo";
constexpr std::string_view kSubscriptionKey = "io.modelcontextprotocol/subscriptionId";

// The context of a method call.
struct Request {
  Message message;
  RequestTerms terms;
  const Envelope& envelope;
  const std::atomic<bool>& cancelled;

  // The text of a member; nothing if it is missing or not a text.
  [[nodiscard]] std::optional<std::string> text(const char* name) const {
    const auto found = message.params.find(name);
    if (found == message.params.end() || !found->is_string()) return std::nullopt;
    return found->get<std::string>();
  }
};

using Answer = std::expected<OrderedJson, ProtocolError>;

std::unexpected<ProtocolError> invalid_params(std::string message) {
  return std::unexpected(ProtocolError{Code::kInvalidParams, std::move(message)});
}

}  // namespace

class Server::Impl {
 public:
  Impl(std::shared_ptr<Backend> backend, ServerOptions options)
      : backend_(std::move(backend)), options_(std::move(options)) {}

  [[nodiscard]] const ServerOptions& options() const { return options_; }
  // The method's result, with what its revision adds to every result.
  [[nodiscard]] Answer answer(Request& request) const;

 private:
  struct Method {
    std::string_view name;
    bool with_handshake, stateless;  // the eras that support it
    Answer (Impl::*answer)(Request&) const;
  };
  static const std::vector<Method>& methods();

  Answer initialize(Request& request) const;
  Answer discover(Request& request) const;
  Answer ping(Request& request) const;
  Answer set_level(Request& request) const;
  Answer list_tools(Request& request) const;
  Answer call_tool(Request& request) const;
  Answer list_resources(Request& request) const;
  Answer list_templates(Request& request) const;
  Answer read_resource(Request& request) const;
  Answer listen(Request& request) const;

  [[nodiscard]] OrderedJson server_info() const {
    return {{"name", options_.name}, {"title", "Membrane"}, {"version", options_.version}};
  }
  static OrderedJson capabilities() {
    return {{"logging", OrderedJson::object()},
            {"resources", OrderedJson::object()},
            {"tools", OrderedJson::object()}};
  }
  static OrderedJson cacheable(Listing listing, Revision revision);
  [[nodiscard]] static Caller caller_of(const Request& request) {
    return {.tenant = request.envelope.tenant,
            .client = request.envelope.client,
            .scopes = request.envelope.scopes,
            .flows = request.envelope.flows,
            .cancel = &request.cancelled};
  }

  std::shared_ptr<Backend> backend_;
  ServerOptions options_;
};

// -- methods --------------------------------------------------------------------------------------------------------

const std::vector<Server::Impl::Method>& Server::Impl::methods() {
  static const std::vector<Method> kMethods = {
      {"initialize", true, false, &Impl::initialize},
      {"server/discover", false, true, &Impl::discover},
      {"ping", true, false, &Impl::ping},
      {"logging/setLevel", true, false, &Impl::set_level},
      {"tools/list", true, true, &Impl::list_tools},
      {"tools/call", true, true, &Impl::call_tool},
      {"resources/list", true, true, &Impl::list_resources},
      {"resources/templates/list", true, true, &Impl::list_templates},
      {"resources/read", true, true, &Impl::read_resource},
      {"subscriptions/listen", false, true, &Impl::listen},
  };
  return kMethods;
}

Answer Server::Impl::answer(Request& request) const {
  const bool stateless = is_stateless(request.terms.revision);
  const auto found = std::ranges::find(methods(), request.message.method, &Method::name);
  if (found == methods().end() || !(stateless ? found->stateless : found->with_handshake))
    return std::unexpected(ProtocolError{Code::kMethodNotFound, "Method not found"});
  Answer result = (this->*found->answer)(request);
  if (!result || !stateless) return result;
  OrderedJson whole = {{"resultType", "complete"}};
  whole.update(*result);
  whole["_meta"][std::string(kServerInfoKey)] = server_info();
  return whole;
}

OrderedJson Server::Impl::cacheable(Listing listing, Revision revision) {
  if (is_stateless(revision)) {
    listing.result["ttlMs"] = listing.ttl_ms;
    listing.result["cacheScope"] = "private";
  }
  return std::move(listing.result);
}

Answer Server::Impl::initialize(Request& request) const {
  const auto asked = request.text("protocolVersion");
  if (!asked) return invalid_params("initialize needs a protocolVersion, a string.");
  const auto known = find_revision(*asked);
  const Revision revision = known && !is_stateless(*known) ? *known : kLatestWithHandshake;
  request.envelope.peer->impl().agree(revision);
  return OrderedJson{{"protocolVersion", name_of(revision)},
                     {"capabilities", capabilities()},
                     {"serverInfo", server_info()},
                     {"instructions", instructions()}};
}

Answer Server::Impl::discover(Request& request) const {
  OrderedJson versions = OrderedJson::array();
  for (const Revision each : stateless_revisions()) versions.push_back(name_of(each));
  return cacheable({{{"supportedVersions", std::move(versions)},
                     {"capabilities", capabilities()},
                     {"instructions", instructions()}},
                    kKeepsMs},
                   request.terms.revision);
}

Answer Server::Impl::ping(Request&) const { return OrderedJson::object(); }

Answer Server::Impl::set_level(Request& request) const {
  const auto level = find_log_level(request.text("level").value_or(""));
  if (!level) return invalid_params("\"level\" is not a log level.");
  request.envelope.peer->impl().set_log_level(*level);
  return OrderedJson::object();
}

Answer Server::Impl::list_tools(Request& request) const {
  if (request.message.params.contains("cursor") && !request.message.params["cursor"].is_null())
    return invalid_params("The cursor is unknown.");
  OrderedJson tools = OrderedJson::array();
  for (const Tool& tool : tools_for(backend_->offer(caller_of(request))))
    tools.push_back(description_of(tool, request.terms.revision));
  return cacheable({{{"tools", std::move(tools)}}, kKeepsMs}, request.terms.revision);
}

Answer Server::Impl::list_resources(Request& request) const {
  auto listing = mcp::list_resources(*backend_, caller_of(request), request.text("cursor").value_or(""),
                                     request.terms.revision);
  if (!listing) return std::unexpected(std::move(listing).error());
  return cacheable(*std::move(listing), request.terms.revision);
}

Answer Server::Impl::list_templates(Request& request) const {
  return cacheable(list_resource_templates(request.terms.revision), request.terms.revision);
}

Answer Server::Impl::read_resource(Request& request) const {
  const auto uri = request.text("uri");
  if (!uri) return invalid_params("resources/read needs a uri, a string.");
  auto found = mcp::read_resource(*backend_, caller_of(request), *uri, request.terms.revision);
  if (!found) return std::unexpected(std::move(found).error());
  return cacheable(*std::move(found), request.terms.revision);
}

// Nothing here changes without a request, so there is nothing to report: the stream succeeds and ends at
// once.
Answer Server::Impl::listen(Request& request) const {
  const auto wanted = request.message.params.find("notifications");
  if (wanted == request.message.params.end() || !wanted->is_object())
    return invalid_params("subscriptions/listen has notifications, an object.");
  const std::string key(kSubscriptionKey);
  if (request.envelope.notify)
    request.envelope.notify(notification_message(
        "notifications/subscriptions/acknowledged",
        {{"_meta", {{key, request.message.id}}}, {"notifications", OrderedJson::object()}}));
  return OrderedJson{{"_meta", {{key, request.message.id}}}};
}

namespace {

// A log line for a person who watches the server.
void log_run(Notifier& notifier, const std::string& tool, const ToolAnswer& answer) {
  if (!answer.structured.contains("outcome")) return;
  if (const auto refused = answer.structured.find("refused"); refused != answer.structured.end())
    for (const OrderedJson& call : *refused)
      notifier.log(LogLevel::kWarning, {{"event", "refused"}, {"tool", tool}, {"call", call}});
  notifier.log(LogLevel::kInfo, {{"event", "ran"},
                                 {"tool", tool},
                                 {"outcome", answer.structured["outcome"]},
                                 {"fuel_used", answer.structured["fuel_used"]},
                                 {"report", answer.structured["report"]}});
}

}  // namespace

Answer Server::Impl::call_tool(Request& request) const {
  const auto name = request.text("name");
  if (!name) return invalid_params("tools/call needs a name, a string.");
  Caller caller = caller_of(request);
  const std::vector<Tool> tools = tools_for(backend_->offer(caller));
  const Tool* const tool = find_tool(tools, *name);
  if (tool == nullptr) {
    constexpr size_t kMost = 100;
    ProtocolError error{Code::kInvalidParams, "Unknown tool: " + name->substr(0, utf8_cut(*name, kMost))};
    OrderedJson& known = error.data["tools"] = OrderedJson::array();
    for (const Tool& each : tools) known.push_back(each.name);
    return std::unexpected(std::move(error));
  }
  Json arguments = Json::object();
  if (const auto given = request.message.params.find("arguments");
      given != request.message.params.end() && !given->is_null())
    arguments = std::move(*given);
  if (!arguments.is_object()) return invalid_params("\"arguments\" must be an object.");
  Notifier notifier(request.terms, request.envelope.notify);
  if (notifier.tells_progress()) {
    caller.on_step = [&](std::string_view what) { notifier.step(what); };
    caller.on_stdout = caller.on_stderr = [&](std::string_view text) { notifier.output(text); };
  }
  ToolAnswer answer = mcp::call_tool(*tool, std::move(arguments), *backend_, caller);
  log_run(notifier, tool->name, answer);
  OrderedJson result = {{"content", std::move(answer.content)}};
  if (!answer.structured.is_null() && request.terms.revision >= Revision::k2025_06_18)
    result["structuredContent"] = std::move(answer.structured);
  result["isError"] = answer.is_error;
  return result;
}

// -- calls ----------------------------------------------------------------------------------------------------------

namespace {

constexpr std::string_view kCancelled = "notifications/cancelled";

// A message that already has its answer, or needs none.
class AnsweredCall final : public Call {
 public:
  explicit AnsweredCall(Reply reply) : reply_(std::move(reply)) {}
  [[nodiscard]] bool runs_program() const override { return false; }
  [[nodiscard]] bool is_answered() const override { return true; }
  void cancel() override {}
  Reply answer() override { return std::move(reply_); }

 private:
  Reply reply_;
};

Reply nothing() { return {.json = "", .http_status = kAccepted}; }

Reply error_reply(const Json& id, const ProtocolError& error, int http_status) {
  return {.json = error_message(id, error), .http_status = http_status};
}

class RequestCall final : public Call {
 public:
  RequestCall(const Server::Impl& server, Message message, Envelope envelope)
      : server_(server),
        message_(std::move(message)),
        envelope_(std::move(envelope)),
        under_way_(envelope_.peer, message_.id) {
    if (auto error = envelope_.peer->impl().begin(under_way_, server.options().most_calls))
      refused_ = RefusedRequest{*std::move(error), 200};
    if (envelope_.notify)
      envelope_.notify = [this, notify = std::move(envelope_.notify)](std::string_view json) {
        if (!under_way_.cancelled) notify(json);
      };
  }

  [[nodiscard]] bool runs_program() const override { return !refused_ && message_.method == "tools/call"; }
  [[nodiscard]] bool is_answered() const override { return refused_.has_value(); }
  void cancel() override { under_way_.cancelled = true; }

  Reply answer() override {
    const Json id = message_.id;
    if (refused_) return error_reply(id, refused_->error, refused_->http_status);
    auto terms = terms_of(message_, envelope_);
    if (!terms) return error_reply(id, terms.error().error, terms.error().http_status);
    const bool is_handshake = message_.method == "initialize";
    const bool stateless = is_stateless(terms->revision);
    Request request{std::move(message_), *std::move(terms), envelope_, under_way_.cancelled};
    const Answer answer = under_way_.cancelled ? Answer(OrderedJson()) : server_.answer(request);
    if (under_way_.cancelled) return nothing();
    if (answer) return {.json = result_message(id, *answer), .is_handshake = is_handshake};
    const bool is_missing = stateless && answer.error().code == Code::kMethodNotFound;
    return error_reply(id, answer.error(), is_missing ? kMissing : 200);
  }

 private:
  const Server::Impl& server_;
  Message message_;
  Envelope envelope_;
  Peer::Impl::UnderWay under_way_;
  std::optional<RefusedRequest> refused_;
};

// Answers the messages of an array one after another, in an array.
class BatchCall final : public Call {
 public:
  explicit BatchCall(std::vector<std::unique_ptr<Call>> calls) : calls_(std::move(calls)) {}
  [[nodiscard]] bool runs_program() const override {
    return std::ranges::any_of(calls_, [](const auto& call) { return call->runs_program(); });
  }
  [[nodiscard]] bool is_answered() const override {
    return std::ranges::all_of(calls_, [](const auto& call) { return call->is_answered(); });
  }
  void cancel() override {
    for (const auto& call : calls_) call->cancel();
  }
  Reply answer() override {
    std::string all;
    for (const auto& call : calls_) {
      const Reply reply = call->answer();
      if (!reply.json.empty()) all += (all.empty() ? "[" : ",") + reply.json;
    }
    return all.empty() ? nothing() : Reply{.json = all + "]"};
  }

 private:
  std::vector<std::unique_ptr<Call>> calls_;
};

std::unique_ptr<Call> answered(Reply reply) { return std::make_unique<AnsweredCall>(std::move(reply)); }

std::unique_ptr<Call> unreadable(const Unreadable& problem) {
  return answered(error_reply(problem.id, problem.error, kBadRequest));
}

// Only one revision had batches.
bool takes_batches(const Envelope& envelope) {
  if (const auto agreed = envelope.peer->impl().agreed()) return *agreed == Revision::k2025_03_26;
  return envelope.headers && envelope.headers->protocol_version.value_or(
                                 std::string(name_of(kWithoutHeader))) == name_of(Revision::k2025_03_26);
}

std::unique_ptr<Call> call_of(const Server::Impl& server, std::expected<Message, Unreadable> message,
                              Envelope envelope) {
  if (!message) return unreadable(message.error());
  if (message->kind == MessageKind::kRequest)
    return std::make_unique<RequestCall>(server, *std::move(message), std::move(envelope));
  // Responses are ignored, since the server never asks; of the notifications, one has an effect.
  if (message->method == kCancelled)
    if (const auto id = message->params.find("requestId"); id != message->params.end() && is_id(*id))
      envelope.peer->impl().cancel(*id);
  return answered(nothing());
}

}  // namespace

Server::Server(std::shared_ptr<Backend> backend, ServerOptions options)
    : impl_(std::make_unique<const Impl>(std::move(backend), std::move(options))) {}
Server::~Server() = default;

std::unique_ptr<Call> Server::receive(std::string_view text, Envelope envelope) const {
  auto read = read_messages(text);
  if (!read) return unreadable(read.error());
  if (!read->is_batch) return call_of(*impl_, std::move(read->messages.front()), std::move(envelope));
  if (!takes_batches(envelope))
    return unreadable(
        {{Code::kInvalidRequest, "Batches of messages exist only in revision 2025-03-26."}, nullptr});
  std::vector<std::unique_ptr<Call>> calls;
  for (auto& message : read->messages) calls.push_back(call_of(*impl_, std::move(message), envelope));
  return std::make_unique<BatchCall>(std::move(calls));
}

Reply Server::too_long(size_t most_bytes) {
  return error_reply(
      nullptr, {Code::kInvalidRequest, "The message has more than " + count_of(most_bytes, "byte") + "."},
      413);
}

}  // namespace membrane::mcp
