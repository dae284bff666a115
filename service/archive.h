// Files as a tar archive, by libarchive.
//
// Threads: pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "service/errors.h"
#include "service/guest.h"

namespace membrane::service {

struct ArchiveEntry {
  std::string name;  // relative, without "." and ".."
  bool is_directory = false;
  std::string bytes;
  int64_t modified_s = 0;   // since 1970
  std::string target = {};  // of a symbolic link
  uint32_t mode = 0;        // permissions; 0: the usual ones
};

inline constexpr uint64_t kMostArchiveBytes = 64u << 20;  // of what is in it
inline constexpr size_t kMostArchiveEntries = 10'000;

// In the pax form. Errors: kInternal.
Answer<std::string> write_archive(const std::vector<ArchiveEntry>& entries);
// Of ustar, pax or GNU tar, also compressed by gzip. A further name of a file of the archive is another file with its bytes. Errors:
// kInvalidValue for what is none, for devices and pipes, and for names that lead out of the archive; kTooLarge.
Answer<std::vector<ArchiveEntry>> read_archive(std::string_view bytes);

// What is below a directory of a guest, with permissions and links where its kind has them. Errors: those of Guest::act_on_files(); kTooLarge.
Answer<std::string> pack_files(Guest& guest, const std::string& context, const std::string& directory);
// Into a directory, which is made; files that exist are replaced. An archive that is wrong, or has links that the guest's kind does not
// have, changes nothing. Errors:
// those of read_archive() and of Guest::write_file().
Answer<void> unpack_files(Guest& guest, const std::string& context, const std::string& directory,
                          std::string_view archive);

}  // namespace membrane::service
