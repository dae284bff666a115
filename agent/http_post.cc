#include "agent/http_post.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>

namespace membrane::agent {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kTick{25};  // how soon a cancellation is noticed
constexpr milliseconds kGrace{
    250};  // for the end of the body once the sink has enough, so that the connection can be kept
constexpr size_t kMaxHeaderBytes = 256;

// One transfer under way; libcurl's callbacks get a pointer to it.
struct Transfer {
  Transfer(const CurlApi* a, CURL* e, const HttpPost& p, const BodySink& s)
      : api(a), easy(e), post(p), sink(s) {}

  const CurlApi* api;
  CURL* easy;
  const HttpPost& post;
  const BodySink& sink;
  HttpHead head;
  std::optional<Error> sink_error;
  bool body_began = false;
  Clock::time_point start = Clock::now();
  Clock::time_point last_piece = start;
  std::optional<Clock::time_point> enough_at;
};

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

std::string trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return std::string(text.substr(0, kMaxHeaderBytes));
}

size_t on_header(char* data, size_t, size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  const std::string_view line(data, size);
  if (line.starts_with("HTTP/")) transfer.head = {};  // after a 100 Continue
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos) return size;
  if (same_name(line.substr(0, colon), "retry-after"))
    transfer.head.retry_after = trimmed(line.substr(colon + 1));
  if (same_name(line.substr(0, colon), "content-type")) {
    transfer.head.content_type = trimmed(line.substr(colon + 1));
    for (char& c : transfer.head.content_type)
      c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return size;
}

size_t on_body(char* data, size_t, size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  transfer.body_began = true;
  transfer.last_piece = Clock::now();
  if (transfer.enough_at) return size;  // what follows is not wanted
  long status = 0;
  transfer.api->easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &status);
  transfer.head.status = static_cast<int>(status);
  const auto more = transfer.sink(transfer.head, {data, size});
  if (!more) {
    transfer.sink_error = more.error();
    return CURL_WRITEFUNC_ERROR;
  }
  if (*more == More::kEnough) transfer.enough_at = transfer.last_piece;
  return size;
}

std::string seconds(uint64_t ms) {
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + " s" : std::to_string(ms) + " ms";
}

std::unexpected<Error> timed_out(std::string what, uint64_t ms) {
  return fail(ErrorCode::kTimedOut, "The model server " + std::move(what) + " within " + seconds(ms) + ".",
              "Ask for less at once, or raise the time-out.");
}

// Checks the owner's requests and the clocks; libcurl itself only enforces the connect time.
Status watch(const Transfer& transfer) {
  const HttpPost& post = transfer.post;
  const auto now = Clock::now();
  if (post.cancel != nullptr && post.cancel->load(std::memory_order_relaxed))
    return fail(ErrorCode::kCancelled, "The request to the model was cancelled.");
  if (now >= post.deadline)
    return fail(ErrorCode::kTimedOut, "The task's wall-clock budget ran out while the model was answering.",
                "Raise --wall.");
  if (now - transfer.start >= milliseconds(post.timeouts.total_ms))
    return timed_out("did not finish its answer", post.timeouts.total_ms);
  if (!transfer.body_began && now - transfer.start >= milliseconds(post.timeouts.first_byte_ms))
    return timed_out("sent no byte of an answer", post.timeouts.first_byte_ms);
  if (transfer.body_began && now - transfer.last_piece >= milliseconds(post.timeouts.idle_ms))
    return timed_out("stopped in the middle of its answer and sent nothing more", post.timeouts.idle_ms);
  return {};
}

std::unexpected<Error> transfer_error(const Transfer& transfer, CURLcode code) {
  const std::string why = transfer.api->easy_strerror(code);
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return timed_out("accepted no connection", transfer.post.timeouts.connect_ms);
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
      return fail(ErrorCode::kUnavailable, "The model server cannot be reached: " + why + ".",
                  "Is it running, and does MEMBRANE_BASE_URL name it?");
    case CURLE_UNSUPPORTED_PROTOCOL:  // the scheme was checked before: this concerns the answer
      return fail(ErrorCode::kUnavailable, "What answers at the model server's address does not speak HTTP.",
                  "Does MEMBRANE_BASE_URL name the right port, and https:// where the server wants TLS?");
    case CURLE_URL_MALFORMAT:
      return fail(ErrorCode::kInvalidArgument, "The model server's URL cannot be used: " + why + ".",
                  "Set MEMBRANE_BASE_URL to a URL such as https://api.example.org/v1.");
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
      return fail(ErrorCode::kUnavailable,
                  "No secure connection to the model server could be made: " + why + ".",
                  "A server without TLS wants http:// in MEMBRANE_BASE_URL.");
    default:
      return fail(ErrorCode::kUnavailable,
                  transfer.body_began
                      ? "The connection to the model server was cut in the middle of its answer: " + why + "."
                      : "The connection to the model server failed: " + why + ".");
  }
}

void configure(Transfer& transfer, curl_slist* headers) {
  const CurlApi& api = *transfer.api;
  const HttpPost& post = transfer.post;
  const auto set = [&](CURLoption option, auto value) { api.easy_setopt(transfer.easy, option, value); };
  set(CURLOPT_URL, post.url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_POST, 1L);
  set(CURLOPT_POSTFIELDS, post.body.data());
  set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(post.body.size()));
  set(CURLOPT_HTTPHEADER, headers);
  set(CURLOPT_ACCEPT_ENCODING, "");  // everything that libcurl can decode; the sink bounds the output
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(post.timeouts.connect_ms));
  set(CURLOPT_USERAGENT, "membrane");
  set(CURLOPT_HEADERFUNCTION, on_header);
  set(CURLOPT_HEADERDATA, &transfer);
  set(CURLOPT_WRITEFUNCTION, on_body);
  set(CURLOPT_WRITEDATA, &transfer);
}

