// http: requests to the URLs that the policy grants.
#include <algorithm>

#include "base/base64.h"
#include "base/utf8.h"
#include "host/call.h"
#include "host/capabilities/all.h"
#include "host/read_json.h"

namespace membrane::host {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// RFC 9110, section 5.6.2: what a method or a header's name is made of.
bool is_token(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  });
}
// No line break or other control character may end a header and begin another.
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

// What http.status and http.header tell of is kept; the rest is the caller's.
HostResult<HttpResponse> ask(Call& call, const HttpRequest& request) {
  call.state.http_status = 0;
  call.state.http_headers.clear();
  MEMBRANE_ASSIGN(HttpResponse response, call.broker.http(request));
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

// Servers take some 8 to 64 KiB of headers, and a few levels are one more than a header has.
constexpr JsonLimits kHeaderLimits{
    .bytes = 256u << 10, .depth = 2, .values = 4'000, .memory_bytes = 4u << 20};

HostResult<Headers> headers_of(std::string_view text) {
  Headers headers;
  if (text.empty()) return headers;
  MEMBRANE_ASSIGN(const json object, read_json_for_guest(text, "the text of the headers", kHeaderLimits));
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

// The parameters method, url, headers and body.
HostResult<HttpRequest> request_of(const Call& call) {
  std::string method(call.text(0));
  std::ranges::transform(method, method.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  if (!is_token(method)) return refuse(Errno::kInvalid, "the method is not a word like GET");
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

// Several headers of one name are one, as RFC 9110, section 5.3 joins them.
json json_of(const Headers& headers) {
  json object = json::object();
  for (const auto& [name, value] : headers) {
    const auto [field, is_new] = object.emplace(utf8_repair(name), utf8_repair(value));
    if (!is_new) field->get_ref<std::string&>().append(", ").append(utf8_repair(value));
  }
  return object;
}

HostResult<Value> exchange(Call& call) {
  MEMBRANE_ASSIGN(const HttpRequest request, request_of(call));
  MEMBRANE_ASSIGN(HttpResponse response, ask(call, request));
  MEMBRANE_TRY(call.check_size(json_text_bytes(response.body)));
  ordered_json answer = {{"status", response.status},
                         {"url", utf8_repair(response.final_url.empty() ? request.url : response.final_url)},
                         {"headers", json_of(call.state.http_headers)}};
  if (is_utf8(response.body)) {
    answer["body"] = std::move(response.body);
  } else {
    answer["body_base64"] = base64_encode(response.body);
  }
  std::string text = answer.dump();
  MEMBRANE_TRY(call.check_size(text.size()));
  return text;
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
constexpr Cost kCost{.base = 1'000, .per_byte = 1};
constexpr List<Failure, 6> kFailures = {
    {Errno::kAccess,
     "no grant allows this method and URL, a redirect leads off the grant, or the address is a private one"},
    {Errno::kInvalid, "the URL, the method or a header is malformed"},
    {Errno::kTooBig, "the request or the answer is larger than granted"},
    {Errno::kTimedOut, "the server did not answer in time"},
    {Errno::kConnection, "the name does not resolve, or nobody answers there"},
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
     .summary = "Fetches the URL. A status like 404 is no error: errno is 0 and the body is the server's "
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
     .summary = "Sends the body by POST and gives the answer's body, as http.get does.",
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
     .details = "Secrets need not be known to the program: a grant can put them into headers at the egress.",
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
     .details = "`url` is where the last redirect led. Names of headers are in lower case; several of one "
                "name are joined "
                "by `, `. A body that is not UTF-8 comes as `body_base64` instead of `body`.",
     .failures = kFailures,
     .example =
         R"((call $io.print (call $json.get! (call $http.exchange! (string "HEAD") (string "https://example.org/") (string "") (string "")) (string "headers"))))",
     .handler = exchange},
    {.module = "http",
     .name = "status",
     .result = Type::kI32,
     .result_name = "status",
     .summary =
         "The status of the last answer (200, 404, …); 0 before the first and after a request that failed.",
     .example = "(call $io.print_i32 (call $http.status))",
     .prints = "0",
     .handler = status},
    {.module = "http",
     .name = "header",
     .params = {{"name", Type::kText}},
     .result = Type::kText,
     .result_name = "value",
     .can_fail = true,
     .summary = "A header of the last answer, by its name in any case; ENOENT when it has none.",
     .details = "When a header came more than once this is the first. `Set-Cookie` is never shown.",
     .failures = {{Errno::kNotFound, "the last answer has no such header, or there was none"}},
     .example = R"((drop (call $http.get! (string "https://example.org/")))
(call $io.print (call $http.header! (string "content-type"))))",
     .handler = header},
};

}  // namespace

std::span<const FunctionSpec> http_functions() { return kFunctions; }

}  // namespace membrane::host
