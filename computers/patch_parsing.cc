// The text of a patch, as its files and hunks.
#include <algorithm>
#include <charconv>

#include "base/zlib.h"
#include "computers/line_diff.h"
#include "computers/patch.h"

namespace membrane::computers {
namespace {

std::optional<size_t> take_number(std::string_view& text) {
  size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number > SIZE_MAX / 4) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// A name in quotes, up to its end; nothing for what is none.
std::optional<std::string> take_quoted(std::string_view& text) {
  if (!take(text, "\"")) return std::nullopt;
  std::string name;
  while (!text.empty() && text.front() != '"') {
    char c = text.front();
    text.remove_prefix(1);
    if (c == '\\') {
      if (text.empty()) return std::nullopt;
      c = text.front();
      text.remove_prefix(1);
      constexpr std::string_view kLetters = "abtnvfr\"\\", kMeant = "\a\b\t\n\v\f\r\"\\";
      if (c >= '0' && c <= '3' && text.size() >= 2) {
        unsigned value = static_cast<unsigned>(c - '0');
        for (int i = 0; i < 2; ++i, text.remove_prefix(1)) {
          if (text.front() < '0' || text.front() > '7') return std::nullopt;
          value = value * 8 + static_cast<unsigned>(text.front() - '0');
        }
        c = static_cast<char>(value);
      } else if (const size_t at = kLetters.find(c); at != kLetters.npos) {
        c = kMeant[at];
      } else {
        return std::nullopt;
      }
    }
    name += c;
  }
  if (!take(text, "\"")) return std::nullopt;
  return name;
}

class Parsing {
 public:
  Parsing(std::string_view text, const PatchLimits& limits) : lines_(lines_of(text)), limits_(limits) {}

  Result<std::vector<PatchFile>> run() {
    while (at_ < lines_.size()) {
      std::string_view line = here();
      if (take(line, "diff --git ")) MEMBRANE_TRY(git_file(line));
      else if (line.starts_with("--- ") && at_ + 1 < lines_.size() && lines_[at_ + 1].starts_with("+++ "))
        MEMBRANE_TRY(plain_file());
      else if (line.starts_with("@@ -")) return wrong("a hunk has no file before it");
      else ++at_;  // a message, a signature
    }
    if (files_.empty())
      return fail(ErrorCode::kInvalidInput, "there is no patch in the text",
                  "Make it by git diff, or with ---, +++ and @@ lines.");
    return std::move(files_);
  }

 private:
  // Without its end.
  [[nodiscard]] std::string_view here() const {
    std::string_view line = lines_[at_];
    if (line.ends_with('\n')) line.remove_suffix(1);
    return line;
  }
  [[nodiscard]] std::unexpected<Error> wrong(const std::string& what) const {
    return fail(ErrorCode::kInvalidInput, "line " + std::to_string(at_ + 1) + " of the patch: " + what,
                "Nothing was changed. Make the patch again.");
  }

  Result<PatchFile*> begin() {
    if (files_.size() >= limits_.files) return fail(ErrorCode::kTooLong, "the patch names too many files");
    files_.push_back({});
    files_.back().line = at_ + 1;
    return &files_.back();
  }

  // Strips "a/" or "b/". Errors: names that lead elsewhere.
  Result<std::string> plain_name(std::string name) const {
    if (name == "/dev/null") return std::string();
    const size_t slash = name.find('/');
    if (slash == name.npos || slash == 0)
      return wrong("the name \"" + name.substr(0, 200) + "\" has no a/ or b/ before it");
    name.erase(0, slash + 1);
    MEMBRANE_TRY(check_name(name));
    return name;
  }
  Status check_name(const std::string& name) const {
    size_t begin = 0;
    for (bool is_last = false; !is_last;) {
      const size_t end = name.find('/', begin);
      is_last = end == name.npos;
      const std::string part = name.substr(begin, is_last ? end : end - begin);
      if (part.empty() || part == "." || part == ".." || part.find('\0') != part.npos || part.size() > 255)
        return wrong("the name \"" + name.substr(0, 200) + "\" is not one of a file below the directory");
      begin = end + 1;
    }
    return name.size() < 4000 ? Status() : wrong("a name is too long");
  }

  // Of a --- or +++ line: a time may follow after a tab.
  Result<std::string> name_of_line(std::string_view rest) const {
    if (rest.starts_with('"')) {
      auto name = take_quoted(rest);
      if (!name) return wrong("a name in quotes has no end");
      return plain_name(std::move(*name));
    }
    if (rest.ends_with('\r')) rest.remove_suffix(1);
    return plain_name(std::string(rest.substr(0, rest.find('\t'))));
  }

