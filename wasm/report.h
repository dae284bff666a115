// Keeps the first failure of a validation, with its place worked out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/diagnostic.h"
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
  // A failure of a declaration, whose place is not recorded.
  [[gnu::cold]] bool fail(Diagnostic diagnostic) {
    failure_ = std::move(diagnostic);
    return false;
  }

  [[nodiscard]] Diagnostic take() { return std::move(*failure_); }

 private:
  const Module& module_;
  std::string_view text_;
  std::optional<Diagnostic> failure_;
};

}  // namespace membrane::wasm
