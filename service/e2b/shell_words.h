// What E2B's clients send as a command is a line for a shell. A sandbox without one understands the part of it that is
// words: 'quoted', "quoted", with\ backslashes. What a shell would do more with (pipes, redirections, variables, globs, …)
// is refused by name, never half done.
//
// Threads: pure.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace membrane::service::e2b {

// The words of a line; none of one that is empty. The error is what stands there that is more than words, for a sentence:
// "a pipe (|)".
std::expected<std::vector<std::string>, std::string> shell_words(std::string_view line);

}  // namespace membrane::service::e2b
