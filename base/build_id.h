// What a cached image or cached code was made by: one build's programs share what they make, and take nothing of another's.
#pragma once

#include <string_view>

namespace membrane {

// A hash of the sources of all libraries, of the compiler and of its options (tools/embed-build-id), in hexadecimal.
extern const std::string_view kBuildId;

}  // namespace membrane
