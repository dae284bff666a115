#include "cli/remote.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <random>

#include "agent/model/retry.h"
#include "agent/terminal/line_reader.h"
#include "base/environment.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/remote_hints.h"

namespace membrane::cli {
namespace {

constexpr const char* kUsualUrl = "http://127.0.0.1:7400";
constexpr uint32_t kMostRetries = 3;
constexpr uint64_t kMostWaitMs = 30'000;  // a longer requested wait is a failure
constexpr size_t kMostBodyBytes = 1u << 30;
// A report has all that was printed: as much as a sandbox may print, escaped.
constexpr JsonLimits kAnswerLimits{.bytes = 512u << 20, .memory_bytes = 2ull << 30};
constexpr agent::SseLimits kEventLimits{.line_bytes = 512u << 20, .data_bytes = 512u << 20};
constexpr long kConnectMs = 10'000, kSilentS = 60;  // streams send a keep-alive every 15 s
constexpr uint64_t kMostTokenBytes = 4096;

using Url = std::unique_ptr<CURLU, decltype(CurlApi::url_cleanup)>;

std::string part_of(const CurlApi& api, const Url& url, CURLUPart part) {
  char* text = nullptr;
  if (api.url_get(url.get(), part, &text, 0) != CURLUE_OK) return {};
  std::string out(text);
  api.free_string(text);
  return out;
}

bool is_loopback(std::string_view host) {
  return host == "localhost" || host == "[::1]" || host.starts_with("127.");
}

std::string escaped(const CurlApi& api, const std::string& text) {
  char* const out = api.easy_escape(nullptr, text.data(), static_cast<int>(text.size()));
  std::string copy = out == nullptr ? "" : out;
  api.free_string(out);
  return copy;
}

std::string token_of_this_machine() {
  const std::string path =
      agent::History::default_path("service/owner.token");  // of the locally started service
  std::error_code error;
  if (path.empty() || !std::filesystem::is_regular_file(path, error)) return {};
  const auto text = read_input(path, kMostTokenBytes);
  return text ? std::string(trimmed(*text)) : std::string();
}

std::string new_key() {
  std::random_device random;
  std::string key;
  for (int i = 0; i < 4; ++i) key += std::to_string(random());
  return key;
}

// For an answer 429 or 503: waiting alone does not help.
bool is_for_good(const std::string& body) {
  const auto json = read_json(body, "the answer");
  if (!json || !json->is_object()) return false;
  const auto error = json->find("error");
  if (error == json->end() || !error->is_object()) return false;
  const auto retryable = error->find("retryable");
  return retryable != error->end() && retryable->is_boolean() && !retryable->get<bool>();
}

ErrorCode code_of_status(long status) {
  if (status == 401 || status == 403) return ErrorCode::kDenied;
  if (status == 404) return ErrorCode::kNotFound;
  if (status == 429) return ErrorCode::kExhausted;
  return status >= 400 && status < 500 ? ErrorCode::kInvalidArgument : ErrorCode::kUnavailable;
}

}  // namespace

void RemoteOptions::add_to(CLI::App& command) {
  command.add_option("--url", url, "The service (else MEMBRANE_URL, else " + std::string(kUsualUrl) + ")")
      ->type_name("URL")
      ->group("Service");
  command
      .add_option(
          "--token", token,
          "The token to use (else MEMBRANE_TOKEN, else the one that `membrane serve` left on this machine)")
      ->type_name("TOKEN")
      ->group("Service");
}

RemoteRequest json_request(std::string method, std::vector<std::string> path,
                           const nlohmann::ordered_json& body) {
  return {.method = std::move(method),
          .path = std::move(path),
          .query = {},
          .body = json_text(body),
          .content_type = "application/json"};
}

// -- One transfer ---------------------------------------------------------------------------------------------------

struct Remote::Transfer {
  const Remote& remote;
  CURL* easy;
  agent::SseParser* events;  // for a stream; otherwise null
  std::string body;          // for a stream only if it is an error
  std::string retry_after, exec_id;
  std::string body_error;  // what was wrong with the body
  long status = 0;
  bool is_nobody_there = false;

  static size_t on_header(char* data, size_t, size_t size, void* user) {
    auto& self = *static_cast<Transfer*>(user);
    const std::string_view line(data, size);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) return size;
    const std::string name = lower_case(line.substr(0, colon));
    if (name == "retry-after") self.retry_after = trimmed(line.substr(colon + 1));
    if (name == "x-exec-id") self.exec_id = trimmed(line.substr(colon + 1));
    return size;
  }

