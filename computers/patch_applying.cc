// A git patch into a sandbox.
#include <sys/stat.h>

#include <algorithm>
#include <map>

#include "base/sha256.h"
#include "computers/file_copy.h"
#include "computers/line_diff.h"
#include "computers/patch.h"

namespace membrane::computers {
namespace {

constexpr uint64_t kMostCompared = 200'000'000;  // lines, in looking for where hunks belong

std::unexpected<Error> wrong(const PatchFile& file, size_t line, const std::string& what) {
  const std::string& name = file.new_name.empty() ? file.old_name : file.new_name;
  return fail(ErrorCode::kInvalidInput, name + ", line " + std::to_string(line) + " of the patch: " + what,
              "Nothing was changed. Make the patch again from the files as they are.");
}

// Whether the lines are there at that place; `left` counts down.
bool is_there(const std::vector<std::string_view>& lines, size_t at,
              const std::vector<std::string_view>& wanted, uint64_t& left) {
  if (at > lines.size() || wanted.size() > lines.size() - at) return false;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (left == 0) return false;
    --left;
    if (lines[at + i] != wanted[i]) return false;
  }
  return true;
}

// The place nearest to `near`, from `begin` on. A hunk with lines before its changes and none after them is the file's last, and the other
// way round its first, as git has it.
std::optional<size_t> find_place(const std::vector<std::string_view>& lines, const PatchHunk& hunk,
                                 size_t begin, size_t near, uint64_t& left) {
  const size_t last = lines.size() - std::min(lines.size(), hunk.before.size());
  const bool is_at_begin = hunk.first_context == 0 && hunk.last_context > 0 && hunk.old_line <= 1;
  const bool is_at_end = hunk.last_context == 0 && hunk.first_context > 0;
  const auto fits = [&](size_t at) {
    if (at < begin || (is_at_begin && at != 0) || (is_at_end && at + hunk.before.size() != lines.size()))
      return false;
    return is_there(lines, at, hunk.before, left);
  };
  near = std::clamp(near, begin, std::max(begin, last));
  for (size_t distance = 0; distance <= lines.size() && left > 0; ++distance) {
    --left;
    if (near + distance <= last && fits(near + distance)) return near + distance;
    if (distance > 0 && distance <= near && fits(near - distance)) return near - distance;
  }
  return std::nullopt;
}

// What there is at a path, and what is to be.
struct Entry {
  uint32_t mode = 0;  // with its type; 0: nothing
  std::string bytes;
  bool operator==(const Entry&) const = default;
};

class Applying {
 public:
  Applying(linux::LiveComputer& computer, const std::string& directory, const PatchLimits& limits)
      : computer_(computer), below_(directory), left_(limits.file_bytes) {
    while (below_.ends_with('/')) below_.pop_back();
  }

  Result<AppliedPatch> run(const std::vector<PatchFile>& files) {
    for (const PatchFile& file : files) MEMBRANE_TRY(work_out(file));
    MEMBRANE_TRY(check_places());
    AppliedPatch applied;
    std::vector<std::string> done;
    const Status written = write(done);
    if (!written) {
      take_back(done);
      return std::unexpected(written.error());
    }
    for (const auto& [path, entry] : after_)
      if (entry != before_.at(path)) applied.changed.push_back(path);
    return applied;
  }

 private:
  // What the patch has made of a path so far.
  Result<Entry*> entry_at(const std::string& path) {
    if (const auto found = after_.find(path); found != after_.end()) return &found->second;
    Entry entry;
    const auto facts = computer_.stat(path, false);
    if (!facts && facts.error().code != ErrorCode::kNotFound && !is_below_file(path))
      return std::unexpected(facts.error());
    if (facts) {
      entry.mode = facts->mode;
      if (S_ISLNK(facts->mode)) entry.bytes = facts->target;
      if (S_ISREG(facts->mode)) {
        if (facts->size > left_) return too_long();
        left_ -= facts->size;
        MEMBRANE_ASSIGN(entry.bytes, computer_.read_file(path, 0, facts->size));
      }
    }
    before_[path] = entry;
    return &(after_[path] = std::move(entry));
  }
  // What is to be a directory may be a file yet.
  [[nodiscard]] bool is_below_file(const std::string& path) const {
    for (size_t slash = path.rfind('/'); slash != path.npos && slash > 0; slash = path.rfind('/', slash - 1))
      if (const auto parent = computer_.stat(path.substr(0, slash), true)) return !S_ISDIR(parent->mode);
    return false;
  }
  static std::unexpected<Error> too_long() {
    return fail(ErrorCode::kTooLong, "the files of the patch are too long",
                "Nothing was changed. Apply it in smaller parts.");
  }

