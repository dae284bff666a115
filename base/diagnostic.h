// A finding about a program: a stable code, a place, what was found, what was expected, and the likely repair. The
// text parser, the binary decoder, the validator, the preprocessor and the linker all report Diagnostics, so that
// one renderer and one JSON shape serve them all.
//
// The codes are data: diagnostics.def lists each with its title and a default hint, used when the reporting site has
// no better one.
//
// Threads: values; share them like strings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace membrane {

enum class DiagnosticCode : uint16_t {
#define DIAGNOSTIC(id, name, title, hint) id,
#include "base/diagnostics.def"
#undef DIAGNOSTIC
  kCount,
};

// Where in the program. Text places have line and column (1-based, column in
// bytes); binary places have only the byte offset and line 0.
struct Place {
  uint32_t offset = 0;      // bytes from the start of the text or of the binary
  uint32_t end_offset = 0;  // one past the last byte concerned; 0 when only a point is known
  uint32_t line = 0;        // 1-based; 0 in a binary
  uint32_t column = 0;      // 1-based, in bytes; 0 in a binary

  [[nodiscard]] bool in_text() const { return line != 0; }
  friend bool operator==(const Place&, const Place&) = default;
};

struct Diagnostic {
  DiagnosticCode code{};
  Place place{};
  std::string message{};   // one sentence: what is wrong here
  std::string found{};     // the offending text ("f32", "$http.gett"); may be empty
  std::string expected{};  // what was expected ("i32"); may be empty
  std::string hint{};      // the likely repair; the code's own hint when empty
  std::string function{};  // name or index of the enclosing function; may be empty
};

std::string_view name_of(DiagnosticCode code);   // "unknown-function"
std::string_view title_of(DiagnosticCode code);  // one sentence
std::string_view default_hint_of(DiagnosticCode code);
inline std::string_view hint_of(const Diagnostic& d) {
  return d.hint.empty() ? default_hint_of(d.code) : std::string_view(d.hint);
}

// Fills line and column of `place` from its offset into `text`.
Place locate(std::string_view text, uint32_t offset, uint32_t end_offset = 0);

// For a person or a model: "program.wat:3:7: error[unknown-function]: …", then the line with
// a caret under the place (when `text` is given), then "expected", "found" and "hint" lines.
std::string render(const Diagnostic& diagnostic, std::string_view text, std::string_view file_name);

// The candidate nearest to `word` by edit distance (transpositions count one), or "" when
// none is near enough to be worth suggesting (more than a third of the word's length away).
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace membrane
