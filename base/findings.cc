#include "base/findings.h"

#include <string>
#include <string_view>
#include <utility>

#include "base/utf8.h"

namespace membrane {

void bound_text(Diagnostic& d) {
  constexpr std::string_view kMark = "…";
  for (std::string* const text : {&d.message, &d.found, &d.expected, &d.hint, &d.function}) {
    if (text->size() <= kMaxFindingTextBytes) continue;
    text->resize(utf8_cut(*text, kMaxFindingTextBytes - kMark.size()));
    *text += kMark;
  }
}

Diagnostic stopped_finding(std::string_view work) {
  return {.code = DiagnosticCode::kImplementationLimit,
          .message = std::string(work) + " was stopped before its end"};
}

std::vector<Diagnostic> bounded(std::vector<Diagnostic> findings) {
  if (findings.size() > kMaxFindings) findings.resize(kMaxFindings);
  for (Diagnostic& finding : findings) bound_text(finding);
  return findings;
}

}  // namespace membrane
