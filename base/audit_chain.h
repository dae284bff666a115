// An audit log: a JSON object a line, each with the SHA-256 of the line before it, so that no line can be changed, left out
// or put in without breaking all that follow. What was cut off at the end shows only to who has kept a later head.
//
//   {"number":2,"time":"2026-07-28T09:30:00.125Z","event":"token.made",…,"before":"9f86…"}
//
// Include from .cc files only: the JSON library is slow to compile. Threads: one at a time.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace membrane {

inline constexpr size_t kMostAuditLineBytes = 64u << 10;

class AuditChain {
 public:
  // The line, with its end, that `record` becomes as the next one. It is the next once it was followed: a line that could
  // not be written leaves the chain as it is.
  [[nodiscard]] std::string line_of(nlohmann::ordered_json record) const;
  // Goes on to this line, given without its end. Errors: kInvalidInput for one that is not the next; kUnavailable without
  // libcrypto.
  Status follow(std::string_view line);
  // From this line on, whatever stands before it. Errors: as follow().
  Status begin_after(std::string_view line);

  [[nodiscard]] uint64_t count() const { return count_; }
  [[nodiscard]] const std::string& head() const { return head_; }  // the SHA-256 of the last line

 private:
  Status take(std::string_view line, bool is_first);

  uint64_t count_ = 0;
  std::string head_ = std::string(64, '0');
};

}  // namespace membrane
