// The digests of image files that were read before, cached in files of the user's own, so that a receipt need
// not read a large image for each command. A file is identified by its device, inode, size and both of its
// times; the record of a file that has changed is not used.
//
// Threads: any; several processes may use one directory.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>

namespace membrane::computers {

class ImageDigests {
 public:
  // $XDG_CACHE_HOME/membrane/images, else ~/.cache/membrane/images; "" without a home.
  static std::string default_directory();
  // "": keeps nothing.
  explicit ImageDigests(std::string directory) : directory_(std::move(directory)) {}

  // The identity of a file.
  static std::string mark_of(const struct stat& file);
  // Whether a later change of the file would change its mark: clocks of file systems are coarse.
  static bool is_settled(const struct stat& file, int64_t now_s);

  // Its SHA-256 in hexadecimal digits; nothing when it is unknown, or when the stored record could be another
  // user's.
  [[nodiscard]] std::optional<std::string> find(const std::string& mark) const;
  // Best effort.
  void keep(const std::string& mark, const std::string& sha256) const;

 private:
  [[nodiscard]] std::string file_of(const std::string& mark) const;

  const std::string directory_;
};

}  // namespace membrane::computers
