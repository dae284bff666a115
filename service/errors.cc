#include "service/errors.h"

#include <array>

#include "base/json.h"

namespace membrane::service {
namespace {

struct Row {
  std::string_view name;
  int status;
  bool retryable;
  std::string_view sentence;
};
constexpr Row kRows[] = {
#define X(id, name, status, retryable, sentence) {name, status, retryable, sentence},
#include "service/error_codes.def"
#undef X
};

const Row& row(ApiCode code) { return kRows[static_cast<size_t>(code)]; }

ApiCode code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidInput: return ApiCode::kInvalidValue;
    case ErrorCode::kInvalidArgument: return ApiCode::kInvalidValue;
    case ErrorCode::kNotFound: return ApiCode::kNotFound;
    case ErrorCode::kDenied: return ApiCode::kForbidden;
    case ErrorCode::kExhausted: return ApiCode::kOverloaded;
    case ErrorCode::kTooLong: return ApiCode::kTooLarge;
    case ErrorCode::kTimedOut: return ApiCode::kUnavailable;
    case ErrorCode::kCancelled: return ApiCode::kConflict;
    case ErrorCode::kUnavailable: return ApiCode::kUnavailable;
    case ErrorCode::kUnsupported: return ApiCode::kUnsupported;
    case ErrorCode::kInternal: return ApiCode::kInternal;
  }
  return ApiCode::kInternal;
}

}  // namespace

std::string_view name_of(ApiCode code) { return row(code).name; }
std::string_view describe(ApiCode code) { return row(code).sentence; }
int status_of(ApiCode code) { return row(code).status; }
bool is_retryable(const ApiError& error) { return row(error.code).retryable || error.retry_after_s; }

ApiError api_error(const Error& error) { return {code_of(error.code), error.message, error.hint}; }

ApiError disk_error(const Error& error) {
  ApiError translated = api_error(error);
  if (error.code == ErrorCode::kExhausted) translated.code = ApiCode::kNoSpace;
  if (error.code == ErrorCode::kInvalidInput) translated.code = ApiCode::kUnavailable;
  return translated;
}

std::string error_json(const ApiError& error, std::string_view request_id) {
  const nlohmann::ordered_json json = {{"error",
                                        {{"code", name_of(error.code)},
                                         {"message", error.message},
                                         {"hint", error.hint},
                                         {"request_id", request_id},
                                         {"retryable", is_retryable(error)}}}};
  return json_text(json);
}

Response error_response(const ApiError& error, std::string_view request_id) {
  Response response = json_response(status_of(error.code), error_json(error, request_id));
  if (is_retryable(error))
    response.headers.add("Retry-After", std::to_string(error.retry_after_s.value_or(1)));
  if (error.code == ApiCode::kUnauthorized) response.headers.add("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace membrane::service
