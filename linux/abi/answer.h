// The result of a system call inside the linux kind's kernel: a value, or a Linux error number (<cerrno>).
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
// MEMBRANE_TRY and MEMBRANE_ASSIGN of base/result.h accept these as they accept a Result.

[[nodiscard]] inline std::unexpected<int> err(int number) { return std::unexpected(number); }

}  // namespace membrane::linux
