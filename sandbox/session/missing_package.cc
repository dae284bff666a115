#include "sandbox/session/missing_package.h"

#include <algorithm>

#include "lang/known_packages.h"
#include "policy/names.h"
#include "policy/package_name.h"

namespace membrane::sandbox {
namespace {

constexpr size_t kMostNameBytes = 64;
constexpr size_t kMostNames = 10;

bool is_module(const std::string& name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !name.empty() && name.size() <= kMostNameBytes && std::ranges::all_of(name, fits);
}

std::vector<std::string> packages_among(const std::vector<std::string>& texts) {
  std::vector<std::string> names;
  for (const std::string& text : texts)
    if (const auto name = policy::parse_package(policy::Registry::kPython, text);
        name && text.size() <= kMostNameBytes && names.size() < kMostNames)
      names.push_back(name->text());
  return names;
}

std::string in_policy(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "\"" : ", \"") + name + "\"";
  return "python = [" + list + "] under [packages] of the policy";
}

std::string how_to_have(const std::vector<std::string>& names, PackagesBy by) {
  if (by == PackagesBy::kPolicy)
    return "a program cannot install it: the person who runs it can write " + in_policy(names) +
           ". Until then, continue without it.";
  std::string flags;
  for (const std::string& name : names) flags += " --with " + name;
  return "run with" + flags + ", or write " + in_policy(names) + ".";
}

// The replacement for a native package; "" for another package.
std::string instead_of(const std::string& module, std::string_view distribution) {
  const std::string_view instead = lang::instead_of_native(distribution);
  if (instead.empty()) return "";
  return module + " needs native code, which does not run here: use " + std::string(instead) + ".";
}

std::string hint_of_installing(const MissingPackage& missing, PackagesBy by) {
  const std::vector<std::string> names = packages_among(missing.install);
  for (const std::string& name : names)
    if (std::string instead = instead_of(name, name.substr(0, name.find('='))); !instead.empty())
      return instead;
  if (!names.empty()) return "Packages are not installed from inside: " + how_to_have(names, by);
  return by == PackagesBy::kFlag
             ? "Packages are not installed from inside: run with --with NAME, or name "
               "them under [packages] of the policy."
             : "Packages are not installed from inside: the person who runs it can name them "
               "under [packages] of the policy.";
}

}  // namespace

std::string hint_of_missing(const MissingPackage& missing, PackagesBy by) {
  if (!is_module(missing.module)) return "";
  if (missing.module == "pip") return hint_of_installing(missing, by);
  const std::string_view distribution = lang::distribution_of(missing.module);
  if (std::string instead = instead_of(missing.module, distribution); !instead.empty()) return instead;
  std::vector<std::string_view> near;
  for (const std::string& name : missing.near)
    if (is_module(name) && near.size() < 3) near.push_back(name);
  if (!near.empty() && !lang::is_known_module(missing.module))
    return "Did you mean " + policy::enumerate(near) + "?";
  const auto package = policy::parse_package(policy::Registry::kPython, distribution);
  if (!package) return "";
  return missing.module + " is not built in: " + how_to_have({package->name}, by);
}

}  // namespace membrane::sandbox
