// Findings as they are given to others: their number and their texts are bounded, since a program chooses the names that
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
inline constexpr size_t kMaxFindingTextBytes = 1000;  // of each text of a finding

// Shortens each text of a finding to kMaxFindingTextBytes, after a whole character and with "…" for what is gone.
void bound_text(Diagnostic& diagnostic);
// When the owner of the work has ended it (base/stop_scope.h): "the parser was stopped before its end".
Diagnostic stopped_finding(std::string_view work);
// The first kMaxFindings, with their texts bounded.
std::vector<Diagnostic> bounded(std::vector<Diagnostic> findings);

}  // namespace membrane