  static size_t on_body(char* data, size_t, size_t size, void* user) {
    auto& self = *static_cast<Transfer*>(user);
    self.remote.api_->easy_getinfo(self.easy, CURLINFO_RESPONSE_CODE, &self.status);
    if (self.events != nullptr && self.status == 200) {
      if (const Status fed = self.events->feed({data, size}); fed) return size;
      self.body_error = "an event of the answer is too long";
      return CURL_WRITEFUNC_ERROR;
    }
    if (self.body.size() + size > kMostBodyBytes) {
      self.body_error = "the answer is too long";
      return CURL_WRITEFUNC_ERROR;
    }
    self.body.append(data, size);
    return size;
  }

  static int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
    const auto* const cancel = static_cast<Transfer*>(user)->remote.cancel_;
    return cancel != nullptr && cancel->load(std::memory_order_relaxed) ? 1 : 0;
  }
};

Result<Remote> Remote::open(const RemoteOptions& options) {
  MEMBRANE_ASSIGN(const CurlApi* const api, curl());
  Remote remote(api);
  remote.url_ = options.url.empty() ? environment_variable("MEMBRANE_URL") : options.url;
  if (remote.url_.empty()) remote.url_ = kUsualUrl;
  while (remote.url_.ends_with('/')) remote.url_.pop_back();
  const Url url(api->url_new(), api->url_cleanup);
  const bool is_url = api->url_set(url.get(), CURLUPART_URL, remote.url_.c_str(), 0) == CURLUE_OK;
  const std::string scheme = is_url ? part_of(*api, url, CURLUPART_SCHEME) : "";
  if (scheme != "http" && scheme != "https")
    return fail(ErrorCode::kInvalidArgument, remote.url_ + " is not the URL of a service",
                "Write it as " + std::string(kUsualUrl) + ".");
  remote.is_local_ = is_loopback(part_of(*api, url, CURLUPART_HOST));
  remote.token_ = options.token.empty() ? environment_variable("MEMBRANE_TOKEN") : options.token;
  // The token of this machine is sent to no other.
  if (remote.token_.empty() && remote.is_local_) remote.token_ = token_of_this_machine();
  if (std::ranges::any_of(remote.token_, [](unsigned char c) { return c <= ' ' || c == 0x7f; }))
    return fail(ErrorCode::kInvalidArgument, "the token holds white space or control characters",
                "Use the token that `membrane serve` printed.");
  return remote;
}

Status Remote::transfer(Transfer& transfer, const RemoteRequest& request, const std::string& key) {
  std::string target = url_;
  for (const std::string& part : request.path) target += "/" + escaped(*api_, part);
  for (size_t i = 0; i < request.query.size(); ++i)
    target += (i == 0 ? "?" : "&") + escaped(*api_, request.query[i].first) + "=" +
              escaped(*api_, request.query[i].second);
  curl_slist* headers = nullptr;
  const auto add = [&](const std::string& line) { headers = api_->slist_append(headers, line.c_str()); };
  add("Expect:");
  add(std::string("Accept: ") + (transfer.events != nullptr ? "text/event-stream" : "*/*"));
  if (!token_.empty()) add("Authorization: Bearer " + token_);
  if (request.method == "POST") add("Idempotency-Key: " + key);
  if (!request.content_type.empty()) add("Content-Type: " + request.content_type);
  const auto set = [&](CURLoption option, auto value) { api_->easy_setopt(transfer.easy, option, value); };
  set(CURLOPT_URL, target.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  set(CURLOPT_HTTPHEADER, headers);
  set(CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);
  set(CURLOPT_LOW_SPEED_TIME, kSilentS);
  set(CURLOPT_USERAGENT, "membrane");
  set(CURLOPT_HEADERFUNCTION, &Transfer::on_header);
  set(CURLOPT_HEADERDATA, &transfer);
  set(CURLOPT_WRITEFUNCTION, &Transfer::on_body);
  set(CURLOPT_WRITEDATA, &transfer);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &Transfer::on_progress);
  set(CURLOPT_XFERINFODATA, &transfer);
  if (is_local_) set(CURLOPT_PROXY, "");
  // The same path as for the clients in Python and for Node's --use-openssl-ca; libcurl itself knows only its
  // own.
  const std::string trusted = environment_variable("SSL_CERT_FILE");
  if (!trusted.empty()) set(CURLOPT_CAINFO, trusted.c_str());
  if (request.method != "GET" && request.method != "DELETE") {
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_POSTFIELDS, request.body.data());
  }
  const CURLcode code = api_->easy_perform(transfer.easy);
  api_->slist_free_all(headers);
  api_->easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &transfer.status);
  if (code == CURLE_OK) return {};
  if (code == CURLE_ABORTED_BY_CALLBACK) return fail(ErrorCode::kCancelled, "it was interrupted");
  if (!transfer.body_error.empty()) return fail(ErrorCode::kExhausted, transfer.body_error);
  const std::string why = api_->easy_strerror(code);
  transfer.is_nobody_there = code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST;
  if (transfer.is_nobody_there)
    return fail(ErrorCode::kUnavailable, "no service answers at " + url_ + ": " + why,
                is_local_ ? "Start one: membrane serve. --url or MEMBRANE_URL names one elsewhere."
                          : "Is the URL right, and does the service run?");
  if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
    return fail(ErrorCode::kDenied, "the certificate of " + url_ + " is not trusted here: " + why,
                "SSL_CERT_FILE can name a PEM file of trusted certificates.");
  return fail(ErrorCode::kUnavailable, "the connection to the service at " + url_ + " failed: " + why);
}

