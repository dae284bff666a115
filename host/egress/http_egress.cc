#include "host/egress/http_egress.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/text.h"
#include "host/broker/decisions.h"
#include "host/egress/granted_addresses.h"
#include "host/egress/http_client.h"
#include "host/egress/secret_mask.h"
#include "policy/http_names.h"
#include "policy/url_grant.h"

namespace membrane::host {
namespace {

using policy::Address;
using policy::Budget;
using policy::Cidr;
using policy::Resource;
using policy::Url;
using policy::UrlGrant;

// A grant with its URL and ranges parsed.
struct Grant : HttpRule {
  std::vector<Cidr> addresses;

  [[nodiscard]] bool has_secret() const {
    return std::ranges::any_of(words.headers, [](const auto& h) { return !h.second.secret.empty(); });
  }
};

// The next request: the program's, or the result of a redirect.
struct Hop {
  std::string method;
  Url url;
  Headers headers;  // of the program
  std::string body;
};

HostError to_host_error(const Error& error) {
  const std::string words =
      error.hint.empty() ? error.message : error.message + " Instead: " + error.hint + ".";
  switch (error.code) {
    case ErrorCode::kExhausted: return {Errno::kTooBig, words, ""};
    case ErrorCode::kUnsupported: return {Errno::kHost, words, ""};
    default: return {Errno::kInvalid, words, ""};
  }
}

// -- the request ---------------------------------------------------------------

bool contains_header(const auto& headers, std::string_view name) {
  return std::ranges::any_of(headers, [&](const auto& h) { return policy::same_header(h.first, name); });
}

HostResult<void> check_headers(const Headers& headers) {
  if (headers.size() > HttpEgress::kMaxRequestHeaders)
    return refuse(Errno::kTooBig, "The request has too many headers.");
  for (const auto& [name, value] : headers) {
    if (!policy::is_header_name(name)) return refuse(Errno::kInvalid, "A header's name is malformed.");
    if (!policy::is_header_value(value))
      return refuse(Errno::kInvalid,
                    "The header " + name + " contains a line break or another control character.");
    const auto owner = policy::owner_of_header(name);
    if (owner == policy::HeaderOwner::kEgress)
      return refuse(Errno::kInvalid,
                    "The header " + name + " belongs to the connection; a program cannot set it.");
    if (owner == policy::HeaderOwner::kGrant)
      return refuse(
          Errno::kInvalid,
          "The header " + name +
              " is one that servers and proxies route or trust requests by; a program cannot set it.",
          "headers." + name + " = \"…\" in the http grant");
  }
  return {};
}

uint64_t size_of(const Hop& hop) {
  uint64_t size = hop.method.size() + hop.url.text().size() + hop.body.size();
  for (const auto& [name, value] : hop.headers) size += name.size() + value.size();
  return size;
}

HostResult<void> check_size(const Hop& hop, const policy::HttpGrant& grant) {
  if (size_of(hop) > grant.max_request_bytes)
    return refuse(Errno::kTooBig, "The request is larger than the grant's " +
                                      count_of(grant.max_request_bytes, "byte") + " (max_request).");
  return {};
}

// -- the response --------------------------------------------------------------

bool is_hidden(std::string_view name) {
  static constexpr std::string_view kHidden[] = {"connection", "keep-alive",        "te",
                                                 "trailer",    "transfer-encoding", "upgrade",
                                                 "set-cookie", "set-cookie2",       "alt-svc"};
  return name.starts_with("proxy-") ||
         std::find(std::begin(kHidden), std::end(kHidden), name) != std::end(kHidden);
}

// Drops headers that describe the connection, and those that no longer describe the body after decompression.
Headers for_program(const Headers& headers) {
  const bool packed =
      contains_header(headers, "content-encoding") || contains_header(headers, "transfer-encoding");
  Headers out;
  for (const auto& [name, value] : headers) {
    if (is_hidden(name)) continue;
    if (packed && (name == "content-encoding" || name == "content-length")) continue;
    out.emplace_back(name, value);
  }
  return out;
}

const std::string* find(const Headers& headers, std::string_view name) {
  const auto found =
      std::find_if(headers.begin(), headers.end(), [&](const auto& h) { return h.first == name; });
  return found == headers.end() ? nullptr : &found->second;
}

bool is_redirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// The request after a redirect (RFC 9110, 15.4, as browsers do it): 303 becomes GET, and so do 301 and 302 for POST;
// 307 and 308 repeat the request.
Hop redirected(Hop hop, int status, Url target) {
  const bool becomes_get =
      (status == 303 && hop.method != "HEAD") || ((status == 301 || status == 302) && hop.method == "POST");
  const bool elsewhere = !hop.url.same_origin(target);
  std::erase_if(hop.headers, [&](const auto& header) {
    const std::string_view name = header.first;
    if (becomes_get && name.size() >= 8 && policy::same_header(name.substr(0, 8), "content-")) return true;
    return elsewhere && (policy::same_header(name, "authorization") || policy::same_header(name, "cookie"));
  });
  if (becomes_get) {
    hop.method = "GET";
    hop.body.clear();
  }
  hop.url = std::move(target);
  return hop;
}

// -- secrets -------------------------------------------------------------------

// With these headers a program could have a server send an echoed secret in pieces too short to be recognised.
bool asks_for_a_part(std::string_view name) {
  static constexpr std::string_view kNames[] = {"range", "if-range", "request-range"};
  return std::ranges::find(kNames, policy::folded_header(name)) != std::end(kNames);
}

}  // namespace

static Status check_secret(const std::string& name, const std::optional<std::string>& value) {
  const std::string secret = "the secret " + name;
  if (!value)
    return fail(ErrorCode::kNotFound, secret + ", which a grant sends, is not set",
                "Set the variable " + name + " in Membrane's environment; for a service, PUT /v1/secrets/" +
                    name + ".");
  if (value->size() < HttpEgress::kMinSecretBytes)
    return fail(ErrorCode::kInvalidArgument,
                secret + " has " + count_of(value->size(), "byte") +
                    ": too few to recognise it in answers, and to hide it there",
                "A secret has at least " + count_of(HttpEgress::kMinSecretBytes, "byte") + ".");
  if (!policy::is_header_value(*value))
    return fail(ErrorCode::kInvalidArgument, secret + " contains a control character",
                "The value of a header has none, and no line break at its end.");
  return {};
}

Status check_granted_secrets(const std::vector<policy::HttpGrant>& grants, const Secrets& secrets) {
  for (const policy::HttpGrant& grant : grants)
    for (const auto& [name, value] : grant.headers)
      if (!value.secret.empty()) MEMBRANE_TRY(check_secret(value.secret, secrets(value.secret)));
  return {};
}

Secrets environment_secrets() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

// State for sending one request at a time: connections, and the mask that hides secrets in responses. Connections
// are not shared between grants, because an address may be granted to one and not to another.
struct HttpEgress::Lane {
  std::map<const void*, std::unique_ptr<HttpClient>> clients;  // by grant, created on first use
  std::set<std::string> masked;                                // the secrets that `mask` hides
  std::unique_ptr<SecretMask> mask;                            // kept, since it is large
  std::atomic<uint64_t>* room = nullptr;                       // for bodies, shared by the requests of a call
  MayHold may_hold;                                            // for a request that is sent alone
};

class HttpEgress::Impl {
 public:
  Impl(Budget& budget, const Deadline& deadline, Resolver& resolver, Secrets secrets, EgressWatch* watch)
      : budget_(budget), run_(deadline), resolver_(resolver), watch_(watch), secrets_(std::move(secrets)) {}

