// membrane agent --kind linux: the sandbox that the model works in.
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

  // What has changed since the sandbox that was made last began, with the copies in it: in the one directory that was copied in, by paths from
  // there, else in all of it. As a git patch into a file; what was added or changed, as files into a directory. Notes go to
  // standard error. Errors: kUnavailable; those of computers::make_patch_since() and OutDirectory.
  Status write_diff(const std::string& file);
  Status write_out(const std::string& directory);

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
  void choose_directories();
  Status survey();
  struct Networked;
  Result<std::shared_ptr<linux::LiveComputer>> create(int kept);
  void keep_beginning(linux::LiveComputer& computer);
  // What a patch is made of: the sandbox as it began, and its image.
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
  std::string changed_directory_ = "/";  // of which changes are told
  linux::HostFile beginning_;            // the files when the task began; none: they could not be kept
  std::shared_ptr<linux::ComputerSource> source_;
  std::shared_ptr<linux::LiveComputer> first_;
  std::weak_ptr<Networked> latest_;  // the sandbox that was made last
};

}  // namespace membrane::cli
