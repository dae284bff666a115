// Translates a service's messages from the terms of REST to those of the command: "GET /v1/snapshots lists
// them." becomes "membrane snapshots lists them.", and "labels" becomes --label. Terms without an equivalent
// stay.
//
// Threads: pure.
#pragma once

#include <string>

namespace membrane::cli {

// `sandbox` is the id of the sandbox of the request; "" stands for any.
std::string in_words_of_command(std::string text, const std::string& sandbox);

}  // namespace membrane::cli
