// The readable resources: the policy, the sessions, reports, and files of sessions.
//
// For .cc files of this floor. Threads: any.
#pragma once

#include <expected>
#include <string>

#include "mcp/backend.h"
#include "mcp/message.h"
#include "mcp/revision.h"

namespace membrane::mcp {

// How long a client may cache a result.
inline constexpr uint64_t kKeepsMs = 300'000;

struct Listing {
  OrderedJson result;  // without the common members of results
  uint64_t ttl_ms = 0;
};

// Starts at `cursor`, a text from an earlier page; "" is the beginning.
std::expected<Listing, ProtocolError> list_resources(Backend& backend, const Caller& caller,
                                                     const std::string& cursor, Revision revision);
Listing list_resource_templates(Revision revision);
std::expected<Listing, ProtocolError> read_resource(Backend& backend, const Caller& caller,
                                                    const std::string& uri, Revision revision);

}  // namespace membrane::mcp
