// MCP over a process's standard streams: one message on each line, both ways.
//
// The calling thread reads lines, and programs run on separate threads, so that a client can cancel and send
// requests while they run. Only messages are written. A line that is too long is answered with an error, and
// skipped.
//
// It ends when the input is over and all requests are answered; earlier when the reader of the output has
// gone, or when `stop` is set: then calls in progress are cancelled. It waits for a client that does not
// read, but no longer than that.
//
// Threads: one call for a pair of descriptors.
#pragma once

#include <atomic>
#include <cstddef>

#include "mcp/server.h"

namespace membrane::mcp {

struct StdioOptions {
  int in = 0, out = 1;                      // borrowed
  const std::atomic<bool>* stop = nullptr;  // ends it when set, also from a signal handler; may be null
  size_t threads = 4;                       // programs that run at once; the rest wait
  size_t most_line_bytes = 16u << 20;
};

void serve_stdio(const Server& server, const StdioOptions& options);

}  // namespace membrane::mcp
