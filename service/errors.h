// The errors of the service's answers: {"error":{code,message,hint,request_id,retryable}}.
//
// Threads: values.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "service/http.h"

namespace membrane::service {

enum class ApiCode : uint8_t {
#define X(id, name, status, retryable, sentence) id,
#include "service/error_codes.def"
#undef X
};
std::string_view name_of(ApiCode code);
std::string_view describe(ApiCode code);
int status_of(ApiCode code);

struct ApiError {
  ApiCode code = ApiCode::kInternal;
  std::string message;
  std::string hint = {};
  // The header Retry-After. Retryable codes have at least one second; for a quota it says when waiting will
  // help.
  std::optional<uint32_t> retry_after_s = {};
};
// Whether the same request can succeed later, just by waiting.
bool is_retryable(const ApiError& error);

template <typename T>
using Answer = std::expected<T, ApiError>;

[[nodiscard]] inline std::unexpected<ApiError> refuse(ApiCode code, std::string message,
                                                      std::string hint = {}) {
  return std::unexpected<ApiError>(ApiError{code, std::move(message), std::move(hint)});
}

// A library's error, as it is reported to the client.
ApiError api_error(const Error& error);
// The same for the service's own disk: a full disk is kNoSpace, and damaged data kUnavailable, since the
// request is not at fault.
ApiError disk_error(const Error& error);

std::string error_json(const ApiError& error, std::string_view request_id);
Response error_response(const ApiError& error, std::string_view request_id);

}  // namespace membrane::service
