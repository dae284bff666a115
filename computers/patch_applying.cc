// Applies a git patch to a sandbox.
#include <sys/stat.h>

#include <map>
#include <memory>

#include "base/sha256.h"
#include "computers/file_copy.h"
#include "computers/patch.h"
#include "computers/patch_budget.h"
#include "computers/patch_hunks.h"

namespace membrane::computers {
namespace {

constexpr uint64_t kEntryBytes = 512;     // for a known path, without its name
constexpr uint64_t kStepsOfLook = 1'000;  // for one look-up in the sandbox
constexpr uint64_t kStepsOfParent = 50;   // for one look-up among the patch's results
constexpr uint64_t kStepsOfHashing = 10;  // 64 bytes

// What exists at a path, and what the patch puts there.
struct Entry {
  uint32_t mode = 0;                                   // with its type; 0: nothing
  std::shared_ptr<const std::string> bytes = nullptr;  // null for none
  const PatchFile* of = nullptr;                       // the part of the patch that says so

  [[nodiscard]] std::string_view text() const {
    return bytes ? std::string_view(*bytes) : std::string_view();
  }
  [[nodiscard]] bool is_same(const Entry& other) const {
    return mode == other.mode && (bytes == other.bytes || text() == other.text());
  }
};

class Applying {
 public:
  Applying(linux::LiveComputer& computer, const std::string& directory, PatchBudget& budget)
      : computer_(computer), below_(directory), budget_(budget) {
    while (below_.ends_with('/')) below_.pop_back();
  }

  Result<AppliedPatch> run(std::vector<PatchFile>& files) {
    for (PatchFile& file : files) MEMBRANE_TRY(work_out(file));
    MEMBRANE_TRY(check_places());
    AppliedPatch applied;
    std::vector<std::string> done;
    const Status written = write(done);
    if (!written) {
      take_back(done);
      return std::unexpected(written.error());
    }
    for (const auto& [path, entry] : after_)
      if (!entry.is_same(before_.at(path))) applied.changed.push_back(path);
    return applied;
  }

 private:
  Status take_work(const PatchFile& file, uint64_t steps) {
    if (budget_.take_work(steps)) return {};
    return wrong_in_patch(file, file.line, "it takes too long to work out what the patch makes of the files");
  }

  // What is at a path whose parents are directories.
  Result<linux::FileFacts> look(const PatchFile& file, const std::string& path) {
    MEMBRANE_TRY(take_work(file, kStepsOfLook));
    auto facts = computer_.stat(path, false);
    if (!facts && facts.error().code == ErrorCode::kNotFound) return linux::FileFacts();
    return facts;
  }

  // The first ancestor of a path, below the directory, that is not a directory, or not yet; "" if all are.
  Result<std::string> first_gap(const PatchFile& file, const std::string& path) {
    for (size_t slash = path.find('/', below_.size() + 1); slash != path.npos;
         slash = path.find('/', slash + 1)) {
      std::string parent = path.substr(0, slash);
      auto known = parents_.find(parent);
      if (known == parents_.end()) {
        MEMBRANE_TRY(budget_.take_bytes(kEntryBytes + parent.size()));
        MEMBRANE_ASSIGN(const linux::FileFacts facts, look(file, parent));
        known = parents_.emplace(parent, facts.mode).first;
      } else {
        MEMBRANE_TRY(take_work(file, work_of(parent.size())));
      }
      if (!S_ISDIR(known->second)) return parent;
    }
    return std::string();
  }

  // The state of a path after the patch so far. Links are not followed: nothing exists beyond one.
  Result<Entry*> entry_at(const PatchFile& file, const std::string& path) {
    if (const auto found = after_.find(path); found != after_.end()) return &found->second;
    MEMBRANE_TRY(budget_.take_bytes(2 * (kEntryBytes + path.size())));
    Entry entry;
    MEMBRANE_ASSIGN(const std::string gap, first_gap(file, path));
    if (gap.empty()) {
      MEMBRANE_ASSIGN(const linux::FileFacts facts, look(file, path));
      entry.mode = facts.mode;
      if (S_ISLNK(facts.mode)) entry.bytes = std::make_shared<const std::string>(facts.target);
      if (S_ISREG(facts.mode)) {
        MEMBRANE_TRY(budget_.take_bytes(facts.size));
        MEMBRANE_TRY(take_work(file, work_of(facts.size)));
        MEMBRANE_ASSIGN(std::string bytes, computer_.read_file(path, 0, facts.size));
        entry.bytes = std::make_shared<const std::string>(std::move(bytes));
      }
    }
    before_[path] = entry;
    return &(after_[path] = std::move(entry));
  }

