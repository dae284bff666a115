#include "service/traces.h"

#include <sys/random.h>

#include <chrono>
#include <map>
#include <span>

#include "base/curl.h"
#include "base/hex.h"
#include "base/json.h"
#include "service/times.h"

namespace membrane::service {
namespace {

constexpr std::chrono::seconds kSendEvery(1);
constexpr long kMostMs = 5'000;
constexpr std::string_view kHexDigits = "0123456789abcdef";

std::string random_hex(size_t bytes) {
  uint8_t random[16] = {};
  do {  // an id of zeros is invalid
    size_t filled = 0;
    while (filled < bytes)
      if (const ssize_t got = getrandom(random + filled, bytes - filled, 0); got > 0)
        filled += static_cast<size_t>(got);
  } while (random[0] == 0);
  return hex_of(std::span(random, bytes));
}

bool is_id(std::string_view text) {
  return text.find_first_not_of(kHexDigits) == std::string_view::npos &&
         text.find_first_not_of('0') != std::string_view::npos;
}

size_t drop(char*, size_t size, size_t count, void*) { return size * count; }

}  // namespace

std::optional<TraceContext> read_traceparent(std::string_view text) {
  // 00-0123456789abcdef0123456789abcdef-0123456789abcdef-01; later versions may have more after it.
  constexpr size_t kLength = 55;
  if (text.size() < kLength || text[2] != '-' || text[35] != '-' || text[52] != '-') return std::nullopt;
  const std::string_view version = text.substr(0, 2), flags = text.substr(53, 2);
  const auto is_hex = [](std::string_view part) {
    return part.find_first_not_of(kHexDigits) == std::string_view::npos;
  };
  if (!is_hex(version) || version == "ff" || !is_hex(flags)) return std::nullopt;
  if (version == "00" ? text.size() != kLength : text.size() > kLength && text[kLength] != '-')
    return std::nullopt;
  TraceContext context{std::string(text.substr(3, 32)), std::string(text.substr(36, 16)), true};
  if (!is_id(context.trace_id) || !is_id(context.span_id)) return std::nullopt;
  context.is_sampled = kHexDigits.find(flags[1]) % 2 == 1;
  return context;
}

std::string traceparent(const TraceContext& context) {
  return "00-" + context.trace_id + "-" + context.span_id + (context.is_sampled ? "-01" : "-00");
}

Span begin_span(std::string_view given) {
  Span span;
  if (const auto parent = read_traceparent(given)) {
    span.context = *parent;
    span.parent_id = parent->span_id;
  } else {
    span.context.trace_id = random_hex(16);
  }
  span.context.span_id = random_hex(8);
  return span;
}

Span resume_span(std::string_view own, std::string_view given) {
  Span span;
  if (const auto context = read_traceparent(own)) span.context = *context;
  if (const auto parent = read_traceparent(given)) span.parent_id = parent->span_id;
  return span;
}

namespace {

class EgressTrace final : public host::EgressWatch {
 public:
  EgressTrace(Traces& traces, std::string parent) : traces_(traces), parent_(std::move(parent)) {}

  uint64_t leaves(std::string_view method, std::string_view host, std::string& traceparent) override {
    Sent sent{begin_span(parent_), std::chrono::steady_clock::now()};
    sent.span.name = method;
    sent.span.sent_method = method;
    sent.span.sent_host = host;
    sent.span.began_ms = system_now_ms();
    traceparent = service::traceparent(sent.span.context);
    const std::lock_guard lock(mutex_);
    if (under_way_.size() >= kMostUnderWay) return 0;
    under_way_.emplace(++last_, std::move(sent));
    return last_;
  }
  void is_over(uint64_t number, int status) override {
    std::unique_lock lock(mutex_);
    auto found = under_way_.extract(number);
    lock.unlock();
    if (found.empty()) return;
    Sent& sent = found.mapped();
    sent.span.status = status;
    sent.span.took_us = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - sent.began)
            .count());
    traces_.add(std::move(sent.span));
  }

 private:
  static constexpr size_t kMostUnderWay = 1'000;
  struct Sent {
    Span span;
    std::chrono::steady_clock::time_point began;
  };

  Traces& traces_;
  const std::string parent_;
  std::mutex mutex_;  // guards what follows
  uint64_t last_ = 0;
  std::map<uint64_t, Sent> under_way_;
};

}  // namespace

std::shared_ptr<host::EgressWatch> trace_egress(Traces& traces, const std::string& parent) {
  if (!read_traceparent(parent)) return nullptr;
  return std::make_shared<EgressTrace>(traces, parent);
}

