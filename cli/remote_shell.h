// membrane shell ID: a terminal of a sandbox of a service, on this one.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/remote.h"

namespace membrane::cli {

struct RemoteShell {
  RemoteOptions remote;
  std::string sandbox;                   // its id
  std::vector<std::string> command;      // the program and its arguments
  std::vector<std::string> environment;  // NAME=VALUE
  std::string directory;                 // working directory; "" for the sandbox's
};

// Runs until the command ends; returns its exit code, as shells do. When this process goes away, the command
// is hung up. Errors: kInvalidArgument if standard input is not a terminal; those of Remote.
Result<int> run_remote_shell(const RemoteShell& shell, std::atomic<bool>& cancelled);
// Whether a word is the id of a sandbox of a service.
bool is_sandbox_id(std::string_view word);

}  // namespace membrane::cli
