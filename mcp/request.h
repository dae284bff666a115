// Determines the revision of a request, and checks that it has what that revision requires.
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

// What a request declares in _meta or through its connection.
struct RequestTerms {
  Revision revision = kLatestWithHandshake;
  std::optional<LogLevel> log_level;  // the minimum level for log messages; nothing: none are sent
  Json progress_token;                // null: no progress is requested
};

struct RefusedRequest {
  ProtocolError error;
  int http_status = 200;
};

std::expected<RequestTerms, RefusedRequest> terms_of(const Message& request, const Envelope& envelope);

// A header's value, in which "=?base64?…?=" encodes bytes. Nothing if it is malformed.
std::optional<std::string> decoded_header(std::string_view value);

}  // namespace membrane::mcp
