// A language with the packages that policies of its sessions name.
//
// Threads: any; a caller waits while another thread provides the same packages.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "policy/policy.h"
#include "sandbox/session/template.h"

namespace membrane::face {

class Packaged {
 public:
  // `opened` as it is where the policy names none. The first time that packages are named, an installer may bring them, which takes
  // seconds; of the last few sets the templates are kept. Errors: those of packages::provide(); kUnsupported for a language that
  // takes none.
  Result<std::shared_ptr<const sandbox::Template>> with(
      const std::shared_ptr<const sandbox::Template>& opened, const policy::Packages& packages);

 private:
  static constexpr size_t kMostSets = 8;

  std::mutex mutex_;  // guards all below
  std::deque<std::pair<std::vector<std::string>, std::shared_ptr<const sandbox::Template>>>
      sets_;  // the last used is last
};

}  // namespace membrane::face