  // "a/NAME b/NAME": the names are the same, where they are told by nothing else.
  Result<std::string> name_of_head(std::string_view rest) const {
    if (rest.starts_with('"')) {
      auto name = take_quoted(rest);
      if (!name) return wrong("a name in quotes has no end");
      return plain_name(std::move(*name));
    }
    const size_t half = rest.size() / 2;
    if (rest.size() % 2 == 0 || rest[half] != ' ') return std::string();
    const std::string_view a = rest.substr(0, half), b = rest.substr(half + 1);
    if (a.find('/') == a.npos || b.find('/') == b.npos || a.substr(a.find('/')) != b.substr(b.find('/')))
      return std::string();
    return plain_name(std::string(a));
  }

  Result<uint32_t> mode(std::string_view text) const {
    uint32_t bits = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits, 8);
    if (error != std::errc() || end != text.data() + text.size()) return wrong("this is no mode");
    const uint32_t type = bits & 0170000;
    if (type == 0160000)
      return fail(ErrorCode::kUnsupported,
                  "line " + std::to_string(at_ + 1) + " of the patch: it is of a submodule");
    if (type != 0100000 && type != 0120000) return wrong("the mode is neither of a file nor of a link");
    return bits;
  }

  Status git_file(std::string_view head) {
    MEMBRANE_ASSIGN(PatchFile * file, begin());
    MEMBRANE_ASSIGN(file->old_name, name_of_head(head));
    file->new_name = file->old_name;
    ++at_;
    while (at_ < lines_.size()) {
      std::string_view line = here();
      if (take(line, "old mode ")) {
        MEMBRANE_ASSIGN(file->old_mode, mode(line));
      } else if (take(line, "new mode ")) {
        MEMBRANE_ASSIGN(file->new_mode, mode(line));
      } else if (take(line, "new file mode ")) {
        MEMBRANE_ASSIGN(file->new_mode, mode(line));
        file->is_new = true;
      } else if (take(line, "deleted file mode ")) {
        MEMBRANE_ASSIGN(file->old_mode, mode(line));
        file->is_removed = true;
      } else if (take(line, "rename from ") || take(line, "copy from ")) {
        file->is_copy = lines_[at_].starts_with("copy");
        file->is_rename = !file->is_copy;
        MEMBRANE_ASSIGN(file->old_name, bare_name(line));
      } else if (take(line, "rename to ") || take(line, "copy to ")) {
        MEMBRANE_ASSIGN(file->new_name, bare_name(line));
      } else if (take(line, "index ")) {
        const size_t dots = line.find("..");
        if (dots == line.npos) return wrong("the index line is damaged");
        file->old_id = line.substr(0, dots);
        file->new_id = line.substr(dots + 2, line.find(' ', dots) - dots - 2);
      } else if (!line.starts_with("similarity index ") && !line.starts_with("dissimilarity index ")) {
        break;
      }
      ++at_;
    }
    if (at_ < lines_.size() && here() == "GIT binary patch") MEMBRANE_TRY(binary(*file));
    else if (at_ < lines_.size() && lines_[at_].starts_with("--- ")) MEMBRANE_TRY(hunks_of(*file, true));
    else if (at_ < lines_.size() && lines_[at_].starts_with("Binary files "))
      return wrong("the patch has not the bytes of a binary file; make it by git diff --binary");
    if (file->is_new) file->old_name.clear();
    if (file->is_removed) file->new_name.clear();
    return check(*file);
  }

  Result<std::string> bare_name(std::string_view rest) const {
    std::string name(rest);
    if (rest.starts_with('"')) {
      auto quoted = take_quoted(rest);
      if (!quoted) return wrong("a name in quotes has no end");
      name = std::move(*quoted);
    }
    MEMBRANE_TRY(check_name(name));
    return name;
  }

  Status plain_file() {
    MEMBRANE_ASSIGN(PatchFile * file, begin());
    MEMBRANE_TRY(hunks_of(*file, false));
    file->is_new = file->old_name.empty();
    file->is_removed = file->new_name.empty();
    return check(*file);
  }

  Status check(const PatchFile& file) const {
    if (file.old_name.empty() && file.new_name.empty()) return wrong("the file before it has no name");
    return {};
  }

  Status hunks_of(PatchFile& file, bool is_git) {
    MEMBRANE_ASSIGN(const std::string old_name, name_of_line(here().substr(4)));
    ++at_;
    if (at_ == lines_.size() || !lines_[at_].starts_with("+++ "))
      return wrong("there is no +++ after the ---");
    MEMBRANE_ASSIGN(const std::string new_name, name_of_line(here().substr(4)));
    ++at_;
    if (is_git && ((!file.is_new && !file.is_rename && !file.is_copy && old_name.empty()) ||
                   (!file.is_removed && new_name.empty())))
      return wrong("/dev/null stands for a file that is neither new nor removed");
    if (!is_git || !old_name.empty()) file.old_name = old_name;
    if (!is_git || !new_name.empty()) file.new_name = new_name;
    while (at_ < lines_.size() && lines_[at_].starts_with("@@ -")) MEMBRANE_TRY(hunk(file));
    return file.hunks.empty() ? Status(wrong("there is no @@ line after the names")) : Status();
  }

