// The languages of sandboxes by the names that E2B's clients have for them, and code in them that the interface itself runs.
//
// Threads: pure.
#pragma once

#include <string>
#include <string_view>

namespace membrane::service::e2b {

// Our template for the name of a template, or of a language, of theirs; "": there is none.
std::string_view template_of(std::string_view theirs);
std::string_view language_of(std::string_view theirs);
// Our template that runs a language: TypeScript is JavaScript's.
std::string_view template_that_runs(std::string_view language);

// Code that makes a directory, makes it the current one, and shows values as E2B does; and the two around a program that is
// to run in one.
std::string code_to_begin_in(std::string_view language, const std::string& directory);
std::string code_to_enter(std::string_view language, const std::string& directory);
std::string code_to_leave(std::string_view language);

}  // namespace membrane::service::e2b
