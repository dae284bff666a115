// An audit log: one JSON object per line, each with the SHA-256 of the line before it, so that changing, removing or
// inserting a line breaks every line after it. Truncation at the end can only be detected by a reader who kept a
// later head.
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
  // Returns the line, including its newline, for `record` as the next entry. The chain does not advance until
  // follow() is called, so a line that could not be written leaves it unchanged.
  [[nodiscard]] std::string line_of(nlohmann::ordered_json record) const;
  // Advances the chain to this line, given without its newline. Errors: kInvalidInput if it is not the next line;
  // kUnavailable without libcrypto.
  Status follow(std::string_view line);
  // Starts the chain at this line, regardless of what precedes it. Errors: as follow().
  Status begin_after(std::string_view line);

  [[nodiscard]] uint64_t count() const { return count_; }
  [[nodiscard]] const std::string& head() const { return head_; }  // the SHA-256 of the last line

 private:
  Status take(std::string_view line, bool is_first);

  uint64_t count_ = 0;
  std::string head_ = std::string(64, '0');
};

}  // namespace membrane
