// Parses the text of a patch into its files and hunks.
#include <algorithm>
#include <charconv>

#include "base/zlib.h"
#include "computers/line_diff.h"
#include "computers/patch.h"
#include "computers/patch_hunks.h"

namespace membrane::computers {
namespace {

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// A quoted name, up to its end; nothing if it is invalid.
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
  Parsing(std::string_view text, size_t most_files, PatchBudget& budget)
      : next_(text), most_files_(most_files), budget_(budget) {
    step();
  }

  Result<std::vector<PatchFile>> run() {
    while (!is_over()) {
      std::string_view line = here();
      if (take(line, "diff --git ")) MEMBRANE_TRY(git_file(line));
      else if (line.starts_with("--- ") && next_.starts_with("+++ ")) MEMBRANE_TRY(plain_file());
      else if (line.starts_with("@@ -")) return wrong("a hunk has no file before it");
      else step();  // a message, a signature
    }
    if (files_.empty())
      return fail(ErrorCode::kInvalidInput, "there is no patch in the text",
                  "Make it with git diff, or write ---, +++ and @@ lines.");
    return std::move(files_);
  }

 private:
  void step() {
    line_ = take_line(next_);
    ++number_;
  }
  [[nodiscard]] bool is_over() const { return line_.empty(); }
  // Without its end.
  [[nodiscard]] std::string_view here() const {
    std::string_view line = line_;
    if (line.ends_with('\n')) line.remove_suffix(1);
    return line;
  }
  [[nodiscard]] std::unexpected<Error> wrong(const std::string& what) const {
    return wrong_in_patch(number_, what);
  }

  Result<PatchFile*> begin() {
    if (files_.size() >= most_files_) return fail(ErrorCode::kTooLong, "the patch names too many files");
    MEMBRANE_TRY(budget_.take_bytes(sizeof(PatchFile) + 2 * line_.size()));  // the names are no longer
    files_.push_back({});
    files_.back().line = number_;
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
      if (!name) return wrong("a quoted name is not closed");
      return plain_name(std::move(*name));
    }
    if (rest.ends_with('\r')) rest.remove_suffix(1);
    return plain_name(std::string(rest.substr(0, rest.find('\t'))));
  }

  // "a/NAME b/NAME": both names are the same unless other lines give them.
  Result<std::string> name_of_head(std::string_view rest) const {
    if (rest.starts_with('"')) {
      auto name = take_quoted(rest);
      if (!name) return wrong("a quoted name is not closed");
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
    if (error != std::errc() || end != text.data() + text.size()) return wrong("this is not a mode");
    const uint32_t type = bits & 0170000;
    if (type == 0160000)
      return fail(ErrorCode::kUnsupported,
                  "line " + std::to_string(number_) + " of the patch: it is for a submodule");
    if (type != 0100000 && type != 0120000) return wrong("the mode is neither of a file nor of a link");
    return bits;
  }

  Status git_file(std::string_view head) {
    MEMBRANE_ASSIGN(PatchFile * file, begin());
    MEMBRANE_ASSIGN(file->old_name, name_of_head(head));
    file->new_name = file->old_name;
    step();
    while (!is_over()) {
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
        file->is_copy = line_.starts_with("copy");
        file->is_rename = !file->is_copy;
        MEMBRANE_ASSIGN(file->old_name, bare_name(line));
      } else if (take(line, "rename to ") || take(line, "copy to ")) {
        MEMBRANE_ASSIGN(file->new_name, bare_name(line));
      } else if (take(line, "index ")) {
        const size_t dots = line.find("..");
        constexpr size_t kMostDigits = 64;
        if (dots > kMostDigits) return wrong("the index line is damaged");
        file->old_id = line.substr(0, dots);
      } else if (!line.starts_with("similarity index ") && !line.starts_with("dissimilarity index ")) {
        break;
      }
      step();
    }
    if (here() == "GIT binary patch") MEMBRANE_TRY(binary(*file));
    else if (line_.starts_with("--- ")) MEMBRANE_TRY(hunks_of(*file, true));
    else if (line_.starts_with("Binary files "))
      return wrong("the patch lacks the bytes of a binary file; make it with git diff --binary");
    if (file->is_new) file->old_name.clear();
    if (file->is_removed) file->new_name.clear();
    return check(*file);
  }

