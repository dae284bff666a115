// Text of others, made fit to be shown: the one function that stands between it and a terminal.
//
// A terminal obeys what it shows. An escape sequence moves the cursor over what was said before, sets the title, or
// makes the terminal type an answer; a bidirectional override shows a line in another order than the one it has; a
// character without width hides in a name. So whatever a program, a model, a server or a file wrote passes through
// printable() before it reaches a terminal. Nothing else decides what is safe to show.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace membrane {

// `text` with what could drive a terminal, or mislead its reader, made visible:
//
//   \x1b       control characters but newline and tab: C0, DEL and C1, the latter also as single bytes that are no UTF-8
//   \u{202e}   characters that reorder text or cannot be seen: bidirectional marks, embeddings, overrides and isolates,
//              line and paragraph separators, spaces without width, fillers, soft hyphens, the byte order mark, tags
//   \xff       bytes that are no UTF-8: a terminal that is not in UTF-8 reads some of them as controls
//
// All else stays as it is, also the two joiners of zero width (U+200C, U+200D): Persian, Indic scripts and emoji need
// them, and they change the shape of their neighbours only.
std::string printable(std::string_view text);

// The same on one line: newline and tab are escaped, too. For names, which must not look like lines of their own.
std::string printable_line(std::string_view text);

// A rendered JSON text, whose strings get \u escapes instead; it stays the same JSON value.
std::string printable_json(std::string_view json);

}  // namespace membrane