  Status work_out(const PatchFile& file) {
    const std::string from = below_ + "/" + file.old_name, to = below_ + "/" + file.new_name;
    Entry old;
    if (!file.is_new) {
      MEMBRANE_ASSIGN(const Entry* const there, entry_at(from));
      if (there->mode == 0) return wrong(file, file.line, "the file is not there");
      if (!S_ISREG(there->mode) && !S_ISLNK(there->mode))
        return wrong(file, file.line, "what is there is neither a file nor a link");
      if (file.old_mode && (*file.old_mode & S_IFMT) != (there->mode & S_IFMT))
        return wrong(file, file.line, "what is there is of another type");
      old = *there;
    }
    MEMBRANE_ASSIGN(Entry made, result_of(file, old));
    if (made.bytes.size() > left_) return too_long();
    left_ -= made.bytes.size();
    if (file.is_removed || (!file.is_new && !file.is_copy && from != to)) {
      if (file.is_removed && !made.bytes.empty())
        return wrong(file, file.line, "the file to be removed has more than the patch says");
      MEMBRANE_ASSIGN(Entry* const gone, entry_at(from));
      *gone = {};
    }
    if (file.is_removed) return {};
    MEMBRANE_ASSIGN(Entry* const target, entry_at(to));
    if ((file.is_new || from != to) && target->mode != 0 && !S_ISDIR(target->mode))
      return wrong(file, file.line, "the file is there already");
    *target = std::move(made);
    return {};
  }

  static Result<Entry> result_of(const PatchFile& file, const Entry& old) {
    constexpr uint32_t kProgram = 0111;
    Entry made = old;
    if (file.is_new) made.mode = S_IFREG | 0644;
    if (file.new_mode && (*file.new_mode & S_IFMT) == S_IFLNK) made.mode = S_IFLNK | 0777;
    else if (file.new_mode && file.is_new) made.mode = S_IFREG | ((*file.new_mode & 0100) != 0 ? 0755 : 0644);
    else if (file.new_mode)
      made.mode = S_IFREG | (made.mode & 07777 & ~kProgram) |
                  ((*file.new_mode & 0100) != 0 ? (made.mode & 0444) >> 2 : 0);
    if (file.binary) {
      MEMBRANE_ASSIGN(made.bytes, binary_of(file, old));
    } else if (!file.hunks.empty()) {
      MEMBRANE_ASSIGN(made.bytes, apply_hunks(file, old.bytes, UINT64_MAX));
    } else if (file.is_new || file.is_removed) {
      made.bytes.clear();
      if (file.is_removed && !old.bytes.empty())
        return wrong(file, file.line, "the file to be removed has more than the patch says");
    }
    return made;
  }

  static Result<std::string> binary_of(const PatchFile& file, const Entry& old) {
    if (!file.is_new && !file.old_id.empty()) {
      const std::string head = "blob " + std::to_string(old.bytes.size()) + '\0';
      MEMBRANE_ASSIGN(const std::string id, sha1_hex({head, old.bytes}));
      if (!id.starts_with(file.old_id))
        return wrong(file, file.line, "the file has other bytes than the patch is made for");
    }
    if (!file.binary->is_delta) return file.binary->bytes;
    auto made = apply_git_delta(old.bytes, file.binary->bytes, uint64_t{1} << 30);
    if (!made) return wrong(file, file.line, made.error().message);
    return made;
  }

  // Nothing goes where a directory with something else in it stays, or below what is a file.
  Status check_places() {
    for (const auto& [path, entry] : after_) {
      if (entry.mode == 0 || S_ISDIR(entry.mode)) continue;
      if (S_ISDIR(before_.at(path).mode)) {
        MEMBRANE_ASSIGN(const bool is_left, is_left_empty(path));
        if (!is_left)
          return fail(ErrorCode::kInvalidInput, path + " is a directory, and files stay in it",
                      "Nothing was changed. Remove the directory first.");
      }
      for (size_t slash = path.rfind('/'); slash > below_.size() && slash != path.npos;
           slash = path.rfind('/', slash - 1)) {
        const std::string parent = path.substr(0, slash);
        const auto planned = after_.find(parent);
        if (planned != after_.end() && planned->second.mode != 0 && !S_ISDIR(planned->second.mode))
          return fail(ErrorCode::kInvalidInput, parent + " is a file, and " + path + " is to be in it",
                      "Nothing was changed. Make the patch again.");
      }
    }
    return {};
  }

