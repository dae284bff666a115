// Where the actions of computer_actions.h are done: in one Linux sandbox that lives as long as the conversation, so that its files and its
// background processes stay between the steps.
//
// Before each step that may change files they are kept, so that `undo` can set them back. A step that cannot be kept is done all the
// same, and the observation says so.
//
// Threads: one at a time; copies of the executor share the sandbox. The cancel flag of a step may be set from any.
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
  // A fresh sandbox with what the task needs in it; or, with a file that LiveComputer::keep() wrote, one over its files.
  std::function<Result<std::shared_ptr<linux::LiveComputer>>(int kept)> create;
  policy::Policy policy;
  std::vector<std::string> environment;  // NAME=VALUE, of each command
  std::string directory = "/root";       // where commands begin, and where relative paths do
  // What has changed since the beginning, as a patch; null: it cannot be had.
  std::function<Result<std::string>(linux::LiveComputer&)> diff = nullptr;
  // Called before and after each command: for what it does on the network. May be null.
  std::function<void()> before_command = nullptr;
  std::function<void(sandbox::Report&)> after_command = nullptr;
  sandbox::ReceiptBook* receipts = nullptr;  // gets a receipt of each action; borrowed, may be null
  std::string description = {};              // of the sandbox, for receipts (sandbox::describe_computer())
};

// Which programs an image has of those that agents look for, as they are found on the PATH inside.
Result<std::vector<std::string>> programs_in(linux::LiveComputer& computer,
                                             const std::vector<std::string>& environment);

// `first`: a sandbox that was made by `create` already, for the first conversation; may be null.
Executor computer_executor(ComputerExecutorOptions options,
                           std::shared_ptr<linux::LiveComputer> first = nullptr);

// Copies a directory or a file of this machine into the sandbox, with links as links and modes. Errors: kNotFound; kTooLong for more than
// 1 GiB or 200,000 files; those of the sandbox.
Status copy_into(linux::LiveComputer& computer, const std::string& from, const std::string& to);

}  // namespace membrane::agent
