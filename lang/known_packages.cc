#include "lang/known_packages.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/one_slip.h"
#include "policy/package_name.h"

namespace membrane::lang {
namespace {

struct Known {
  std::string_view name, other;
};

constexpr Known kModules[] = {
#define MODULE(module, distribution) {module, distribution},
#define NATIVE(distribution, instead)
#include "lang/known_packages.def"
#undef MODULE
#undef NATIVE
};

constexpr Known kNative[] = {
#define MODULE(module, distribution)
#define NATIVE(distribution, instead) {distribution, instead},
#include "lang/known_packages.def"
#undef MODULE
#undef NATIVE
};

}  // namespace

std::string_view distribution_of(std::string_view module) {
  const auto* const found = std::ranges::find(kModules, module, &Known::name);
  return found == std::end(kModules) ? module : found->other;
}

bool is_known_module(std::string_view module) {
  return std::ranges::find(kModules, module, &Known::name) != std::end(kModules);
}

std::string_view instead_of_native(std::string_view distribution) {
  const auto* const found =
      std::ranges::find(kNative, policy::normal_python_name(distribution), &Known::name);
  return found == std::end(kNative) ? std::string_view() : found->other;
}

std::string_view near_distribution(std::string_view name) {
  constexpr size_t kLeastLetters = 4;
  std::vector<std::string_view> distributions;
  for (const Known& module : kModules) distributions.push_back(module.other);
  for (const Known& native : kNative) distributions.push_back(native.name);
  const std::string normal = policy::normal_python_name(name);
  std::string_view near;
  for (const std::string_view known : distributions) {
    const std::string other = policy::normal_python_name(known);
    if (other == normal) return "";
    if (near.empty() && other.size() >= kLeastLetters && is_one_slip(normal, other)) near = known;
  }
  return near;
}

}  // namespace membrane::lang
