#include "service/environments.h"

#include "lang/environment_variables.h"

namespace membrane::service {
namespace {

constexpr size_t kMostVariables = 256;
constexpr size_t kMostNameBytes = 256, kMostValueBytes = 32u << 10;

}  // namespace

Answer<void> check_environment(const Environment& environment) {
  const auto refused = [](const std::string& what) {
    return refuse(ApiCode::kInvalidValue, "\"env\" " + what,
                  "Names have no = and are not empty; names and values have no NUL.");
  };
  if (environment.size() > kMostVariables)
    return refused("has more than " + std::to_string(kMostVariables) + " variables");
  for (const auto& [name, value] : environment) {
    if (name.empty() || name.size() > kMostNameBytes ||
        name.find_first_of(std::string_view("=\0", 2)) != name.npos)
      return refused("has an invalid name");
    if (value.size() > kMostValueBytes || value.contains('\0'))
      return refused("has a value of " + name + " that is invalid or too long");
  }
  return {};
}

Answer<std::string> code_to_change(std::string_view language, const Environment& from,
                                   const Environment& to) {
  if (auto code = lang::code_to_change(language, from, to)) return *std::move(code);
  return refuse(ApiCode::kUnsupported, "programs in " + std::string(language) + " have no environment here",
                "Use python, javascript or wat, or write what it needs into a file.");
}

}  // namespace membrane::service