  Status hunk(PatchFile& file) {
    PatchHunk hunk;
    hunk.line = at_ + 1;
    std::string_view line = here();
    take(line, "@@ -");
    const auto range = [&line](size_t& first, size_t& count) {
      const auto number = take_number(line);
      if (!number) return false;
      first = *number;
      count = 1;
      if (!take(line, ",")) return true;
      const auto lines = take_number(line);
      count = lines.value_or(0);
      return lines.has_value();
    };
    if (!range(hunk.old_line, hunk.old_count) || !take(line, " +") || !range(hunk.new_line, hunk.new_count) ||
        !take(line, " @@"))
      return wrong("this is no \"@@ -line,count +line,count @@\"");
    ++at_;
    bool has_changed = false;
    while (hunk.before.size() < hunk.old_count || hunk.after.size() < hunk.new_count) {
      if (at_ == lines_.size()) return wrong("the hunk is shorter than its @@ line says");
      // Some lose the space of an empty line.
      const char sign = lines_[at_] == "\n" ? ' ' : lines_[at_].front();
      const std::string_view text = lines_[at_] == "\n" ? lines_[at_] : lines_[at_].substr(1);
      if (sign != ' ' && sign != '-' && sign != '+')
        return wrong("a line of a hunk begins with neither a space, - nor +");
      if (sign != '+') hunk.before.push_back(text);
      if (sign != '-') hunk.after.push_back(text);
      if (sign == ' ') {
        if (has_changed) ++hunk.last_context;
        else ++hunk.first_context;
      } else {
        has_changed = true;
        hunk.last_context = 0;
      }
      ++at_;
      if (at_ < lines_.size() && lines_[at_].starts_with('\\')) {
        ++at_;  // "\ No newline at end of file"
        if (sign != '+') cut_end(hunk.before.back());
        if (sign != '-') cut_end(hunk.after.back());
      }
    }
    if (hunk.before.size() != hunk.old_count || hunk.after.size() != hunk.new_count)
      return wrong("the hunk is longer than its @@ line says");
    file.hunks.push_back(std::move(hunk));
    return {};
  }
  static void cut_end(std::string_view& line) {
    if (line.ends_with('\n')) line.remove_suffix(1);
  }

  Status binary(PatchFile& file) {
    ++at_;
    MEMBRANE_ASSIGN(file.binary, binary_part());
    // What takes it back follows, and is not used.
    if (at_ < lines_.size() && (lines_[at_].starts_with("literal ") || lines_[at_].starts_with("delta ")))
      while (at_ < lines_.size() && lines_[at_] != "\n") ++at_;
    return {};
  }

  Result<PatchBinary> binary_part() {
    if (at_ == lines_.size()) return wrong("a binary file has no bytes");
    PatchBinary part;
    std::string_view line = here();
    part.is_delta = take(line, "delta ");
    if (!part.is_delta && !take(line, "literal ")) return wrong("this is neither \"literal\" nor \"delta\"");
    const auto size = take_number(line);
    if (!size) return wrong("the bytes of a binary file have no number");
    if (*size > left_bytes()) return fail(ErrorCode::kTooLong, "the files of the patch are too long");
    binary_bytes_ += *size;
    ++at_;
    std::string compressed;
    for (; at_ < lines_.size() && lines_[at_] != "\n"; ++at_) {
      const std::string_view text = here();
      const char head = text.empty() ? '\0' : text.front();
      const size_t bytes = head >= 'A' && head <= 'Z'   ? static_cast<size_t>(head - 'A') + 1
                           : head >= 'a' && head <= 'z' ? static_cast<size_t>(head - 'a') + 27
                                                        : 0;
      if (bytes == 0) return wrong("a line of a binary file has no length");
      const auto decoded = from_git_base85(text.substr(1), bytes);
      if (!decoded) return wrong(decoded.error().message);
      compressed += *decoded;
    }
    if (at_ < lines_.size()) ++at_;
    auto made = decompress_bytes(compressed, *size);
    if (!made && made.error().code == ErrorCode::kInvalidInput) return wrong(made.error().message);
    MEMBRANE_ASSIGN(part.bytes, std::move(made));
    return part;
  }
  [[nodiscard]] uint64_t left_bytes() const { return limits_.file_bytes - binary_bytes_; }

  const std::vector<std::string_view> lines_;
  const PatchLimits limits_;
  size_t at_ = 0;
  uint64_t binary_bytes_ = 0;
  std::vector<PatchFile> files_;
};

}  // namespace

Result<std::vector<PatchFile>> parse_patch(std::string_view text, const PatchLimits& limits) {
  if (text.size() > limits.text_bytes) return fail(ErrorCode::kTooLong, "the patch is too long");
  return Parsing(text, limits).run();
}

}  // namespace membrane::computers
