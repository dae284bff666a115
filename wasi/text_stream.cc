#include "wasi/text_stream.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/utf8.h"

namespace membrane::wasi {
namespace {

// How many bytes at the end may start a character that is not complete yet.
size_t unfinished(std::string_view bytes) {
  for (size_t count = 1; count <= std::min<size_t>(3, bytes.size()); ++count) {
    const std::string_view tail = bytes.substr(bytes.size() - count);
    const auto lead = static_cast<uint8_t>(tail[0]);
    if ((lead & 0xC0) == 0x80) continue;
    // A prefix is valid if some continuation completes it: tries the lowest and the highest byte.
    for (const char next : {'\x80', '\xBF'}) {
      std::string whole(tail);
      while (whole.size() < 4) {
        whole += next;
        if (utf8_length(whole) == whole.size()) return count;
      }
    }
    return 0;
  }
  return 0;
}

}  // namespace

std::string TextStream::add_bytes(std::string_view bytes) {
  waiting_ += bytes;
  std::string all = std::exchange(waiting_, {});
  const size_t cut = unfinished(all);
  waiting_ = all.substr(all.size() - cut);
  all.resize(all.size() - cut);
  return all;
}

std::string TextStream::add(std::string_view bytes) {
  std::string all = add_bytes(bytes);
  return is_utf8(all) ? all : utf8_repair(all);
}

std::string TextStream::finish() { return utf8_repair(finish_bytes()); }

}  // namespace membrane::wasi
