// Durations as people write them on a command line: "500ms", "30s", "10m", "1h30m", "2d". A bare number is
// refused, since nobody can tell whether 5 is seconds or minutes.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace membrane::cli {

// Errors: kInvalidArgument, with the units in the hint.
Result<uint64_t> duration_ms(std::string_view text);
// In the largest unit in which it is a whole number: "30d", "1500ms".
std::string duration_text(uint64_t ms);
// Rounded up.
Result<uint64_t> whole_seconds(std::string_view text);

}  // namespace membrane::cli
