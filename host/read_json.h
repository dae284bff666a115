// base/json.h for host functions: the same readers, with errors of host functions. Include only from .cc files.
#pragma once

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "host/call.h"
#include "host/errno.h"

namespace membrane::host {

// kTooBig for a text beyond a limit; kInvalid for one that is nested too deeply, or is not JSON.
template <typename T>
HostResult<T> as_host_result(Result<T> result) {
  if (result) return *std::move(result);
  Error& error = result.error();
  return refuse(error.code == ErrorCode::kTooLong ? Errno::kTooBig : Errno::kInvalid,
                std::move(error.message));
}

// While a string is printed into, it takes up to this many times its size.
inline constexpr uint64_t kPrintGrowth = 3;

// How much a call may use to parse a text from its program, so that there is room to print the result.
inline JsonLimits json_limits(const Call& call) {
  const uint64_t left = call.guest.host_memory().left_for_call();
  uint64_t bytes = 0;
  for (const std::string_view text : call.strings) bytes += text.size();
  return {.memory_bytes = left - std::min(left, kPrintGrowth * bytes)};
}

inline HostResult<nlohmann::json> read_json_for_guest(std::string_view text, std::string_view what,
                                                      const JsonLimits& limits = {}) {
  return as_host_result(read_json(text, what, limits));
}

}  // namespace membrane::host
