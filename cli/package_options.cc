#include "cli/package_options.h"

#include <algorithm>
#include <utility>

#include "packages/provide.h"
#include "policy/package_name.h"

namespace membrane::cli {
namespace {

// Shows progress on a terminal; elsewhere prints one line that packages are being installed, since that takes
// time.
std::function<void(std::string_view step)> progress_of(const std::vector<std::string>& names) {
  if (auto line = progress_line()) return line;
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return [list, was_reported = false](std::string_view step) mutable {
    if (!std::exchange(was_reported, true))
      print(stderr, "membrane: " + std::string(step) + ": " + list + "\n");
  };
}

}  // namespace

void PackageOptions::add_to(CLI::App& command) {
  add_repeatable(command, "--with", with_,
                 "A package from the language's registry that programs can import, as rich or rich==13.7.1; "
                 "may be repeated")
      ->type_name("NAME[==VERSION]")
      ->group("Policy");
}

Status PackageOptions::join(policy::Policy& policy, lang::Driver driver) const {
  if (with_.empty()) return {};
  const packages::Names names = packages::names_for(driver);
  if (names == nullptr)
    return fail(ErrorCode::kUnsupported,
                "--with is for Python and JavaScript: other programs take no packages",
                "Give another language its files when it is added: membrane languages add --file.");
  std::vector<std::string>& named = policy.packages.*names;
  named.insert(named.end(), with_.begin(), with_.end());
  const auto registry =
      driver == lang::Driver::kPython ? policy::Registry::kPython : policy::Registry::kJavaScript;
  MEMBRANE_TRY(policy::parse_packages(registry, named));
  return {};
}

Result<std::shared_ptr<const sandbox::Template>> PackageOptions::provide(
    std::shared_ptr<const sandbox::Template> language, const policy::Policy& policy,
    const std::string& policy_file, const std::atomic<bool>* cancel) const {
  const packages::Names of_language = packages::names_for(language->package().driver);
  if (of_language == nullptr || (policy.packages.*of_language).empty()) return language;
  const std::vector<std::string>& names = policy.packages.*of_language;
  packages::Wanted wanted;
  for (const std::string& name : names)
    (std::ranges::find(with_, name) == with_.end() ? wanted.named : wanted.added).push_back(name);
  if (!policy_file.empty()) wanted.lock_file = policy_file + ".lock";
  return packages::provide(
      std::move(language), wanted,
      {.cache_directory = packages::default_cache_directory(),
       .on_progress = progress_of(names),
       .on_notice =
           [](std::string_view sentence) { print(stderr, "membrane: " + std::string(sentence) + "\n"); },
       .cancel = cancel});
}

}  // namespace membrane::cli