  Status add(const policy::HttpGrant& words);
  // Secrets are hidden in errors, too. ENOMEM when the host has no memory.
  HostResult<HttpResponse> send(const HttpRequest& request, Lane& lane);
  std::vector<HostResult<HttpResponse>> send_many(std::span<const HttpRequest> requests, uint64_t most_bytes);

 private:
  HostResult<HttpResponse> follow(const HttpRequest& request, Lane& lane);
  HostResult<const Grant*> decide(const Hop& hop, bool is_redirected);
  // `reached`: whether a server was reached, even if the request failed.
  using TakePiece = std::function<bool(const RawResponse& head, std::string_view piece)>;
  HostResult<RawResponse> perform(const Hop& hop, const Grant& grant, const Deadline& deadline, Lane& lane,
                                  const TakePiece& take_piece, bool& reached);
  bool hear(const HttpRequest& request, const Hop& hop, Lane& lane);
  static HostResult<HttpClient*> client_of(const Grant& grant, Lane& lane);
  HostResult<std::vector<Address>> look_up(const Url& url, const Grant& grant, const Deadline& deadline);
  HostResult<void> add_headers(const policy::HttpGrant& grant, Headers& headers);
  uint64_t tell_watch(const Hop& hop, const policy::HttpGrant& grant, Headers& headers);
  HostResult<std::string> secret(const std::string& name);
  std::optional<std::string> value_of_secret(const std::string& name);
  HostResult<HttpResponse> finish(const Hop& hop, RawResponse raw, Lane& lane);
  void hide(HostError& error, Lane& lane);
  [[nodiscard]] bool gets_secret(const Url& url) const;
  static HostResult<void> check_whole(const Hop& hop, bool may_echo);
  SecretMask* mask(Lane& lane);

