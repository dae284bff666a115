// Performs the actions of computer_actions.h in one Linux sandbox that lives as long as the conversation, so
// that its files and background processes persist between the steps.
//
// Before each step that may change files they are saved, so that `undo` can restore them. If they cannot be
// saved, the step is still done, and the observation says so.
//
// Threads: one at a time; copies of the executor share the sandbox. Any thread may set the cancel flag of a
// step.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/loop.h"
#include "linux/sandbox/live_computer.h"
#include "policy/policy.h"
#include "sandbox/receipt_files.h"

namespace membrane::agent {

struct ComputerExecutorOptions {
  // Creates a sandbox with what the task needs; or, with a file that LiveComputer::keep() wrote, one over its
  // files.
  std::function<Result<std::shared_ptr<linux::LiveComputer>>(int kept)> create;
  policy::Policy policy;
  std::vector<std::string> environment;  // NAME=VALUE, of each command
  std::string directory = "/root";       // start of commands and of relative paths
  // The changes since the beginning, as a patch; null: not available.
  std::function<Result<std::string>(linux::LiveComputer&)> diff = nullptr;
  // Called before and after each command, for its network use. May be null.
  std::function<void()> before_command = nullptr;
  std::function<void(sandbox::Report&)> after_command = nullptr;
  sandbox::ReceiptBook* receipts = nullptr;  // receives a receipt of each action; borrowed, may be null
  std::string description = {};  // the sandbox's description, for receipts (sandbox::describe_computer())
};

// The programs of an image, among those that agents look for, as found on the PATH inside.
Result<std::vector<std::string>> programs_in(linux::LiveComputer& computer,
                                             const std::vector<std::string>& environment);

// `first`: a sandbox already made by `create`, for the first conversation; may be null.
Executor computer_executor(ComputerExecutorOptions options,
                           std::shared_ptr<linux::LiveComputer> first = nullptr);

// Copies a directory or a file of this machine into the sandbox, with modes, and links as links. Errors:
// kNotFound; kTooLong for more than 1 GiB or 200,000 files; those of the sandbox.
Status copy_into(linux::LiveComputer& computer, const std::string& from, const std::string& to);

}  // namespace membrane::agent
