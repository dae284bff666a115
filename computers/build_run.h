// One RUN of a Dockerfile: its flags and its command.
//
// A command that is granted hosts first runs without them, in a deterministic sandbox. If it asks for
// anything beyond that sandbox, it is ended at once and starts over on the same files with its grants, this
// machine's clock and true random numbers: certificates depend on the time of day, and keys must be secret.
// So a command that asks for nothing leaves the same files each time, whatever it was granted.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "linux/image/config.h"
#include "linux/image/dockerfile.h"
#include "linux/sandbox/live_computer.h"
#include "policy/policy.h"
#include "sandbox/report.h"

namespace membrane::computers {

inline constexpr const char* kDiskIsFull = "The disk of the build is full; raise --disk.";

// A word of "type=secret,id=x", the form in which Docker writes mounts and secrets.
struct MountWord {
  std::string name;
  std::optional<std::string> value;
};
std::vector<MountWord> mount_words(std::string_view text);

// --mount=type=secret
struct SecretMount {
  std::string id;
  std::string path = {};      // path of its file; "" for none
  std::string variable = {};  // variable that holds its value; "" for none
  bool is_required = false;
  uint32_t mode = 0400, user = 0, group = 0;
};
struct RunFlags {
  bool has_no_network = false;
  std::vector<SecretMount> secrets;
};
// Errors: kUnsupported; kInvalidInput.
Result<RunFlags> read_run_flags(const linux::DockerInstruction& instruction);

struct RunStep {
  std::vector<std::string> arguments, environment;
  linux::ImageConfig config;  // configuration of the image so far: user and directory
  policy::Limits limits;
  std::vector<policy::HttpGrant> grants = {};
  std::vector<SecretMount> secrets = {};
  std::map<std::string, std::string> secret_values = {};  // by id
  int64_t begins_ms = 0;  // start of the deterministic clock; after network use, no file has a later time
  std::function<void(std::string_view)> on_output = {};  // may be null, like the next one
  std::function<bool()> is_cancelled = {};
};
struct RunEnd {
  std::unique_ptr<linux::LiveComputer> computer;  // with the files that the command has written
  bool used_network = false;  // it asked for something beyond its sandbox, even if refused
  std::vector<sandbox::HostCallRecord> calls;
  uint64_t unlisted_calls = 0;  // more of them
};
// Starts a sandbox over the files with which the step begins. `network`: as in LiveSpec.
using StartComputer =
    std::function<Result<std::unique_ptr<linux::LiveComputer>>(bool is_deterministic, int network)>;

// Errors: kInvalidInput for a command that fails, with what would allow what it tried to reach; those of
// `start` and of the gateway.
Result<RunEnd> carry_out_run(const RunStep& step, const StartComputer& start);

}  // namespace membrane::computers
