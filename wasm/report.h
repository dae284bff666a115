// Keeps the first failure of a validation, with its place.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/findings.h"
#include "wasm/text/field_places.h"
#include "wasm/validate.h"

namespace membrane::wasm {

class Report {
 public:
  Report(const Module& module, std::string_view text) : module_(module), text_(text) {}

  // A failure at an instruction. Always false, so that checks can end in `return report.fail(…)`.
  [[gnu::cold]] bool fail_at(uint32_t code_offset, Diagnostic diagnostic) {
    diagnostic.place = place_of(module_, code_offset, text_);
    failure_ = std::move(diagnostic);
    return false;
  }
  // Failures of declarations, which have a place only when the module came from text.
  [[gnu::cold]] bool fail(FieldKind kind, uint32_t index, Diagnostic diagnostic) {
    if (!text_.empty()) diagnostic.place = place_of_field(text_, kind, index);
    failure_ = std::move(diagnostic);
    return false;
  }
  [[gnu::cold]] bool fail_export(std::string_view name, uint32_t occurrence, Diagnostic diagnostic) {
    if (!text_.empty()) diagnostic.place = place_of_export(text_, name, occurrence);
    failure_ = std::move(diagnostic);
    return false;
  }
  [[gnu::cold]] bool fail(Diagnostic diagnostic) {
    failure_ = std::move(diagnostic);
    return false;
  }

  // Its texts are bounded.
  [[nodiscard]] Diagnostic take() {
    bound_text(*failure_);
    return std::move(*failure_);
  }

 private:
  const Module& module_;
  std::string_view text_;
  std::optional<Diagnostic> failure_;
};

}  // namespace membrane::wasm
