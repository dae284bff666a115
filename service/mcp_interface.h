// POST /mcp (docs/mcp.md): the Model Context Protocol over Streamable HTTP, with the tokens of REST. Each
// request is authorised by its own token, even if it belongs to a handshake.
//
// Calls are answered on threads of this interface, up to a limit, since a call waits for its program; each
// tenant has a share of them. When the client of a call goes away, its program ends.
//
// Threads: as for HttpApplication; answers come from any.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "service/front.h"
#include "service/sandboxes.h"
#include "service/tokens.h"

namespace membrane::service {

struct McpOptions {
  // In addition to those of loopback; as in mcp::HttpOptions.
  std::vector<std::string> hosts;
  std::vector<std::string> origins;
  size_t most_calls = 256;  // in progress at once
  size_t most_calls_of_tenant = 32;
  size_t most_queued = 256;  // calls waiting for a thread
};

class McpInterface final : public Interface {
 public:
  // Borrowed: all but the options.
  McpInterface(Sandboxes& sandboxes, Tokens& tokens, McpOptions options);
  // Cancels calls in progress, and waits until they have ended.
  ~McpInterface() override;

  [[nodiscard]] bool serves(const RequestHead& head) const override;
  Admission admit(const RequestHead& head) override;
  void handle(Request request, Reply reply) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace membrane::service
