// Identifies the build that made a cached image or cached code: programs of one build share their caches and never
// use those of another build.
#pragma once

#include <string_view>

namespace membrane {

// A hash of the sources of all libraries, of the compiler and of its options (tools/embed-build-id), in hexadecimal.
extern const std::string_view kBuildId;

}  // namespace membrane
