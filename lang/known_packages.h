// What is known of Python's packages by their names: known_packages.def. Data for messages; nothing is decided by it but
// that a package of native code is refused before pip looks for it.
//
// Threads: constant.
#pragma once

#include <string>
#include <string_view>

namespace membrane::lang {

// The distribution that brings a module, as the index has it: of "bs4" "beautifulsoup4". Of a module that is not in the table
// it is the module's own name.
std::string_view distribution_of(std::string_view module);

// What to use instead of a distribution of native code ("pandas, which is built in"); "" for one that is not known as such. Names
// are compared as the index does.
std::string_view instead_of_native(std::string_view distribution);

}  // namespace membrane::lang
