// http: requests to the URLs that the policy grants.
#include <algorithm>

#include "base/base64.h"
#include "base/utf8.h"
#include "host/capabilities/all.h"
#include "host/capabilities/call.h"
#include "host/capabilities/read_json.h"
#include "policy/credentials.h"

namespace membrane::host {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// RFC 9110, section 5.6.2: the characters of a method or a header name.
bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}
// No line break or other control character may end a header and start another.
bool is_field_value(std::string_view text) {
  return std::ranges::all_of(
      text, [](char c) { return c == '\t' || (static_cast<uint8_t>(c) >= 0x20 && c != 0x7F); });
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return lower;
}

constexpr Cost kCost{.base = 1'000, .per_byte = 1};

// Keeps what http.status and http.header report; the rest is the caller's.
HostResult<HttpResponse> ask(Call& call, const HttpRequest& request) {
  call.state.http_status = 0;
  call.state.http_headers.clear();
  auto answer = call.broker.http(request);
  call.redirects = std::move(answer ? answer->redirects : answer.error().redirects);
  MEMBRANE_ASSIGN(HttpResponse response, std::move(answer));
  call.state.http_status = response.status;
  call.state.http_headers = std::move(response.headers);
  return response;
}

HostResult<Value> get_body(Call& call, const HttpRequest& request) {
  MEMBRANE_ASSIGN(HttpResponse response, ask(call, request));
  return std::move(response.body);
}

HostResult<Value> get(Call& call) {
  return get_body(call, {.method = "GET", .url = std::string(call.text(0)), .headers = {}, .body = {}});
}

HostResult<Value> post(Call& call) {
  if (!is_field_value(call.text(1)))
    return refuse(Errno::kInvalid, "the content type has a control character in it");
  return get_body(call, {.method = "POST",
                         .url = std::string(call.text(0)),
                         .headers = {{"Content-Type", std::string(call.text(1))}},
                         .body = std::string(call.text(2))});
}

// Servers accept about 8 to 64 KiB of headers; a few levels are already more than a header has.
constexpr JsonLimits kHeaderLimits{
    .bytes = 256u << 10, .depth = 2, .values = 4'000, .memory_bytes = 4u << 20};

HostResult<Headers> headers_of(const json& object) {
  Headers headers;
  if (!object.is_object()) return refuse(Errno::kInvalid, "the headers are not a JSON object");
  for (const auto& [name, value] : object.items()) {
    if (!is_token(name)) return refuse(Errno::kInvalid, "'" + name + "' cannot be the name of a header");
    if (!value.is_string())
      return refuse(Errno::kInvalid, "the value of the header " + name + " is not a string");
    if (!is_field_value(value.get_ref<const std::string&>()))
      return refuse(Errno::kInvalid, "the value of the header " + name + " has a control character in it");
    headers.emplace_back(name, value.get<std::string>());
  }
  return headers;
}

HostResult<Headers> headers_of(std::string_view text) {
  if (text.empty()) return Headers();
  MEMBRANE_ASSIGN(const json object, read_json_for_guest(text, "the text of the headers", kHeaderLimits));
  return headers_of(object);
}

HostResult<std::string> method_of(std::string_view word) {
  std::string method(word);
  std::ranges::transform(method, method.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  if (!is_token(method)) return refuse(Errno::kInvalid, "the method is not a word like GET");
  return method;
}

// The parameters method, url, headers and body.
HostResult<HttpRequest> request_of(const Call& call) {
  MEMBRANE_ASSIGN(std::string method, method_of(call.text(0)));
  MEMBRANE_ASSIGN(Headers headers, headers_of(call.text(2)));
  return HttpRequest{.method = std::move(method),
                     .url = std::string(call.text(1)),
                     .headers = std::move(headers),
                     .body = std::string(call.text(3))};
}

HostResult<Value> request(Call& call) {
  MEMBRANE_ASSIGN(const HttpRequest request, request_of(call));
  return get_body(call, request);
}

// Several headers with one name are joined, as in RFC 9110, section 5.3.
json json_of(const Headers& headers) {
  json object = json::object();
  for (const auto& [name, value] : headers) {
    const auto [field, is_new] = object.emplace(utf8_repair(name), utf8_repair(value));
    if (!is_new) field->get_ref<std::string&>().append(", ").append(utf8_repair(value));
  }
  return object;
}

// The answer as JSON, if there is room for it after `used` bytes.
HostResult<std::string> answer_text(const Call& call, const HttpRequest& request, const Headers& headers,
                                    HttpResponse response, uint64_t used = 0) {
  MEMBRANE_TRY(call.check_size(used + json_text_bytes(response.body)));
  ordered_json answer = {{"status", response.status},
                         {"url", utf8_repair(response.final_url.empty() ? request.url : response.final_url)},
                         {"headers", json_of(headers)}};
  if (is_utf8(response.body)) {
    answer["body"] = std::move(response.body);
  } else {
    answer["body_base64"] = base64_encode(response.body);
  }
  std::string text = answer.dump();
  MEMBRANE_TRY(call.check_size(used + text.size()));
  return text;
}

HostResult<Value> exchange(Call& call) {
  MEMBRANE_ASSIGN(const HttpRequest request, request_of(call));
  MEMBRANE_ASSIGN(HttpResponse response, ask(call, request));
  MEMBRANE_ASSIGN(std::string text, answer_text(call, request, call.state.http_headers, std::move(response)));
  return text;
}

// -- several requests -----------------------------------------------------------

constexpr size_t kMaxRequests = 64;

const std::string* string_in(const json& object, const char* name) {
  const auto member = object.find(name);
  return member == object.end() ? nullptr : member->get_ptr<const std::string*>();
}

// A URL, or {"method":…, "url":…, "headers":{…}, "body":…}.
HostResult<HttpRequest> request_of(const json& value) {
  if (const auto* url = value.get_ptr<const std::string*>())
    return HttpRequest{.method = "GET", .url = *url, .headers = {}, .body = {}};
  if (!value.is_object())
    return refuse(Errno::kInvalid, "a request is neither a URL nor an object with \"url\"");
  for (const auto& [name, member] : value.items()) {
    const bool is_known =
        name == "method" || name == "url" || name == "headers" || name == "body" || name == "body_base64";
    if (!is_known || member.is_string() == (name == "headers"))
      return refuse(Errno::kInvalid, "a request has no such member as '" + name + "'");
  }
  const std::string *url = string_in(value, "url"), *method = string_in(value, "method"),
                    *body = string_in(value, "body"), *encoded = string_in(value, "body_base64");
  if (url == nullptr) return refuse(Errno::kInvalid, "a request has no \"url\"");
  HttpRequest request{.method = "GET", .url = *url, .headers = {}, .body = {}};
  if (method != nullptr) {
    MEMBRANE_ASSIGN(request.method, method_of(*method));
  }
  if (value.contains("headers")) {
    MEMBRANE_ASSIGN(request.headers, headers_of(value["headers"]));
  }
  if (body != nullptr) request.body = *body;
  if (encoded != nullptr) {
    auto bytes = base64_decode(*encoded);
    if (!bytes) return refuse(Errno::kInvalid, "the body of a request is not base64");
    request.body = std::move(*bytes);
  }
  return request;
}

HostResult<std::vector<HttpRequest>> requests_of(const Call& call) {
  JsonLimits limits = json_limits(call);
  limits.depth = 3;
  limits.values = kMaxRequests * 200;
  MEMBRANE_ASSIGN(const json list, read_json_for_guest(call.text(0), "the text of the requests", limits));
  if (!list.is_array()) return refuse(Errno::kInvalid, "the requests are not a JSON array");
  if (list.size() > kMaxRequests)
    return refuse(Errno::kTooBig, "there are more than " + std::to_string(kMaxRequests) + " requests");
  std::vector<HttpRequest> requests;
  for (const json& value : list) {
    MEMBRANE_ASSIGN(HttpRequest request, request_of(value));
    requests.push_back(std::move(request));
  }
  return requests;
}

std::string error_text(const HostError& error) {
  ordered_json object = {{"errno", name_of(error.code)}, {"message", utf8_repair(error.reason)}};
  if (!error.grant.empty()) object["grant"] = utf8_repair(error.grant);
  return object.dump();
}

// Adds the answers to `text`, an open array.
void fetch_some(Call& call, std::span<const HttpRequest> requests, std::string& text) {
  std::vector<HostResult<HttpResponse>> answers = call.broker.http_many(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    const HttpRequest& request = requests[i];
    CallPart part{.summary = request.method + ", " + policy::without_credentials(request.url),
                  .bytes_out = request.url.size() + request.body.size()};
    if (text.size() > 1) text += ",";
    HostResult<std::string> written = std::unexpected(HostError{});
    part.redirects = std::move(answers[i] ? answers[i]->redirects : answers[i].error().redirects);
    if (answers[i]) {
      part.bytes_in = answers[i]->body.size();
      const Headers headers = std::move(answers[i]->headers);
      written = answer_text(call, request, headers, *std::move(answers[i]), text.size());
    } else {
      written = std::unexpected(std::move(answers[i].error()));
    }
    answers[i] = HttpResponse();
    if (!written) {
      part.error = written.error();
      call.work.add(kCost.per_byte * part.bytes_in);  // it was received anyway
    }
    text += written ? *written : error_text(written.error());
    call.parts->push_back(std::move(part));
  }
}

HostResult<Value> get_many(Call& call) {
  MEMBRANE_ASSIGN(const std::vector<HttpRequest> requests, requests_of(call));
  if (!requests.empty())
    call.work.add(kCost.base * (requests.size() - 1));  // each costs as much as a single one
  if (call.work.is_too_much()) return refuse(Errno::kBudget, "there is no fuel left for the requests");
  call.state.http_status = 0;
  call.state.http_headers.clear();
  call.parts.emplace();
  std::string text = "[";
  const std::span<const HttpRequest> all = requests;
  for (size_t at = 0; at < all.size(); at += kMaxHttpAtOnce)
    fetch_some(call, all.subspan(at, std::min(kMaxHttpAtOnce, all.size() - at)), text);
  return text + "]";
}

HostResult<Value> status(Call& call) { return call.state.http_status; }

HostResult<Value> header(Call& call) {
  const std::string name = lower_case(call.text(0));
  const auto found =
      std::ranges::find(call.state.http_headers, name, &std::pair<std::string, std::string>::first);
  if (found == call.state.http_headers.end())
    return refuse(Errno::kNotFound, "the last answer has no header '" + name + "'");
  return found->second;
}

constexpr Param kUrl{"url", Type::kText};
constexpr Param kBody{"body", Type::kBytes};
constexpr List<Failure, 6> kFailures = {
    {Errno::kAccess,
     "no grant allows this method and URL, a redirect leads off the grant, or the address is a private one"},
    {Errno::kInvalid, "the URL, the method or a header is malformed"},
    {Errno::kTooBig, "the request or the answer is larger than granted"},
    {Errno::kTimedOut, "the server did not answer in time"},
    {Errno::kConnection, "the name does not resolve, or no server answers there"},
    {Errno::kProtocol, "the answer is not HTTP"}};

constexpr FunctionSpec kFunctions[] = {
    {.module = "http",
     .name = "get",
     .params = {kUrl},
     .result = Type::kBytes,
     .result_name = "body",
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = kCost,
     .summary = "Fetches the URL. A status like 404 is not an error: errno is 0 and the body is the server's "
                "page; see http.status.",
     .details = "Redirects are followed as far as the grant allows. Compressed bodies are unpacked. The URL "
                "is absolute, "
                "with `http` or `https`.",
     .failures = kFailures,
     .example = R"((call $io.print (call $http.get! (string "https://example.org/"))))",
     .handler = get},
    {.module = "http",
     .name = "post",
     .params = {kUrl, {"content_type", Type::kText}, kBody},
     .result = Type::kBytes,
     .result_name = "body",
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = kCost,
     .summary = "Sends the body by POST and returns the body of the answer, as http.get does.",
     .failures = kFailures,
     .example =
         R"((call $io.print (call $http.post! (string "https://example.org/items") (string "application/json") (string "{\"n\":1}"))))",
     .handler = post},
    {.module = "http",
     .name = "request",
     .params = {{"method", Type::kText}, kUrl, {"headers", Type::kText}, kBody},
     .result = Type::kBytes,
     .result_name = "body",
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = kCost,
     .summary =
         R"(Sends any request. headers is a JSON object of strings, {"Accept":"text/plain"}, or ""; body may be "".)",
     .details =
         "The program need not know secrets: a grant can put them into headers when the request leaves.",
     .failures = kFailures,
     .example =
         R"((call $io.print (call $http.request! (string "GET") (string "https://example.org/") (string "{\"Accept\":\"text/plain\"}") (string ""))))",
     .handler = request},
    {.module = "http",
     .name = "exchange",
     .params = {{"method", Type::kText}, kUrl, {"headers", Type::kText}, kBody},
     .result = Type::kText,
     .result_name = "answer",
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = kCost,
     .summary =
         R"(http.request with the whole answer: {"status":200,"url":"…","headers":{"content-type":"…"},"body":"…"}.)",
     .details = "`url` is the URL after redirects. Names of headers are in lower case; values of a repeated "
                "header are joined by `, `. A body that is not UTF-8 is in `body_base64` instead of `body`.",
     .failures = kFailures,
     .example =
         R"((call $io.print (call $json.get! (call $http.exchange! (string "HEAD") (string "https://example.org/") (string "") (string "")) (string "headers"))))",
     .handler = exchange,
     .is_rare = true},
    {.module = "http",
     .name = "get_many",
     .params = {{"requests", Type::kText}},
     .result = Type::kText,
     .result_name = "answers",
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = kCost,
     .summary = "Fetches several URLs at once: requests is a JSON array of URLs, answers a JSON array of "
                "answers as http.exchange returns them.",
     .details = "At most 64 requests, of which eight run at a time; the answers are in the order of the "
                "requests. Each is decided, paid for, journaled and reported like an http.exchange, and "
                "costs a host call. A request may also be an object with `url` and, optionally, `method`, "
                "`headers`, and `body` or `body_base64`. The answer of a failed request is "
                "`{\"errno\":\"EACCES\",\"message\":\"…\",\"grant\":\"…\"}`. `http.status` and `http.header` "
                "do not refer to these answers.",
     .failures = {{Errno::kInvalid, "the text is not JSON, or a request in it is malformed"},
                  {Errno::kTooBig, "there are more than 64 requests"}},
     .example =
         R"((call $io.print (call $http.get_many! (string "[\"https://example.org/\",\"https://example.org/more\"]"))))",
     .handler = get_many,
     .in_prompt = false},
    {.module = "http",
     .name = "status",
     .result = Type::kI32,
     .result_name = "status",
     .summary = "The status of the last answer (200, 404, …); 0 before the first and after a failed request.",
     .example = "(call $io.print_i32 (call $http.status))",
     .prints = "0",
     .handler = status},
    {.module = "http",
     .name = "header",
     .params = {{"name", Type::kText}},
     .result = Type::kText,
     .result_name = "value",
     .can_fail = true,
     .summary = "A header of the last answer; its name may be in any case; ENOENT when there is none.",
     .details = "If the header was repeated, this is the first. `Set-Cookie` is never shown.",
     .failures = {{Errno::kNotFound, "the last answer has no such header, or there was none"}},
     .example = R"((drop (call $http.get! (string "https://example.org/")))
(call $io.print (call $http.header! (string "content-type"))))",
     .handler = header},
};

}  // namespace

std::span<const FunctionSpec> http_functions() { return kFunctions; }

}  // namespace membrane::host
