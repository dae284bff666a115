// MCP over a process's standard streams: one message on each line, both ways.
//
// Lines are read on the calling thread, and programs run on threads of their own, so that a client can cancel and ask
// while they run. Nothing but messages is written. A line that is too long is answered with an error, and skipped.
//
// It ends when the input is over and everything that was asked is answered; before that when the reader of the output has
// gone, or when `stop` is set: then what is under way is cancelled. A client that does not read is waited for, but not
// longer than that.
//
// Threads: one call for a pair of descriptors.
#pragma once

#include <atomic>
#include <cstddef>

#include "mcp/server.h"

namespace membrane::mcp {

struct StdioOptions {
  int in = 0, out = 1;                      // borrowed
  const std::atomic<bool>* stop = nullptr;  // set it, also from a signal handler, and it ends; may be null
  size_t threads = 4;                       // programs that run at once; the rest waits
  size_t most_line_bytes = 16u << 20;
};

void serve_stdio(const Server& server, const StdioOptions& options);

}  // namespace membrane::mcp