  // Whether the patch removes all files below; directories in it go too.
  Result<bool> is_left_empty(const std::string& top) {
    std::vector<std::string> left = {top};
    while (!left.empty()) {
      const std::string directory = std::move(left.back());
      left.pop_back();
      MEMBRANE_ASSIGN(const auto listed, computer_.list(directory));
      for (const linux::FileFacts& each : listed) {
        if (S_ISDIR(each.mode)) {
          left.push_back(each.path);
          continue;
        }
        const auto planned = after_.find(each.path);
        if (planned == after_.end() || planned->second.mode != 0) return false;
      }
    }
    return true;
  }

  // Removals first, so that a file may become a directory, and a directory a file.
  Status write(std::vector<std::string>& done) {
    for (const auto& [path, entry] : after_) {
      if (entry.mode != 0 || before_.at(path).mode == 0) continue;
      done.push_back(path);
      MEMBRANE_TRY(computer_.remove(path, false));
    }
    for (const auto& [path, entry] : after_) {
      const Entry& old = before_.at(path);
      if (entry.mode == 0 || entry == old) continue;
      done.push_back(path);
      if (S_ISDIR(old.mode)) MEMBRANE_TRY(computer_.remove(path, true));
      MEMBRANE_TRY(put(path, entry, old));
    }
    return {};
  }

  Status put(const std::string& path, const Entry& entry, const Entry& old) {
    const bool is_link = S_ISLNK(entry.mode);
    if (old.mode != 0 && !S_ISDIR(old.mode) && (is_link || (old.mode & S_IFMT) != (entry.mode & S_IFMT)))
      MEMBRANE_TRY(computer_.remove(path, false));
    if (is_link) {
      if (const size_t slash = path.rfind('/'); slash > 0)
        MEMBRANE_TRY(make_directories(computer_, path.substr(0, slash), 0755, User()));
      return computer_.make_link(path, entry.bytes);
    }
    if (entry.bytes == old.bytes && S_ISREG(old.mode)) return computer_.set_mode(path, entry.mode & 07777);
    MEMBRANE_TRY(computer_.write_file(path, entry.bytes, entry.mode & 07777));
    return computer_.set_mode(path, entry.mode & 07777);
  }

  // As well as it goes: what was there comes back. Directories that were made stay.
  void take_back(const std::vector<std::string>& done) {
    for (size_t i = done.size(); i-- > 0;) {
      const Entry& old = before_.at(done[i]);
      static_cast<void>(computer_.remove(done[i], false));
      if (S_ISREG(old.mode) || S_ISLNK(old.mode)) static_cast<void>(put(done[i], old, {}));
      else if (S_ISDIR(old.mode)) static_cast<void>(computer_.make_directory(done[i], old.mode & 07777));
    }
  }

  linux::LiveComputer& computer_;
  std::string below_;
  uint64_t left_;
  std::map<std::string, Entry> before_, after_;
};

}  // namespace

Result<std::string> apply_hunks(const PatchFile& file, std::string_view before, uint64_t most_bytes) {
  const auto lines = lines_of(before);
  std::string made;
  size_t at = 0;  // of the lines, what is copied
  ptrdiff_t moved = 0;
  uint64_t left = kMostCompared;
  for (const PatchHunk& hunk : file.hunks) {
    // Of no lines, the one before them is named.
    const size_t named = hunk.old_count == 0 ? hunk.old_line : std::max<size_t>(hunk.old_line, 1) - 1;
    const size_t near = static_cast<size_t>(std::max<ptrdiff_t>(0, static_cast<ptrdiff_t>(named) + moved));
    const auto place = find_place(lines, hunk, at, near, left);
    if (!place)
      return wrong(file, hunk.line,
                   left == 0 ? "it takes too long to find where the hunk belongs"
                             : "the lines of the hunk are not in the file");
    moved = static_cast<ptrdiff_t>(*place) - static_cast<ptrdiff_t>(named);
    for (; at < *place; ++at) made += lines[at];
    for (const std::string_view line : hunk.after) made += line;
    at += hunk.before.size();
    if (made.size() > most_bytes) return fail(ErrorCode::kTooLong, "a file of the patch is too long");
  }
  for (; at < lines.size(); ++at) made += lines[at];
  return made;
}

Result<AppliedPatch> apply_patch(linux::LiveComputer& computer, std::string_view patch,
                                 const std::string& directory, const PatchLimits& limits) {
  if (!directory.starts_with('/'))
    return fail(ErrorCode::kInvalidArgument, '"' + directory + "\" is no path of the sandbox",
                "Begin it with a /.");
  MEMBRANE_ASSIGN(const auto files, parse_patch(patch, limits));
  return Applying(computer, directory, limits).run(files);
}

}  // namespace membrane::computers
