// The return type of a function that can fail, and its errors.
//
// Every fallible function of Membrane returns Result<T>. No exception crosses a library boundary and no library
// prints: an Error propagates to a caller that can handle it. Its text is written for the reader, who is often a
// language model: the message says what was found, the hint says how to fix it.
//
// Threads: Error is a value; share it like a std::string.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace membrane {

// The kinds of failure that callers distinguish, with one sentence each, which describe() returns.
#define MEMBRANE_ERROR_CODES(X)                                                       \
  X(kInvalidInput, "invalid_input", "The input is malformed or does not validate.")   \
  X(kInvalidArgument, "invalid_argument", "An argument is outside what is accepted.") \
  X(kNotFound, "not_found", "The named thing does not exist.")                        \
  X(kDenied, "denied", "No grant of the policy allows this.")                         \
  X(kExhausted, "exhausted", "A budget or a limit is used up.")                       \
  X(kTooLong, "too_long", "The input is longer than is accepted.")                    \
  X(kTimedOut, "timed_out", "The time allowed ran out.")                              \
  X(kCancelled, "cancelled", "The owner asked for this to stop.")                     \
  X(kUnavailable, "unavailable", "A service or file that is needed does not answer.") \
  X(kUnsupported, "unsupported", "This build or machine cannot do this.")             \
  X(kInternal, "internal", "Membrane itself failed; this is a bug.")

enum class ErrorCode : uint8_t {
#define X(id, name, sentence) id,
  MEMBRANE_ERROR_CODES(X)
#undef X
};

// The stable name of a code, as JSON reports carry it ("invalid_input").
std::string_view name_of(ErrorCode code);
// The sentence that explains a code to a person.
std::string_view describe(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;  // what happened, one or two sentences, no trailing newline
  std::string hint;     // how to fix it; empty when nothing useful is known

  // "message" or "message (hint)", for a line of a log or a terminal.
  [[nodiscard]] std::string to_string() const;
};

template <typename T>
using Result = std::expected<T, Error>;
using Status = std::expected<void, Error>;

// Shorthand for returning a failure: `return fail(ErrorCode::kDenied, "…", "…");`
[[nodiscard]] inline std::unexpected<Error> fail(ErrorCode code, std::string message, std::string hint = {}) {
  return std::unexpected<Error>(Error{code, std::move(message), std::move(hint)});
}

// Returns the error of `expr` from the enclosing function, or continues.
#define MEMBRANE_TRY(expr)                                      \
  do {                                                          \
    if (auto membrane_try_ = (expr); !membrane_try_)            \
      return std::unexpected(std::move(membrane_try_).error()); \
  } while (false)

#define MEMBRANE_CONCAT_(a, b) a##b
#define MEMBRANE_CONCAT(a, b) MEMBRANE_CONCAT_(a, b)
// `MEMBRANE_ASSIGN(auto x, f());` declares x from the value of f(), or returns its error.
#define MEMBRANE_ASSIGN(decl, expr)                                                    \
  auto MEMBRANE_CONCAT(membrane_r_, __LINE__) = (expr);                                \
  if (!MEMBRANE_CONCAT(membrane_r_, __LINE__))                                         \
    return std::unexpected(std::move(MEMBRANE_CONCAT(membrane_r_, __LINE__)).error()); \
  decl = std::move(*MEMBRANE_CONCAT(membrane_r_, __LINE__))

}  // namespace membrane
