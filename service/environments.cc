#include "service/environments.h"

#include "base/json.h"

namespace membrane::service {
namespace {

constexpr size_t kMostVariables = 256;
constexpr size_t kMostNameBytes = 256, kMostValueBytes = 32u << 10;

// A JSON string is also a string literal of Python and of JavaScript.
std::string quoted(const std::string& text) { return json_text(nlohmann::ordered_json(text)); }

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
  const bool is_python = language == "python", is_javascript = language == "js";
  std::string code;
  for (const auto& [name, value] : from)
    if (!to.contains(name))
      code += is_python ? "__import__('os').environ.pop(" + quoted(name) + ", None)\n"
                        : "delete process.env[" + quoted(name) + "];\n";
  for (const auto& [name, value] : to) {
    if (const auto had = from.find(name); had != from.end() && had->second == value) continue;
    code += is_python ? "__import__('os').environ[" + quoted(name) + "] = " + quoted(value) + "\n"
                      : "process.env[" + quoted(name) + "] = " + quoted(value) + ";\n";
  }
  if (!code.empty() && !is_python && !is_javascript)
    return refuse(ApiCode::kUnsupported, "programs in " + std::string(language) + " have no environment here",
                  "Use python, javascript or wat, or write what it needs into a file.");
  return code;
}

}  // namespace membrane::service
