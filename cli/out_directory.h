// The target of --out: the files that a program made, with their paths below the directory, and the images
// that it showed; also the target of cp -r from a service.
//
// The names come from the program or the service: nothing is written outside the directory, through a
// symbolic link, or to anything but a regular file. An existing file is replaced.
//
// Threads: one at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/files/beneath.h"
#include "sandbox/report.h"

namespace membrane::cli {

class OutDirectory {
 public:
  // Creates the directory if it does not exist. Errors: kUnavailable.
  static Result<OutDirectory> open(const std::string& path);

  // Writes a file by its absolute path in the program: "/plots/a.png" becomes plots/a.png.
  void keep(std::string_view guest_path, std::string_view bytes, bool is_executable = false);
  // Writes a symbolic link that is relative and stays below `within`, a directory that is kept; any other is
  // skipped, and the result is false. An existing file or link is replaced.
  bool keep_link(std::string_view guest_path, const std::string& target, std::string_view within);
  // Creates a directory and its parents; it may already exist.
  void keep_directory(std::string_view guest_path);
  // value.png, display-1.png, display-2.svg, …
  void keep_images(const sandbox::Report& report);

  // What was written, relative to the working directory, in order.
  [[nodiscard]] const std::vector<std::string>& kept() const { return kept_; }
  // The first error. kUnavailable; kDenied if something is in the way.
  [[nodiscard]] const Status& status() const { return status_; }

 private:
  OutDirectory(std::string path, host::Fd directory)
      : path_(std::move(path)), directory_(std::move(directory)) {}
  [[nodiscard]] std::string path_of(std::string_view below) const;
  Result<host::Fd> open_directory(std::string_view below, const std::string& path);
  Status write(const std::string& below, std::string_view bytes, bool is_executable);
  Status write_link(const std::string& below, const std::string& target);
  void keep_image(const sandbox::RichValue& value, const std::string& name);

  std::string path_;
  host::Fd directory_;
  std::vector<std::string> kept_;
  Status status_;
};

}  // namespace membrane::cli
