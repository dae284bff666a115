// E2B's clients send a command as a shell line. A sandbox without a shell understands the part that consists
// of words: 'quoted', "quoted", with\ backslashes. Anything else that a shell would interpret (pipes,
// redirections, variables, globs, …) is refused by name, never half done.
//
// Threads: pure.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace membrane::service::e2b {

// The words of a line; none for an empty one. The error names the part that is more than words, for a
// sentence: "a pipe (|)".
std::expected<std::vector<std::string>, std::string> shell_words(std::string_view line);

}  // namespace membrane::service::e2b
