// Which revision a request is of, and whether it says what that revision asks for.
//
// For .cc files of this floor. Threads: pure functions.
#pragma once

#include <expected>
#include <optional>
#include <string>

#include "mcp/log.h"
#include "mcp/message.h"
#include "mcp/revision.h"
#include "mcp/server.h"

namespace membrane::mcp {

// What a request says of itself, in _meta or by its connection.
struct RequestTerms {
  Revision revision = kLatestWithHandshake;
  std::optional<LogLevel> log_level;  // the client hears of what is at least so bad; nothing: of nothing
  Json progress_token;                // null: no progress is wanted
};

struct RefusedRequest {
  ProtocolError error;
  int http_status = 200;
};

std::expected<RequestTerms, RefusedRequest> terms_of(const Message& request, const Envelope& envelope);

// A header's value, of which "=?base64?…?=" stands for the bytes in it. Nothing for what is malformed.
std::optional<std::string> decoded_header(std::string_view value);

}  // namespace membrane::mcp
