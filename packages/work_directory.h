// A cache directory for an installer to work in, removed with the object.
//
// Threads: one at a time.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace membrane::packages {

class WorkDirectory {
 public:
  // Creates it in the cache. Also removes directories that killed runs left there a day ago or longer. Errors:
  // kUnavailable.
  static Result<WorkDirectory> make(const std::string& cache_directory);
  WorkDirectory(WorkDirectory&& other) noexcept;
  WorkDirectory& operator=(WorkDirectory&&) = delete;
  ~WorkDirectory();

  [[nodiscard]] const std::string& path() const { return path_; }
  // Reads a file in it. Errors: kUnavailable; kExhausted for a file of more than `most_bytes`.
  Status write(std::string_view name, std::string_view text) const;
  [[nodiscard]] Result<std::string> read(std::string_view name, size_t most_bytes) const;
  // Fails if the directory has become larger. Errors: kExhausted.
  [[nodiscard]] Status check_size(uint64_t most_bytes) const;

 private:
  explicit WorkDirectory(std::string path);
  std::string path_;
};

}  // namespace membrane::packages
