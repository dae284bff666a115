// The bytes of a file: pieces of 64 KiB that copies share until one of them is written, on top of immutable bytes of
// an image.
//
// A writer names its Owner (owner.h): a piece of another owner is copied first. So a copy costs one pointer per
// piece that was ever written, whatever the file's size.
//
// Threads: a Content is used by one thread; copies may be used on other threads concurrently.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "wasi/owner.h"

namespace membrane::wasi {

class Content {
 public:
  static constexpr uint64_t kPieceBytes = 64 << 10;

  Content() = default;
  // `keep` is held as long as the bytes are needed; null if the bytes outlive everything.
  Content(std::span<const uint8_t> bytes, std::shared_ptr<const void> keep)
      : size_(bytes.size()), base_(bytes), keep_(std::move(keep)) {}

  [[nodiscard]] uint64_t size() const { return size_; }
  // The bytes of the image below that are still visible.
  [[nodiscard]] std::span<const uint8_t> base() const { return base_; }
  // Returns how many bytes were read: fewer than requested only at the end.
  size_t read(uint64_t offset, std::span<uint8_t> to) const;
  // Writing past the end fills the gap with zeroes. The caller has bounded offset + size.
  void write(uint64_t offset, std::span<const uint8_t> bytes, Owner owner);
  void resize(uint64_t size, Owner owner);

  // What was written over the image: each piece, with its index in units of kPieceBytes.
  template <typename Each>
  void for_each_piece(Each each) const {
    for (uint64_t index = 0; index < pieces_.size(); ++index)
      if (pieces_[index] != nullptr) each(index, std::span<const uint8_t>(pieces_[index]->bytes));
  }
  // Restores a piece that for_each_piece visited.
  void put_piece(uint64_t index, std::span<const uint8_t> bytes, Owner owner) {
    piece_to_write(index, owner).bytes.assign(bytes.begin(), bytes.end());
  }

 private:
  struct Piece {
    Owner owner = 0;
    std::vector<uint8_t> bytes;  // the rest of the piece is zero
  };
  Piece& piece_to_write(uint64_t index, Owner owner);
  size_t read_piece(uint64_t index, uint64_t within, std::span<uint8_t> to) const;

  uint64_t size_ = 0;
  std::span<const uint8_t> base_;  // where there is no piece; zero beyond its end
  std::shared_ptr<const void> keep_;
  std::vector<std::shared_ptr<Piece>> pieces_;
};

}  // namespace membrane::wasi
