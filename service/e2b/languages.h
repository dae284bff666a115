// Maps E2B's names for languages to ours, and provides code in these languages that the interface itself
// runs.
//
// Threads: pure.
#pragma once

#include <string>
#include <string_view>

namespace membrane::service::e2b {

// Our template for E2B's name of a template or language; "": there is none.
std::string_view template_of(std::string_view theirs);
std::string_view language_of(std::string_view theirs);
// Our template that runs a language: TypeScript uses JavaScript's.
std::string_view template_that_runs(std::string_view language);

// Code that creates a directory, makes it the current one, and shows values as E2B does; and the two parts
// around a program that should run in a directory.
std::string code_to_begin_in(std::string_view language, const std::string& directory);
std::string code_to_enter(std::string_view language, const std::string& directory);
std::string code_to_leave(std::string_view language);

}  // namespace membrane::service::e2b
