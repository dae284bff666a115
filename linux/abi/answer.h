// What a system call answers, inside the kernel of the linux kind: a value, or an error number of Linux (<cerrno>).
#pragma once

#include <cerrno>
#include <cstdint>
#include <expected>
#include <utility>

namespace membrane::linux {

// The error is positive: ENOENT, not -ENOENT.
template <typename T>
using Try = std::expected<T, int>;
using Done = std::expected<void, int>;

[[nodiscard]] inline std::unexpected<int> err(int number) { return std::unexpected(number); }

// Returns the error of `expr` from the enclosing function, which answers a Try or a Done.
#define LINUX_TRY(expr)                                                                    \
  do {                                                                                     \
    if (auto linux_try_ = (expr); !linux_try_) return std::unexpected(linux_try_.error()); \
  } while (false)

#define LINUX_CONCAT_(a, b) a##b
#define LINUX_CONCAT(a, b) LINUX_CONCAT_(a, b)
// `LINUX_ASSIGN(auto x, f());` declares x from the value of f(), or returns its error.
#define LINUX_ASSIGN(decl, expr)                                                                           \
  auto LINUX_CONCAT(linux_r_, __LINE__) = (expr);                                                          \
  if (!LINUX_CONCAT(linux_r_, __LINE__)) return std::unexpected(LINUX_CONCAT(linux_r_, __LINE__).error()); \
  decl = std::move(*LINUX_CONCAT(linux_r_, __LINE__))

}  // namespace membrane::linux
