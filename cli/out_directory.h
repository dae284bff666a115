// Where --out puts what a program made: its files, by their paths below the directory, and the images that it showed; and
// where cp -r puts what comes of a service.
//
// The names are the program's, or the service's: nothing is written outside of the directory, through a symbolic link, or to what is no
// regular file. A file that already exists is replaced.
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
  // Makes the directory when it is not there. Errors: kUnavailable.
  static Result<OutDirectory> open(const std::string& path);

  // A file by its absolute path in the program: "/plots/a.png" becomes plots/a.png.
  void keep(std::string_view guest_path, std::string_view bytes, bool is_executable = false);
  // A symbolic link that is relative and stays below `within`, a directory that is kept; any other is left out, and the answer is false. A file
  // or link that already exists is replaced.
  bool keep_link(std::string_view guest_path, const std::string& target, std::string_view within);
  // A directory, with those above it; it may be there already.
  void keep_directory(std::string_view guest_path);
  // value.png, display-1.png, display-2.svg, …
  void keep_images(const sandbox::Report& report);

  // What was written, from the working directory, in its order.
  [[nodiscard]] const std::vector<std::string>& kept() const { return kept_; }
  // The first that could not be. kUnavailable; kDenied for what lies in the way.
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
