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
  // Returns `opened` itself if the policy names no packages. The first request for a set may run an installer, which takes seconds;
  // the templates of the last few sets are kept. Errors: those of packages::provide(); kUnsupported for a language that takes none.
  Result<std::shared_ptr<const sandbox::Template>> with(
      const std::shared_ptr<const sandbox::Template>& opened, const policy::Packages& packages);

 private:
  static constexpr size_t kMostSets = 8;

  std::mutex mutex_;  // guards all below
  std::deque<std::pair<std::vector<std::string>, std::shared_ptr<const sandbox::Template>>>
      sets_;  // the last used is last
};

}  // namespace membrane::face
