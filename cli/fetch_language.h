// Installs Python and JavaScript from the registries that pip and npm use, with the installed
// tools/get-languages.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace membrane::cli {

// Whether `name` is one of those.
bool is_fetched(std::string_view name);
// Installs it where languages are looked for first; existing ones are left alone. `warm`: for Python, lists
// of modules with commas, or "none" (lang::Package::warm); empty: those that exist, else the default ones.
// Progress and problems are reported on standard error. Errors: kUnavailable; kUnsupported without python3 or
// the script.
Status fetch_language(const std::string& name, const std::vector<std::string>& warm);

}  // namespace membrane::cli