  Result<Entry> old_entry(const PatchFile& file, const std::string& path) {
    MEMBRANE_ASSIGN(const Entry* const there, entry_at(file, path));
    if (there->mode == 0) {
      MEMBRANE_ASSIGN(const std::string gap, first_gap(file, path));
      if (!gap.empty() && S_ISLNK(parents_.at(gap))) return beyond_link(file, gap);
      return wrong_in_patch(file, file.line, "the file does not exist");
    }
    if (!S_ISREG(there->mode) && !S_ISLNK(there->mode))
      return wrong_in_patch(file, file.line, "the path is neither a file nor a link");
    if (file.old_mode && (*file.old_mode & S_IFMT) != (there->mode & S_IFMT))
      return wrong_in_patch(file, file.line, "the path has another type");
    return *there;
  }
  static std::unexpected<Error> beyond_link(const PatchFile& file, const std::string& link) {
    return wrong_in_patch(file, file.line, "it is beyond a symbolic link, " + link);
  }

  Status work_out(PatchFile& file) {
    const std::string from = below_ + "/" + file.old_name, to = below_ + "/" + file.new_name;
    Entry old;
    if (!file.is_new) {
      MEMBRANE_ASSIGN(old, old_entry(file, from));
    }
    MEMBRANE_ASSIGN(Entry made, result_of(file, old));
    if (made.bytes != nullptr && made.bytes == old.bytes && from != to)
      MEMBRANE_TRY(budget_.take_bytes(made.bytes->size()));  // it is written again
    if (file.is_removed || (!file.is_new && !file.is_copy && from != to)) {
      if (file.is_removed && !made.text().empty())
        return wrong_in_patch(file, file.line, "the file to be removed contains more than the patch says");
      MEMBRANE_ASSIGN(Entry* const gone, entry_at(file, from));
      *gone = {};
    }
    if (file.is_removed) return {};
    MEMBRANE_ASSIGN(Entry* const target, entry_at(file, to));
    if ((file.is_new || from != to) && target->mode != 0 && !S_ISDIR(target->mode))
      return wrong_in_patch(file, file.line, "the file already exists");
    *target = std::move(made);
    target->of = &file;
    return {};
  }

  Result<Entry> result_of(PatchFile& file, const Entry& old) {
    constexpr uint32_t kProgram = 0111;
    Entry made = old;
    if (file.is_new) made.mode = S_IFREG | 0644;
    if (file.new_mode && (*file.new_mode & S_IFMT) == S_IFLNK) made.mode = S_IFLNK | 0777;
    else if (file.new_mode && file.is_new) made.mode = S_IFREG | ((*file.new_mode & 0100) != 0 ? 0755 : 0644);
    else if (file.new_mode)
      made.mode = S_IFREG | (made.mode & 07777 & ~kProgram) |
                  ((*file.new_mode & 0100) != 0 ? (made.mode & 0444) >> 2 : 0);
    if (file.binary) {
      MEMBRANE_ASSIGN(std::string bytes, binary_of(file, old));
      made.bytes = std::make_shared<const std::string>(std::move(bytes));
    } else if (!file.hunks.empty()) {
      MEMBRANE_ASSIGN(std::string bytes, apply_hunks(file, old.text(), budget_));
      made.bytes = std::make_shared<const std::string>(std::move(bytes));
    } else if (file.is_new || file.is_removed) {
      made.bytes = nullptr;
      if (file.is_removed && !old.text().empty())
        return wrong_in_patch(file, file.line, "the file to be removed contains more than the patch says");
    }
    return made;
  }

