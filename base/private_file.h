// Files that this program makes for itself and trusts when it finds them again: compiled code, warm images. They are
// the user's own and closed to others, and they are of one build of the program.
//
// Threads: any; each object belongs to one.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace membrane {

// The user's own, and nobody else may write to it.
bool is_private(const struct stat& status);

// Refuses a directory whose files cannot be trusted, since others own it or may write to it. A link to a directory is
// followed. `what` names the files, for the message ("code"). Errors: kInvalidArgument for such a directory, or for what
// is no directory; kUnavailable, with errno kept, for what the system refuses.
Status check_private_directory(const std::string& path, std::string_view what);

// Makes the directory, closed to others, and those above it, when it is not there. False when the system refuses; errno
// says why. What was there before may be anything.
bool make_directory(const std::string& path);

// Files in the directory whose names end so may have so many bytes together: what is beyond goes, what was not used for
// longest first, with its seal (sealed_file.h). `used` stays. A file was last used when it, or its seal, was last written
// or touched.
void make_room(const std::string& directory, std::string_view ending, uint64_t most_bytes,
               const std::string& used);

// What is said where such files cannot be: "cannot WHAT PATH", with errno, as kUnavailable; and of a directory that
// others could write to, as kInvalidArgument.
std::unexpected<Error> refused_by_system(const char* what, const std::string& path);
std::unexpected<Error> refused_as_open(const std::string& directory, std::string message);

// Opens a regular file to be read, whoever's it is. It does not wait for a pipe.
class OpenedFile {
 public:
  explicit OpenedFile(const std::string& path) : OpenedFile(path, false) {}
  ~OpenedFile();
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;

  [[nodiscard]] bool usable() const { return usable_; }  // false when it is not there, or not such a file
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 protected:
  OpenedFile(const std::string& path, bool must_be_private);

 private:
  int number_;
  size_t bytes_ = 0;
  bool usable_ = false;
};

// Only one that is private, no symbolic link, and known by one name only: a second name (a hard link) may stand in a
// directory of somebody else.
class PrivateFile : public OpenedFile {
 public:
  explicit PrivateFile(const std::string& path) : OpenedFile(path, true) {}
};

// A file that is there when it is whole, or not at all. Errors: kUnavailable.
class NewFile {
 public:
  static Result<NewFile> create(const std::string& path);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();  // what was not published is gone

  Status write(uint64_t offset, std::span<const uint8_t> bytes);
  Status resize(uint64_t bytes);
  Status publish();

 private:
  NewFile() = default;

  std::string path_, beside_;
  int number_ = -1;
  bool published_ = false;
};

}  // namespace membrane
