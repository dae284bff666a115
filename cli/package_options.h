// --with NAME: packages for the programs of a command, in addition to those that its policy names.
//
// Threads: one at a time.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "cli/cli.h"

namespace membrane::cli {

class PackageOptions {
 public:
  void add_to(CLI::App& command);

  // Adds what --with asks for to what the policy names for the language, so that the policy has all of it.
  // Errors: kInvalidArgument for anything but a package, or is named by both.
  Status join(policy::Policy& policy, lang::Driver driver) const;
  // The language with what the policy names for it, --with's names among them. `policy_file` is where
  // the lock stands beside; "" for none.
  Result<std::shared_ptr<const sandbox::Template>> provide(std::shared_ptr<const sandbox::Template> language,
                                                           const policy::Policy& policy,
                                                           const std::string& policy_file,
                                                           const std::atomic<bool>* cancel) const;

  [[nodiscard]] bool given() const { return !with_.empty(); }

 private:
  std::vector<std::string> with_;
};

}  // namespace membrane::cli
