// --with NAME: packages for the programs of a command, in addition to those in its policy.
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

  // Adds the packages of --with to those that the policy names for the language, so that the policy contains
  // all. Errors: kInvalidArgument for anything but a package, or for one that both name.
  Status join(policy::Policy& policy, lang::Driver driver) const;
  // The language with the packages that the policy names for it, including those of --with. The lock is
  // stored next to `policy_file`; "" for none.
  Result<std::shared_ptr<const sandbox::Template>> provide(std::shared_ptr<const sandbox::Template> language,
                                                           const policy::Policy& policy,
                                                           const std::string& policy_file,
                                                           const std::atomic<bool>* cancel) const;

  [[nodiscard]] bool given() const { return !with_.empty(); }

 private:
  std::vector<std::string> with_;
};

}  // namespace membrane::cli
