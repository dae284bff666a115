// Chooses the warm image that a Python program starts from: the one with most of the modules that it imports.
//
// Threads: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace membrane::sandbox {

// The names of packages ("scipy" for scipy.stats) that the text imports, each once, at any place where a statement
// may start. Text that only looks like an import, for example in a string, is included: it affects the choice of an
// image, but not the program's behaviour.
std::vector<std::string_view> imported_packages(std::string_view program);

// The list with modules of the most packages; of equal ones the shortest. Null when no list has any.
const std::vector<std::string>* best_warm_list(const std::vector<std::vector<std::string>>& lists,
                                               const std::vector<std::string_view>& packages);
// For a session, whose programs are not known: the list with the most modules. Null without lists.
const std::vector<std::string>* largest_warm_list(const std::vector<std::vector<std::string>>& lists);

}  // namespace membrane::sandbox
