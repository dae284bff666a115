// What the service says when it does not do what was asked: {"error":{code,message,hint,request_id,retryable}}.
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
  // The header Retry-After. Codes that can be retried have one of a second at least; of a quota it says that time mends it.
  std::optional<uint32_t> retry_after_s = {};
};
// Whether the same request can succeed later, by waiting alone.
bool is_retryable(const ApiError& error);

template <typename T>
using Answer = std::expected<T, ApiError>;

[[nodiscard]] inline std::unexpected<ApiError> refuse(ApiCode code, std::string message,
                                                      std::string hint = {}) {
  return std::unexpected<ApiError>(ApiError{code, std::move(message), std::move(hint)});
}

// An error of a library below, as the client of the service is to hear it.
ApiError api_error(const Error& error);
// The same of the service's own disk: what does not fit there is kNoSpace, and what is damaged there kUnavailable, since
// nothing of the request is wrong.
ApiError disk_error(const Error& error);

std::string error_json(const ApiError& error, std::string_view request_id);
Response error_response(const ApiError& error, std::string_view request_id);

}  // namespace membrane::service
