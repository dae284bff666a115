// Python and JavaScript from the registries that pip and npm use: what tools/get-languages does, as it is installed.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace membrane::cli {

// Whether `name` is one of those.
bool is_fetched(std::string_view name);
// Brings it to where languages are looked for first; what already exists is left alone. `warm`: for Python, lists of
// modules with commas, or "none" (lang::Package::warm); empty: those that exist, else the usual ones. What it does,
// and what goes wrong, is said on standard error. Errors: kUnavailable; kUnsupported without python3 or the script.
Status fetch_language(const std::string& name, const std::vector<std::string>& warm);

}  // namespace membrane::cli
