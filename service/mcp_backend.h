// MCP's tools in the service: a session is a sandbox of the caller's tenant, with the same id, and a program
// of its own runs in a sandbox that ends with it. Each member requires the same scopes as REST, and returns
// the same errors.
//
// New sandboxes are granted nothing. Sandboxes that were created through REST, with policies of their own,
// are sessions too.
//
// A call waits on its thread for callbacks of Sandboxes: the threads are those of the transport's pool, never
// the server's. Calls on one session are done one after another, in order of arrival.
//
// Threads: as for mcp::Backend. Reports: those of the latest calls, in memory.
#pragma once

#include <memory>

#include "mcp/backend.h"
#include "service/sandboxes.h"

namespace membrane::service {

// Borrowed.
std::unique_ptr<mcp::Backend> mcp_backend(Sandboxes& sandboxes);

}  // namespace membrane::service
