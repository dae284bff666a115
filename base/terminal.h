// Makes untrusted text safe to show: the one function between it and a terminal.
//
// A terminal interprets what it shows. An escape sequence moves the cursor over earlier output, sets the title, or
// makes the terminal type an answer; a bidirectional override shows a line in an order other than its own; a
// zero-width character hides in a name. So everything that a program, a model, a server or a file wrote passes
// through printable() before it reaches a terminal. Nothing else decides what is safe to show.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace membrane {

// `text` with everything visible that could control a terminal or mislead its reader:
//
//   \x1b       control characters but newline and tab: C0, DEL and C1, the latter also as single bytes that are no UTF-8
//   \u{202e}   characters that reorder text or cannot be seen: bidirectional marks, embeddings, overrides and isolates,
//              line and paragraph separators, spaces without width, fillers, soft hyphens, the byte order mark, tags
//   \xff       bytes that are no UTF-8: a terminal that is not in UTF-8 reads some of them as controls
//
// Everything else stays, including the two zero-width joiners (U+200C, U+200D): Persian, Indic scripts and emoji
// need them, and they only change the shape of their neighbours.
std::string printable(std::string_view text);

// The same on one line: newline and tab are escaped, too. For names, which must not look like separate lines.
std::string printable_line(std::string_view text);

// For a rendered JSON text: \u escapes inside its strings, so that the JSON value stays the same.
std::string printable_json(std::string_view json);

}  // namespace membrane
