// Where COPY and ADD of a Dockerfile take files from: the directory of a build, or another sandbox.
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
  // A symbolic link is told as such. Errors: kNotFound; kUnavailable.
  virtual Result<SourceFile> stat(const std::string& path) = 0;
  virtual Result<std::vector<SourceFile>> list(const std::string& path) = 0;  // by name
  // Of a regular file, from `offset` on; fewer bytes at its end. Errors also: kInvalidInput for other files; kTooLong for what no sandbox
  // can hold.
  virtual Result<std::string> read(const std::string& path, uint64_t offset, uint64_t most_bytes) = 0;
};

// A directory of this machine, without what `ignored` (the text of a .dockerignore) leaves out. Symbolic links are never followed, so
// nothing leads out of it. Errors: kNotFound; kInvalidArgument for anything but a directory.
Result<std::unique_ptr<SourceFiles>> files_of_directory(const std::string& directory,
                                                        std::string_view ignored);
// All but /proc, /sys and /dev, which its kernel mounts.
std::unique_ptr<SourceFiles> files_of_computer(linux::LiveComputer& computer);

// What is left out, by Docker's rules: a pattern matches a path and all below it; "!pattern" takes back; "**" is any directories.
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

// Whether a name matches a pattern of one part: *, ?, [a-z], and \ before what is meant as it is.
bool matches_name(const std::string& pattern, const std::string& name);
bool has_wildcard(std::string_view pattern);

// The paths that patterns stand for, by name. A pattern without wildcards is its path, which is there. Errors: kNotFound, with the pattern;
// kInvalidInput for ".."; kTooLong.
Result<std::vector<std::string>> expand_sources(SourceFiles& files, const std::string& pattern);

}  // namespace membrane::computers
