// The Connect protocol as E2B's clients speak it (connectrpc.com/docs/protocol): JSON messages, unary calls and calls whose
// answer is a stream of messages, without compression.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "service/errors.h"
#include "service/http.h"

namespace membrane::service::e2b {

enum class RpcCode : uint8_t {
  kCanceled,
  kInvalidArgument,
  kDeadlineExceeded,
  kNotFound,
  kAlreadyExists,
  kPermissionDenied,
  kResourceExhausted,
  kFailedPrecondition,
  kUnimplemented,
  kInternal,
  kUnavailable,
  kUnauthenticated,
};
std::string_view name_of(RpcCode code);
int status_of(RpcCode code);  // of HTTP, of a unary call

struct RpcError {
  RpcCode code = RpcCode::kInternal;
  std::string message;
};
// Cause and hint become one message: clients show nothing else.
RpcError rpc_error(const ApiError& error);
std::string message_of(const ApiError& error);

// The answers of a unary call: {} or what is given; {"code","message"}.
Response rpc_response(std::string json);
Response rpc_response(const RpcError& error);

inline constexpr std::string_view kStreamType = "application/connect+json";

// One message of a stream: a flag, the length as 32 bits with the greatest byte first, the message.
std::string frame(std::string_view json);
// The last one: {} or {"error":{…}}.
std::string end_frame(const std::optional<RpcError>& error = {});
// A stream of nothing but its end, for a call that is refused: the status is 200, as the protocol wants it.
Response stream_response(const RpcError& error);

// The messages of a body, which they point into; at most kMostFrames. Errors: kInvalidArgument for a frame that is cut off,
// has flags that are not known, or is more than kMostFrames-th; kUnimplemented for one that is compressed.
inline constexpr size_t kMostFrames = 10'000;
std::expected<std::vector<std::string_view>, RpcError> read_frames(std::string_view body);

}  // namespace membrane::service::e2b
