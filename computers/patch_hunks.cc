#include "computers/patch_hunks.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "computers/line_diff.h"

namespace membrane::computers {
namespace {

constexpr std::string_view kHunk = "@@ -";

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// "3,2" or "3": the first line and the count.
bool take_range(std::string_view& text, size_t& first, size_t& count) {
  const auto number = take_number(text);
  if (!number) return false;
  first = *number;
  count = 1;
  if (!take(text, ",")) return true;
  const auto lines = take_number(text);
  count = lines.value_or(0);
  return lines.has_value();
}

bool take_head(std::string_view head, PatchHunk& hunk) {
  return take(head, kHunk) && take_range(head, hunk.old_line, hunk.old_count) && take(head, " +") &&
         take_range(head, hunk.new_line, hunk.new_count) && take(head, " @@");
}

// The start of a line in a file.
struct Place {
  size_t offset = 0, line = 0;
};

// Finds the places in a file where hunks apply.
class Places {
 public:
  Places(std::string_view text, PatchBudget& budget) : text_(text), budget_(budget) {}

  struct Found {
    Place begin;
    size_t end = 0;  // offset
  };
  // The place nearest to the line `near`, at or after `first`. As in git, a hunk with lines before its
  // changes and none after them must end the file, and vice versa must begin it.
  std::optional<Found> find(const PatchHunk& hunk, Place first, size_t near) {
    if (hunk.first_context == 0 && hunk.last_context > 0 && hunk.old_line <= 1)
      return first.offset == 0 ? found(hunk, {}) : std::nullopt;
    if (hunk.last_context == 0 && hunk.first_context > 0) return find_last(hunk, first);
    Place forward = first;
    while (forward.line < near && step(forward)) continue;
    Place backward = forward;
    if (const auto there = found(hunk, forward)) return there;
    for (bool goes_on = true, goes_back = true; budget_.has_work() && (goes_on || goes_back);) {
      if (goes_on) goes_on = step(forward);
      if (goes_on)
        if (const auto there = found(hunk, forward)) return there;
      if (goes_back) goes_back = step_back(backward, first);
      if (goes_back)
        if (const auto there = found(hunk, backward)) return there;
    }
    return std::nullopt;
  }

 private:
  // Advances to the next line; false at the end, and when no work is left.
  bool step(Place& place) {
    const std::string_view line = first_line(text_.substr(place.offset));
    if (line.empty() || !budget_.take_work(work_of(line.size()))) return false;
    place = {place.offset + line.size(), place.line + 1};
    return true;
  }
  bool step_back(Place& place, Place first) {
    if (place.offset <= first.offset) return false;
    const void* const end = memrchr(text_.data(), '\n', place.offset - 1);
    const size_t begin =
        end == nullptr ? 0 : static_cast<size_t>(static_cast<const char*>(end) - text_.data()) + 1;
    if (!budget_.take_work(work_of(place.offset - begin))) return false;
    place = {begin, place.line - 1};
    return true;
  }

  std::optional<Found> find_last(const PatchHunk& hunk, Place first) {
    Place end = first;
    while (step(end)) continue;
    Place begin = end;
    for (size_t count = 0; count < hunk.old_count; ++count)
      if (!step_back(begin, first)) return std::nullopt;
    return found(hunk, begin);
  }

  // The lines of the hunk, if they match.
  std::optional<Found> found(const PatchHunk& hunk, Place place) {
    size_t at = place.offset;
    for (HunkLines lines(hunk.body); lines.next();) {
      const std::string_view line = lines.text();
      if (!budget_.take_work(work_of(line.size()))) return std::nullopt;
      if (lines.sign() == '+') continue;
      if (line.empty() || !text_.substr(at).starts_with(line)) return std::nullopt;
      at += line.size();
      if (!line.ends_with('\n') && at < text_.size()) return std::nullopt;
    }
    return Found{place, at};
  }

