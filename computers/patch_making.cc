// From changes of a sandbox to a git patch.
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "base/sha256.h"
#include "base/zlib.h"
#include "computers/line_diff.h"
#include "computers/patch.h"

namespace membrane::computers {
namespace {

constexpr size_t kContext = 3;
constexpr size_t kLooksBinary = 8000;  // bytes in which git looks for a zero

// A file as git sees it; nothing for what it does not.
struct GitFile {
  uint32_t mode = 0;  // 0100644, 0100755, 0120000
  std::string bytes;
  bool operator==(const GitFile&) const = default;
};

uint32_t git_mode(uint32_t mode) {
  if (S_ISLNK(mode)) return 0120000;
  return S_ISREG(mode) ? ((mode & 0100) != 0 ? 0100755 : 0100644) : 0;
}

std::string octal(uint32_t mode) {
  std::string text;
  for (int shift = 15; shift >= 0; shift -= 3) text += static_cast<char>('0' + ((mode >> shift) & 7));
  return text;
}

// As git writes names that have more than plain characters.
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

class Making {
 public:
  Making(linux::LiveComputer& computer, const linux::Layer* image, const std::string& directory,
         size_t most_bytes)
      : computer_(computer), image_(image), most_bytes_(most_bytes), below_(directory) {
    while (below_.ends_with('/')) below_.pop_back();
  }

  Result<MadePatch> run() {
    if (!below_.empty() && !inode_at(below_))
      if (const auto there = computer_.stat(below_, false); !there) return std::unexpected(there.error());
    MEMBRANE_ASSIGN(const auto changes, computer_.changes());
    for (const linux::ChangedPath& each : changes) {
      const bool is_seen = each.path.starts_with(below_ + "/") && each.path.size() > below_.size() + 1;
      if (!is_seen && !(below_ + "/").starts_with(each.path + "/")) continue;
      if (is_seen && is_of_git_itself(each.path)) continue;
      MEMBRANE_TRY(tell(each, is_seen));
    }
    return std::move(made_);
  }

 private:
  [[nodiscard]] std::unexpected<Error> too_long() const {
    return fail(ErrorCode::kTooLong, "the patch is longer than " + std::to_string(most_bytes_ >> 20) + " MiB",
                "Make it of a directory alone, or remove what need not be in it.");
  }

  // No patch may change what is in a repository's .git: `git apply` refuses all of one that does.
  [[nodiscard]] bool is_of_git_itself(const std::string& path) const {
    return (path.substr(below_.size()) + "/").find("/.git/") != path.npos;
  }

  // `is_seen`: it is below the directory itself, and not above it.
  Status tell(const linux::ChangedPath& change, bool is_seen) {
    const auto before = change.change == linux::Change::kAdded ? std::nullopt : inode_at(change.path);
    const bool was_directory = before && S_ISDIR(before->mode);
    const bool is_directory = change.change != linux::Change::kRemoved && S_ISDIR(change.mode);
    if (was_directory && !is_directory) MEMBRANE_TRY(remove_below(change.path, *before));
    if (!is_seen) return {};
    GitFile old_file, new_file;
    if (before && !was_directory) {
      MEMBRANE_ASSIGN(old_file, file_of(*before));
    }
    if (change.change != linux::Change::kRemoved && git_mode(change.mode) != 0) {
      MEMBRANE_ASSIGN(new_file, file_now(change.path, change.mode));
    }
    if (old_file == new_file) {
      if (!was_directory || is_directory) made_.left_out += !(is_directory && has_below(change.path));
      return {};
    }
    return add(change.path, old_file, new_file);
  }

  // An added directory is told by what is in it.
  [[nodiscard]] bool has_below(const std::string& path) const {
    const auto listed = computer_.list(path);
    return listed && !listed->empty();
  }

  [[nodiscard]] std::optional<linux::LayerInode> inode_at(const std::string& path) const {
    auto at = image_ == nullptr ? std::nullopt : image_->inode(0);
    for (size_t begin = 1; at && begin < path.size();) {
      const size_t end = std::min(path.find('/', begin), path.size());
      const auto number = S_ISDIR(at->mode)
                              ? image_->find(*at, std::string_view(path).substr(begin, end - begin))
                              : std::nullopt;
      at = number ? image_->inode(*number) : std::nullopt;
      begin = end + 1;
    }
    return at;
  }

  // Every file that the image had in a directory that is no more.
  Status remove_below(const std::string& path, const linux::LayerInode& top) {
    std::vector<std::pair<std::string, linux::LayerInode>> left = {{path, top}};
    uint64_t count = 0;
    while (!left.empty()) {
      const auto [at, directory] = std::move(left.back());
      left.pop_back();
      std::vector<std::pair<std::string, linux::LayerInode>> below;
      for (uint64_t index = 0; index < directory.size; ++index) {
        const auto child = image_->child(directory, index);
        const auto inode = child ? image_->inode(child->inode) : std::nullopt;
        if (!inode || ++count > image_->entry_count())
          return fail(ErrorCode::kInvalidInput, "the image of the sandbox is damaged");
        std::string name = at + "/" + std::string(child->name);
        if (S_ISDIR(inode->mode)) {
          below.emplace_back(std::move(name), *inode);
          continue;
        }
        if (!name.starts_with(below_ + "/") || is_of_git_itself(name)) continue;
        MEMBRANE_ASSIGN(const GitFile file, file_of(*inode));
        if (file.mode == 0) ++made_.left_out;
        else MEMBRANE_TRY(add(name, file, {}));
      }
      std::ranges::move(below, std::back_inserter(left));
    }
    return {};
  }

