// The arguments of a tool: described once, for the schema that clients see and for the validation of what
// they send. Errors are sentences that a model can act on, and list all problems at once.
//
// For .cc files of this floor. Threads: values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "mcp/message.h"

namespace membrane::mcp {

enum class ParameterType : uint8_t {
  kText,
  kInteger,
  kTexts,     // a list
  kFlag,      // true or false; false if absent
  kLanguage,  // a text: one of the choices, or a synonym ("py")
};

struct Parameter {
  std::string name;
  ParameterType type = ParameterType::kText;
  std::string description;
  bool is_required = false;
  std::vector<std::string> choices = {};  // for a text; empty: any
  int64_t least = 0, most = INT64_MAX;    // of an integer
};

// JSON Schema (2020-12) of an object with these properties and no others.
OrderedJson schema_of(std::span<const Parameter> parameters);

// The validated arguments.
class Arguments {
 public:
  // kInvalidArgument: everything that does not fit, with what was expected.
  static Result<Arguments> check(Json sent, std::span<const Parameter> parameters);

  [[nodiscard]] std::string text(std::string_view name, std::string_view otherwise = "") const;
  [[nodiscard]] std::optional<int64_t> integer(std::string_view name) const;
  [[nodiscard]] bool flag(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> texts(std::string_view name) const;

 private:
  explicit Arguments(Json values) : values_(std::move(values)) {}
  Json values_;
};

// The choice that a word for a language stands for; "" if none.
std::string chosen_language(std::string_view word, std::span<const std::string> choices);

}  // namespace membrane::mcp
