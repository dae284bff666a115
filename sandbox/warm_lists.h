// Which warm image a Python program begins from: that of the list of modules that has most of what it imports.
//
// Threads: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace membrane::sandbox {

// The names of packages ("scipy" of scipy.stats) that the text imports, each once, wherever a statement may begin. What
// only looks like an import, in a string say, is among them: it changes where a program begins, and not what it does.
std::vector<std::string_view> imported_packages(std::string_view program);

// The list with modules of the most packages; of several the shortest. Null when none has any.
const std::vector<std::string>* best_warm_list(const std::vector<std::vector<std::string>>& lists,
                                               const std::vector<std::string_view>& packages);
// For a session, whose programs are not known: the one with the most modules. Null without lists.
const std::vector<std::string>* largest_warm_list(const std::vector<std::vector<std::string>>& lists);

}  // namespace membrane::sandbox