Result<std::unique_ptr<Traces>> Traces::start(const std::string& endpoint, Log& log) {
  MEMBRANE_TRY(curl());
  if (!endpoint.starts_with("http://") && !endpoint.starts_with("https://"))
    return fail(ErrorCode::kInvalidArgument, "traces.endpoint is not an HTTP URL: " + endpoint,
                "Use one like http://127.0.0.1:4318/v1/traces.");
  std::unique_ptr<Traces> traces(new Traces(endpoint, log));
  traces->thread_ = std::thread([self = traces.get()] { self->work(); });
  return traces;
}

Traces::~Traces() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Traces::add(Span span) {
  if (!span.context.is_sampled) return;
  const std::lock_guard lock(mutex_);
  if (waiting_.size() >= kMostWaiting) waiting_.pop_front();
  waiting_.push_back(std::move(span));
}

void Traces::work() {
  for (bool ends = false; !ends;) {
    std::deque<Span> all;
    {
      std::unique_lock lock(mutex_);
      wake_.wait_for(lock, kSendEvery, [&] { return ends_; });
      ends = ends_;
      all.swap(waiting_);
    }
    while (!all.empty()) {
      std::deque<Span> some;
      while (!all.empty() && some.size() < kMostInOne) {
        some.push_back(std::move(all.front()));
        all.pop_front();
      }
      const bool sent = send(some);
      if (!sent && !has_failed_)  // logged once, until it works again
        log_.write(Level::kWarning, "traces",
                   {{"why", std::string_view("the collector does not accept them")}});
      has_failed_ = !sent;
      if (!sent) break;
    }
  }
}

bool Traces::send(const std::deque<Span>& spans) {
  const auto api = curl();
  CURL* const easy = api ? (*api)->easy_init() : nullptr;
  if (easy == nullptr) return false;
  const CurlApi& call = **api;
  const std::string body = json_of(spans);
  curl_slist* const headers = call.slist_append(nullptr, "Content-Type: application/json");
  call.easy_setopt(easy, CURLOPT_URL, endpoint_.c_str());
  call.easy_setopt(easy, CURLOPT_POSTFIELDS, body.data());
  call.easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  call.easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
  call.easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  call.easy_setopt(easy, CURLOPT_TIMEOUT_MS, kMostMs);
  call.easy_setopt(easy, CURLOPT_WRITEFUNCTION, &drop);
  const CURLcode code = call.easy_perform(easy);
  long status = 0;
  call.easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
  call.slist_free_all(headers);
  call.easy_cleanup(easy);
  return code == CURLE_OK && status / 100 == 2;
}

std::string Traces::json_of(const std::deque<Span>& spans) {
  using Json = nlohmann::ordered_json;
  const auto text = [](const char* name, const std::string& value) {
    return Json{{"key", name}, {"value", {{"stringValue", value}}}};
  };
  constexpr int kServer = 2, kClient = 3, kError = 2;
  Json list = Json::array();
  for (const Span& span : spans) {
    const int64_t began_us = span.began_ms * 1000;
    Json each = {{"traceId", span.context.trace_id}, {"spanId", span.context.span_id}};
    if (!span.parent_id.empty()) each["parentSpanId"] = span.parent_id;
    each["name"] = span.name;
    const bool is_sent = !span.sent_method.empty();
    each["kind"] = is_sent ? kClient : kServer;
    each["startTimeUnixNano"] = std::to_string(began_us * 1000);
    each["endTimeUnixNano"] = std::to_string((began_us + static_cast<int64_t>(span.took_us)) * 1000);
    Json& attributes = each["attributes"] = Json::array();
    if (span.status != 0)
      attributes.push_back(
          {{"key", "http.response.status_code"}, {"value", {{"intValue", std::to_string(span.status)}}}});
    if (is_sent) {
      attributes.push_back(text("http.request.method", span.sent_method));
      attributes.push_back(text("server.address", span.sent_host));
    } else {
      attributes.push_back(text("membrane.request_id", span.request_id));
    }
    if (span.status >= 500 || span.status == 0) each["status"] = {{"code", kError}};
    list.push_back(std::move(each));
  }
  Json scope = {{"scope", {{"name", "membrane"}, {"version", MEMBRANE_VERSION}}}, {"spans", list}};
  Json resource = {{"resource", {{"attributes", Json::array({text("service.name", "membrane")})}}},
                   {"scopeSpans", Json::array({scope})}};
  return json_text(Json{{"resourceSpans", Json::array({resource})}});
}

}  // namespace membrane::service
