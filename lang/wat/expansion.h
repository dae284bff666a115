// Plain WAT generated from a text, with the mapping from its places to the author's.
//
// Threads: an Expansion is a value; a Writer is used by one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"

namespace membrane::lang {

// From `expanded` (an offset into Expansion::text) to the next mapping's: a copy of the author's bytes from
// `original` on, or text generated for the author's [original, original_end).
struct Mapping {
  uint32_t expanded = 0;
  uint32_t original = 0;
  uint32_t original_end = 0;
  bool is_copy = false;
};

// A call of a host function whose errno is apparently not consumed. The text may be valid nevertheless; if the stack
// turns out wrong, this is the likely reason.
struct UntakenErrno {
  std::string function;       // "http.get"
  bool has_value = false;     // in addition to the errno
  bool is_statement = false;  // the context takes no value
  uint32_t begin = 0;         // in the author's text
  uint32_t line = 0;          // 1-based
  uint32_t function_end = 0;  // of the enclosing function
};
inline constexpr size_t kMaxUntakenErrnos = 100;  // bound on the list

struct Expansion {
  std::string text;                   // plain WAT; empty when nothing changed
  std::vector<Mapping> mappings;      // sorted by `expanded`; empty when nothing changed
  bool changed = false;               // false: the author's text is plain WAT, or at least has no forms
  std::vector<UntakenErrno> untaken;  // the first of these calls, in the order of the text

  [[nodiscard]] std::string_view text_or(std::string_view source) const { return changed ? text : source; }

  // The author's bytes [begin, end) that correspond to expanded bytes [begin, end).
  struct Range {
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  [[nodiscard]] Range original_range(uint32_t begin, uint32_t end) const;
  // Converts a place in the expanded text to one in the author's, `source`.
  [[nodiscard]] Place original_place(const Place& expanded, std::string_view source) const;
  // For values left over at `place` in the author's text: what to write at the nearest previous call whose errno is
  // not consumed, "" when there is none.
  [[nodiscard]] std::string hint_of_untaken(const Place& place) const;
};

// Bound on generated text. A form is far shorter than its expansion, and forms nest: without a limit a short text
// would expand to gigabytes.
inline constexpr uint64_t kMaxExpansionBytes = 24u << 20;

// Writes an expansion: copies the source up to each edit, in the order of the text. Line breaks in replaced text are
// kept, so that line numbers in the expansion match the source.
class Writer {
 public:
  explicit Writer(std::string_view source) : source_(source) {}

  // Before this, the writer only records that something would change.
  void enable() {
    enabled_ = true;
    made_bytes_ = 0;
  }
  [[nodiscard]] bool changed() const { return changed_; }
  // The generated text exceeds the bound: later text is not written, and the result of finish() must not be used.
  [[nodiscard]] bool is_full() const { return made_bytes_ > kMaxExpansionBytes; }

  // Replaces source [begin, end) by `made`, which is mapped to [begin, blame_end).
  void replace(uint32_t begin, uint32_t end, std::string_view made, uint32_t blame_end = 0);
  // Inserts `made` before source offset `at`, mapped to [blame_begin, blame_end).
  void insert(uint32_t at, std::string_view made, uint32_t blame_begin, uint32_t blame_end);

  Expansion finish();

 private:
  void copy_to(uint32_t offset);
  void make(std::string_view made, uint32_t begin, uint32_t end);

  std::string_view source_;
  Expansion out_;
  uint32_t copied_ = 0;  // source bytes handled so far
  bool enabled_ = false;
  bool changed_ = false;
  uint64_t made_bytes_ = 0;  // by edits, even before enable()
};

}  // namespace membrane::lang
