#include "wasi/memory.h"

namespace membrane::wasi {

Answer<std::vector<std::span<uint8_t>>> Memory::pieces(uint32_t at, uint32_t count) const {
  if (count > kMaxIovecs) return fail(Errno::kInval);
  std::vector<std::span<uint8_t>> found;
  found.reserve(count);
  uint64_t sum = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t place = at + uint64_t{i} * kIovecBytes;
    if (place > UINT32_MAX) return fail(Errno::kFault);
    const auto pair = read<uint64_t>(static_cast<uint32_t>(place));
    if (!pair) return fail(pair.error());
    const auto piece = bytes(static_cast<uint32_t>(*pair), static_cast<uint32_t>(*pair >> 32));
    if (!piece) return fail(piece.error());
    sum += piece->size();
    if (sum > bytes_.size()) return fail(Errno::kInval);  // overlapping pieces
    found.push_back(*piece);
  }
  return found;
}

uint64_t total_bytes(std::span<const std::span<uint8_t>> pieces) {
  uint64_t sum = 0;
  for (const auto piece : pieces) sum += piece.size();
  return sum;
}

}  // namespace membrane::wasi
