// Exports the changes of a Linux sandbox as a git patch, and applies git patches to one. Git knows files,
// symbolic links and whether a file is executable: owners, other mode bits, empty directories, devices and
// extended attributes are not part of a patch.
//
// A patch is foreign data. Its memory and the work on it are bounded (patch_budget.h); nothing recurses.
//
// Threads: pure, except for the sandbox.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "computers/patch_budget.h"
#include "linux/image/layer.h"
#include "linux/sandbox/live_computer.h"

namespace membrane::computers {

// A file as git sees it; nothing for what git does not see.
struct GitFile {
  uint32_t mode = 0;  // 0100644, 0100755, 0120000
  std::string bytes;  // for a link: its target
  bool operator==(const GitFile&) const = default;
};

struct MadePatch {
  std::string text;
  size_t left_out = 0;  // changes that git cannot express
};
// The differences from the sandbox's image (null: from nothing), with paths from the root: "a/etc/hosts".
// `directory`: only what is below it, with paths relative to it. Binary files are in git's own format. Files
// in a .git are left out: git accepts no patch of them. Errors: those of changes(); kTooLong past the limits,
// also for a file longer than the patch may be; kNotFound for a missing directory.
Result<MadePatch> make_patch(linux::LiveComputer& computer, const linux::Layer* image,
                             const std::string& directory = "/", const PatchLimits& limits = {});
// The differences from `base` instead: a sandbox over the same image, with the files of another moment
// (LiveSpec::kept_files_only).
Result<MadePatch> make_patch_since(linux::LiveComputer& base, linux::LiveComputer& computer,
                                   const linux::Layer* image, const std::string& directory = "/",
                                   const PatchLimits& limits = {});

// The same as files. `name` is the path below the directory. Returns the number of changes that git cannot
// express. Errors: those of make_patch(); those of `take`, which end it.
using TakeChange =
    std::function<Status(const std::string& name, const GitFile& before, const GitFile& after)>;
Result<size_t> visit_changes_since(linux::LiveComputer& base, linux::LiveComputer& computer,
                                   const linux::Layer* image, const std::string& directory,
                                   size_t most_file_bytes, PatchBudget& budget, const TakeChange& take);

struct AppliedPatch {
  std::vector<std::string> changed;  // paths in the sandbox, sorted
};
// Applies a patch below the directory, all of it or nothing: first the results are computed, then written,
// and the writes are undone when one fails. Context lines must match, but may have moved. Errors:
// kInvalidInput, with the file and the line of the patch, also for paths beyond a symbolic link; kNotFound;
// kTooLong; those of the sandbox.
Result<AppliedPatch> apply_patch(linux::LiveComputer& computer, std::string_view patch,
                                 const std::string& directory = "/", const PatchLimits& limits = {});

// -- what both are made of

struct PatchBinary {
  bool is_delta = false;
  std::string bytes;  // decompressed
};
struct PatchFile {
  std::string old_name, new_name;  // "" for /dev/null; without a/ and b/
  std::optional<uint32_t> old_mode, new_mode;
  bool is_new = false, is_removed = false, is_copy = false, is_rename = false;
  std::string old_id;      // from the index line
  std::string_view hunks;  // part of the patch's text, well-formed (patch_hunks.h)
  size_t hunks_line = 0;   // of the patch
  std::optional<PatchBinary> binary;
  size_t line = 0;  // of the patch
};
// The hunks point into the text, which must live longer. Errors: kInvalidInput with the line; those of the
// budget.
Result<std::vector<PatchFile>> parse_patch(std::string_view text, const PatchLimits& limits,
                                           PatchBudget& budget);

// Git's base 85 and its deltas. Errors: kInvalidInput; those of the budget.
std::string git_base85(std::string_view bytes);
Result<std::string> from_git_base85(std::string_view text, size_t bytes);
Result<std::string> apply_git_delta(std::string_view base, std::string_view delta, PatchBudget& budget);

}  // namespace membrane::computers
