// Packs files into tar archives and unpacks them, with libarchive.
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
  uint32_t mode = 0;        // permissions; 0: the default ones
};

inline constexpr uint64_t kMostArchiveBytes = 64u << 20;  // of its contents, names and links' targets
inline constexpr size_t kMostArchiveEntries = 10'000;

// Writes the pax format. Errors: kInternal.
Answer<std::string> write_archive(const std::vector<ArchiveEntry>& entries);
// Reads ustar, pax or GNU tar, also compressed with gzip. A hard link becomes another file with the same
// bytes. Errors: kInvalidValue for anything but an archive, for devices and pipes, and for names that lead
// out of the archive; kTooLarge, also for a name above 4,096 bytes and a header above 1 MiB.
Answer<std::vector<ArchiveEntry>> read_archive(std::string_view bytes);

// Packs what is below a directory of a guest, with permissions and links if its kind has them. Errors: those
// of Guest::act_on_files(); kTooLarge.
Answer<std::string> pack_files(Guest& guest, const std::string& context, const std::string& directory);
// Unpacks into a directory, which is created; existing files are replaced. An invalid archive, or one with
// links for a kind that has none, changes nothing. Errors: those of read_archive() and of
// Guest::write_file().
Answer<void> unpack_files(Guest& guest, const std::string& context, const std::string& directory,
                          std::string_view archive);

}  // namespace membrane::service
