#include "face/packaged.h"

#include <algorithm>

#include "packages/provide.h"

namespace membrane::face {

Result<std::shared_ptr<const sandbox::Template>> Packaged::with(
    const std::shared_ptr<const sandbox::Template>& opened, const policy::Packages& packages) {
  const packages::Names of_language = packages::names_for(opened->package().driver);
  if (of_language == nullptr || (packages.*of_language).empty()) return opened;
  const std::vector<std::string>& names = packages.*of_language;
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(sets_, names, [](const auto& set) { return set.first; });
  if (known != sets_.end()) {
    std::rotate(known, known + 1, sets_.end());
    return sets_.back().second;
  }
  MEMBRANE_ASSIGN(auto provided, packages::provide(opened, {.named = names, .added = {}, .lock_file = {}},
                                                   {.cache_directory = packages::default_cache_directory()}));
  if (sets_.size() == kMostSets) sets_.pop_front();
  sets_.emplace_back(names, provided);
  return provided;
}

}  // namespace membrane::face
