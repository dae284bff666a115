#include "policy/package_name.h"

#include <algorithm>

#include "base/text.h"

namespace membrane::policy {
namespace {

constexpr size_t kMostNameBytes = 214;  // npm's own bound
constexpr size_t kMostVersionBytes = 64;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_letter(c) || is_digit(c); }
bool is_joiner(char c) { return c == '-' || c == '_' || c == '.'; }

// As the Python package index defines them: letters, digits and joiners, with no joiner at either end.
bool is_python_name(std::string_view name) {
  return !name.empty() && is_word(name.front()) && is_word(name.back()) &&
         std::ranges::all_of(name, [](char c) { return is_word(c) || is_joiner(c); });
}

bool is_plain_npm_name(std::string_view name) {
  return !name.empty() && is_word(name.front()) &&
         std::ranges::all_of(name, [](char c) { return is_word(c) || is_joiner(c); });
}

bool is_npm_name(std::string_view name) {
  if (!name.starts_with('@')) return is_plain_npm_name(name);
  const size_t slash = name.find('/');
  return slash != std::string_view::npos && is_plain_npm_name(name.substr(1, slash - 1)) &&
         is_plain_npm_name(name.substr(slash + 1));
}

// PEP 440 in its normal forms, and "13.7.*".
bool is_python_version(std::string_view version) {
  if (version.ends_with(".*")) version.remove_suffix(2);
  return !version.empty() && is_word(version.front()) && is_word(version.back()) &&
         std::ranges::all_of(version,
                             [](char c) { return is_word(c) || is_joiner(c) || c == '+' || c == '!'; });
}

// Three numbers, and an optional suffix.
bool is_npm_version(std::string_view version) {
  const std::string_view numbers = version.substr(0, version.find_first_of("-+"));
  if (std::ranges::count(numbers, '.') != 2 || numbers.front() == '.' || numbers.back() == '.' ||
      numbers.contains("..") || !std::ranges::all_of(numbers, [](char c) { return is_digit(c) || c == '.'; }))
    return false;
  return std::ranges::all_of(version, [](char c) { return is_word(c) || c == '.' || c == '-' || c == '+'; });
}

std::unexpected<Error> refuse(std::string_view text, std::string_view why, std::string_view hint) {
  return fail(ErrorCode::kInvalidArgument,
              "\"" + std::string(text) + "\" is not a package: " + std::string(why), std::string(hint));
}

std::unexpected<Error> refuse_version(Registry registry, std::string_view text) {
  if (registry == Registry::kPython)
    return refuse(text, "what follows == is not a version.", "Write it as rich==13.7.1 or rich==13.7.*");
  return refuse(text, "what follows == is not a version.", "Write all three numbers, as lodash==4.17.21");
}

std::unexpected<Error> refuse_name(Registry registry, std::string_view text) {
  const bool is_python = registry == Registry::kPython;
  const std::string_view example = is_python
                                       ? "Write a name such as rich, or a version such as rich==13.7.1"
                                       : "Write a name such as lodash, or a version such as lodash==4.17.21";
  if (text.starts_with('-')) return refuse(text, "it is an option, and only names are accepted.", example);
  if (text.contains("://") || text.contains(" @ "))
    return refuse(text, "it is a URL, and packages are found in the registry by name.", example);
  if (text.contains('['))
    return refuse(text, "extras are not accepted.", "Name what the extra needs as packages of their own.");
  if (text.find_first_of("<>~^;") != std::string_view::npos)
    return refuse(text, "only an exact version can be asked for, with ==.", example);
  if (text.find('@', 1) != std::string_view::npos)
    return refuse(text, "a version comes after ==, and not after @.", example);
  if (text.contains(',') || text.contains(' '))
    return refuse(text, "it is several names.",
                  "Repeat the option: --with rich --with httpx; in a policy, list them.");
  if ((text.contains('/') && is_python) || text.starts_with('.') || text.starts_with('/'))
    return refuse(text, "it is a path, and packages are found in the registry by name.", example);
  return refuse(text, "it is not a valid name in the registry.", example);
}

}  // namespace

std::string normal_python_name(std::string_view name) {
  std::string out;
  for (const char c : lower_case(name))
    if (!is_joiner(c)) out += c;
    else if (!out.ends_with('-')) out += '-';
  return out;
}

Result<PackageName> parse_package(Registry registry, std::string_view text) {
  const std::string_view whole = trimmed(text);
  const size_t equals = whole.find("==");
  PackageName package{std::string(trimmed(whole.substr(0, equals))), {}};
  const bool is_python = registry == Registry::kPython;
  if (package.name.size() > kMostNameBytes) return refuse_name(registry, "…");
  if (!(is_python ? is_python_name(package.name) : is_npm_name(package.name)))
    return refuse_name(registry, whole);
  if (is_python) package.name = normal_python_name(package.name);
  if (equals == std::string_view::npos) return package;
  package.version = trimmed(whole.substr(equals + 2));
  if (package.version.empty() || package.version.size() > kMostVersionBytes ||
      !(is_python ? is_python_version(package.version) : is_npm_version(package.version)))
    return refuse_version(registry, whole);
  return package;
}

Result<std::vector<PackageName>> parse_packages(Registry registry, const std::vector<std::string>& texts) {
  if (texts.size() > kMostPackages)
    return fail(ErrorCode::kInvalidArgument,
                "more than " + std::to_string(kMostPackages) + " packages are requested",
                "Name only those that programs import: their dependencies come with them.");
  std::vector<PackageName> all;
  for (const std::string& text : texts) {
    MEMBRANE_ASSIGN(PackageName package, parse_package(registry, text));
    all.push_back(std::move(package));
  }
  std::ranges::sort(all, {}, &PackageName::name);
  const auto twice = std::ranges::adjacent_find(all, {}, &PackageName::name);
  if (twice != all.end())
    return fail(ErrorCode::kInvalidArgument, "the package " + twice->name + " is requested twice",
                "Remove one of them.");
  return all;
}

}  // namespace membrane::policy
