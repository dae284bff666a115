// Files that this program makes for itself and trusts when it finds them again: compiled code, warm images. They are
// owned by the user, closed to others, and belong to one build of the program.
//
// Threads: any; each object is used by one.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace membrane {

// Whether the file belongs to the user and no one else can write to it.
bool is_private(const struct stat& status);

// Refuses a directory whose files cannot be trusted because others own it or can write to it. A link to a directory
// is followed. `what` names the files, for the message ("code"). Errors: kInvalidArgument for such a directory, or
// if it is not a directory; kUnavailable, with errno kept, if the system refuses.
Status check_private_directory(const std::string& path, std::string_view what);

// Makes the directory, closed to others, and its parents, if it does not exist. False when the system refuses; errno
// says why. An existing directory is not checked.
bool make_directory(const std::string& path);

// Keeps the files in the directory whose names end in `ending` within a total size: removes the least recently used
// ones, each with its seal (sealed_file.h), but never `used`. A file was last used when it, or its seal, was last
// written or touched.
void make_room(const std::string& directory, std::string_view ending, uint64_t most_bytes,
               const std::string& used);

// The error when such files cannot be used: "cannot WHAT PATH", with errno, as kUnavailable; for a directory that
// others could write to, kInvalidArgument.
std::unexpected<Error> refused_by_system(const char* what, const std::string& path);
std::unexpected<Error> refused_as_open(const std::string& directory, std::string message);

// Opens a regular file for reading, whoever owns it. Does not block on a pipe.
class OpenedFile {
 public:
  explicit OpenedFile(const std::string& path) : OpenedFile(path, false) {}
  ~OpenedFile();
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;

  [[nodiscard]] bool usable() const {
    return usable_;
  }  // false when the file does not exist or is not a regular file
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }

 protected:
  OpenedFile(const std::string& path, bool must_be_private);

 private:
  int number_;
  size_t bytes_ = 0;
  bool usable_ = false;
};

// Accepts only a file that is private, not a symbolic link, and has a single name: a second hard link may be in
// another user's directory.
class PrivateFile : public OpenedFile {
 public:
  explicit PrivateFile(const std::string& path) : OpenedFile(path, true) {}
};

// A file that appears complete or not at all. Errors: kUnavailable.
class NewFile {
 public:
  static Result<NewFile> create(const std::string& path);
  NewFile(NewFile&& other) noexcept;
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();  // discards the file unless it was published

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
