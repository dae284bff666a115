// The source of COPY and ADD of a Dockerfile: the build directory, or another sandbox.
//
// Paths are relative to its top, without "." and ".."; "" is the top itself.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "linux/sandbox/live_computer.h"

namespace membrane::computers {

struct SourceFile {
  std::string name;   // in its directory
  uint32_t mode = 0;  // with its type
  uint64_t size = 0;
  std::string target = {};  // of a symbolic link
};

class SourceFiles {
 public:
  virtual ~SourceFiles() = default;
  // A symbolic link is described itself. Errors: kNotFound; kUnavailable.
  virtual Result<SourceFile> stat(const std::string& path) = 0;
  virtual Result<std::vector<SourceFile>> list(const std::string& path) = 0;  // by name
  // Reads a regular file from `offset` on; returns fewer bytes at its end. Errors also: kInvalidInput for
  // other files; kTooLong for a file that no sandbox can hold.
  virtual Result<std::string> read(const std::string& path, uint64_t offset, uint64_t most_bytes) = 0;
};

// A directory of this machine, without what `ignored` (the text of a .dockerignore) excludes. Symbolic links
// are never followed, so nothing leads out of it. Errors: kNotFound; kInvalidArgument for anything but a
// directory.
Result<std::unique_ptr<SourceFiles>> files_of_directory(const std::string& directory,
                                                        std::string_view ignored);
// Everything except /proc, /sys and /dev, which the kernel mounts.
std::unique_ptr<SourceFiles> files_of_computer(linux::LiveComputer& computer);

// The files to exclude, by Docker's rules: a pattern matches a path and everything below it; "!pattern"
// re-includes; "**" matches any directories.
class IgnoredFiles {
 public:
  explicit IgnoredFiles(std::string_view text);
  [[nodiscard]] bool has(std::string_view path) const;
  [[nodiscard]] bool takes_back() const {
    return takes_back_;
  }  // something below an ignored directory may count

 private:
  struct Pattern {
    std::vector<std::string> parts;
    bool takes_back = false;
  };
  std::vector<Pattern> patterns_;
  bool takes_back_ = false;
};

// Whether a name matches a pattern of one part: *, ?, [a-z], and \ before a literal character.
bool matches_name(const std::string& pattern, const std::string& name);
bool has_wildcard(std::string_view pattern);

// The paths that match the patterns, sorted by name. A pattern without wildcards is a path, which must exist.
// Errors: kNotFound, with the pattern; kInvalidInput for ".."; kTooLong.
Result<std::vector<std::string>> expand_sources(SourceFiles& files, const std::string& pattern);

}  // namespace membrane::computers
