#include "wasi/files/content.h"

#include <algorithm>
#include <cstring>

namespace membrane::wasi {

size_t Content::read_piece(uint64_t index, uint64_t within, std::span<uint8_t> to) const {
  std::span<const uint8_t> from;
  if (index < pieces_.size() && pieces_[index] != nullptr) {
    from = pieces_[index]->bytes;
    from = from.subspan(std::min<uint64_t>(within, from.size()));
  } else {
    from = base_.subspan(std::min<uint64_t>(index * kPieceBytes + within, base_.size()));
  }
  const size_t there = std::min(from.size(), to.size());
  if (there > 0) std::memcpy(to.data(), from.data(), there);
  std::ranges::fill(to.subspan(there), uint8_t{0});
  return to.size();
}

size_t Content::read(uint64_t offset, std::span<uint8_t> to) const {
  if (offset >= size_) return 0;
  to = to.first(std::min<uint64_t>(to.size(), size_ - offset));
  for (size_t done = 0; done < to.size();) {
    const uint64_t within = (offset + done) % kPieceBytes;
    const size_t count = std::min<uint64_t>(to.size() - done, kPieceBytes - within);
    done += read_piece((offset + done) / kPieceBytes, within, to.subspan(done, count));
  }
  return to.size();
}

Content::Piece& Content::piece_to_write(uint64_t index, Owner owner) {
  if (index >= pieces_.size()) pieces_.resize(index + 1);
  std::shared_ptr<Piece>& piece = pieces_[index];
  if (piece != nullptr && piece->owner == owner) return *piece;
  auto fresh = std::make_shared<Piece>();
  fresh->owner = owner;
  if (piece != nullptr) {
    fresh->bytes = piece->bytes;
  } else if (const uint64_t begin = index * kPieceBytes; begin < base_.size()) {
    const auto from = base_.subspan(begin, std::min<uint64_t>(kPieceBytes, base_.size() - begin));
    fresh->bytes.assign(from.begin(), from.end());
  }
  piece = std::move(fresh);
  return *piece;
}

void Content::write(uint64_t offset, std::span<const uint8_t> bytes, Owner owner) {
  while (!bytes.empty()) {
    const uint64_t within = offset % kPieceBytes;
    const size_t count = std::min<uint64_t>(bytes.size(), kPieceBytes - within);
    std::vector<uint8_t>& piece = piece_to_write(offset / kPieceBytes, owner).bytes;
    if (piece.size() < within + count) piece.resize(within + count);
    std::memcpy(piece.data() + within, bytes.data(), count);
    offset += count;
    size_ = std::max(size_, offset);
    bytes = bytes.subspan(count);
  }
}

void Content::resize(uint64_t size, Owner owner) {
  if (size < size_) {
    base_ = base_.first(std::min<uint64_t>(size, base_.size()));
    const uint64_t whole = size / kPieceBytes;
    const uint64_t rest = size % kPieceBytes;
    if (pieces_.size() > whole + (rest != 0)) pieces_.resize(whole + (rest != 0));
    if (rest != 0 && whole < pieces_.size() && pieces_[whole] != nullptr &&
        pieces_[whole]->bytes.size() > rest)
      piece_to_write(whole, owner).bytes.resize(rest);
  }
  size_ = size;
}

}  // namespace membrane::wasi
