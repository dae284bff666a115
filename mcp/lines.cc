#include "mcp/lines.h"

#include <utility>

#include "base/text.h"

namespace membrane::mcp {

void LineReader::add(std::string_view bytes, const std::function<void(std::string_view)>& line,
                     const std::function<void()>& too_long) {
  for (;;) {
    const size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (begun_.size() + part.size() > most_bytes_) {
      is_too_long_ = true;
      begun_ = {};
    }
    if (!is_too_long_) begun_ += part;
    if (end == std::string_view::npos) return;
    finish(line, too_long);
    bytes.remove_prefix(end + 1);
  }
}

void LineReader::finish(const std::function<void(std::string_view)>& line,
                        const std::function<void()>& too_long) {
  if (std::exchange(is_too_long_, false)) return too_long();
  const std::string whole = std::exchange(begun_, {});
  if (const std::string_view text = trimmed(whole); !text.empty()) line(text);
}

}  // namespace membrane::mcp
