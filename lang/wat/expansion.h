// Plain WAT made from a text, and the way back from its places to the author's.
//
// Threads: an Expansion is a value; a Writer belongs to one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"

namespace membrane::lang {

// From `expanded` (an offset into Expansion::text) to the next mapping's: a copy of the author's
// bytes from `original` on, or text that was made for the author's [original, original_end).
struct Mapping {
  uint32_t expanded = 0;
  uint32_t original = 0;
  uint32_t original_end = 0;
  bool is_copy = false;
};

// A call of a host function whose errno nothing in sight takes. The text may be right all the same; when the stack turns out
// not to be, this is the likely reason.
struct UntakenErrno {
  std::string function;       // "http.get"
  bool has_value = false;     // besides the errno
  bool is_statement = false;  // nothing around it takes a value
  uint32_t begin = 0;         // in the author's text
  uint32_t line = 0;          // 1-based
  uint32_t function_end = 0;  // of the function that it stands in
};
inline constexpr size_t kMaxUntakenErrnos = 100;  // that are kept

struct Expansion {
  std::string text;                   // plain WAT; empty when nothing changed
  std::vector<Mapping> mappings;      // sorted by `expanded`; empty when nothing changed
  bool changed = false;               // false: the author's text is plain WAT, or at least has no form
  std::vector<UntakenErrno> untaken;  // in the order of the text; of the first calls

  [[nodiscard]] std::string_view text_or(std::string_view source) const { return changed ? text : source; }

  // The author's bytes [begin, end) that expanded bytes [begin, end) stand for.
  struct Range {
    uint32_t begin = 0;
    uint32_t end = 0;
  };
  [[nodiscard]] Range original_range(uint32_t begin, uint32_t end) const;
  // A place in the expanded text as a place in the author's, `source`.
  [[nodiscard]] Place original_place(const Place& expanded, std::string_view source) const;
  // For values that are left over at `place` of the author's text: what to write at the nearest call before it whose
  // errno is not taken, "" when there is none.
  [[nodiscard]] std::string hint_of_untaken(const Place& place) const;
};

// Of made text. A form is far shorter than what it stands for, and forms nest: without a limit a short text would
// expand to gigabytes.
inline constexpr uint64_t kMaxExpansionBytes = 24u << 20;

// Writes an expansion: copies the source up to each edit, in the order of the text. Line breaks
// in what is replaced are kept, so that a line of the expansion is that line of the source.
class Writer {
 public:
  explicit Writer(std::string_view source) : source_(source) {}

  // Without being enabled a writer only notes that something would change.
  void enable() {
    enabled_ = true;
    made_bytes_ = 0;
  }
  [[nodiscard]] bool changed() const { return changed_; }
  // More is made than an expansion may have: what follows is not written, and finish() is worth nothing.
  [[nodiscard]] bool is_full() const { return made_bytes_ > kMaxExpansionBytes; }

  // Puts `made` where source [begin, end) stands; it is mapped to [begin, blame_end).
  void replace(uint32_t begin, uint32_t end, std::string_view made, uint32_t blame_end = 0);
  // Puts `made` before source offset `at`, mapped to [blame_begin, blame_end).
  void insert(uint32_t at, std::string_view made, uint32_t blame_begin, uint32_t blame_end);

  Expansion finish();

 private:
  void copy_to(uint32_t offset);
  void make(std::string_view made, uint32_t begin, uint32_t end);

  std::string_view source_;
  Expansion out_;
  uint32_t copied_ = 0;  // source bytes that are dealt with
  bool enabled_ = false;
  bool changed_ = false;
  uint64_t made_bytes_ = 0;  // by edits, also while it is not enabled
};

}  // namespace membrane::lang
