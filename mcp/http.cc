#include "mcp/http.h"

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <utility>

#include "base/text.h"
#include "mcp/message.h"
#include "mcp/revision.h"

namespace membrane::mcp {
namespace {

constexpr std::string_view kJsonType = "application/json", kEventsType = "text/event-stream";
constexpr std::string_view kSessionHeader = "Mcp-Session-Id", kVersionHeader = "MCP-Protocol-Version";

std::optional<std::string> header(const HttpRequest& request, std::string_view name) {
  const std::string lower = lower_case(name);
  for (const auto& [key, value] : request.headers)
    if (lower_case(key) == lower) return std::string(trimmed(value));
  return std::nullopt;
}

// "http://[::1]:80" → "[::1]"; "localhost:80" → "localhost".
std::string_view host_of(std::string_view authority) {
  if (const size_t scheme = authority.find("://"); scheme != std::string_view::npos)
    authority.remove_prefix(scheme + 3);
  if (authority.starts_with('[')) return authority.substr(0, authority.find(']') + 1);
  return authority.substr(0, authority.find(':'));
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

HttpReply refusal(int status, std::string_view message, HttpHeaders headers = {}) {
  headers.emplace_back("Content-Type", kJsonType);
  return {.status = status,
          .headers = std::move(headers),
          .body = error_message(nullptr, {Code::kInvalidRequest, std::string(message)})};
}

HttpReply without_body(int status) { return {.status = status, .headers = {}, .body = ""}; }

std::string event_of(std::string_view json) { return "event: message\ndata: " + std::string(json) + "\n\n"; }

class Refused final : public HttpCall {
 public:
  explicit Refused(HttpReply reply) : reply_(std::move(reply)) {}
  [[nodiscard]] bool runs_program() const override { return false; }
  [[nodiscard]] bool is_answered() const override { return true; }
  void cancel() override {}
  HttpReply answer(const std::function<void(std::string_view)>&) override { return std::move(reply_); }

 private:
  HttpReply reply_;
};

std::unique_ptr<HttpCall> refused(HttpReply reply) { return std::make_unique<Refused>(std::move(reply)); }

}  // namespace

HttpHeaders event_stream_headers() {
  return {
      {"Content-Type", std::string(kEventsType)}, {"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}};
}

class HttpEndpoint::Impl {
 public:
  Impl(const Server& server, HttpOptions options) : server_(server), options_(std::move(options)) {}

  [[nodiscard]] const Server& server() const { return server_; }
  [[nodiscard]] bool lets_in(std::string_view origin) const {
    return is_loopback(host_of(origin)) ||
           std::ranges::find(options_.origins, origin) != options_.origins.end();
  }
  std::unique_ptr<HttpCall> receive(HttpRequest request);
  // The key of a handshake's state.
  std::string keep(std::shared_ptr<Peer> peer, std::string tenant);

 private:
  struct Handshake {
    std::string name, tenant;
    std::shared_ptr<Peer> peer;
    std::shared_ptr<host::Flows> flows;
  };
  struct Client {
    std::shared_ptr<host::Flows> flows = std::make_shared<host::Flows>();
    uint64_t last_seen = 0;
  };

  [[nodiscard]] std::optional<HttpReply> refusal_of(const HttpRequest& request) const;
  std::optional<Handshake> find(const std::string& name, const std::string& tenant);
  std::shared_ptr<host::Flows> flows_of(const std::string& tenant, const std::string& client);
  bool forget(const std::string& name, const std::string& tenant);
  std::string new_name();  // with the mutex

  const Server& server_;
  HttpOptions options_;
  std::mutex mutex_;  // over what follows
  std::random_device entropy_;
  std::list<Handshake> handshakes_;                                // most recently used first
  std::map<std::pair<std::string, std::string>, Client> clients_;  // by tenant and client
  uint64_t seen_ = 0;
};

namespace {

class Posted final : public HttpCall {
 public:
  // `has_own_peer`: there was no handshake before, so an accepted initialize gets a name.
  Posted(HttpEndpoint::Impl& endpoint, HttpRequest request, std::shared_ptr<Peer> peer,
         std::shared_ptr<host::Flows> flows, bool has_own_peer)
      : endpoint_(endpoint),
        tenant_(std::move(request.tenant)),
        peer_(std::move(peer)),
        has_own_peer_(has_own_peer) {
    Envelope envelope{.peer = peer_,
                      .tenant = tenant_,
                      .client = std::move(request.client),
                      .scopes = std::move(request.scopes),
                      .flows = std::move(flows)};
    envelope.headers = {header(request, kVersionHeader), header(request, "Mcp-Method"),
                        header(request, "Mcp-Name")};
    const std::string accepts = header(request, "Accept").value_or("");
    if (accepts.find(kEventsType) != std::string::npos)
      envelope.notify = [this](std::string_view json) { send(json); };
    call_ = endpoint.server().receive(request.body, std::move(envelope));
  }

  [[nodiscard]] bool runs_program() const override { return call_->runs_program(); }
  [[nodiscard]] bool is_answered() const override { return call_->is_answered(); }
  void cancel() override { call_->cancel(); }

  HttpReply answer(const std::function<void(std::string_view)>& stream) override {
    stream_ = &stream;
    const Reply reply = call_->answer();
    if (is_streamed_)
      return {.headers = {}, .body = reply.json.empty() ? "" : event_of(reply.json), .is_streamed = true};
    if (reply.json.empty()) return without_body(reply.http_status);
    HttpReply whole = {.status = reply.http_status,
                       .headers = {{"Content-Type", std::string(kJsonType)}},
                       .body = reply.json};
    if (reply.is_handshake && has_own_peer_)
      whole.headers.emplace_back(kSessionHeader, endpoint_.keep(peer_, tenant_));
    return whole;
  }

 private:
  void send(std::string_view json) {
    is_streamed_ = true;
    (*stream_)(event_of(json));
  }

  HttpEndpoint::Impl& endpoint_;
  std::string tenant_;
  std::shared_ptr<Peer> peer_;
  bool has_own_peer_;
  bool is_streamed_ = false;
  const std::function<void(std::string_view)>* stream_ = nullptr;
  std::unique_ptr<Call> call_;
};

}  // namespace

std::optional<HttpReply> HttpEndpoint::Impl::refusal_of(const HttpRequest& request) const {
  const std::string host = header(request, "Host").value_or("");
  const std::string_view name = host_of(host);
  if (!is_loopback(name) && std::ranges::find(options_.hosts, name) == options_.hosts.end())
    return refusal(403, "The Host is none of this server's.");
  if (const auto origin = header(request, "Origin"); origin && !lets_in(*origin))
    return refusal(403, "The Origin is none that may use this server.");
  if (request.method != "POST") return std::nullopt;
  if (!header(request, "Content-Type").value_or("").starts_with(kJsonType))
    return refusal(415, "The Content-Type is application/json.");
  const std::string accepts = header(request, "Accept").value_or("*/*");
  if (accepts.find(kJsonType) == std::string::npos && accepts.find("*/*") == std::string::npos)
    return refusal(406, "The Accept header names application/json and text/event-stream.");
  return std::nullopt;
}

std::unique_ptr<HttpCall> HttpEndpoint::Impl::receive(HttpRequest request) {
  if (auto reply = refusal_of(request)) return refused(*std::move(reply));
  const auto name = header(request, kSessionHeader);
  if (request.method == "DELETE") {
    if (!name) return refused(refusal(400, "Mcp-Session-Id says what is to be ended."));
    return refused(forget(*name, request.tenant) ? without_body(204)
                                                 : refusal(404, "There is no such Mcp-Session-Id."));
  }
  if (request.method != "POST")
    return refused(refusal(405, "Messages are sent by POST.", {{"Allow", "POST, DELETE"}}));
  const auto revision = find_revision(header(request, kVersionHeader).value_or(""));
  const bool is_alone = !name || (revision && is_stateless(*revision));
  if (is_alone) {
    auto flows = flows_of(request.tenant, request.client);
    return std::make_unique<Posted>(*this, std::move(request), std::make_shared<Peer>(), std::move(flows),
                                    true);
  }
  auto handshake = find(*name, request.tenant);
  if (!handshake) return refused(refusal(404, "There is no such Mcp-Session-Id: begin with initialize."));
  return std::make_unique<Posted>(*this, std::move(request), std::move(handshake->peer),
                                  std::move(handshake->flows), false);
}

std::string HttpEndpoint::Impl::new_name() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  constexpr int kWords = 4;
  std::string name;
  for (int i = 0; i < kWords; ++i) {
    uint32_t bits = entropy_();
    for (int digit = 0; digit < 8; ++digit, bits >>= 4) name += kDigits[bits & 15];
  }
  return name;
}

std::string HttpEndpoint::Impl::keep(std::shared_ptr<Peer> peer, std::string tenant) {
  const std::lock_guard lock(mutex_);
  const auto is_of_tenant = [&](const Handshake& each) { return each.tenant == tenant; };
  const auto held = static_cast<size_t>(std::ranges::count_if(handshakes_, is_of_tenant));
  if (held >= options_.most_handshakes_of_tenant)
    handshakes_.erase(
        std::prev(std::ranges::find_if(handshakes_.rbegin(), handshakes_.rend(), is_of_tenant).base()));
  if (handshakes_.size() >= options_.most_handshakes) handshakes_.pop_back();
  handshakes_.push_front({new_name(), std::move(tenant), std::move(peer), std::make_shared<host::Flows>()});
  return handshakes_.front().name;
}

std::shared_ptr<host::Flows> HttpEndpoint::Impl::flows_of(const std::string& tenant,
                                                          const std::string& client) {
  const std::lock_guard lock(mutex_);
  Client& found = clients_[{tenant, client}];
  found.last_seen = ++seen_;
  auto flows = found.flows;
  if (clients_.size() > options_.most_clients)
    clients_.erase(
        std::ranges::min_element(clients_, {}, [](const auto& each) { return each.second.last_seen; }));
  return flows;
}

std::optional<HttpEndpoint::Impl::Handshake> HttpEndpoint::Impl::find(const std::string& name,
                                                                      const std::string& tenant) {
  const std::lock_guard lock(mutex_);
  for (auto each = handshakes_.begin(); each != handshakes_.end(); ++each) {
    if (each->name != name || each->tenant != tenant) continue;
    handshakes_.splice(handshakes_.begin(), handshakes_, each);
    return *each;
  }
  return std::nullopt;
}

bool HttpEndpoint::Impl::forget(const std::string& name, const std::string& tenant) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      handshakes_, [&](const Handshake& each) { return each.name == name && each.tenant == tenant; });
  if (found == handshakes_.end()) return false;
  found->peer->cancel_all();
  handshakes_.erase(found);
  return true;
}

HttpEndpoint::HttpEndpoint(const Server& server, HttpOptions options)
    : impl_(std::make_unique<Impl>(server, std::move(options))) {}
HttpEndpoint::~HttpEndpoint() = default;

bool HttpEndpoint::lets_in(std::string_view origin) const { return impl_->lets_in(origin); }

std::unique_ptr<HttpCall> HttpEndpoint::receive(HttpRequest request) {
  return impl_->receive(std::move(request));
}

}  // namespace membrane::mcp
