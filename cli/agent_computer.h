// membrane agent --kind linux: the sandbox in which the model works.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/computer_executor.h"
#include "base/result.h"
#include "computers/network/authority.h"
#include "linux/image/layer.h"
#include "linux/image/store.h"
#include "linux/platform/trap/host_file.h"
#include "linux/sandbox/live_computer.h"
#include "policy/policy.h"

namespace membrane::cli {

struct AgentComputerOptions {
  std::string image;                // "" for the default
  std::string platform;             // "" for the policy's, or the faster one
  std::vector<std::string> copies;  // HOST[:GUEST]
  policy::Policy policy;
  uint32_t max_steps = 0;
  size_t observation_bytes = 0;
};

class AgentComputer {
 public:
  // Creates the first sandbox, with the copies in it. The caller's process must have one thread. Errors:
  // kNotFound, kUnsupported, kInvalidArgument; those of agent::copy_into().
  static Result<std::unique_ptr<AgentComputer>> start(AgentComputerOptions options);

  // Writes what has changed since the latest sandbox was created with its copies: relative to the one
  // directory that was copied in, or else in the whole sandbox. write_diff() writes a git patch into a file;
  // write_out() writes added and changed files into a directory. Notes go to standard error. Errors:
  // kUnavailable; those of computers::make_patch_since() and OutDirectory.
  Status write_diff(const std::string& file);
  Status write_out(const std::string& directory);

  [[nodiscard]] const std::string& prompt() const { return prompt_; }
  [[nodiscard]] const std::vector<std::string>& without() const { return without_; }
  // For the sandbox that was created, and for others in other conversations. `receipts` may be null. Errors:
  // those of computers::description_of().
  Result<agent::Executor> executor(sandbox::ReceiptBook* receipts);

 private:
  struct Copy {
    std::string from, to;
  };
  explicit AgentComputer(AgentComputerOptions options) : options_(std::move(options)) {}
  Status read_copies();
  void choose_directories();
  Status survey();
  struct Networked;
  Result<std::shared_ptr<linux::LiveComputer>> create(int kept);
  void keep_beginning(linux::LiveComputer& computer);
  // What a patch is made from: the initial state of the sandbox, and its image.
  struct Beginning {
    std::unique_ptr<linux::LiveComputer> computer;
    std::shared_ptr<const linux::Layer> image;
  };
  Result<Beginning> beginning();
  Result<std::string> diff(linux::LiveComputer& computer);

  AgentComputerOptions options_;
  const std::shared_ptr<computers::Authority> authority_ = std::make_shared<computers::Authority>();
  linux::StoredImage image_;
  std::vector<Copy> copies_;
  std::vector<std::string> environment_, without_;
  std::string directory_, prompt_, mark_;
  std::string changed_directory_ = "/";  // whose changes are reported
  linux::HostFile beginning_;            // the files at the start of the task; none: they could not be saved
  std::shared_ptr<linux::ComputerSource> source_;
  std::shared_ptr<linux::LiveComputer> first_;
  std::weak_ptr<Networked> latest_;  // the latest sandbox
};

}  // namespace membrane::cli
