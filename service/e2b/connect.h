// The Connect protocol as E2B's clients use it (connectrpc.com/docs/protocol): JSON messages, unary calls and
// server-streaming calls, without compression.
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
int status_of(RpcCode code);  // HTTP status of a unary call

struct RpcError {
  RpcCode code = RpcCode::kInternal;
  std::string message;
};
// Combines cause and hint in one message: clients show nothing else.
RpcError rpc_error(const ApiError& error);
std::string message_of(const ApiError& error);

// The answers of a unary call: {} or the given JSON; {"code","message"}.
Response rpc_response(std::string json);
Response rpc_response(const RpcError& error);

inline constexpr std::string_view kStreamType = "application/connect+json";

// One message of a stream: a flag, the length as 32 bits in big-endian order, the message.
std::string frame(std::string_view json);
// The last one: {} or {"error":{…}}.
std::string end_frame(const std::optional<RpcError>& error = {});
// A stream that contains only its end, for a refused call: the protocol requires status 200.
Response stream_response(const RpcError& error);

// The messages of a body, which they point into; at most kMostFrames. Errors: kInvalidArgument for a frame
// that is cut off or has unknown flags, and for more than kMostFrames; kUnimplemented for a compressed one.
inline constexpr size_t kMostFrames = 10'000;
std::expected<std::vector<std::string_view>, RpcError> read_frames(std::string_view body);

}  // namespace membrane::service::e2b