  const std::string_view text_;
  PatchBudget& budget_;
};

// The size of that many bytes after the hunks are applied; larger when they do not apply.
Result<uint64_t> size_after(const PatchFile& file, uint64_t size) {
  std::string_view left = file.hunks;
  size_t line = file.hunks_line;
  uint64_t removed = 0;
  while (!left.empty()) {
    MEMBRANE_ASSIGN(const PatchHunk hunk, take_hunk(left, line));
    removed += hunk.old_bytes;
    size += hunk.new_bytes;
  }
  return removed <= size ? size - removed : size;
}

}  // namespace

std::optional<size_t> take_number(std::string_view& text) {
  size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number > SIZE_MAX / 4) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

std::unexpected<Error> wrong_in_patch(size_t line, const std::string& what) {
  return fail(ErrorCode::kInvalidInput, "line " + std::to_string(line) + " of the patch: " + what,
              "Nothing was changed. Make the patch again.");
}

std::unexpected<Error> wrong_in_patch(const PatchFile& file, size_t line, const std::string& what) {
  const std::string& name = file.new_name.empty() ? file.old_name : file.new_name;
  return fail(ErrorCode::kInvalidInput, name + ", line " + std::to_string(line) + " of the patch: " + what,
              "Nothing was changed. Make the patch again from the files as they are.");
}

bool HunkLines::next() {
  if (left_.empty()) return false;
  text_ = take_line(left_);
  ++patch_lines_;
  sign_ = ' ';  // some lose the space of an empty line
  if (text_ != "\n") {
    sign_ = text_.front();
    text_.remove_prefix(1);
  }
  if (left_.starts_with('\\')) {  // "\ No newline at end of file"
    take_line(left_);
    ++patch_lines_;
    if (text_.ends_with('\n')) text_.remove_suffix(1);
  }
  return true;
}

Result<PatchHunk> take_hunk(std::string_view& text, size_t& line) {
  PatchHunk hunk;
  hunk.line = line;
  std::string_view left = text;
  if (!take_head(take_line(left), hunk))
    return wrong_in_patch(line, "this is not a \"@@ -line,count +line,count @@\"");
  hunk.body = left;
  size_t old_count = 0, new_count = 0;
  bool has_changed = false;
  HunkLines lines(left);
  const auto at = [&] { return line + 1 + lines.patch_lines(); };
  while (old_count < hunk.old_count || new_count < hunk.new_count) {
    const size_t next = at();
    if (!lines.next()) return wrong_in_patch(next, "the hunk is shorter than its @@ line says");
    const char sign = lines.sign();
    if (sign != ' ' && sign != '-' && sign != '+')
      return wrong_in_patch(next, "a line of a hunk begins with neither a space, - nor +");
    if (sign != '+') ++old_count, hunk.old_bytes += lines.text().size();
    if (sign != '-') ++new_count, hunk.new_bytes += lines.text().size();
    has_changed = has_changed || sign != ' ';
    if (sign != ' ') hunk.last_context = 0;
    else if (has_changed) ++hunk.last_context;
    else ++hunk.first_context;
  }
  if (old_count != hunk.old_count || new_count != hunk.new_count)
    return wrong_in_patch(at(), "the hunk is longer than its @@ line says");
  line = at();
  text = lines.left();
  hunk.body.remove_suffix(text.size());
  return hunk;
}

Result<std::string> apply_hunks(const PatchFile& file, std::string_view before, PatchBudget& budget) {
  MEMBRANE_ASSIGN(const uint64_t size, size_after(file, before.size()));
  MEMBRANE_TRY(budget.take_bytes(size));
  std::string made;
  made.reserve(size);
  Places places(before, budget);
  Place at;  // what comes next of the file
  ptrdiff_t moved = 0;
  std::string_view left = file.hunks;
  for (size_t line = file.hunks_line; !left.empty();) {
    MEMBRANE_ASSIGN(const PatchHunk hunk, take_hunk(left, line));
    // A hunk without lines names the line before it.
    const size_t named = hunk.old_count == 0 ? hunk.old_line : std::max<size_t>(hunk.old_line, 1) - 1;
    const size_t near = static_cast<size_t>(std::max<ptrdiff_t>(0, static_cast<ptrdiff_t>(named) + moved));
    const auto place = places.find(hunk, at, near);
    if (!place)
      return wrong_in_patch(file, hunk.line,
                            budget.has_work() ? "the lines of the hunk are not in the file"
                                              : "it takes too long to find where the hunk belongs");
    moved = static_cast<ptrdiff_t>(place->begin.line) - static_cast<ptrdiff_t>(named);
    made += before.substr(at.offset, place->begin.offset - at.offset);
    for (HunkLines lines(hunk.body); lines.next();)
      if (lines.sign() != '-') made += lines.text();
    at = {place->end, place->begin.line + hunk.old_count};
  }
  made += before.substr(at.offset);
  return made;
}

}  // namespace membrane::computers
