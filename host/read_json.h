// base/json.h for host functions: the same readers, with the errors of host functions.
// Include this from .cc files only.
#pragma once

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "host/call.h"
#include "host/errno.h"

namespace membrane::host {

// kTooBig for a text past a limit; kInvalid for one that is nested too deep, or no JSON.
template <typename T>
HostResult<T> as_host_result(Result<T> result) {
  if (result) return *std::move(result);
  Error& error = result.error();
  return refuse(error.code == ErrorCode::kTooLong ? Errno::kTooBig : Errno::kInvalid,
                std::move(error.message));
}

// A string that is printed into takes so many times the bytes printed, while it grows.
inline constexpr uint64_t kPrintGrowth = 3;

// What a call may take to parse a text of its program's, so that there is room to print what comes of it.
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
