// Lines out of bytes that come in pieces, each bounded. The same bytes in other pieces give the same lines.
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace membrane::mcp {

class LineReader {
 public:
  explicit LineReader(size_t most_bytes) : most_bytes_(most_bytes) {}

  // Calls `line` for each that ends in `bytes`, without its end (\n, or \r\n), and `too_long` for one that has more than the
  // most bytes, whose text is dropped. Lines of white space alone are left out.
  void add(std::string_view bytes, const std::function<void(std::string_view)>& line,
           const std::function<void()>& too_long);
  // What came after the last line's end is a line, too.
  void finish(const std::function<void(std::string_view)>& line, const std::function<void()>& too_long);

 private:
  size_t most_bytes_;
  std::string begun_;
  bool is_too_long_ = false;
};

}  // namespace membrane::mcp
