// Reads archives with libarchive. Include it only from .cc files of this directory.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "linux/image/blob.h"
#include "linux/image/libarchive.h"

namespace membrane::linux {

class ArchiveReading {
 public:
  // How to interpret an archive: as tar, or any bytes as its one entry; either may be compressed with gzip,
  // zstd, xz or bzip2.
  enum class Form : uint8_t { kTar, kBytes };
  // Errors: kInvalidInput for anything but an archive.
  static Result<ArchiveReading> open(const Blob& blob, Form form);
  static Result<ArchiveReading> open(std::string_view bytes, Form form);  // which live longer

  // Returns nullptr after the last entry. Errors: kInvalidInput.
  Result<struct archive_entry*> next();
  struct Piece {
    std::string_view bytes;
    uint64_t offset = 0;
    bool is_end = false;
  };
  // Returns the next bytes of the entry's contents that are not a hole.
  Result<Piece> read();

 private:
  struct Free {
    void operator()(struct archive* archive) const { libarchive().archive_free(archive); }
  };
  struct Source {
    Blob blob;
    uint64_t position = 0;
    std::vector<std::byte> buffer;
  };
  static la_ssize_t read_source(struct archive*, void* data, const void** bytes);
  static la_int64_t skip_source(struct archive*, void* data, la_int64_t wanted);
  static la_int64_t seek_source(struct archive*, void* data, la_int64_t offset, int whence);
  static Result<ArchiveReading> begin(Form form);
  [[nodiscard]] std::unexpected<Error> damaged() const;

  std::unique_ptr<Source> source_;
  std::unique_ptr<struct archive, Free> archive_;
};

// In UTF-8 where the name is valid, otherwise its bytes, whatever the locale.
std::string path_of(struct archive_entry* entry);
// The target of a hard link, "" for other entries; the target of a symbolic link.
std::string hard_link_of(struct archive_entry* entry);
std::string symbolic_link_of(struct archive_entry* entry);

}  // namespace membrane::linux
