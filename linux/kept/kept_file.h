// The file that holds a kept sandbox: a header, pages, and the state (docs/sandbox-format.md). Its bytes are
// foreign data.
// Threads: any; it does not change.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "linux/fs/page_file.h"
#include "linux/image/layer.h"
#include "linux/kept/state_bytes.h"

namespace membrane::linux {

constexpr uint32_t kKeptVersion = 2;

// The file's first page, little-endian.
struct KeptHeader {
  static constexpr uint32_t kHasProcesses = 1, kIsVirtual = 2;
  char magic[8] = {'M', 'E', 'M', 'B', 'K', 'E', 'P', 'T'};
  uint32_t version = kKeptVersion;
  uint32_t flags = 0;
  uint64_t file_bytes = 0;
  uint64_t state_at = 0, state_bytes = 0;  // after the pages, page-aligned
  uint64_t state_check = 0;
  char image_digest[64] = {};  // of the image below it; zeros: none
  char image_name[256] = {};   // the image's path at that time, as a hint
  int64_t start_ms = 0;        // start of a virtual clock (kIsVirtual), since 1970
  uint64_t check = 0;          // checksum of the header up to here
};

// Written last: the state after the pages, which end at `state_at`, and the header, of which the caller sets
// flags, image and clock.
Status write_state(int file, uint64_t state_at, std::span<const std::byte> state, KeptHeader header);
// Fills the header's image fields; the image may be nullptr.
void name_image(KeptHeader& header, const Layer* image, const std::string& image_name);

// What the header says.
struct KeptFacts {
  bool has_processes = false;
  std::optional<int64_t>
      clock_start_ms;  // start of its virtual clock, since 1970; nothing for a host clock, or without processes
  std::string image_digest, image_name;  // "" for none
};
// Reads only the header: for an owner that does not trust other writers of the file. Errors: kInvalidInput;
// kUnavailable.
Result<KeptFacts> read_kept_facts(int file);

class KeptFile {
 public:
  // Checks header and state; pages have no structure that could be wrong. The file remains the caller's; it
  // must not be changed or shortened while anything of it is in use. Errors: kInvalidInput; kUnavailable.
  static Result<KeptFile> open(int file);

  [[nodiscard]] const KeptFacts& facts() const { return facts_; }
  [[nodiscard]] StateReader state() const;
  [[nodiscard]] const std::shared_ptr<const PageFile>& pages() const { return pages_; }

 private:
  KeptHeader header_;
  KeptFacts facts_;
  std::shared_ptr<const PageFile> pages_;
};

// The error for damaged bytes.
std::unexpected<Error> damaged_kept_file(std::string_view what);

}  // namespace membrane::linux
