// A command on its way to a client: its start, what it prints, its end.
//
// Include from .cc files only. Threads: pure; a stream is read from any.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "service/e2b/call.h"
#include "service/exec.h"

namespace membrane::service::e2b {

// The command from its beginning. A client that goes away leaves it as it is, as E2B's sandboxes do.
void stream_command(const SharedCall& call, const Command& command, const std::shared_ptr<Exec>& exec);
void refuse_stream(const SharedCall& call, const RpcError& error);

// Why an exec that has ended did not begin.
RpcError why_not_begun(const Exec& exec);

// What is kept of it while it runs.
uint64_t bytes_of(const Command& command);

}  // namespace membrane::service::e2b
