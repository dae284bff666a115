#include "computers/network/gateway.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/text.h"
#include "computers/network/client_hello.h"
#include "computers/network/http_connection.h"
#include "computers/network/tls_stream.h"
#include "computers/network/tunnel.h"
#include "host/broker/decisions.h"
#include "host/calls/dispatch.h"
#include "host/egress/granted_addresses.h"
#include "linux/network/reachable.h"
#include "policy/credentials.h"
#include "sandbox/run/report_building.h"

namespace membrane::computers {
namespace {

using host::Errno;
using host::HostError;
using host::HostResult;
using linux::HostFile;
using linux::NetworkEvent;
using policy::Resource;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kConnect = "http.connect", kRequest = "http.request", kLookUp = "net.resolve";
constexpr std::string_view kLocalHost = "localhost";
constexpr std::string_view kThisMachine[] = {"127.0.0.1", "::1"};
constexpr char kTunnel[] = "CONNECT";
constexpr int kTlsRecord = 22;
constexpr std::chrono::seconds kMostHandshake(60);
// Fatal alerts of TLS (RFC 8446, 6.2), each a record.
constexpr std::string_view kAccessDenied("\x15\x03\x03\x00\x02\x02\x31", 7);
constexpr std::string_view kDecodeError("\x15\x03\x03\x00\x02\x02\x32", 7);
constexpr std::string_view kInternalError("\x15\x03\x03\x00\x02\x02\x50", 7);

// A compiled grant.
struct Rule : host::HttpRule {
  std::vector<policy::Cidr> addresses;
};

std::string in_url(const std::string& host) { return host.contains(':') ? "[" + host + "]" : host; }

std::string text_of(const std::string& host, uint16_t port) {
  return in_url(host) + ":" + std::to_string(port);
}

bool is_host(std::string_view host) {
  return !host.empty() && std::ranges::all_of(host, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.' || c == ':';
  });
}

HostError error_of(const Error& error) {
  return {error.code == ErrorCode::kUnsupported ? Errno::kHost : Errno::kInvalid, error.message, "", false};
}

}  // namespace

struct Gateway::Rules {
  std::vector<policy::HttpGrant> grants;  // `all` refers to these
  std::vector<Rule> all;
  host::Secrets secrets;

  static Result<std::shared_ptr<const Rules>> make(std::vector<policy::HttpGrant> grants,
                                                   host::Secrets secrets) {
    auto made = std::make_shared<Rules>();
    made->grants = std::move(grants);
    // One thread at a time uses it.
    made->secrets = [of = std::move(secrets),
                     mutex = std::make_shared<std::mutex>()](const std::string& name) {
      const std::scoped_lock lock(*mutex);
      return of(name);
    };
    for (policy::HttpGrant& each : made->grants) {
      each.max_redirects = 0;  // programs follow redirects themselves
      MEMBRANE_ASSIGN(auto url, policy::UrlGrant::parse(each.url));
      Rule rule{{each, std::move(url)}, {}};
      for (const std::string& text : each.addresses) {
        MEMBRANE_ASSIGN(const policy::Cidr range, policy::parse_cidr(text));
        rule.addresses.push_back(range);
      }
      made->all.push_back(std::move(rule));
    }
    return made;
  }

  [[nodiscard]] std::vector<linux::ReachableHost> hosts() const {
    std::vector<linux::ReachableHost> hosts;
    const auto add = [&hosts](std::string host, uint16_t port) {
      linux::ReachableHost each = {std::move(host), port};
      if (std::ranges::find(hosts, each) == hosts.end()) hosts.push_back(std::move(each));
    };
    for (const Rule& rule : all) {
      const policy::Url& url = rule.url.url();
      add((rule.url.any_subdomain() ? "*." : "") + url.host, url.port);
      if (url.host != kLocalHost) continue;
      for (const std::string_view address : kThisMachine) add(std::string(address), url.port);
    }
    return hosts;
  }