  Result<GitFile> file_of(const linux::LayerInode& inode) const {
    GitFile file = {.mode = git_mode(inode.mode), .bytes = {}};
    if (inode.size > most_bytes_ && file.mode != 0) return too_long();
    if (file.mode == 0120000) file.bytes = image_->target(inode).value_or("");
    else if (file.mode != 0) {
      const auto bytes = image_->content(inode);
      if (!bytes) return fail(ErrorCode::kInvalidInput, "the image of the sandbox is damaged");
      file.bytes.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    }
    return file;
  }

  Result<GitFile> file_now(const std::string& path, uint32_t mode) {
    GitFile file = {.mode = git_mode(mode), .bytes = {}};
    if (file.mode == 0120000) {
      MEMBRANE_ASSIGN(const auto facts, computer_.stat(path, false));
      file.bytes = facts.target;
      return file;
    }
    MEMBRANE_ASSIGN(file.bytes, computer_.read_file(path, 0, most_bytes_ + 1));
    if (file.bytes.size() > most_bytes_) return too_long();
    return file;
  }

  Status add(const std::string& path, const GitFile& before, const GitFile& after) {
    const std::string name = path.substr(below_.size() + 1);
    const bool is_other_type =
        before.mode != 0 && after.mode != 0 && (before.mode & S_IFMT) != (after.mode & S_IFMT);
    if (is_other_type) {
      MEMBRANE_TRY(add_one(name, before, {}));
      return add_one(name, {}, after);
    }
    return add_one(name, before, after);
  }

  Status add_one(const std::string& name, const GitFile& before, const GitFile& after) {
    const std::string a = quoted("a/" + name), b = quoted("b/" + name);
    std::string& to = made_.text;
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
      add_hunks(before.bytes, after.bytes);
    }
    return to.size() > most_bytes_ ? Status(too_long()) : Status();
  }

  static bool is_binary(const GitFile& file) {
    return std::string_view(file.bytes).substr(0, kLooksBinary).find('\0') != std::string::npos;
  }

  static Result<std::string> id_of(const GitFile& file) {
    if (file.mode == 0) return std::string(40, '0');
    const std::string head = "blob " + std::to_string(file.bytes.size()) + '\0';
    return sha1_hex({head, file.bytes});
  }

  Status add_binary(const std::string& bytes) {
    std::string& to = made_.text;
    to += "literal " + std::to_string(bytes.size()) + "\n";
    MEMBRANE_ASSIGN(const std::string compressed, compress_bytes(bytes));
    for (size_t at = 0; at < compressed.size(); at += 52) {
      const std::string_view line = std::string_view(compressed).substr(at, 52);
      to += static_cast<char>(line.size() <= 26 ? 'A' + line.size() - 1 : 'a' + line.size() - 27);
      to += git_base85(line) + "\n";
    }
    to += "\n";
    return {};
  }

  void add_line(char sign, std::string_view line) {
    made_.text += sign;
    made_.text += line;
    if (!line.ends_with('\n')) made_.text += "\n\\ No newline at end of file\n";
  }

  void add_hunks(std::string_view before, std::string_view after) {
    const auto old_lines = lines_of(before), new_lines = lines_of(after);
    const auto changes = line_changes(old_lines, new_lines);
    for (size_t first = 0; first < changes.size();) {
      size_t last = first;
      while (last + 1 < changes.size() && changes[last + 1].old_begin - changes[last].old_end <= 2 * kContext)
        ++last;
      const size_t lead = std::min(kContext, changes[first].old_begin);
      const size_t old_begin = changes[first].old_begin - lead, new_begin = changes[first].new_begin - lead;
      const size_t trail = std::min(kContext, old_lines.size() - changes[last].old_end);
      const size_t old_end = changes[last].old_end + trail, new_end = changes[last].new_end + trail;
      made_.text += "@@ -" + range(old_begin, old_end) + " +" + range(new_begin, new_end) + " @@\n";
      size_t at = old_begin;
      for (size_t i = first; i <= last; ++i) {
        for (; at < changes[i].old_begin; ++at) add_line(' ', old_lines[at]);
        for (; at < changes[i].old_end; ++at) add_line('-', old_lines[at]);
        for (size_t line = changes[i].new_begin; line < changes[i].new_end; ++line)
          add_line('+', new_lines[line]);
      }
      for (; at < old_end; ++at) add_line(' ', old_lines[at]);
      first = last + 1;
    }
  }

  // "3,2"; of no lines the one before them is named.
  static std::string range(size_t begin, size_t end) {
    const size_t count = end - begin;
    const std::string first = std::to_string(count == 0 ? begin : begin + 1);
    return count == 1 ? first : first + "," + std::to_string(count);
  }

  linux::LiveComputer& computer_;
  const linux::Layer* const image_;
  const size_t most_bytes_;
  std::string below_;
  MadePatch made_;
};

}  // namespace

Result<MadePatch> make_patch(linux::LiveComputer& computer, const linux::Layer* image,
                             const std::string& directory, size_t most_bytes) {
  if (!directory.starts_with('/'))
    return fail(ErrorCode::kInvalidArgument, '"' + directory + "\" is no path of the sandbox",
                "Begin it with a /.");
  return Making(computer, image, directory, most_bytes).run();
}

}  // namespace membrane::computers
