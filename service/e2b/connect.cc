#include "service/e2b/connect.h"

#include "base/json.h"

namespace membrane::service::e2b {
namespace {

constexpr uint8_t kCompressed = 1, kEnd = 2;
constexpr size_t kPrefixBytes = 5;

struct Row {
  std::string_view name;
  int status;
};
constexpr Row kRows[] = {
    {"canceled", 499},           {"invalid_argument", 400},    {"deadline_exceeded", 504},
    {"not_found", 404},          {"already_exists", 409},      {"permission_denied", 403},
    {"resource_exhausted", 429}, {"failed_precondition", 400}, {"unimplemented", 501},
    {"internal", 500},           {"unavailable", 503},         {"unauthenticated", 401}};

RpcCode code_of(ApiCode code) {
  switch (code) {
    case ApiCode::kUnauthorized: return RpcCode::kUnauthenticated;
    case ApiCode::kForbidden: return RpcCode::kPermissionDenied;
    case ApiCode::kNotFound: return RpcCode::kNotFound;
    case ApiCode::kConflict:
    case ApiCode::kPreconditionFailed: return RpcCode::kFailedPrecondition;
    case ApiCode::kQuotaExceeded:
    case ApiCode::kTooManyRequests:
    case ApiCode::kTooLarge:
    case ApiCode::kNoSpace: return RpcCode::kResourceExhausted;
    case ApiCode::kUnsupported:
    case ApiCode::kMethodNotAllowed: return RpcCode::kUnimplemented;
    case ApiCode::kInternal: return RpcCode::kInternal;
    case ApiCode::kTimeout: return RpcCode::kDeadlineExceeded;
    case ApiCode::kOverloaded:
    case ApiCode::kDraining:
    case ApiCode::kUnavailable: return RpcCode::kUnavailable;
    default: return RpcCode::kInvalidArgument;
  }
}

nlohmann::ordered_json to_json(const RpcError& error) {
  return {{"code", name_of(error.code)}, {"message", error.message}};
}

std::string framed(uint8_t flags, std::string_view bytes) {
  std::string out;
  out.reserve(kPrefixBytes + bytes.size());
  out += static_cast<char>(flags);
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(bytes.size() >> shift & 0xFF);
  return out += bytes;
}

}  // namespace

std::string_view name_of(RpcCode code) { return kRows[static_cast<size_t>(code)].name; }
int status_of(RpcCode code) { return kRows[static_cast<size_t>(code)].status; }

std::string message_of(const ApiError& error) {
  if (error.hint.empty()) return error.message;
  return error.message + (error.message.ends_with('.') ? " " : ". ") + error.hint;
}

RpcError rpc_error(const ApiError& error) { return {code_of(error.code), message_of(error)}; }

Response rpc_response(std::string json) { return json_response(200, std::move(json)); }

Response rpc_response(const RpcError& error) {
  return json_response(status_of(error.code), json_text(to_json(error)));
}

std::string frame(std::string_view json) { return framed(0, json); }

std::string end_frame(const std::optional<RpcError>& error) {
  return framed(kEnd, error ? json_text(nlohmann::ordered_json{{"error", to_json(*error)}}) : "{}");
}

Response stream_response(const RpcError& error) {
  return {.status = 200, .headers = {{"Content-Type", std::string(kStreamType)}}, .body = end_frame(error)};
}

std::expected<std::vector<std::string_view>, RpcError> read_frames(std::string_view body) {
  const auto invalid = [](const char* what) {
    return std::unexpected(RpcError{RpcCode::kInvalidArgument, std::string("the body ") + what});
  };
  std::vector<std::string_view> frames;
  while (!body.empty()) {
    if (body.size() < kPrefixBytes) return invalid("ends within a frame's prefix");
    const auto flags = static_cast<uint8_t>(body[0]);
    if ((flags & kCompressed) != 0)
      return std::unexpected(RpcError{RpcCode::kUnimplemented, "compressed messages are not read here"});
    if (flags != 0) return invalid("has a frame with flags that a request does not have");
    size_t size = 0;
    for (size_t i = 1; i < kPrefixBytes; ++i) size = size << 8 | static_cast<uint8_t>(body[i]);
    body.remove_prefix(kPrefixBytes);
    if (size > body.size()) return invalid("ends within a frame");
    if (frames.size() == kMostFrames) return invalid("has too many frames");
    frames.push_back(body.substr(0, size));
    body.remove_prefix(size);
  }
  return frames;
}

}  // namespace membrane::service::e2b
