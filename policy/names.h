// Names and phrases that several files of policy/ share.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"

namespace membrane::policy {

// CONNECT: an encrypted connection made by a Linux program itself, of which only the host name is visible.
inline constexpr std::string_view kMethods[] = {"GET",   "HEAD",   "POST",    "PUT",
                                                "PATCH", "DELETE", "OPTIONS", "CONNECT"};

inline bool is_method(std::string_view word) {
  return std::find(std::begin(kMethods), std::end(kMethods), word) != std::end(kMethods);
}

// "a, b and c".
inline std::string enumerate(const std::vector<std::string_view>& words) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " and " : ", ";
    out += words[i];
  }
  return out;
}

// "did you mean x?", or the list of known words.
inline std::string suggest(std::string_view word, const std::vector<std::string_view>& known) {
  const std::string_view near = nearest(word, known);
  return near.empty() ? "known are " + enumerate(known) : "did you mean " + std::string(near) + "?";
}

}  // namespace membrane::policy
