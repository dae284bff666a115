#include "computers/patch_text.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/sha256.h"
#include "base/text.h"
#include "base/zlib.h"
#include "computers/line_diff.h"

namespace membrane::computers {
namespace {

constexpr size_t kContext = 3;
constexpr size_t kHeadBytes = 512;     // of a file's header in the patch, without its names
constexpr size_t kSlack = 64u << 10;   // tolerance for a file's lines and names
constexpr size_t kLooksBinary = 8000;  // bytes in which git looks for a zero

std::string octal(uint32_t mode) {
  std::string text;
  for (int shift = 15; shift >= 0; shift -= 3) text += static_cast<char>('0' + ((mode >> shift) & 7));
  return text;
}

// Quotes names with special characters as git does.
std::string quoted(const std::string& name) {
  std::string text;
  bool is_plain = true;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '"' && c != '\\') {
      text += c;
      continue;
    }
    is_plain = false;
    text += '\\';
    if (c == '"' || c == '\\') text += c;
    else if (c == '\n') text += 'n';
    else if (c == '\t') text += 't';
    else
      for (const int shift : {6, 3, 0}) text += static_cast<char>('0' + ((byte >> shift) & 7));
  }
  return is_plain ? text : '"' + text + '"';
}

bool is_binary(const GitFile& file) {
  return std::string_view(file.bytes).substr(0, kLooksBinary).find('\0') != std::string::npos;
}

Result<std::string> id_of(const GitFile& file) {
  if (file.mode == 0) return std::string(40, '0');
  const std::string head = "blob " + std::to_string(file.bytes.size()) + '\0';
  return sha1_hex({head, file.bytes});
}

// Skips lines of a text from one number to another.
void skip_lines(std::string_view& text, size_t& from, size_t to) {
  for (; from < to; ++from) take_line(text);
}

// "3,2"; a hunk without lines names the line before it.
std::string range(size_t begin, size_t end) {
  const size_t count = end - begin;
  const std::string first = std::to_string(count == 0 ? begin : begin + 1);
  return count == 1 ? first : first + "," + std::to_string(count);
}

}  // namespace

uint32_t git_mode(uint32_t mode) {
  if (S_ISLNK(mode)) return 0120000;
  return S_ISREG(mode) ? ((mode & 0100) != 0 ? 0100755 : 0100644) : 0;
}

bool is_git_own(std::string_view path) {
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    if (lower_case(path.substr(0, end)) == ".git") return true;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return false;
}

Status PatchText::add(const std::string& name, const GitFile& before, const GitFile& after) {
  const bool is_other_type =
      before.mode != 0 && after.mode != 0 && (before.mode & S_IFMT) != (after.mode & S_IFMT);
  if (is_other_type) {
    MEMBRANE_TRY(add_one(name, before, {}));
    return add_one(name, {}, after);
  }
  return add_one(name, before, after);
}

Status PatchText::add_one(const std::string& name, const GitFile& before, const GitFile& after) {
  const std::string a = quoted("a/" + name), b = quoted("b/" + name);
  MEMBRANE_TRY(make_room(kHeadBytes + 6 * (a.size() + b.size())));
  std::string& to = text_;
  to += "diff --git " + a + " " + b + "\n";
  if (before.mode == 0) to += "new file mode " + octal(after.mode) + "\n";
  else if (after.mode == 0) to += "deleted file mode " + octal(before.mode) + "\n";
  else if (before.mode != after.mode)
    to += "old mode " + octal(before.mode) + "\nnew mode " + octal(after.mode) + "\n";
  if (before.mode != 0 && after.mode != 0 && before.bytes == after.bytes) return {};
  MEMBRANE_ASSIGN(const std::string old_id, id_of(before));
  MEMBRANE_ASSIGN(const std::string new_id, id_of(after));
  to += "index " + old_id + ".." + new_id;
  to += before.mode != 0 && before.mode == after.mode ? " " + octal(after.mode) + "\n" : "\n";
  if (is_binary(before) || is_binary(after)) {
    to += "GIT binary patch\n";
    MEMBRANE_TRY(add_binary(after.bytes));
    MEMBRANE_TRY(add_binary(before.bytes));
  } else if (before.bytes != after.bytes) {
    const char* const tab = name.find(' ') == name.npos ? "" : "\t";
    to += "--- " + (before.mode == 0 ? "/dev/null" : a + tab) + "\n";
    to += "+++ " + (after.mode == 0 ? "/dev/null" : b + tab) + "\n";
    MEMBRANE_TRY(add_hunks(before.bytes, after.bytes));
  }
  return to.size() <= most_bytes_ ? Status() : Status(too_long());
}

