// A directory of the cache that an installer works in, and that is gone with the object.
//
// Threads: one at a time.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace membrane::packages {

class WorkDirectory {
 public:
  // In the cache. What is left there of runs that were killed, a day ago or longer, goes. Errors: kUnavailable.
  static Result<WorkDirectory> make(const std::string& cache_directory);
  WorkDirectory(WorkDirectory&& other) noexcept;
  WorkDirectory& operator=(WorkDirectory&&) = delete;
  ~WorkDirectory();

  [[nodiscard]] const std::string& path() const { return path_; }
  // A file of it. Errors: kUnavailable; kExhausted for one of more than `most_bytes`.
  Status write(std::string_view name, std::string_view text) const;
  [[nodiscard]] Result<std::string> read(std::string_view name, size_t most_bytes) const;
  // Refuses what has become larger than that. Errors: kExhausted.
  [[nodiscard]] Status check_size(uint64_t most_bytes) const;

 private:
  explicit WorkDirectory(std::string path);
  std::string path_;
};

}  // namespace membrane::packages
