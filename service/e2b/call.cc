#include "service/e2b/call.h"

#include <algorithm>

#include "base/json.h"

namespace membrane::service::e2b {
namespace {

constexpr int kBadGateway = 502;

}  // namespace

Response error_of(int status, const std::string& message) {
  return json_response(status, json_text(OrderedJson{{"code", status}, {"message", message}}));
}

Response error_of(const ApiError& error) {
  Response response = error_of(status_of(error.code), message_of(error));
  if (is_retryable(error))
    response.headers.add("Retry-After", std::to_string(error.retry_after_s.value_or(1)));
  return response;
}

Response gone(std::string_view sandbox) {
  return json_response(kBadGateway, json_text(OrderedJson{{"sandboxId", sandbox},
                                                          {"message", "The sandbox was not found"},
                                                          {"code", kBadGateway}}));
}

void Call::answer(int status, const OrderedJson& json) const {
  reply(json_response(status, json_text(json)));
}

void Call::refuse(const ApiError& error) const { reply(error_of(error)); }

void Call::refuse_in_words(const ApiError& error) const {
  reply({.status = status_of(error.code),
         .headers = {{"Content-Type", "text/plain; charset=utf-8"}},
         .body = message_of(error)});
}

ApiError noted(const Service& service, const SharedCall& call, const std::string& scope) {
  const std::string sandbox = call->known == nullptr ? "" : call->known->id;
  service.sandboxes.note_refusal(
      call->actor(), sandbox,
      {ApiCode::kForbidden, "the token does not have the scope " + scope + " (a client of E2B)", ""});
  return {ApiCode::kForbidden, "the token does not allow this", "It needs " + scope + "."};
}

ApiError needs_linux(const std::string& what) {
  return {ApiCode::kUnsupported,
          what + " needs a sandbox of the linux kind; this one is an interpreter in WebAssembly",
          "Sandbox.create(\"linux\") makes one where the service has an image; docs/e2b.md lists what works "
          "here."};
}

ApiError not_here(const std::string& what) {
  return {ApiCode::kUnsupported, what + " is not supported by this service",
          "docs/e2b.md lists what works here."};
}

Answer<Json> read_object(std::string_view text) {
  if (text.empty()) return Json::object();
  auto json = read_json(text, "the body");
  if (!json) return service::refuse(ApiCode::kInvalidRequest, json.error().message, "Send a JSON object.");
  if (!json->is_object()) return service::refuse(ApiCode::kInvalidRequest, "the body is not a JSON object");
  return *std::move(json);
}

const Json* Fields::find(const char* name) const {
  if (!json_.is_object()) return nullptr;
  const auto found = json_.find(name);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

void Fields::complain(const char* name, const char* wanted) {
  if (problem_.empty()) problem_ = "\"" + std::string(name) + "\" is not " + wanted;
}

std::optional<std::string> Fields::optional_text(const char* name) {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  complain(name, "a string");
  return std::nullopt;
}

std::string Fields::text(const char* name, std::string absent) {
  return optional_text(name).value_or(std::move(absent));
}

std::optional<uint64_t> Fields::number(const char* name, uint64_t most) {
  const Json* const value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_number_unsigned() && value->get<uint64_t>() <= most) return value->get<uint64_t>();
  complain(name, "a whole number in range");
  return std::nullopt;
}

bool Fields::flag(const char* name, bool absent) {
  const Json* const value = find(name);
  if (value == nullptr) return absent;
  if (value->is_boolean()) return value->get<bool>();
  complain(name, "true or false");
  return absent;
}

std::map<std::string, std::string> Fields::texts(const char* name) {
  const Json* const value = find(name);
  std::map<std::string, std::string> texts;
  if (value == nullptr) return texts;
  if (!value->is_object()) complain(name, "an object of strings");
  else
    for (const auto& [key, each] : value->items()) {
      if (each.is_string()) texts.emplace(key, each.get<std::string>());
      else complain(name, "an object of strings");
    }
  return texts;
}

std::vector<std::string> Fields::list(const char* name) {
  const Json* const value = find(name);
  std::vector<std::string> all;
  if (value == nullptr) return all;
  if (!value->is_array()) complain(name, "a list of strings");
  else
    for (const Json& each : *value) {
      if (each.is_string()) all.push_back(each.get<std::string>());
      else complain(name, "a list of strings");
    }
  return all;
}

Json Fields::object(const char* name) {
  const Json* const value = find(name);
  if (value == nullptr) return Json::object();
  if (value->is_object()) return *value;
  complain(name, "an object");
  return Json::object();
}

Answer<void> Fields::checked() const {
  if (problem_.empty()) return {};
  return service::refuse(ApiCode::kInvalidRequest, problem_);
}

std::string absolute_path(std::string_view path) {
  std::string whole(path);
  if (path == "~" || path.starts_with("~/")) whole = std::string(kHome) + whole.substr(1);
  else if (!path.starts_with('/')) whole = std::string(kHome) + "/" + whole;
  std::string absolute;
  for (size_t at = 0; at < whole.size();) {
    const size_t end = std::min(whole.find('/', at), whole.size());
    const std::string_view name = std::string_view(whole).substr(at, end - at);
    if (name == "..") absolute.resize(absolute.empty() ? 0 : absolute.rfind('/'));
    else if (!name.empty() && name != ".") absolute.append("/").append(name);
    at = end + 1;
  }
  return absolute.empty() ? "/" : absolute;
}

}  // namespace membrane::service::e2b
