// `membrane run --kind linux`: a command in a Linux sandbox (linux/sandbox/computer.h), and its report.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/cli.h"
#include "linux/abi/determinism.h"
#include "linux/image/store.h"
#include "policy/policy.h"
#include "sandbox/receipts/receipt_content.h"
#include "sandbox/report/report.h"

namespace membrane::cli {

struct LinuxCommand {
  std::string image;  // a name from `membrane image ls`, or an image file; "" for the default
  std::vector<std::string>
      arguments;          // the program and its arguments, or the arguments of the image's entrypoint
  bool is_whole = false;  // ignores the image's entrypoint
  std::vector<std::string> environment;  // NAME=VALUE, added to the image's
  std::optional<linux::Determinism> deterministic;
  std::string platform;       // "trap", "kvm"; "" for this machine's faster one
  int input = -1;             // a descriptor
  bool has_terminal = false;  // the command uses this process's terminal
  std::string directory;      // working directory; "" for the default by image and grants
  std::string diff_file;      // file for a git patch of the command's changes; "" for none
  policy::Policy policy;
  std::function<void(std::string_view)> on_output, on_error;  // also receive the output; may be null
  // Called with the sandbox's description and the command's settings, before it runs: for a receipt. `input`
  // then contains all of its input.
  std::function<void(std::string description, sandbox::Invocation)> on_made = {};
};

// Errors: kNotFound without the image; kUnsupported for a grant that this kind cannot enforce, or a machine
// without its platform; kInvalidArgument for a terminal if there is none.
Result<sandbox::Report> run_linux(const LinuxCommand& command, std::atomic<bool>& cancelled);

// The default limits; the same for a command on a terminal.
policy::Limits linux_limits();
policy::Limits terminal_limits();
// The policy of the options, for this kind: the working directory is granted at /work, and a directory that a
// flag grants without bounds has room for a build.
Result<policy::Policy> linux_policy(const PolicyOptions& options, const policy::Limits& unless_given);
// The variables of --env for a command.
Result<std::vector<std::string>> linux_environment(const std::vector<std::string>& written);
// The image of --image; without a name the usual one. Errors: those of linux::find_image().
Result<linux::StoredImage> find_image_or_usual(const std::string& name);
// What to write if the first word after `membrane VERB` is an image and not a command: its --image. "" for any other
// word.
std::string hint_at_image(const std::string& verb, const std::vector<std::string>& words);
// The best shell that an image has.
std::vector<std::string> login_shell();

}  // namespace membrane::cli