Error Remote::error_of(const Transfer& transfer, const RemoteRequest& request) const {
  const auto json = read_json(transfer.body, "the answer");
  const auto text = [&](const char* name) -> std::string {
    if (!json || !json->is_object() || !json->contains("error") || !(*json)["error"].is_object()) return "";
    const auto found = (*json)["error"].find(name);
    return found != (*json)["error"].end() && found->is_string() ? found->get<std::string>() : "";
  };
  const std::string sandbox =
      request.path.size() > 2 && request.path[1] == "sandboxes" ? request.path[2] : "";
  Error error{code_of_status(transfer.status), in_words_of_command(text("message"), sandbox),
              in_words_of_command(text("hint"), sandbox)};
  if (error.message.empty()) {
    error.message =
        "what answers at " + url_ + " is not a Membrane service: status " + std::to_string(transfer.status);
    return error;
  }
  if (transfer.status == 401) error.hint = "Give --token or MEMBRANE_TOKEN: what `membrane serve` printed.";
  if (transfer.status >= 500) error.message += " (request " + text("request_id") + ")";
  return error;
}

// -- Requests -------------------------------------------------------------------------------------------------------

Result<std::string> Remote::perform(const RemoteRequest& request, agent::SseParser* events) {
  const std::string key = new_key();
  agent::Backoff backoff(std::random_device{}());
  agent::RetryClock& clock = agent::RetryClock::real();
  for (uint32_t tries = 0;; ++tries) {
    const std::unique_ptr<CURL, decltype(CurlApi::easy_cleanup)> easy(api_->easy_init(), api_->easy_cleanup);
    if (!easy) return fail(ErrorCode::kInternal, "libcurl has no memory left");
    Transfer now{*this, easy.get(), events, {}, {}, {}, {}, 0, false};
    const Status sent = transfer(now, request, key);
    if (!now.exec_id.empty()) exec_id_ = now.exec_id;
    if (sent && now.status >= 200 && now.status < 300) return std::move(now.body);
    const bool is_cut =
        !sent && sent.error().code == ErrorCode::kUnavailable && now.status == 0 && !now.is_nobody_there;
    const bool is_refused = sent && (now.status == 429 || now.status == 503) && !is_for_good(now.body);
    const Error error = sent ? error_of(now, request) : sent.error();
    uint64_t wait_ms = backoff.wait_ms(tries);
    if (is_refused) wait_ms = agent::retry_after_ms(*api_, now.retry_after, clock.unix_s()).value_or(wait_ms);
    if (!(is_cut || is_refused) || tries == kMostRetries || wait_ms > kMostWaitMs)
      return std::unexpected(error);
    if (!clock.wait_ms(wait_ms, cancel_)) return fail(ErrorCode::kCancelled, "it was interrupted");
  }
}

Result<std::string> Remote::send(const RemoteRequest& request) { return perform(request, nullptr); }

Result<nlohmann::ordered_json> Remote::send_json(const RemoteRequest& request) {
  MEMBRANE_ASSIGN(const std::string body, send(request));
  return read_ordered_json(body, "the service's answer", kAnswerLimits);
}

Status Remote::stream(const RemoteRequest& request, const OnEvent& on_event) {
  exec_id_.clear();
  agent::SseParser parser(on_event, kEventLimits);
  MEMBRANE_TRY(perform(request, &parser));
  return {};
}

}  // namespace membrane::cli
