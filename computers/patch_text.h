// Writes a git patch, file by file. Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "computers/patch.h"
#include "computers/patch_budget.h"

namespace membrane::computers {

// Git's mode for a stat() mode; 0 for what git does not see.
uint32_t git_mode(uint32_t mode);
// Whether git refuses the path in a patch, as part of a repository's own files, whatever the case of the
// letters.
bool is_git_own(std::string_view path);

class PatchText {
 public:
  PatchText(size_t most_bytes, PatchBudget& budget) : most_bytes_(most_bytes), budget_(budget) {}
  // `name` is the path in the patch. Errors: kTooLong; those of PatchMemory.
  Status add(const std::string& name, const GitFile& before, const GitFile& after);
  std::string take() { return std::move(text_); }

 private:
  Status add_one(const std::string& name, const GitFile& before, const GitFile& after);
  Status add_binary(const std::string& bytes);
  Status add_line(char sign, std::string_view line);
  Status add_same(std::string_view& before, std::string_view& after, size_t& old_at, size_t& new_at,
                  size_t old_end);
  Status add_hunks(std::string_view before, std::string_view after);
  Status make_room(size_t bytes);
  [[nodiscard]] std::unexpected<Error> too_long() const;

  const size_t most_bytes_;
  PatchBudget& budget_;
  size_t counted_bytes_ = 0;  // of the text and its capacity
  std::string text_;
};

}  // namespace membrane::computers