  Result<std::string> binary_of(PatchFile& file, const Entry& old) {
    if (!file.is_new && !file.old_id.empty()) {
      MEMBRANE_TRY(take_work(file, kStepsOfHashing * work_of(old.text().size())));
      const std::string head = "blob " + std::to_string(old.text().size()) + '\0';
      MEMBRANE_ASSIGN(const std::string id, sha1_hex({head, old.text()}));
      if (!id.starts_with(file.old_id))
        return wrong_in_patch(file, file.line, "the file differs from the one that the patch was made for");
    }
    if (!file.binary->is_delta) return std::move(file.binary->bytes);
    auto made = apply_git_delta(old.text(), file.binary->bytes, budget_);
    if (!made && made.error().code == ErrorCode::kInvalidInput)
      return wrong_in_patch(file, file.line, made.error().message);
    return made;
  }

  // Nothing is put where a directory with other contents stays, below a file, or beyond a link.
  Status check_places() {
    for (const auto& [path, entry] : after_) {
      if (entry.of == nullptr || entry.mode == 0 || S_ISDIR(entry.mode)) continue;
      if (S_ISDIR(before_.at(path).mode)) {
        MEMBRANE_ASSIGN(const bool is_left, is_left_empty(*entry.of, path));
        if (!is_left)
          return wrong_in_patch(*entry.of, entry.of->line,
                                path + " is a directory that still contains files");
      }
      MEMBRANE_TRY(check_parents(*entry.of, path));
    }
    return {};
  }

  Status check_parents(const PatchFile& file, const std::string& path) {
    for (size_t slash = path.find('/', below_.size() + 1); slash != path.npos;
         slash = path.find('/', slash + 1)) {
      const std::string parent = path.substr(0, slash);
      MEMBRANE_TRY(take_work(file, kStepsOfParent + work_of(parent.size())));
      uint32_t mode = 0;
      if (const auto planned = after_.find(parent); planned != after_.end()) mode = planned->second.mode;
      else if (const auto known = parents_.find(parent); known != parents_.end()) mode = known->second;
      if (S_ISLNK(mode)) return beyond_link(file, parent);
      if (mode != 0 && !S_ISDIR(mode))
        return wrong_in_patch(file, file.line, parent + " is a file, and " + path + " would be inside it");
    }
    return {};
  }

  // Whether the patch removes all files below; its directories are then removed too.
  Result<bool> is_left_empty(const PatchFile& file, const std::string& top) {
    std::vector<std::string> left = {top};
    while (!left.empty()) {
      const std::string directory = std::move(left.back());
      left.pop_back();
      MEMBRANE_TRY(take_work(file, kStepsOfLook));
      MEMBRANE_ASSIGN(const auto listed, computer_.list(directory));
      for (const linux::FileFacts& each : listed) {
        MEMBRANE_TRY(take_work(file, kStepsOfParent));
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
      if (entry.mode == 0 || entry.is_same(old)) continue;
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
      return computer_.make_link(path, std::string(entry.text()));
    }
    if (entry.text() == old.text() && S_ISREG(old.mode)) return computer_.set_mode(path, entry.mode & 07777);
    MEMBRANE_TRY(computer_.write_file(path, entry.text(), entry.mode & 07777));
    return computer_.set_mode(path, entry.mode & 07777);
  }

  // Best effort: restores what was there. Directories that were created stay.
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
  PatchBudget& budget_;
  std::map<std::string, Entry> before_, after_;
  std::map<std::string, uint32_t> parents_;  // modes of their parents; 0: missing
};

}  // namespace

Result<AppliedPatch> apply_patch(linux::LiveComputer& computer, std::string_view patch,
                                 const std::string& directory, const PatchLimits& limits) {
  if (!directory.starts_with('/'))
    return fail(ErrorCode::kInvalidArgument, '"' + directory + "\" is not a path of the sandbox",
                "Begin it with a /.");
  PatchBudget budget(limits);
  MEMBRANE_ASSIGN(auto files, parse_patch(patch, limits, budget));
  return Applying(computer, directory, budget).run(files);
}

}  // namespace membrane::computers
