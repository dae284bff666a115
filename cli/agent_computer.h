// membrane agent --kind linux: the sandbox that the model works in.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/computer_executor.h"
#include "base/result.h"
#include "linux/image/store.h"
#include "linux/sandbox/live_computer.h"
#include "policy/policy.h"

namespace membrane::cli {

struct AgentComputerOptions {
  std::string image;                // "" for the usual one
  std::string platform;             // "" for the policy's, or the faster one
  std::vector<std::string> copies;  // HOST[:GUEST]
  policy::Policy policy;
  uint32_t max_steps = 0;
  size_t observation_bytes = 0;
};

class AgentComputer {
 public:
  // Makes the first sandbox, with the copies in it. The caller's process has one thread. Errors: kNotFound, kUnsupported,
  // kInvalidArgument; those of agent::copy_into().
  static Result<std::unique_ptr<AgentComputer>> start(AgentComputerOptions options);

  [[nodiscard]] const std::string& prompt() const { return prompt_; }
  [[nodiscard]] const std::vector<std::string>& without() const { return without_; }
  // Of the sandbox that was made, and of others for other conversations. `receipts` may be null. Errors: those of
  // computers::description_of().
  Result<agent::Executor> executor(sandbox::ReceiptBook* receipts);

 private:
  struct Copy {
    std::string from, to;
  };
  explicit AgentComputer(AgentComputerOptions options) : options_(std::move(options)) {}
  Status read_copies();
  Status survey();
  struct Networked;
  Result<std::shared_ptr<linux::LiveComputer>> create(int kept);

  AgentComputerOptions options_;
  linux::StoredImage image_;
  std::vector<Copy> copies_;
  std::vector<std::string> environment_, without_;
  std::string directory_, prompt_, mark_;
  std::shared_ptr<linux::ComputerSource> source_;
  std::shared_ptr<linux::LiveComputer> first_;
  std::weak_ptr<Networked> latest_;  // the sandbox that was made last
};

}  // namespace membrane::cli
