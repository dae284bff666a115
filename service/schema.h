// JSON Schema, the part of it that openapi.json uses: whether a value matches a schema, and if not, where and
// why.
//
// Keywords: type, properties, required, additionalProperties, propertyNames (maxLength only), minProperties,
// maxProperties, items, minItems, maxItems, uniqueItems (of strings), enum, minimum, maximum, minLength,
// maxLength (in characters), $ref to a schema of the document. Annotations (title, description, default,
// examples, format) have no effect. A schema with any other keyword is refused when the document is read, so
// none is ignored.
//
// Include from .cc files only: the JSON library is slow to compile. Threads: a Schema is constant.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace membrane::service {

struct Violation {
  std::string field;       // "policy.limits", "labels[2]"; "" for the value itself
  std::string message;     // "must be an integer from 1 to 100"
  std::string meant = {};  // the nearest name that is known, or ""
};

class Schema {
 public:
  // References are resolved in `document`, which must outlive the schema. Errors: kInvalidInput for an
  // unknown keyword or reference.
  static Result<Schema> make(const nlohmann::json& schema, const nlohmann::json& document);

  [[nodiscard]] std::optional<Violation> check(const nlohmann::json& value) const;
  // The value of a query parameter's text, by the schema's type: an integer, a boolean, or the text.
  [[nodiscard]] nlohmann::json read_text(std::string_view text) const;

 private:
  Schema(const nlohmann::json& schema, const nlohmann::json& document)
      : schema_(&schema), document_(&document) {}

  const nlohmann::json* schema_;
  const nlohmann::json* document_;
};

}  // namespace membrane::service
