// Commands of Linux sandboxes: real programs, with pipes or on a terminal.
//
// Include from .cc files only. Threads: pure; they answer from any.
#pragma once

#include <cstdint>
#include <optional>

#include "linux/sandbox/live_computer.h"
#include "service/e2b/call.h"

namespace membrane::service::e2b {

struct CommandStart {
  Command command;
  std::optional<linux::TerminalSize> terminal;
  std::optional<uint64_t> timeout_ms;
  bool takes_input = false;
};
// Answers with its stream once it has started, so that it can receive signals by then.
void start_linux_command(const Service& service, const SharedCall& call, CommandStart start);

// The user that a request names as `Authorization: Basic`; "" for none.
std::string user_of(const RequestHead& head);

}  // namespace membrane::service::e2b
