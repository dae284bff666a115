// Hides a secret wherever it stands in an answer, in the spellings that servers echo things in: plain, with any of
// its characters escaped as URLs and JSON do it (%2f, \/, \u002f, or both), in base64 and in hex.
//
// It protects from servers that echo what they were sent without ill will. One that wants to hand the secret over
// can always spell it in a way that nobody knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace membrane::host {

class SecretMask {
 public:
  // `secret`: at least 8 bytes. Copied.
  explicit SecretMask(std::string_view secret);

  // Overwrites the secret with asterisks; the length stays. Time is linear in the text.
  void apply(std::string& text) const;

 private:
  struct Pattern {
    std::string bytes;
    std::vector<size_t> borders;  // Knuth, Morris and Pratt: how much of it remains matched after a mismatch
  };
  struct Span {
    size_t begin, end;
  };
  enum class Escapes : uint8_t { kNone = 0, kPercent = 1, kBackslash = 2, kBoth = 3 };

  static Pattern pattern_of(std::string bytes);
  static void find(std::string_view text, const Pattern& pattern, Escapes escapes, std::vector<Span>& found);

  Pattern secret_;
  std::vector<Pattern> encoded_;  // in base64 at each of its three alignments, and in hex
};

}  // namespace membrane::host
