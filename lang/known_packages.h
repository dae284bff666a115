// Known Python packages, by name: known_packages.def. Data for messages; the only decision based on it is that a
// native package is refused before pip searches for it.
//
// Threads: constant.
#pragma once

#include <string>
#include <string_view>

namespace membrane::lang {

// The distribution that provides a module, as the index names it: "beautifulsoup4" for "bs4". For a module that is
// not in the table, the module's own name.
std::string_view distribution_of(std::string_view module);

// Whether the table has the module: then its name is not misspelt.
bool is_known_module(std::string_view module);

// What to use instead of a native distribution ("pandas, which is built in"); "" for one that is not known to be
// native. Names are compared as the index does.
std::string_view instead_of_native(std::string_view distribution);

// The known distribution that an unknown name is one slip away from ("flask" for "flaks"), as the index names it; ""
// if there is none.
std::string_view near_distribution(std::string_view name);

}  // namespace membrane::lang