std::unexpected<Error> PatchText::too_long() const {
  return fail(ErrorCode::kTooLong, "the patch is longer than " + std::to_string(most_bytes_ >> 20) + " MiB",
              "Make it for only one directory, or remove what is not needed.");
}

// The capacity doubles up to the bound, and is charged before it is allocated.
Status PatchText::make_room(size_t bytes) {
  const size_t needed = text_.size() + bytes;
  if (needed <= counted_bytes_) return {};
  if (text_.size() > most_bytes_ || bytes > most_bytes_ + kSlack) return too_long();
  const size_t room = std::max(needed, std::min(2 * counted_bytes_, most_bytes_ + kSlack));
  MEMBRANE_TRY(budget_.take_memory(room - counted_bytes_));
  counted_bytes_ = room;
  text_.reserve(room);
  return {};
}

Status PatchText::add_binary(const std::string& bytes) {
  std::string& to = text_;
  to += "literal " + std::to_string(bytes.size()) + "\n";
  MEMBRANE_TRY(budget_.take_memory(bytes.size()));
  MEMBRANE_ASSIGN(const std::string compressed, compress_bytes(bytes));
  MEMBRANE_TRY(make_room(compressed.size() / 52 * 67 + 2 * 67));  // a line of 52 bytes has 67
  for (size_t at = 0; at < compressed.size(); at += 52) {
    const std::string_view line = std::string_view(compressed).substr(at, 52);
    to += static_cast<char>(line.size() <= 26 ? 'A' + line.size() - 1 : 'a' + line.size() - 27);
    to += git_base85(line) + "\n";
  }
  to += "\n";
  budget_.give_memory(bytes.size());
  return {};
}

Status PatchText::add_line(char sign, std::string_view line) {
  constexpr std::string_view kNoEnd = "\n\\ No newline at end of file\n";
  MEMBRANE_TRY(make_room(1 + line.size() + kNoEnd.size()));
  text_ += sign;
  text_ += line;
  if (!line.ends_with('\n')) text_ += kNoEnd;
  return {};
}

// Writes common lines up to that old line.
Status PatchText::add_same(std::string_view& before, std::string_view& after, size_t& old_at, size_t& new_at,
                           size_t old_end) {
  for (; old_at < old_end; ++old_at, ++new_at) {
    MEMBRANE_TRY(add_line(' ', take_line(before)));
    take_line(after);
  }
  return {};
}

Status PatchText::add_hunks(std::string_view before, std::string_view after) {
  MEMBRANE_ASSIGN(const auto changes, line_changes(before, after, budget_));
  size_t old_at = 0, new_at = 0;  // the first lines of the two
  for (size_t first = 0; first < changes.size();) {
    size_t last = first;
    while (last + 1 < changes.size() && changes[last + 1].old_begin - changes[last].old_end <= 2 * kContext)
      ++last;
    const size_t lead = std::min(kContext, changes[first].old_begin);
    skip_lines(before, old_at, changes[first].old_begin - lead);
    skip_lines(after, new_at, changes[first].new_begin - lead);
    size_t old_end = old_at;
    std::string_view rest = before;
    skip_lines(rest, old_end, changes[last].old_end);
    for (size_t trail = 0; trail < kContext && !rest.empty(); ++trail, ++old_end) take_line(rest);
    const size_t new_end = changes[last].new_end + (old_end - changes[last].old_end);
    MEMBRANE_TRY(make_room(kHeadBytes));
    text_ += "@@ -" + range(old_at, old_end) + " +" + range(new_at, new_end) + " @@\n";
    for (size_t i = first; i <= last; ++i) {
      MEMBRANE_TRY(add_same(before, after, old_at, new_at, changes[i].old_begin));
      for (; old_at < changes[i].old_end; ++old_at) MEMBRANE_TRY(add_line('-', take_line(before)));
      for (; new_at < changes[i].new_end; ++new_at) MEMBRANE_TRY(add_line('+', take_line(after)));
    }
    MEMBRANE_TRY(add_same(before, after, old_at, new_at, old_end));
    first = last + 1;
  }
  return {};
}

}  // namespace membrane::computers
