#include "lang/known_packages.h"

#include <algorithm>
#include <iterator>

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

}  // namespace membrane::lang
