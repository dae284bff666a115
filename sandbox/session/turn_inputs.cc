#include "sandbox/session/turn_inputs.h"

#include <algorithm>
#include <string_view>

#include "base/json.h"
#include "base/text.h"

namespace membrane::sandbox {
namespace {

Status check_name(std::string_view name, const Template& of) {
  if (!is_identifier(name))
    return fail(ErrorCode::kInvalidArgument, '"' + std::string(name) + "\" cannot be the name of an input",
                "Use letters, digits and _, and begin with a letter.");
  const auto keywords = of.interpreter().keywords();
  if (std::ranges::find(keywords, name) == keywords.end()) return {};
  return fail(ErrorCode::kInvalidArgument,
              "the input " + std::string(name) +
                  " has the name of a keyword, which cannot be a variable in " + of.package().name,
              "Give it another name, such as " + std::string(name) + "_.");
}

constexpr const char* kSmaller = "Write what is large into a file of the session, which the program reads.";

Status check_values(const Inputs& inputs) {
  size_t bytes = 0;
  for (const auto& [name, value] : inputs) {
    const auto parsed = read_json(value, "the input " + name);
    if (!parsed)
      return fail(parsed.error().code, parsed.error().message,
                  parsed.error().code == ErrorCode::kTooLong ? kSmaller
                  : parsed.error().message.contains("is nested more than")
                      ? "Give a flatter value."
                      : "Give one value as JSON: text in quotes.");
    bytes += name.size() + value.size();
  }
  constexpr size_t kMost = JsonLimits().bytes;
  if (bytes <= kMost) return {};
  return fail(ErrorCode::kTooLong,
              "the inputs have " + count_of(bytes, "byte") + ", and may have " + std::to_string(kMost),
              kSmaller);
}

}  // namespace

Status check_inputs(const Turn& turn, const Template& of) {
  if (turn.inputs.empty()) return {};
  if (!of.interpreter().asks())
    return fail(
        ErrorCode::kUnsupported,
        of.package().name + " reads its programs from standard input, and has no input variables for them",
        "Write the values into the program, or into a file that the policy grants.");
  if (turn.is_script)
    return fail(ErrorCode::kUnsupported, "a script is a whole program, and has no input variables",
                "Give it arguments or standard input, or run it as a cell.");
  for (const auto& [name, value] : turn.inputs) MEMBRANE_TRY(check_name(name, of));
  return check_values(turn.inputs);
}

bool gives_input(const Turn& turn, const RunOptions& options) {
  return !turn.input.empty() || !turn.inputs.empty() ||
         (options.guest_functions != nullptr && options.guest_functions->has_values);
}

bool are_sound(const Inputs& inputs) { return check_values(inputs).has_value(); }

std::string json_of_inputs(const Inputs& inputs) {
  std::string text = "{";
  for (const auto& [name, value] : inputs) {
    if (text.size() > 1) text += ',';
    text += json_text(nlohmann::json(name)) + ':' + value;
  }
  return text + '}';
}

}  // namespace membrane::sandbox
