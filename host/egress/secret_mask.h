// Hides secrets anywhere in a response, in any mixture of the encodings in which servers echo data: plain; with any
// of its characters escaped as in JSON, URLs, forms and HTML; in base64 and in hex; and all of these nested, base64
// and hex two levels deep (readings.h).
//
// It protects against servers that echo their input without malice. A malicious server can always encode the secret
// in an unknown way.
//
// Method: from the text's end, each node of its readings gets the set of lengths for which a path from it encodes
// the end of a secret, as a row of bits. A step shifts the row and keeps the bits whose byte matches, whatever the
// secret and the text: time is linear in the text, times a 64th of the secrets' length, and memory does not depend
// on the text.
//
// Threads: one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "host/egress/readings.h"

namespace membrane::host {

class SecretMask {
 public:
  // `secrets`: each must not be empty. Copied.
  explicit SecretMask(const std::vector<std::string>& secrets);
  SecretMask(const SecretMask&) = delete;
  SecretMask& operator=(const SecretMask&) = delete;

  // Overwrites with asterisks each character that encodes a bit of a secret, and the text between those; the length
  // stays. `is_over`, unless null, is polled. Once it returns true, the result is false: the text is not completely
  // masked, and must not be used.
  [[nodiscard]] bool apply(std::string& text, const std::function<bool()>& is_over = nullptr);

 private:
  static constexpr size_t kEnds = 4;

  // Bit k of a row represents the last k + 1 bytes of the secret.
  struct Secret {
    size_t last_bit = 0;
    size_t words = 0, first_word = 0;  // size of a row; its offset among a node's rows
    std::vector<uint64_t> bytes = {};  // a row per byte: its positions in the secret
  };
  // The set of lengths, and where in the text the longest of them end; for shorter ones the last of `ends` is too
  // far.
  struct Row {
    uint64_t* words = nullptr;
    size_t used = 0;  // words in use; the others count as zero, whatever is in memory
    std::array<size_t, kEnds> ends = {};
  };

  static Secret secret_of(std::string_view bytes, size_t first_word);
  [[nodiscard]] Row& row(size_t place, size_t node, size_t secret) {
    return rows_[(place % Readings::kPlaces * Readings::kNodes + node) * secrets_.size() + secret];
  }
  [[nodiscard]] bool spells_something(size_t place, size_t node) const {
    return (spelling_[place % Readings::kPlaces] >> node & 1) != 0;
  }
  [[nodiscard]] bool may_be_digits(std::string_view text, size_t place);
  void match(std::string& text, size_t place, size_t node);
  void follow(size_t place, size_t node, const Readings::Step& step);
  void hide(std::string& text, size_t begin, size_t end);

  std::vector<Secret> secrets_;
  Readings readings_;
  std::vector<uint64_t> words_;
  // For each node of the positions that the readings keep, a row per secret; a ring. Rows of nodes that encode
  // nothing, according to the bits of `spelling_`, are not initialised.
  std::vector<Row> rows_;
  std::array<uint32_t, Readings::kPlaces> spelling_ = {};
  std::array<Row, 2> spare_;                  // as large as the largest
  std::array<bool, 256> is_last_ = {};        // last bytes of secrets
  size_t shortest_digits_ = SIZE_MAX;         // of a secret as base64; as hex it has more
  size_t digits_begin_ = 0;                   // a run of possible digits
  bool are_digits_ = false;                   // the run is long enough
  size_t hidden_begin_ = 0, hidden_end_ = 0;  // the last range that was masked
};

}  // namespace membrane::host