// Runs the transfer until libcurl reports its end, or the watch ends it.
Result<CURLcode> drive(Transfer& transfer, CURLM* multi) {
  const CurlApi& api = *transfer.api;
  for (;;) {
    int running = 0;
    if (api.multi_perform(multi, &running) != CURLM_OK) return CURLE_FAILED_INIT;
    int left = 0;
    while (const CURLMsg* message = api.multi_info_read(multi, &left))
      if (message->msg == CURLMSG_DONE) return message->data.result;
    if (!transfer.enough_at) {
      MEMBRANE_TRY(watch(transfer));
    } else if (Clock::now() - *transfer.enough_at >= kGrace) {
      return CURLE_OK;
    }
    api.multi_poll(multi, nullptr, 0, static_cast<int>(kTick.count()), nullptr);
  }
}

struct UrlParts {
  const CurlApi& api;
  std::unique_ptr<CURLU, decltype(CurlApi::url_cleanup)> url;

  explicit UrlParts(const CurlApi& a) : api(a), url(a.url_new(), a.url_cleanup) {}
  std::string get(CURLUPart part) const {
    char* text = nullptr;
    if (api.url_get(url.get(), part, &text, 0) != CURLUE_OK) return {};
    std::string out(text);
    api.free_string(text);
    return out;
  }
};

bool is_loopback(const CurlApi& api, const std::string& text) {
  UrlParts parts(api);
  if (api.url_set(parts.url.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) return false;
  const std::string host = parts.get(CURLUPART_HOST);
  return host == "localhost" || host == "[::1]" || host.starts_with("127.");
}

}  // namespace

HttpPoster::~HttpPoster() {
  for (CURLM* multi : idle_) api_->multi_cleanup(multi);
}

CURLM* HttpPoster::borrow() {
  const std::scoped_lock lock(mutex_);
  if (idle_.empty()) return api_->multi_init();
  CURLM* multi = idle_.back();
  idle_.pop_back();
  return multi;
}

void HttpPoster::give_back(CURLM* multi) {
  const std::scoped_lock lock(mutex_);
  idle_.push_back(multi);
}

Result<HttpHead> HttpPoster::post(const HttpPost& post, const BodySink& sink) {
  CURL* easy = api_->easy_init();
  CURLM* multi = borrow();
  if (easy == nullptr || multi == nullptr) return fail(ErrorCode::kInternal, "libcurl has no memory left.");
  Transfer transfer(api_, easy, post, sink);
  curl_slist* headers = nullptr;
  for (const std::string& header : post.headers) headers = api_->slist_append(headers, header.c_str());
  configure(transfer, headers);
  if (is_loopback(*api_, post.url)) api_->easy_setopt(easy, CURLOPT_PROXY, "");
  api_->multi_add_handle(multi, easy);
  const auto code = drive(transfer, multi);
  long status = 0;
  api_->easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  transfer.head.status = static_cast<int>(status);
  api_->multi_remove_handle(multi, easy);
  api_->easy_cleanup(easy);
  api_->slist_free_all(headers);
  give_back(multi);
  if (transfer.sink_error) return std::unexpected(*transfer.sink_error);
  if (!code) return std::unexpected(code.error());
  if (*code != CURLE_OK && !transfer.enough_at) return transfer_error(transfer, *code);
  return transfer.head;
}

Result<std::string> endpoint_of(const CurlApi& api, const std::string& base, std::string_view path) {
  constexpr const char* kHint =
      "Set MEMBRANE_BASE_URL to a URL such as https://api.example.org/v1 or http://127.0.0.1:8080/v1.";
  UrlParts parts(api);
  if (api.url_set(parts.url.get(), CURLUPART_URL, base.c_str(), 0) != CURLUE_OK)
    return fail(ErrorCode::kInvalidArgument, "The model server's base URL is not a URL.", kHint);
  const std::string scheme = parts.get(CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https")
    return fail(ErrorCode::kInvalidArgument, "The model server's base URL has the scheme " + scheme + ".",
                kHint);
  if (!parts.get(CURLUPART_USER).empty() || !parts.get(CURLUPART_PASSWORD).empty() ||
      !parts.get(CURLUPART_FRAGMENT).empty())
    return fail(ErrorCode::kInvalidArgument, "The model server's base URL holds user-info or a fragment.",
                "Put the key into MEMBRANE_API_KEY.");
  std::string own = parts.get(CURLUPART_PATH);
  while (own.ends_with('/')) own.pop_back();
  for (const std::string_view endpoint : {"/chat/completions", "/embeddings", "/completions"})
    if (own.ends_with(endpoint)) own.resize(own.size() - endpoint.size());
  if (own.empty()) own = "/v1";
  own.append("/").append(path);
  if (api.url_set(parts.url.get(), CURLUPART_PATH, own.c_str(), 0) != CURLUE_OK)
    return fail(ErrorCode::kInvalidArgument, "The model server's base URL has a path that cannot be used.",
                kHint);
  return parts.get(CURLUPART_URL);
}

}  // namespace membrane::agent
