// What a system call answers, inside the kernel of the linux kind: a value, or an error number of Linux (<cerrno>).
#pragma once

#include <cerrno>
#include <cstdint>
#include <expected>

#include "base/result.h"

namespace membrane::linux {

// The error is positive: ENOENT, not -ENOENT.
template <typename T>
using Try = std::expected<T, int>;
using Done = std::expected<void, int>;
// MEMBRANE_TRY and MEMBRANE_ASSIGN of base/result.h take them as they take a Result.

[[nodiscard]] inline std::unexpected<int> err(int number) { return std::unexpected(number); }

}  // namespace membrane::linux