  // None of these change while requests are sent, except for the lanes, each of which has one thread.
  std::vector<policy::HttpGrant> words_;  // the grants refer to these
  std::vector<Grant> grants_;
  Budget& budget_;
  const Deadline& run_;
  Resolver& resolver_;
  EgressWatch* const watch_;
  std::mutex secrets_mutex_;
  Secrets secrets_;  // under the mutex
  std::array<Lane, kMaxHttpAtOnce> lanes_;

  friend class HttpEgress;
};

Status HttpEgress::Impl::add(const policy::HttpGrant& words) {
  MEMBRANE_ASSIGN(UrlGrant url, UrlGrant::parse(words.url));
  Grant grant{{words, std::move(url)}, {}};
  for (const std::string& text : words.addresses) {
    MEMBRANE_ASSIGN(const Cidr cidr, policy::parse_cidr(text));
    grant.addresses.push_back(cidr);
  }
  grants_.push_back(std::move(grant));
  return {};
}

// The most exact grant for the request, before anything leaves the machine.
HostResult<const Grant*> HttpEgress::Impl::decide(const Hop& hop, bool is_redirected) {
  return find_rule(grants_, hop.method, hop.url, is_redirected);
}

std::optional<std::string> HttpEgress::Impl::value_of_secret(const std::string& name) {
  const std::lock_guard lock(secrets_mutex_);
  return secrets_(name);
}

HostResult<std::string> HttpEgress::Impl::secret(const std::string& name) {
  auto value = value_of_secret(name);
  if (const Status fit = check_secret(name, value); !fit) {
    std::string why = fit.error().message + ". " + fit.error().hint;
    why.front() = 'T';
    return refuse(Errno::kHost, std::move(why));
  }
  return *std::move(value);
}

// Replaces the program's headers of these names: a client library sends a key even where it has none.
HostResult<void> HttpEgress::Impl::add_headers(const policy::HttpGrant& grant, Headers& headers) {
  std::erase_if(headers, [&](const auto& header) { return contains_header(grant.headers, header.first); });
  for (const auto& [name, value] : grant.headers) {
    std::string text = value.text;
    if (!value.secret.empty()) {
      auto hidden = secret(value.secret);
      if (!hidden) return std::unexpected(hidden.error());
      text += *hidden;
    }
    headers.emplace_back(name, std::move(text));
  }
  return {};
}

// Returns its number for is_over(). Adds the trace header, replacing the program's header of that name.
uint64_t HttpEgress::Impl::tell_watch(const Hop& hop, const policy::HttpGrant& grant, Headers& headers) {
  constexpr std::string_view kName = "traceparent", kAfterScheme = "://";
  std::string_view host = grant.url;
  if (const size_t at = host.find(kAfterScheme); at != std::string_view::npos)
    host.remove_prefix(at + kAfterScheme.size());
  host = host.substr(0, host.find('/'));
  std::string traceparent;
  const uint64_t number = watch_->leaves(hop.method, host, traceparent);
  if (!grant.traceparent || traceparent.empty()) return number;
  std::erase_if(headers, [&](const auto& header) { return lower_case(header.first) == kName; });
  headers.emplace_back(kName, std::move(traceparent));
  return number;
}

HostResult<std::vector<Address>> HttpEgress::Impl::look_up(const Url& url, const Grant& grant,
                                                           const Deadline& deadline) {
  if (url.address) return std::vector{*url.address};  // granted by being in the grant's URL
  auto found = resolve_granted(url.host, grant.addresses, grant.url.text(), resolver_, deadline);
  if (!found && found.error().code == Errno::kTimedOut && run_.passed())
    return refuse(Errno::kBudget, std::string(policy::kTimeIsUsedUp));
  return found;
}

HostResult<HttpClient*> HttpEgress::Impl::client_of(const Grant& grant, Lane& lane) {
  std::unique_ptr<HttpClient>& client = lane.clients[&grant];
  if (!client) {
    auto made = HttpClient::create();
    if (!made) return std::unexpected(made.error());
    client = std::move(*made);
  }
  return client.get();
}

HostResult<RawResponse> HttpEgress::Impl::perform(const Hop& hop, const Grant& grant,
                                                  const Deadline& deadline, Lane& lane,
                                                  const TakePiece& take_piece, bool& reached) {
  if (auto good = check_headers(hop.headers); !good) return std::unexpected(good.error());
  if (auto good = check_size(hop, grant.words); !good) return std::unexpected(good.error());
  const bool may_echo = gets_secret(hop.url);
  if (auto good = check_whole(hop, may_echo); !good) return std::unexpected(good.error());
  Headers headers = hop.headers;
  if (auto added = add_headers(grant.words, headers); !added) return std::unexpected(added.error());
  if (run_.passed()) return refuse(Errno::kBudget, std::string(policy::kTimeIsUsedUp));
  auto addresses = look_up(hop.url, grant, deadline);
  if (!addresses) return std::unexpected(addresses.error());
  auto client = client_of(grant, lane);
  if (!client) return std::unexpected(client.error());
  if (!budget_.take(Resource::kBytesOut, size_of(hop)))
    return refuse(Errno::kBudget, std::string(policy::used_up(policy::Resource::kBytesOut)));
  const uint64_t number = watch_ != nullptr ? tell_watch(hop, grant.words, headers) : 0;
  auto answer = (*client)->send({.url = hop.url,
                                 .addresses = *addresses,
                                 .method = hop.method,
                                 .headers = headers,
                                 .body = hop.body,
                                 .max_response_bytes = grant.words.max_response_bytes,
                                 .room = lane.room,
                                 .take_piece = take_piece,
                                 .may_hold = lane.may_hold,
                                 .deadline = deadline,
                                 .run = run_,
                                 .budget = budget_});
  if (watch_ != nullptr) watch_->is_over(number, answer ? static_cast<int>(answer->status) : 0);
  reached = answer || answer.error().acted;
  if (answer && answer->status == 206 && may_echo)
    answer =
        refuse(Errno::kProtocol, "The server answers with a part of the resource, and it gets a secret.");
  if (!answer) answer.error().acted = true;
  return answer;
}

// Whether any of the grants sends a secret to the server, or to another with its name: it may show it elsewhere.
bool HttpEgress::Impl::gets_secret(const Url& url) const {
  return std::ranges::any_of(
      grants_, [&](const Grant& grant) { return grant.has_secret() && grant.url.allows_host(url); });
}

HostResult<void> HttpEgress::Impl::check_whole(const Hop& hop, bool may_echo) {
  if (!may_echo) return {};
  const auto part = std::ranges::find_if(hop.headers, [](const auto& h) { return asks_for_a_part(h.first); });
  if (part == hop.headers.end()) return {};
  return refuse(Errno::kInvalid,
                "The header " + part->first +
                    " is refused where a grant adds a secret, which could be read in pieces by it.");
}

// Null when there is nothing to hide.
SecretMask* HttpEgress::Impl::mask(Lane& lane) {
  std::set<std::string> values;
  for (const Grant& grant : grants_) {
    for (const auto& header : grant.words.headers) {
      if (header.second.secret.empty()) continue;
      const auto value = value_of_secret(header.second.secret);
      if (value && value->size() >= kMinSecretBytes) values.insert(*value);
    }
  }
  if (values != lane.masked) {
    lane.mask = std::make_unique<SecretMask>(std::vector<std::string>(values.begin(), values.end()));
    lane.masked = std::move(values);
  }
  return lane.mask.get();
}

HostResult<HttpResponse> HttpEgress::Impl::finish(const Hop& hop, RawResponse raw, Lane& lane) {
  HttpResponse out;
  out.status = raw.status;
  out.headers = for_program(raw.headers);
  out.body = std::move(raw.body);
  out.final_url = hop.url.text();
  SecretMask* const hiding = mask(lane);
  if (hiding == nullptr) return out;
  const auto is_over = [this] { return run_.passed(); };
  bool is_hidden = hiding->apply(out.body, is_over) && hiding->apply(out.final_url, is_over);
  for (auto& [name, value] : out.headers)
    is_hidden = is_hidden && hiding->apply(name, is_over) && hiding->apply(value, is_over);
  if (is_hidden) return out;
  HostError over{Errno::kBudget, std::string(policy::kTimeIsUsedUp), ""};
  over.acted = true;
  return std::unexpected(std::move(over));
}

// An error may quote the server, for example a redirect's address.
void HttpEgress::Impl::hide(HostError& error, Lane& lane) {
  SecretMask* const hiding = mask(lane);
  if (hiding == nullptr) return;
  if (!hiding->apply(error.reason)) error.reason.clear();
  std::string grant = error.grant;
  if (!hiding->apply(grant) || grant != error.grant)
    error.grant.clear();  // a grant with asterisks is of no use
}

// Whether a redirect of this hop may be followed.
bool HttpEgress::Impl::hear(const HttpRequest& request, const Hop& hop, Lane& lane) {
  if (!request.hear) return true;
  HttpHop shown{hop.method, hop.url.text()};
  SecretMask* const hiding = mask(lane);
  if (hiding != nullptr && !hiding->apply(shown.url)) shown.url.clear();
  return request.hear(shown);
}

HostResult<HttpResponse> HttpEgress::Impl::follow(const HttpRequest& request, Lane& lane) {
  auto url = policy::parse_url(request.url);
  if (!url) return std::unexpected(to_host_error(url.error()));
  Hop hop{request.method, std::move(*url), request.headers, request.body};
  if (!policy::is_header_name(hop.method) || hop.method.size() > 16)
    return refuse(Errno::kInvalid, "The method is malformed.");
  if (!hop.body.empty() && (hop.method == "GET" || hop.method == "HEAD"))
    return refuse(Errno::kInvalid, "A " + hop.method + " request has no body.");
  if (hop.method == "CONNECT")
    return refuse(Errno::kAccess,
                  "No grant allows CONNECT as a request: it gives connections of Linux programs.");
  uint32_t redirects = 0, most_redirects = 0;
  std::optional<Deadline> deadline;
  const auto failed = [&](HostError error) {
    error.acted = error.acted || redirects > 0;  // the first request has left
    error.is_unsent = !error.acted;
    return std::unexpected(std::move(error));
  };
  for (;;) {
    auto grant = decide(hop, redirects > 0);
    if (!grant) return failed(grant.error());
    if (redirects == 0) most_redirects = (*grant)->words.max_redirects;
    // The first grant's time is for the whole call; the grant of a later hop may shorten it.
    deadline = (deadline ? *deadline : run_).within((*grant)->words.timeout_ms);
    bool reached = false, is_heard = false;
    TakePiece take_piece;
    if (request.take_piece && most_redirects == 0 && mask(lane) == nullptr) {
      take_piece = [&](const RawResponse& raw, std::string_view piece) {
        if (!std::exchange(is_heard, true)) hear(request, hop, lane);
        return request.take_piece({.status = raw.status,
                                   .headers = for_program(raw.headers),
                                   .body = {},
                                   .final_url = hop.url.text()},
                                  piece);
      };
    }
    auto raw = perform(hop, **grant, *deadline, lane, take_piece, reached);
    const bool may_follow = reached && !is_heard && hear(request, hop, lane);
    if (!raw) return failed(raw.error());
    const std::string* location = find(raw->headers, "location");
    if (!is_redirect(raw->status) || location == nullptr || most_redirects == 0 || !may_follow)
      return finish(hop, std::move(*raw), lane);
    if (redirects++ == most_redirects)
      return refuse(Errno::kQuota, "The server redirects more than " + count_of(most_redirects, "time") +
                                       " (max_redirects).");
    auto target = policy::parse_url(*location, hop.url);
    if (!target)
      return refuse(Errno::kProtocol,
                    "The server redirects to something that is not accepted: " + target.error().message);
    hop = redirected(std::move(hop), raw->status, std::move(*target));
  }
}

HostResult<HttpResponse> HttpEgress::Impl::send(const HttpRequest& request, Lane& lane) {
  try {
    auto answer = follow(request, lane);
    if (!answer) hide(answer.error(), lane);
    return answer;
  } catch (const std::bad_alloc&) {  // an exception would end the process, since this is a separate thread
    return refuse(Errno::kNoMemory, "the host has no memory for the call");
  }
}

std::vector<HostResult<HttpResponse>> HttpEgress::Impl::send_many(std::span<const HttpRequest> requests,
                                                                  uint64_t most_bytes) {
  std::atomic<uint64_t> room = most_bytes;
  for (Lane& lane : lanes_) lane.room = &room;
  std::vector<HostResult<HttpResponse>> answers(
      requests.size(), refuse(Errno::kHost, "No thread could be started for the request."));
  std::atomic<size_t> next = 0;  // the next request to send
  const auto send_some = [&](Lane& lane) {
    for (size_t i = next++; i < requests.size(); i = next++) answers[i] = send(requests[i], lane);
  };
  std::vector<std::jthread> threads;
  try {
    for (size_t i = 1; i < std::min(requests.size(), kMaxHttpAtOnce); ++i)
      threads.emplace_back(send_some, std::ref(lanes_[i]));
  } catch (const std::system_error&) {}  // the existing threads send all of them
  send_some(lanes_[0]);
  threads.clear();
  for (Lane& lane : lanes_) lane.room = nullptr;
  return answers;
}

HttpEgress::HttpEgress(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpEgress::~HttpEgress() = default;

Result<std::unique_ptr<HttpEgress>> HttpEgress::create(const std::vector<policy::HttpGrant>& grants,
                                                       Budget& budget, const Deadline& deadline,
                                                       Resolver& resolver, Secrets secrets,
                                                       EgressWatch* watch) {
  auto impl = std::make_unique<Impl>(budget, deadline, resolver, std::move(secrets), watch);
  impl->words_ = grants;
  for (const policy::HttpGrant& grant : impl->words_) MEMBRANE_TRY(impl->add(grant));
  return std::unique_ptr<HttpEgress>(new HttpEgress(std::move(impl)));
}

HostResult<HttpResponse> HttpEgress::send(const HttpRequest& request, const MayHold& may_hold) {
  Lane& lane = impl_->lanes_[0];
  lane.may_hold = may_hold;
  auto answer = impl_->send(request, lane);
  lane.may_hold = nullptr;
  return answer;
}

HostResult<HttpResponse> HttpEgress::send(const HttpRequest& request, uint64_t most_bytes) {
  return std::move(impl_->send_many({&request, 1}, most_bytes).front());
}

std::vector<HostResult<HttpResponse>> HttpEgress::send_many(std::span<const HttpRequest> requests,
                                                            uint64_t most_bytes) {
  return impl_->send_many(requests, most_bytes);
}

}  // namespace membrane::host
