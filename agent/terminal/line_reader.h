// The source of a REPL's lines: a terminal with line editing, or a stream.
//
// Threads: one at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <istream>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace membrane::agent {

// The possible completions of the word before the cursor.
struct Completions {
  size_t begun = 0;                // number of bytes before the cursor to replace
  std::vector<std::string> words;  // candidates, which begin with those bytes
};
// Called with the text before the cursor.
using Completer = std::function<Completions(std::string_view before)>;

enum class LineEvent : uint8_t { kLine, kInterrupted, kEnd };

class LineReader {
 public:
  virtual ~LineReader() = default;
  // The next line, without its end. kInterrupted: Ctrl-C while typing; what was typed is dropped.
  virtual LineEvent read(std::string_view prompt, std::string& line) = 0;
  // Whether more input is there already, as while a text is pasted into a terminal.
  virtual bool has_more() { return true; }
  // Adds a line to those that the arrow keys bring back.
  virtual void remember(std::string_view /*line*/) {}
  // Sets the completer for the tab key.
  virtual void complete_by(Completer /*completer*/) {}
};

// Streams, for pipes and tests. Prompts are written to `prompts`, which may be null.
class StreamLineReader final : public LineReader {
 public:
  explicit StreamLineReader(std::istream& in, std::ostream* prompts = nullptr) : in_(in), prompts_(prompts) {}
  LineEvent read(std::string_view prompt, std::string& line) override;
  // With prompts a person types, and only what the stream has read already is sure to come.
  bool has_more() override { return prompts_ == nullptr || in_.rdbuf()->in_avail() > 0; }

 private:
  std::istream& in_;
  std::ostream* prompts_;
};

// The terminal of the process, edited by libedit, which is loaded only here. kUnavailable when it is not
// installed: read std::cin instead. `interrupted` is borrowed: the flag that SIGINT sets. There is one at a
// time.
Result<std::unique_ptr<LineReader>> terminal_line_reader(std::atomic<bool>& interrupted, bool colour = false);

// Lines of earlier sessions, in a file that only its owner may read. A file that others may write to, a link,
// or anything but a regular file is left alone: the history is then only in memory.
class History {
 public:
  static constexpr size_t kMaxLines = 1'000;

  // `path` may name a missing file; "" keeps nothing.
  static History load(std::string path);
  // $XDG_STATE_HOME/membrane/NAME, else ~/.local/state/membrane/NAME; "" without a home.
  static std::string default_path(std::string_view name = "history");

  // Appends, in memory and to the file. Lines that begin with a space and repetitions are not kept.
  Status add(std::string line);
  [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::string path_;
  std::vector<std::string> lines_;
};

}  // namespace membrane::agent
