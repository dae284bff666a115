// Hides secrets wherever they stand in an answer, in whatever mixture of the spellings that servers echo things in:
// plain; with any of its characters escaped as JSON, URLs, forms and HTML do it; in base64 and in hex; and all of these
// of each other, base64 and hex two deep (readings.h).
//
// It protects from servers that echo what they were sent without ill will. One that wants to hand the secret over
// can always spell it in a way that nobody knows.
//
// How: from the text's end on, each node of its readings is given the set of those lengths for which a path from it
// spells the end of a secret, as a row of bits. A step shifts the row and keeps the bits whose byte is right, whatever the
// secret and the text: time is linear in the text, times a 64th of the secrets' length, and memory does not depend on it.
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
  // `secrets`: none of them empty. Copied.
  explicit SecretMask(const std::vector<std::string>& secrets);
  SecretMask(const SecretMask&) = delete;
  SecretMask& operator=(const SecretMask&) = delete;

  // Overwrites with asterisks each character that holds a bit of a secret, and what is between these; the length stays.
  // `is_over`, unless null, is asked now and then. When it says true, the result is false: the text is not masked whole,
  // and nobody may have it.
  [[nodiscard]] bool apply(std::string& text, const std::function<bool()>& is_over = nullptr);

 private:
  static constexpr size_t kEnds = 4;

  // Bit k of a row stands for the last k + 1 bytes of the secret.
  struct Secret {
    size_t last_bit = 0;
    size_t words = 0, first_word = 0;  // of a row; its place among those of a node
    std::vector<uint64_t> bytes = {};  // for each byte a row: where in the secret it stands
  };
  // Which lengths they are, and where in the text the longest of them end; for shorter ones the last of `ends` is too far.
  struct Row {
    uint64_t* words = nullptr;
    size_t used = 0;  // words; the others are zero, though memory may not say so
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
  // Of each node of the places that the readings keep, one for each secret; a ring. Those of nodes that spell nothing, as
  // `spelling_` says by bits, are not made.
  std::vector<Row> rows_;
  std::array<uint32_t, Readings::kPlaces> spelling_ = {};
  std::array<Row, 2> spare_;                  // as large as the largest
  std::array<bool, 256> is_last_ = {};        // bytes with which a secret ends
  size_t shortest_digits_ = SIZE_MAX;         // of a secret as base64; as hex it has more
  size_t digits_begin_ = 0;                   // a run of what may be digits
  bool are_digits_ = false;                   // the run is long enough
  size_t hidden_begin_ = 0, hidden_end_ = 0;  // what was hidden last
};

}  // namespace membrane::host
