// A git patch as it is written, file by file. Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "computers/patch.h"

namespace membrane::computers {

// Of a mode of stat(); 0 for what git does not see.
uint32_t git_mode(uint32_t mode);
// Whether git refuses the path in a patch: it is of a repository's own files, whatever the case of the letters.
bool is_git_own(std::string_view path);

class PatchText {
 public:
  explicit PatchText(size_t most_bytes) : most_bytes_(most_bytes) {}
  // `name` is the path in the patch. Errors: kTooLong.
  Status add(const std::string& name, const GitFile& before, const GitFile& after);
  std::string take() { return std::move(text_); }

 private:
  Status add_one(const std::string& name, const GitFile& before, const GitFile& after);
  Status add_binary(const std::string& bytes);
  void add_line(char sign, std::string_view line);
  void add_hunks(std::string_view before, std::string_view after);

  const size_t most_bytes_;
  std::string text_;
};

}  // namespace membrane::computers
