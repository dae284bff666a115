// What a service says in the terms of REST, in those of the command: "GET /v1/snapshots lists them." is "membrane snapshots
// lists them.", and "labels" is --label. What the command has no word for stays.
//
// Threads: pure.
#pragma once

#include <string>

namespace membrane::cli {

// `sandbox` is the id of the one that was asked about; "" stands for any.
std::string in_words_of_command(std::string text, const std::string& sandbox);

}  // namespace membrane::cli
