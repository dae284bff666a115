// JSON-RPC 2.0 as used by MCP: parses one message from the client, and builds the messages to it.
//
// For .cc files of this floor: the JSON library is slow to compile. Threads: pure functions.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"

namespace membrane::mcp {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// The limits for one message. A file that a client writes is in it as base64.
inline constexpr JsonLimits kMessageLimits = {
    .bytes = 16u << 20, .depth = 64, .values = 100'000, .memory_bytes = 96u << 20};
inline constexpr size_t kMaxIdBytes = 256;  // for a textual id or progress token
inline constexpr size_t kMaxMessagesInBatch = 32;

// The error codes of JSON-RPC and of MCP.
enum class Code : int32_t {
  kParseError = -32700,
  kInvalidRequest = -32600,
  kMethodNotFound = -32601,
  kInvalidParams = -32602,
  kInternalError = -32603,
  kResourceNotFound = -32002,  // before 2026-07-28
  kHeaderMismatch = -32020,
  kUnsupportedProtocolVersion = -32022,
};

// A protocol error: the request itself is wrong. Anything that a model can fix is a tool's error instead.
struct ProtocolError {
  Code code = Code::kInternalError;
  std::string message;
  OrderedJson data = {};  // null: none
};

enum class MessageKind : uint8_t { kRequest, kNotification, kResponse };

struct Message {
  MessageKind kind = MessageKind::kNotification;
  Json id;             // a string or an integer; null if it is not a request
  std::string method;  // "" for a response
  Json params;         // an object
};

// The error, and the id to answer to as far as it could be read (else null).
struct Unreadable {
  ProtocolError error;
  Json id;
};

// A single message, or each of a batch (revision 2025-03-26), whose text is an array. Errors concern the
// whole text.
struct MessageTexts {
  bool is_batch = false;
  std::vector<std::expected<Message, Unreadable>> messages;  // one, unless it is a batch
};
std::expected<MessageTexts, Unreadable> read_messages(std::string_view text);

// Whether it is valid as an id or a progress token: a short string, or an integer.
bool is_id(const Json& value);

std::string result_message(const Json& id, const OrderedJson& result);
// Without an id if it is null.
std::string error_message(const Json& id, const ProtocolError& error);
std::string notification_message(std::string_view method, const OrderedJson& params);

}  // namespace membrane::mcp