  [[nodiscard]] bool has(std::string_view scheme, const policy::Url& url) const {
    return std::ranges::any_of(all, [&](const Rule& rule) {
      return rule.url.url().scheme == scheme && rule.url.url().port == url.port && rule.url.allows_host(url);
    });
  }
  // Whether the host's encrypted traffic is decrypted and held to its grants, because one of them covers
  // requests only.
  [[nodiscard]] bool decrypts(const policy::Url& url) const {
    return std::ranges::any_of(all, [&](const Rule& rule) {
      return rule.url.url().scheme == "https" && rule.url.url().port == url.port &&
             rule.url.allows_host(url) && !rule.allows(kTunnel);
    });
  }
  // The addresses of the rule that grants it; nullptr if none does.
  [[nodiscard]] const std::vector<std::string>* grants_use(const Use& use) const {
    if (use.method == kTunnel && decrypts(use.url)) return nullptr;
    const auto rule = find_rule(all, use.method, use.url, false);
    return rule ? &(*rule)->words.addresses : nullptr;
  }
  // By the time it connects, a program's "localhost" is an address.
  [[nodiscard]] std::string name_of(const std::string& host, uint16_t port) const {
    if (std::ranges::find(kThisMachine, host) == std::end(kThisMachine)) return host;
    const auto is_granted = [&](std::string_view name) {
      return std::ranges::any_of(
          all, [&](const Rule& rule) { return rule.url.url().host == name && rule.url.url().port == port; });
    };
    return !is_granted(host) && is_granted(kLocalHost) ? std::string(kLocalHost) : host;
  }
};

Gateway::Gateway(GatewayOptions options, std::unique_ptr<Stop> stop)
    : names_(options.resolver != nullptr ? *options.resolver : system_resolver_),
      shared_budget_(options.budget != nullptr ? options.budget : std::make_shared<policy::Budget>()),
      budget_(*shared_budget_),
      stop_(std::move(stop)),
      connections_bound_(std::move(options.connections)),
      only_looks_(options.only_looks),
      authority_(options.authority != nullptr ? options.authority : std::make_shared<Authority>()),
      answer_room_(std::min(options.limits.memory_bytes, kMostAnswerBytes)) {
  if (options.budget == nullptr) renew(options.limits);
}

Result<std::unique_ptr<Gateway>> Gateway::create(GatewayOptions options) {
  MEMBRANE_ASSIGN(auto stop, Stop::create());
  MEMBRANE_ASSIGN(auto rules, Rules::make(std::move(options.grants),
                                          options.secrets ? options.secrets : host::environment_secrets()));
  const bool greets_later = options.greets_later;
  std::unique_ptr<Gateway> made(new Gateway(std::move(options), std::move(stop)));
  made->rules_ = std::move(rules);
  if (!linux::make_socket_pair(made->ours_, made->theirs_))
    return fail(ErrorCode::kUnavailable, "the system has no room for a sandbox's network");
  if (!greets_later) MEMBRANE_TRY(made->greet());
  return made;
}

Gateway::~Gateway() { end(); }

void Gateway::begin() {
  theirs_.close();
  listener_ = std::jthread([this] { listen(); });
}

void Gateway::end() {
  stop_->set();
  if (listener_.joinable()) listener_.join();
}

void Gateway::renew(const policy::Limits& limits) {
  budget_.set(Resource::kHostCalls, limits.host_calls);
  budget_.set(Resource::kBytesIn, limits.bytes_in);
  budget_.set(Resource::kBytesOut, limits.bytes_out);
}

std::shared_ptr<const Gateway::Rules> Gateway::rules() {
  const std::scoped_lock lock(mutex_);
  return rules_;
}

Status Gateway::set_grants(std::vector<policy::HttpGrant> grants, host::Secrets secrets) {
  MEMBRANE_ASSIGN(auto rules,
                  Rules::make(std::move(grants), secrets ? std::move(secrets) : host::environment_secrets()));
  {
    const std::scoped_lock lock(mutex_);
    const auto before = std::exchange(rules_, std::move(rules));
    for (const Connection& each : connections_) {
      if (each.use.method.empty()) continue;
      const auto* const was = before->grants_use(each.use);
      const auto* const is = rules_->grants_use(each.use);
      if (was != nullptr && (is == nullptr || *is != *was)) each.stop->set();
    }
  }
  return send_hosts();
}

