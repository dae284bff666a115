// The files of a live Linux sandbox, as its owner reads and changes them; and the service's errors for what a
// live sandbox refuses.
//
// Threads: those of linux::LiveComputer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "linux/sandbox/live_computer.h"
#include "sandbox/report/report.h"
#include "service/errors.h"
#include "wasi/calls/owner_files.h"

namespace membrane::service {

// kConflict for a sandbox that is lost.
ApiError computer_error(const Error& error);
// The same for what concerns a file: says how to list files where one is missing.
ApiError file_error(const Error& error);

// Paths are absolute. Errors of all functions: kInvalidValue for another path; those of file_error().
class LinuxFiles {
 public:
  static constexpr uint64_t kMostBytes = 256ull << 20;  // of a file that is read as a whole

  explicit LinuxFiles(std::shared_ptr<linux::LiveComputer> computer) : computer_(std::move(computer)) {}

  static Answer<void> check_path(const std::string& path);

  // Errors: also kTooLarge.
  Answer<std::string> read(const std::string& path);
  // An existing file keeps its mode.
  Answer<void> write(const std::string& path, std::string_view bytes);
  Answer<linux::FileFacts> stat(const std::string& path, bool follows_links);
  // Permissions, 07777.
  Answer<void> set_mode(const std::string& path, uint32_t mode);
  // Puts a symbolic link in place of a file or link, creating parent directories.
  Answer<void> make_link(const std::string& path, const std::string& target);
  // Creates what is missing of the path.
  Answer<wasi::FileFact> make_directories(const std::string& path);
  Answer<std::vector<wasi::FileFact>> act(const wasi::FileRequest& request);
  // The first files that programs have created or changed.
  Answer<std::vector<sandbox::ReportFile>> created();

 private:
  // By name, directories before their contents. Links are not followed.
  Answer<std::vector<wasi::FileFact>> list(const std::string& path, bool is_deep);
  Answer<wasi::FileFact> fact_at(const std::string& path);

  std::shared_ptr<linux::LiveComputer> computer_;
};

}  // namespace membrane::service
