// Splits bytes that come in pieces into lines of bounded length. The result does not depend on the pieces.
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

  // Calls `line` for each line that ends in `bytes`, without its end (
  //  or \r
  // ), and `too_long` for one that exceeds the limit, whose text is dropped. Blank lines are left out.
  void add(std::string_view bytes, const std::function<void(std::string_view)>& line,
           const std::function<void()>& too_long);
  // Treats what came after the last line's end as a line too.
  void finish(const std::function<void(std::string_view)>& line, const std::function<void()>& too_long);

 private:
  size_t most_bytes_;
  std::string begun_;
  bool is_too_long_ = false;
};

}  // namespace membrane::mcp
