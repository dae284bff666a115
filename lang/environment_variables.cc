#include "lang/environment_variables.h"

#include "base/json.h"

namespace membrane::lang {
namespace {

// A JSON string is also a string literal of Python and of JavaScript.
std::string quoted(const std::string& text) { return json_text(nlohmann::ordered_json(text)); }

}  // namespace

std::optional<std::string> code_to_change(std::string_view language, const EnvironmentVariables& from,
                                          const EnvironmentVariables& to) {
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
  if (!code.empty() && !is_python && !is_javascript) return std::nullopt;
  // Local time follows TZ: in Python when it is asked to, in JavaScript by itself.
  const auto zone_in = [](const EnvironmentVariables& variables) {
    const auto found = variables.find("TZ");
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  if (is_python && zone_in(from) != zone_in(to)) code += "__import__('time').tzset()\n";
  return code;
}

}  // namespace membrane::lang