  Result<std::string> bare_name(std::string_view rest) const {
    std::string name(rest);
    if (rest.starts_with('"')) {
      auto quoted = take_quoted(rest);
      if (!quoted) return wrong("a quoted name is not closed");
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
    step();
    if (!line_.starts_with("+++ ")) return wrong("there is no +++ after the ---");
    MEMBRANE_ASSIGN(const std::string new_name, name_of_line(here().substr(4)));
    if (is_git && ((!file.is_new && !file.is_rename && !file.is_copy && old_name.empty()) ||
                   (!file.is_removed && new_name.empty())))
      return wrong("/dev/null is given for a file that is neither new nor removed");
    if (!is_git || !old_name.empty()) file.old_name = old_name;
    if (!is_git || !new_name.empty()) file.new_name = new_name;
    file.hunks = next_;
    file.hunks_line = number_ + 1;
    size_t line = file.hunks_line;
    while (next_.starts_with("@@ -")) MEMBRANE_TRY(take_hunk(next_, line));
    file.hunks.remove_suffix(next_.size());
    number_ = line - 1;
    step();
    return file.hunks.empty() ? Status(wrong("there is no @@ line after the names")) : Status();
  }

  Status binary(PatchFile& file) {
    step();
    MEMBRANE_ASSIGN(file.binary, binary_part());
    // The reverse change follows, and is not used.
    if (line_.starts_with("literal ") || line_.starts_with("delta "))
      while (!is_over() && line_ != "\n") step();
    return {};
  }

  Result<PatchBinary> binary_part() {
    if (is_over()) return wrong("a binary file has no bytes");
    PatchBinary part;
    std::string_view line = here();
    part.is_delta = take(line, "delta ");
    if (!part.is_delta && !take(line, "literal ")) return wrong("this is neither \"literal\" nor \"delta\"");
    const auto size = take_number(line);
    if (!size) return wrong("the bytes of a binary file have no count");
    MEMBRANE_TRY(budget_.take_bytes(*size));
    step();
    const size_t most = compressed_here();
    MEMBRANE_TRY(budget_.take_memory(most));
    MEMBRANE_ASSIGN(const std::string compressed, compressed_bytes(most));
    auto made = decompress_bytes(compressed, *size);
    if (!made && made.error().code == ErrorCode::kInvalidInput) return wrong(made.error().message);
    MEMBRANE_ASSIGN(part.bytes, std::move(made));
    budget_.give_memory(most);
    return part;
  }
  // An upper bound of the bytes that the base 85 lines from here on decode to.
  [[nodiscard]] size_t compressed_here() const {
    if (line_ == "\n") return 0;
    const size_t end = next_.find("\n\n");
    return (line_.size() + std::min(end, next_.size())) / 5 * 4 + 4;
  }
  Result<std::string> compressed_bytes(size_t most) {
    std::string compressed;
    compressed.reserve(most);
    for (; !is_over() && line_ != "\n"; step()) {
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
    if (!is_over()) step();
    return compressed;
  }

  std::string_view line_, next_;  // where it is, and all that comes after
  size_t number_ = 0;             // of the line
  const size_t most_files_;
  PatchBudget& budget_;
  std::vector<PatchFile> files_;
};

}  // namespace

Result<std::vector<PatchFile>> parse_patch(std::string_view text, const PatchLimits& limits,
                                           PatchBudget& budget) {
  if (text.size() > limits.text_bytes) return fail(ErrorCode::kTooLong, "the patch is too long");
  return Parsing(text, limits.files, budget).run();
}

}  // namespace membrane::computers
