// Streams a command to a client: its start, its output, its end.
//
// Include from .cc files only. Threads: pure; a stream is read from any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "service/e2b/call.h"
#include "service/exec.h"

namespace membrane::service::e2b {

// Streams the command from its beginning. If a client goes away the command continues, as in E2B's sandboxes.
void stream_command(const SharedCall& call, const Command& command, const std::shared_ptr<Exec>& exec);
void refuse_stream(const SharedCall& call, const RpcError& error);

// Why an exec that has ended never began.
RpcError why_not_begun(const Exec& exec);

// The memory that it takes while it runs.
uint64_t bytes_of(const Command& command);

}  // namespace membrane::service::e2b
