// The hunks of a patch: parsed from its text one at a time, so that they take no memory, and located in the
// file.
//
// Threads: pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "computers/patch.h"
#include "computers/patch_budget.h"

namespace membrane::computers {

struct PatchHunk {
  size_t old_line = 0, old_count = 0, new_line = 0, new_count = 0;
  size_t line = 0;        // of the patch
  std::string_view body;  // its lines, with their signs
  size_t first_context = 0, last_context = 0;
  uint64_t old_bytes = 0, new_bytes = 0;
};

// The lines of a hunk.
class HunkLines {
 public:
  explicit HunkLines(std::string_view body) : left_(body) {}
  // False at the end.
  bool next();
  [[nodiscard]] char sign() const { return sign_; }  // a space for what stays
  [[nodiscard]] std::string_view text() const {
    return text_;
  }  // with its end, which the last line of a file may not have
  [[nodiscard]] std::string_view left() const { return left_; }      // what comes next
  [[nodiscard]] size_t patch_lines() const { return patch_lines_; }  // those of the patch so far

 private:
  std::string_view left_, text_;
  char sign_ = ' ';
  size_t patch_lines_ = 0;
};

// Parses and removes the hunk with which the text begins; `line` is the text's in the patch. Errors:
// kInvalidInput with the line.
Result<PatchHunk> take_hunk(std::string_view& text, size_t& line);

std::optional<size_t> take_number(std::string_view& text);
std::unexpected<Error> wrong_in_patch(size_t line, const std::string& what);
std::unexpected<Error> wrong_in_patch(const PatchFile& file, size_t line, const std::string& what);

// Applies the hunks to a file. Errors: kInvalidInput; those of the budget.
Result<std::string> apply_hunks(const PatchFile& file, std::string_view before, PatchBudget& budget);

}  // namespace membrane::computers
