// Makes a git patch from a sandbox's changes.
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "computers/patch.h"
#include "computers/patch_text.h"

namespace membrane::computers {
namespace {

std::unexpected<Error> too_large(const std::string& path, size_t most_bytes) {
  return fail(ErrorCode::kTooLong, path + " is larger than " + std::to_string(most_bytes >> 20) + " MiB",
              "Pass only one directory, or remove what is not needed.");
}

std::unexpected<Error> damaged_image() {
  return fail(ErrorCode::kInvalidInput, "the image of the sandbox is damaged");
}

// The files with which the sandboxes began.
class ImageFiles {
 public:
  explicit ImageFiles(const linux::Layer* image) : image_(image) {}

  [[nodiscard]] std::optional<linux::LayerInode> find(const std::string& path) const {
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

  using Visit = std::function<Status(const std::string& path, const linux::LayerInode& inode)>;
  // All paths below a directory that are not directories.
  Status visit_below(const std::string& path, const linux::LayerInode& top, const Visit& visit) const {
    std::vector<std::pair<std::string, linux::LayerInode>> left = {{path, top}};
    uint64_t count = 0;
    while (!left.empty()) {
      const auto [at, directory] = std::move(left.back());
      left.pop_back();
      std::vector<std::pair<std::string, linux::LayerInode>> below;
      for (uint64_t index = 0; index < directory.size; ++index) {
        const auto child = image_->child(directory, index);
        const auto inode = child ? image_->inode(child->inode) : std::nullopt;
        if (!inode || ++count > image_->entry_count()) return damaged_image();
        std::string name = at + "/" + std::string(child->name);
        if (S_ISDIR(inode->mode)) below.emplace_back(std::move(name), *inode);
        else MEMBRANE_TRY(visit(name, *inode));
      }
      std::ranges::move(below, std::back_inserter(left));
    }
    return {};
  }

  [[nodiscard]] Result<GitFile> read(const std::string& path, const linux::LayerInode& inode,
                                     size_t most_bytes, PatchBudget& budget) const {
    GitFile file = {.mode = git_mode(inode.mode), .bytes = {}};
    if (inode.size > most_bytes && file.mode != 0) return too_large(path, most_bytes);
    if (file.mode == 0120000) {
      file.bytes = image_->target(inode).value_or("");
      MEMBRANE_TRY(budget.take_bytes(file.bytes.size()));
    } else if (file.mode != 0) {
      const auto bytes = image_->content(inode);
      if (!bytes) return damaged_image();
      MEMBRANE_TRY(budget.take_bytes(bytes->size()));
      file.bytes.assign(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    }
    return file;
  }

 private:
  const linux::Layer* const image_;
};

// The directory that the patch covers.
class Below {
 public:
  explicit Below(std::string directory) : directory_(std::move(directory)) {
    while (directory_.ends_with('/')) directory_.pop_back();
  }
  // The path relative to that directory, as git writes it.
  [[nodiscard]] bool has(const std::string& path) const {
    return path.size() > directory_.size() + 1 && path.starts_with(directory_ + "/") &&
           !is_git_own(name_of(path));
  }
  // A change of an ancestor applies to the directory.
  [[nodiscard]] bool is_under(const std::string& path) const {
    return (directory_ + "/").starts_with(path + "/");
  }
  [[nodiscard]] std::string name_of(const std::string& path) const {
    return path.substr(directory_.size() + 1);
  }

 private:
  std::string directory_;
};

// Nothing for a file that is gone by now.
Result<GitFile> read_file(linux::LiveComputer& computer, const std::string& path,
                          const Result<linux::FileFacts>& facts, size_t most_bytes, PatchBudget& budget) {
  if (!facts && facts.error().code == ErrorCode::kNotFound) return GitFile();
  if (!facts) return std::unexpected(facts.error());
  GitFile file = {.mode = git_mode(facts->mode), .bytes = {}};
  if (file.mode == 0) return file;
  const bool is_link = file.mode == 0120000;
  const uint64_t size = is_link ? facts->target.size() : facts->size;
  if (size > most_bytes) return too_large(path, most_bytes);
  MEMBRANE_TRY(budget.take_bytes(size));
  Result<std::string> bytes = is_link ? facts->target : computer.read_file(path, 0, size);
  if (!bytes && bytes.error().code != ErrorCode::kNotFound) return std::unexpected(bytes.error());
  budget.give_bytes(size - (bytes ? bytes->size() : 0));
  if (!bytes) return GitFile();
  file.bytes = *std::move(bytes);
  return file;
}

// Compares the files; what differs stays charged.
void give_back(PatchBudget& budget, const GitFile& before, const GitFile& after, bool differs) {
  const uint64_t bytes = before.bytes.size() + after.bytes.size();
  if (differs) budget.give_memory(bytes);
  else budget.give_bytes(bytes);
}

// An added directory is described by its contents.
bool has_below(linux::LiveComputer& computer, const std::string& path) {
  const auto listed = computer.list(path);
  return listed && !listed->empty();
}

// -- since the image ------------------------------------------------------------------------------------------------

class SinceImage {
 public:
  SinceImage(linux::LiveComputer& computer, const linux::Layer* image, const std::string& directory,
             const PatchLimits& limits)
      : computer_(computer),
        image_(image),
        below_(directory),
        most_bytes_(limits.text_bytes),
        budget_(limits),
        patch_(most_bytes_, budget_) {}

  Result<MadePatch> run() {
    MEMBRANE_ASSIGN(const auto changes, computer_.changes());
    for (const linux::ChangedPath& each : changes)
      if (below_.has(each.path) || below_.is_under(each.path)) MEMBRANE_TRY(tell(each));
    return MadePatch{patch_.take(), left_out_};
  }

 private:
  Status tell(const linux::ChangedPath& change) {
    const auto before = change.change == linux::Change::kAdded ? std::nullopt : image_.find(change.path);
    const bool was_directory = before && S_ISDIR(before->mode);
    const bool is_directory = change.change != linux::Change::kRemoved && S_ISDIR(change.mode);
    if (was_directory && !is_directory) MEMBRANE_TRY(remove_below(change.path, *before));
    if (!below_.has(change.path)) return {};
    GitFile old_file, new_file;
    if (before && !was_directory) {
      MEMBRANE_ASSIGN(old_file, image_.read(change.path, *before, most_bytes_, budget_));
    }
    if (change.change != linux::Change::kRemoved) {
      MEMBRANE_ASSIGN(new_file, read_file(computer_, change.path, computer_.stat(change.path, false),
                                          most_bytes_, budget_));
    }
    const bool differs = old_file != new_file;
    if (differs) MEMBRANE_TRY(patch_.add(below_.name_of(change.path), old_file, new_file));
    give_back(budget_, old_file, new_file, differs);
    if (differs) return {};
    if (!was_directory || is_directory) left_out_ += !(is_directory && has_below(computer_, change.path));
    return {};
  }

  // Every file that the image had in a removed directory.
  Status remove_below(const std::string& path, const linux::LayerInode& top) {
    return image_.visit_below(
        path, top, [this](const std::string& name, const linux::LayerInode& inode) -> Status {
          if (!below_.has(name)) return Status();
          MEMBRANE_ASSIGN(const GitFile file, image_.read(name, inode, most_bytes_, budget_));
          if (file.mode != 0) MEMBRANE_TRY(patch_.add(below_.name_of(name), file, {}));
          else ++left_out_;
          give_back(budget_, file, {}, true);
          return Status();
        });
  }

  linux::LiveComputer& computer_;
  const ImageFiles image_;
  const Below below_;
  const size_t most_bytes_;
  PatchBudget budget_;
  PatchText patch_;
  size_t left_out_ = 0;
};

// -- since another moment -------------------------------------------------------------------------------------------

// What is at paths of a sandbox, without following links.
class PathLookup {
 public:
  explicit PathLookup(linux::LiveComputer& computer) : computer_(computer) {}

  // Nothing: the path does not exist, or its parent is not a directory.
  Result<std::optional<linux::FileFacts>> find(const std::string& path) {
    for (size_t end = path.find('/', 1); end != path.npos; end = path.find('/', end + 1)) {
      const std::string above = path.substr(0, end);
      auto known = is_directory_.find(above);
      if (known == is_directory_.end()) {
        MEMBRANE_ASSIGN(const auto facts, look(above));
        known = is_directory_.emplace(above, facts && S_ISDIR(facts->mode)).first;
      }
      if (!known->second) return std::nullopt;
    }
    return look(path);
  }
  Result<GitFile> read(const std::string& path, const std::optional<linux::FileFacts>& facts,
                       size_t most_bytes, PatchBudget& budget) {
    return facts ? read_file(computer_, path, *facts, most_bytes, budget) : GitFile();
  }
  [[nodiscard]] linux::LiveComputer& computer() const { return computer_; }

 private:
  Result<std::optional<linux::FileFacts>> look(const std::string& path) {
    auto facts = computer_.stat(path, false);
    if (facts) return *std::move(facts);
    if (facts.error().code == ErrorCode::kNotFound) return std::nullopt;
    return std::unexpected(facts.error());
  }

  linux::LiveComputer& computer_;
  std::map<std::string, bool> is_directory_;
};

// Where either differs from the image, the two are compared.
class SinceOther {
 public:
  SinceOther(linux::LiveComputer& base, linux::LiveComputer& computer, const linux::Layer* image,
             const std::string& directory, size_t most_bytes, PatchBudget& budget, const TakeChange& take)
      : before_(base),
        now_(computer),
        image_(image),
        below_(directory),
        most_bytes_(most_bytes),
        budget_(budget),
        take_(take) {}

  Result<size_t> run() {
    MEMBRANE_TRY(collect(before_.computer()));
    MEMBRANE_TRY(collect(now_.computer()));
    for (const std::string& path : paths_) MEMBRANE_TRY(compare(path));
    return left_out_;
  }

 private:
  Status collect(linux::LiveComputer& computer) {
    MEMBRANE_ASSIGN(const auto changes, computer.changes());
    for (const linux::ChangedPath& each : changes) {
      if (below_.has(each.path)) paths_.insert(each.path);
      else if (!below_.is_under(each.path)) continue;
      if (each.change == linux::Change::kAdded) continue;
      const auto before = image_.find(each.path);
      const bool is_directory = each.change != linux::Change::kRemoved && S_ISDIR(each.mode);
      if (!before || !S_ISDIR(before->mode) || is_directory) continue;
      MEMBRANE_TRY(
          image_.visit_below(each.path, *before, [this](const std::string& name, const linux::LayerInode&) {
            if (below_.has(name)) paths_.insert(name);
            return Status();
          }));
    }
    return {};
  }

  Status compare(const std::string& path) {
    MEMBRANE_ASSIGN(const auto before, before_.find(path));
    MEMBRANE_ASSIGN(const auto now, now_.find(path));
    MEMBRANE_ASSIGN(const GitFile old_file, before_.read(path, before, most_bytes_, budget_));
    MEMBRANE_ASSIGN(const GitFile new_file, now_.read(path, now, most_bytes_, budget_));
    const bool differs = old_file != new_file;
    if (differs) MEMBRANE_TRY(take_(below_.name_of(path), old_file, new_file));
    give_back(budget_, old_file, new_file, differs);
    if (differs) return {};
    if (now && is_other(before, *now)) left_out_ += !(S_ISDIR(now->mode) && has_below(now_.computer(), path));
    else if (before && !now && !S_ISDIR(before->mode)) ++left_out_;
    return {};
  }
  static bool is_other(const std::optional<linux::FileFacts>& before, const linux::FileFacts& now) {
    return !before || before->mode != now.mode || before->user != now.user || before->group != now.group;
  }

  PathLookup before_, now_;
  const ImageFiles image_;
  const Below below_;
  const size_t most_bytes_;
  PatchBudget& budget_;
  const TakeChange& take_;
  std::set<std::string> paths_;
  size_t left_out_ = 0;
};

Status check_directory(const std::string& directory) {
  if (directory.starts_with('/')) return {};
  return fail(ErrorCode::kInvalidArgument, '"' + directory + "\" is not a path of the sandbox",
              "Begin it with a /.");
}

// If the directory exists, nothing below it has changed; if not, the caller has mistaken the name.
Status check_empty(linux::LiveComputer& computer, const std::string& directory) {
  const auto facts = computer.stat(directory, false);
  if (facts && S_ISDIR(facts->mode)) return {};
  if (!facts && facts.error().code != ErrorCode::kNotFound) return std::unexpected(facts.error());
  return fail(ErrorCode::kNotFound, "there is no directory " + directory + " in the sandbox",
              "Give its path from /, not through a link.");
}

}  // namespace

Result<MadePatch> make_patch(linux::LiveComputer& computer, const linux::Layer* image,
                             const std::string& directory, const PatchLimits& limits) {
  MEMBRANE_TRY(check_directory(directory));
  MEMBRANE_ASSIGN(MadePatch made, SinceImage(computer, image, directory, limits).run());
  if (made.text.empty()) MEMBRANE_TRY(check_empty(computer, directory));
  return made;
}

Result<MadePatch> make_patch_since(linux::LiveComputer& base, linux::LiveComputer& computer,
                                   const linux::Layer* image, const std::string& directory,
                                   const PatchLimits& limits) {
  PatchBudget budget(limits);
  PatchText patch(limits.text_bytes, budget);
  const TakeChange add = [&patch](const std::string& name, const GitFile& before, const GitFile& after) {
    return patch.add(name, before, after);
  };
  MEMBRANE_ASSIGN(const size_t left_out,
                  visit_changes_since(base, computer, image, directory, limits.text_bytes, budget, add));
  MadePatch made = {patch.take(), left_out};
  if (made.text.empty()) MEMBRANE_TRY(check_empty(computer, directory));
  return made;
}

Result<size_t> visit_changes_since(linux::LiveComputer& base, linux::LiveComputer& computer,
                                   const linux::Layer* image, const std::string& directory,
                                   size_t most_file_bytes, PatchBudget& budget, const TakeChange& take) {
  MEMBRANE_TRY(check_directory(directory));
  return SinceOther(base, computer, image, directory, most_file_bytes, budget, take).run();
}

}  // namespace membrane::computers
