// What MCP's tools do in the service: a session is a sandbox of the caller's tenant, by the same id, and a program of its own
// is run in a sandbox that is ended with it. Each member asks for the scopes that the same wants in REST, and says those
// errors that REST says.
//
// New sandboxes are granted nothing. Those that REST made, with policies of their own, are sessions as well.
//
// A call waits, on its thread, for what Sandboxes answers by a callback: the threads are those of the transport's pool, never
// the server's. Calls on one session are done one after another, in the order in which they came.
//
// Threads: as mcp::Backend. Reports: those of the latest calls, in memory.
#pragma once

#include <memory>

#include "mcp/backend.h"
#include "service/sandboxes.h"

namespace membrane::service {

// Borrowed.
std::unique_ptr<mcp::Backend> mcp_backend(Sandboxes& sandboxes);

}  // namespace membrane::service
