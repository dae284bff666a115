// Findings as they are reported: their number and their texts are bounded, since a program chooses the names that
// they quote.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"

namespace membrane {

inline constexpr size_t kMaxFindings = 20;
inline constexpr size_t kMaxFindingTextBytes = 1000;  // per text of a finding

// Shortens each text of a finding to kMaxFindingTextBytes, at a character boundary, with "…" for what was cut.
void bound_text(Diagnostic& diagnostic);
// For work that its owner stopped (base/stop_scope.h): "the parser was stopped before its end".
Diagnostic stopped_finding(std::string_view work);
// The first kMaxFindings, with their texts bounded.
std::vector<Diagnostic> bounded(std::vector<Diagnostic> findings);

}  // namespace membrane