Status Gateway::send_hosts() {
  const std::scoped_lock lock(telling_);
  const auto rules = this->rules();
  // Without OpenSSL there is none, and each connection that needs it is refused with the reason. Nor is there
  // one where nothing is dialled: a program then behaves the same each time.
  const bool has_one = !only_looks_ && needs_authority(rules->grants);
  sent_certificate_ = has_one ? authority_->certificate().value_or("") : "";
  const std::string hosts = linux::Reachable::to_text(rules->hosts());
  const std::string text = hosts + sent_certificate_;
  const HostFile file = linux::make_memory("membrane-hosts", text.size());
  const linux::NetworkGreeting greeting = {
      .hosts_bytes = static_cast<uint32_t>(hosts.size()),
      .certificate_bytes = static_cast<uint32_t>(sent_certificate_.size())};
  const int descriptor = file.number();
  if (!file || hosts.size() > linux::NetworkGreeting::kMostHostsBytes ||
      pwrite(file.number(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
      !linux::send_message(ours_.number(), std::as_bytes(std::span(&greeting, 1)), std::span(&descriptor, 1)))
    return fail(ErrorCode::kUnavailable, "the list of reachable hosts cannot be passed to the sandbox");
  return {};
}

// The authority's certificate changes every day.
Status Gateway::send_hosts_again_if_due() {
  MEMBRANE_ASSIGN(const std::string certificate, authority_->certificate());
  {
    const std::scoped_lock lock(telling_);
    if (certificate == sent_certificate_) return {};
  }
  return send_hosts();
}

// -- what the kernel process says -------------------------------------------------------------------------------------

void Gateway::listen() {
  constexpr size_t kMostWaiting = 10'000;  // from a kernel process that continues after the end
  for (size_t late = 0; late < kMostWaiting; late += stop_->is_set() ? 1 : 0) {
    std::array<pollfd, 2> looked = {{{ours_.number(), POLLIN, 0}, {stop_->descriptor(), POLLIN, 0}}};
    if (::poll(looked.data(), looked.size(), -1) < 0) {
      if (errno != EINTR) break;
      continue;
    }
    remove_connections(false);
    if (looked[0].revents == 0 && looked[1].revents != 0) break;
    if (looked[0].revents == 0) continue;
    linux::NetworkMessage message;
    HostFile socket;
    if (!linux::receive_message(ours_.number(), std::as_writable_bytes(std::span(&message, 1)), &socket))
      break;
    take(message, std::move(socket));
  }
  // Or the kernel process is gone, and so are its connections' other ends.
  remove_connections(true);
  is_over_ = true;
}

void Gateway::remove_connections(bool all) {
  std::list<Connection> removed;  // whose destructors wait for their threads
  const std::scoped_lock lock(mutex_);
  for (auto at = connections_.begin(); at != connections_.end();) {
    const auto each = at++;
    if (all) each->stop->set();
    if (all || each->is_over) removed.splice(removed.end(), connections_, each);
  }
}

void Gateway::take(const linux::NetworkMessage& message, HostFile socket) {
  if (message.host_bytes > linux::NetworkMessage::kMostHostBytes) return;
  const std::string host(message.host, message.host_bytes);
  was_asked_ = true;
  if (message.unreported > 0) {
    const std::scoped_lock lock(mutex_);
    account_.dropped += message.unreported;
  }
  if (!is_host(host)) return;
  if (message.event != NetworkEvent::kConnecting) return refused(message, host);
  if (!socket || message.port == 0 || connections_.size() >= kMostConnections) return;
  if (only_looks_ || stop_->is_set()) return;
  auto place = connections_bound_ != nullptr ? connections_bound_->take() : nullptr;
  if (connections_bound_ != nullptr && place == nullptr) return refused_for_many(message, host);
  auto stop = Stop::create();
  if (!stop) return;
  std::list<Connection> added;
  Connection& connection = added.emplace_back(std::move(*stop), std::move(place));
  {
    const std::scoped_lock lock(mutex_);
    connections_.splice(connections_.end(), added);
  }
  auto shared = std::make_shared<HostFile>(std::move(socket));
  try {
    connection.thread = std::jthread([this, &connection, shared, host, port = message.port] {
      serve(connection, host, port, std::move(*shared));
      connection.place = nullptr;
      connection.is_over = true;
    });
  } catch (const std::system_error&) {
    connection.is_over = true;
  }
}

void Gateway::refused(const linux::NetworkMessage& message, const std::string& host) {
  const bool is_name = message.event == NetworkEvent::kRefusedName;
  sandbox::HostCallRecord record;
  record.name = is_name ? kLookUp : kConnect;
  record.arguments = is_name || message.port == 0 ? host : text_of(host, message.port);
  record.decided_by = {record.arguments};
  const HostError error = host::reach_denial(record.arguments, is_name);
  note(std::move(record), &error);
}

void Gateway::refused_for_many(const linux::NetworkMessage& message, const std::string& host) {
  sandbox::HostCallRecord record;
  record.name = kConnect;
  record.arguments = text_of(host, message.port);
  const HostError error = {Errno::kBudget, "Sandboxes of this owner have " +
                                               count_of(connections_bound_->most(), "connection") +
                                               " open, which is the limit. Close idle ones."};
  note(std::move(record), &error);
}

// -- connections ------------------------------------------------------------------------------------------------------

void Gateway::serve(Connection& connection, const std::string& host, uint16_t port, HostFile socket) {
  auto stream = SocketStream::create(std::move(socket), *connection.stop);
  if (!stream) return;
  const int first = (*stream)->peek();
  if (first < 0) return;
  if (first == kTlsRecord) serve_tls(connection, host, port, **stream);
  else serve_plain(connection, host, port, **stream);
}

std::shared_ptr<const Gateway::Rules> Gateway::begin_use(Connection& connection, Use use) {
  const std::scoped_lock lock(mutex_);
  connection.use = std::move(use);
  return rules_;
}

void Gateway::end_use(Connection& connection) {
  const std::scoped_lock lock(mutex_);
  connection.use = {};
}

std::optional<HostError> Gateway::why_cut(const Connection& connection) const {
  if (!connection.stop->is_set() || stop_->is_set()) return std::nullopt;
  return HostError{Errno::kCancelled, "The policy no longer grants it, so the connection was closed.", "",
                   true};
}

HostResult<void> Gateway::pay_call() {
  if (budget_.take(Resource::kHostCalls, 1)) return {};
  return host::refuse(Errno::kBudget, std::string(policy::used_up(Resource::kHostCalls)));
}

namespace {

// The beginning of a connection, up to its ClientHello, and the name in it.
struct Hello {
  std::string bytes, server_name;
};

HostResult<Hello> read_hello(SocketStream& stream) {
  Hello hello;
  std::array<char, 4096> piece;
  for (;;) {
    auto name = server_name_of(hello.bytes);
    if (!name)
      return host::refuse(name.error().code == ErrorCode::kDenied ? Errno::kAccess : Errno::kProtocol,
                          "The TLS handshake of the program is refused: " + name.error().message + ".");
    if (*name) {
      hello.server_name = **std::move(name);
      return hello;
    }
    const size_t got = stream.read(piece);
    if (got == 0)
      return host::refuse(Errno::kConnection,
                          "The program closed the connection before it named its server.");
    hello.bytes.append(piece.data(), got);
  }
}

std::string_view alert_of(const HostError& error) {
  return error.code == Errno::kAccess     ? kAccessDenied
         : error.code == Errno::kProtocol ? kDecodeError
                                          : kInternalError;
}

}  // namespace

struct Gateway::Heard {
  Hello hello;
  policy::Url url;
};

HostResult<Gateway::Heard> Gateway::hear(const std::string& host, uint16_t port, SocketStream& stream,
                                         sandbox::HostCallRecord& record) {
  if (auto paid = pay_call(); !paid) return std::unexpected(std::move(paid).error());
  auto hello = read_hello(stream);
  if (!hello) return std::unexpected(std::move(hello).error());
  auto url = policy::parse_url("https://" + text_of(rules()->name_of(host, port), port) + "/");
  if (!url) return std::unexpected(error_of(url.error()));
  record.arguments = url->origin();
  record.decided_by = {url->text()};
  if (hello->server_name != url->host && !(url->address && hello->server_name.empty()))
    return host::refuse(Errno::kAccess,
                        "The connection is to " + url->host + ", but the program's TLS handshake names " +
                            (hello->server_name.empty() ? "nobody" : hello->server_name) + ".");
  return Heard{*std::move(hello), *std::move(url)};
}

HostResult<void> Gateway::open_tunnel(Connection& connection, const Heard& heard, uint16_t port,
                                      SocketStream& stream, sandbox::HostCallRecord& record) {
  const policy::Url& url = heard.url;
  const auto rules = begin_use(connection, {kTunnel, url});
  const auto rule = find_rule(rules->all, kTunnel, url, false);
  if (!rule) return std::unexpected(rule.error());
  if (rules->decrypts(url))
    return host::refuse(Errno::kCancelled, "The policy now grants other requests of this host.");
  const Stop& stop = *connection.stop;
  const host::Deadline deadline = host::Deadline(budget_, &stop.is_set()).within((*rule)->words.timeout_ms);
  auto addresses = url.address ? HostResult<std::vector<policy::Address>>(std::vector{*url.address})
                               : host::resolve_granted(url.host, (*rule)->addresses, (*rule)->url.text(),
                                                       names_, deadline);
  if (!addresses) return std::unexpected(addresses.error());
  const auto server = dial(*addresses, port, deadline, stop);
  if (!server) return std::unexpected(server.error());
  const TunnelEnd end = relay(stream, heard.hello.bytes, heard.hello.server_name, *server, budget_, stop);
  record.bytes_in = end.bytes_in;
  record.bytes_out = end.bytes_out;
  if (end.error) return std::unexpected(*end.error);
  return {};
}

HostResult<std::unique_ptr<Stream>> Gateway::decrypt(const Heard& heard, SocketStream& stream) {
  // Renewed before the program needs it; older certificates that it has read are still valid.
  if (const Status shown = send_hosts_again_if_due(); !shown) return std::unexpected(error_of(shown.error()));
  const auto context = authority_->context_for(heard.url.host);
  if (!context) return std::unexpected(error_of(context.error()));
  return TlsStream::accept(stream, heard.hello.bytes, *context);
}

// For a connection whose requests are decrypted, the report lists the requests, and the connection only if it
// failed.
void Gateway::serve_tls(Connection& connection, const std::string& host, uint16_t port,
                        SocketStream& stream) {
  const auto began = Clock::now();
  sandbox::HostCallRecord record;
  record.name = kConnect;
  record.arguments = text_of(host, port);
  record.decided_by = {record.arguments};
  stream.set_deadline(began + kMostHandshake);
  const auto heard = hear(host, port, stream, record);
  HostResult<void> done;
  if (!heard) {
    done = std::unexpected(heard.error());
  } else if (rules()->decrypts(heard->url)) {
    auto decrypted = decrypt(*heard, stream);
    if (decrypted) {
      stream.set_deadline(std::nullopt);
      return serve_requests(connection, {.scheme = "https", .host = heard->url.host, .port = port},
                            **decrypted);
    }
    done = std::unexpected(std::move(decrypted).error());
  } else {
    stream.set_deadline(std::nullopt);
    done = open_tunnel(connection, *heard, port, stream, record);
  }
  if (const auto cut = why_cut(connection)) done = std::unexpected(*cut);
  if (!done && !done.error().acted) stream.write(alert_of(done.error()));
  stream.end();
  record.latency_us = static_cast<uint64_t>(sandbox::microseconds_since(began));
  note(std::move(record), done ? nullptr : &done.error());
}

void Gateway::serve_plain(Connection& connection, const std::string& host, uint16_t port,
                          SocketStream& stream) {
  const auto rules = this->rules();
  const std::string name = rules->name_of(host, port);
  const auto url = policy::parse_url("http://" + text_of(name, port) + "/");
  if (!url) return;
  serve_requests(connection,
                 {.scheme = !rules->has("http", *url) && rules->has("https", *url) ? "https" : "http",
                  .host = url->host,
                  .port = port},
                 stream);
}

void Gateway::serve_requests(Connection& connection, const Origin& origin, Stream& stream) {
  std::shared_ptr<const Rules> rules;
  const host::Deadline run(budget_, &connection.stop->is_set());
  std::unique_ptr<host::HttpEgress> egress;  // of these rules
  const auto send_by_rules_of_now =
      [&](host::HttpRequest request,
          const host::HttpEgress::MayHold& may_hold) -> HostResult<host::HttpResponse> {
    auto to = policy::parse_url(request.url);
    if (!to) return std::unexpected(error_of(to.error()));
    auto now = begin_use(connection, {request.method, *std::move(to)});
    if (egress == nullptr || now != rules) {
      rules = std::move(now);
      auto made = host::HttpEgress::create(rules->grants, budget_, run, names_, rules->secrets);
      if (!made) return std::unexpected(error_of(made.error()));
      egress = std::move(*made);
    }
    auto answer = send(connection, *egress, std::move(request), may_hold);
    end_use(connection);
    return answer;
  };
  serve_http(stream, origin,
             {.send = send_by_rules_of_now,
              .most_body_bytes = kMostBodyBytes,
              .room = &body_room_,
              .answer_room = &answer_room_});
}

HostResult<host::HttpResponse> Gateway::send(const Connection& connection, host::HttpEgress& egress,
                                             host::HttpRequest request,
                                             const host::HttpEgress::MayHold& may_hold) {
  const auto began = Clock::now();
  sandbox::HostCallRecord record;
  record.name = kRequest;
  record.arguments = request.method + ", " + policy::without_credentials(request.url);
  record.decided_by = {request.method, request.url};
  record.bytes_out = request.body.size();
  const auto take_piece = std::move(request.take_piece);
  request.take_piece = [&](const host::HttpResponse& head, std::string_view piece) {
    record.bytes_in += piece.size();
    return take_piece(head, piece);
  };
  HostResult<host::HttpResponse> answer = host::refuse(Errno::kBudget, "");
  if (auto paid = pay_call(); !paid) answer = std::unexpected(paid.error());
  else answer = egress.send(request, may_hold);
  if (const auto cut = why_cut(connection)) answer = std::unexpected(*cut);
  if (answer) record.bytes_in += answer->body.size();
  else if (!answer.error().acted) record.bytes_out = 0;
  record.latency_us = static_cast<uint64_t>(sandbox::microseconds_since(began));
  note(std::move(record), answer ? nullptr : &answer.error());
  return answer;
}

// -- the account ------------------------------------------------------------------------------------------------------

void Gateway::note(sandbox::HostCallRecord record, const HostError* error) {
  record.arguments = host::bounded_summary(std::move(record.arguments));
  if (error != nullptr) {
    record.allowed = error->code != Errno::kAccess && error->code != Errno::kBudget;
    record.error = host::name_of(error->code);
    record.reason = host::bounded_reason(error->reason);
    record.grant = host::bounded_reason(error->grant);
  }
  size_t bytes = record.arguments.size() + record.reason.size() + record.grant.size();
  for (const std::string& each : record.decided_by) bytes += each.size();
  const std::scoped_lock lock(mutex_);
  // After a refused look-up, a program asks for the other kind of address.
  if (record.name == kLookUp && std::ranges::any_of(account_.calls, [&](const sandbox::HostCallRecord& each) {
        return each.name == kLookUp && each.arguments == record.arguments;
      }))
    return;
  if (account_.calls.size() >= host::Dispatcher::kMaxRecords ||
      account_bytes_ + bytes > host::Dispatcher::kMaxRecordBytes) {
    ++account_.dropped;
    return;
  }
  account_bytes_ += bytes;
  account_.calls.push_back(std::move(record));
}

Gateway::Account Gateway::take_account() {
  const std::scoped_lock lock(mutex_);
  account_bytes_ = 0;
  return std::exchange(account_, {});
}

void Gateway::tell(sandbox::Report& report) {
  Account account = take_account();
  report.host_calls = std::move(account.calls);
  report.host_calls_dropped = account.dropped;
}

}  // namespace membrane::computers
