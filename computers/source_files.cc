#include "computers/source_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ranges>

#include "linux/image/layer_writer.h"
#include "linux/platform/trap/host_file.h"

namespace membrane::computers {
namespace {

constexpr size_t kMostPaths = 100'000;    // of one pattern
constexpr size_t kMostNames = 1'000'000;  // of a directory
constexpr uint64_t kMostFileBytes = linux::LayerLimits().most_bytes;

std::vector<std::string> parts_of(std::string_view path) {
  std::vector<std::string> parts;
  for (const auto part : std::views::split(path, '/')) {
    const std::string_view each(part.begin(), part.end());
    if (!each.empty() && each != ".") parts.emplace_back(each);
  }
  return parts;
}

std::string below(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "/" + name;
}

std::unexpected<Error> too_large(const std::string& path) {
  return fail(ErrorCode::kTooLong, path + " is larger than a sandbox can hold");
}

std::unexpected<Error> refused(const std::string& path) {
  const ErrorCode code =
      errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? ErrorCode::kNotFound : ErrorCode::kUnavailable;
  return fail(code, (path.empty() ? "the directory" : path) + ": " + std::strerror(errno));
}

// -- a directory ------------------------------------------------------------------------------------------------------

class DirectoryFiles final : public SourceFiles {
 public:
  DirectoryFiles(linux::HostFile top, IgnoredFiles ignored)
      : top_(std::move(top)), ignored_(std::move(ignored)) {}

  Result<SourceFile> stat(const std::string& path) override {
    if (is_hidden(path)) {
      errno = ENOENT;
      return refused(path);
    }
    return look(path);
  }

  Result<std::vector<SourceFile>> list(const std::string& path) override {
    const linux::HostFile directory(open_below(path, O_RDONLY | O_DIRECTORY));
    if (!directory) return refused(path);
    const std::unique_ptr<DIR, int (*)(DIR*)> listed(fdopendir(dup(directory.number())), &closedir);
    if (!listed) return refused(path);
    std::vector<std::string> names;
    while (const dirent* const entry = readdir(listed.get())) {
      const std::string name = entry->d_name;
      if (name == "." || name == ".." || is_hidden(below(path, name))) continue;
      if (names.size() == kMostNames)
        return fail(ErrorCode::kTooLong, "there are too many files in " + (path.empty() ? "." : path));
      names.push_back(name);
    }
    std::ranges::sort(names);
    std::vector<SourceFile> all;
    for (const std::string& name : names) {
      auto found = look(below(path, name));
      if (found) all.push_back(std::move(*found));
      else if (found.error().code != ErrorCode::kNotFound) return std::unexpected(found.error());
    }
    return all;
  }

  Result<std::string> read(const std::string& path, uint64_t offset, uint64_t most_bytes) override {
    const linux::HostFile file(open_below(path, O_RDONLY | O_NONBLOCK));
    struct stat status = {};
    if (!file || fstat(file.number(), &status) != 0) return refused(path);
    if (!S_ISREG(status.st_mode)) return fail(ErrorCode::kInvalidInput, path + " is not a regular file");
    const auto size = static_cast<uint64_t>(status.st_size);
    if (size > kMostFileBytes) return too_large(path);
    std::string bytes(std::min(most_bytes, size - std::min(size, offset)), '\0');
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t got =
          pread(file.number(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
      if (got < 0) return refused(path);
      if (got == 0) break;
      done += static_cast<size_t>(got);
    }
    bytes.resize(done);
    return bytes;
  }

 private:
  // An ignored directory is listed if a pattern may re-include something in it.
  [[nodiscard]] bool is_hidden(const std::string& path) {
    if (path.empty() || !ignored_.has(path)) return false;
    if (!ignored_.takes_back()) return true;
    const auto found = look(path);
    return !found || !S_ISDIR(found->mode);
  }

  [[nodiscard]] int open_below(const std::string& path, int flags) const {
    open_how how = {};
    how.flags = static_cast<uint64_t>(flags) | O_CLOEXEC | O_NOFOLLOW;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
    return static_cast<int>(
        syscall(SYS_openat2, top_.number(), path.empty() ? "." : path.c_str(), &how, sizeof how));
  }

  [[nodiscard]] Result<SourceFile> look(const std::string& path) const {
    // The last part may be a link, those before it may not.
    const size_t slash = path.rfind('/');
    const std::string directory = slash == path.npos ? "" : path.substr(0, slash);
    const std::string name = path.substr(slash == path.npos ? 0 : slash + 1);
    const linux::HostFile opened(open_below(directory, O_PATH | O_DIRECTORY));
    struct stat status = {};
    if (!opened ||
        fstatat(opened.number(), name.empty() ? "." : name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
      return refused(path);
    SourceFile file = {.name = name, .mode = status.st_mode, .size = static_cast<uint64_t>(status.st_size)};
    if (S_ISLNK(status.st_mode)) {
      file.target.resize(4096);
      const ssize_t got = readlinkat(opened.number(), name.c_str(), file.target.data(), file.target.size());
      if (got < 0) return refused(path);
      file.target.resize(static_cast<size_t>(got));
    }
    return file;
  }

  const linux::HostFile top_;
  const IgnoredFiles ignored_;
};

// -- a sandbox --------------------------------------------------------------------------------------------------------

SourceFile source_of(const linux::FileFacts& facts) {
  return {.name = facts.path.substr(facts.path.rfind('/') + 1),
          .mode = facts.mode,
          .size = facts.size,
          .target = facts.target};
}

// What the kernel mounts is not a file of the sandbox.
bool is_mounted(std::string_view path) {
  const std::string_view first = path.substr(0, path.find('/'));
  return first == "proc" || first == "sys" || first == "dev";
}

class ComputerFiles final : public SourceFiles {
 public:
  explicit ComputerFiles(linux::LiveComputer& computer) : computer_(computer) {}
  Result<SourceFile> stat(const std::string& path) override {
    if (is_mounted(path))
      return fail(ErrorCode::kNotFound, "/" + path + " belongs to the kernel and is not a file");
    MEMBRANE_ASSIGN(const auto facts, computer_.stat("/" + path, false));
    return source_of(facts);
  }
  Result<std::vector<SourceFile>> list(const std::string& path) override {
    MEMBRANE_ASSIGN(const auto facts, computer_.list("/" + path));
    std::vector<SourceFile> all;
    for (const auto& each : facts)
      if (!is_mounted(std::string_view(each.path).substr(1))) all.push_back(source_of(each));
    std::ranges::sort(all, {}, &SourceFile::name);
    return all;
  }
  Result<std::string> read(const std::string& path, uint64_t offset, uint64_t most_bytes) override {
    if (offset >= kMostFileBytes) return too_large(path);
    return computer_.read_file("/" + path, offset, most_bytes);
  }

 private:
  linux::LiveComputer& computer_;
};

// -- patterns ---------------------------------------------------------------------------------------------------------

// Whether the path, or a leading part of it, matches: then the path is below a match. Without recursion:
// computes a row of a table for each part of the pattern.
bool matches_path(const std::vector<std::string>& pattern, const std::vector<std::string>& path) {
  std::vector<bool> row(path.size() + 1);  // which beginnings of the path the parts so far match
  row[0] = true;
  for (const std::string& part : pattern) {
    std::vector<bool> next(path.size() + 1);
    for (size_t i = 0; i <= path.size(); ++i) {
      if (part == "**") next[i] = row[i] || (i > 0 && next[i - 1]);
      else next[i] = i > 0 && row[i - 1] && matches_name(part, path[i - 1]);
    }
    row = std::move(next);
  }
  return std::find(row.begin() + 1, row.end(), true) != row.end();
}

}  // namespace

bool matches_name(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool has_wildcard(std::string_view pattern) { return pattern.find_first_of("*?[\\") != pattern.npos; }

IgnoredFiles::IgnoredFiles(std::string_view text) {
  for (const auto each : std::views::split(text, '\n')) {
    std::string_view line(each.begin(), each.end());
    if (line.starts_with('#') || patterns_.size() == 10'000) continue;
    const size_t begin = line.find_first_not_of(" \t\r"), end = line.find_last_not_of(" \t\r");
    if (begin == line.npos) continue;
    line = line.substr(begin, end - begin + 1);
    Pattern pattern;
    pattern.takes_back = line.starts_with('!');
    if (pattern.takes_back) line.remove_prefix(1);
    pattern.parts = parts_of(line.substr(0, 4096));
    if (pattern.parts.empty()) continue;
    takes_back_ = takes_back_ || pattern.takes_back;
    patterns_.push_back(std::move(pattern));
  }
}

bool IgnoredFiles::has(std::string_view path) const {
  const std::vector<std::string> parts = parts_of(path);
  bool is_ignored = false;
  for (const Pattern& pattern : patterns_)
    if (is_ignored == pattern.takes_back && matches_path(pattern.parts, parts)) is_ignored = !is_ignored;
  return is_ignored;
}

Result<std::unique_ptr<SourceFiles>> files_of_directory(const std::string& directory,
                                                        std::string_view ignored) {
  linux::HostFile top(open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!top && errno == ENOTDIR) return fail(ErrorCode::kInvalidArgument, directory + " is not a directory");
  if (!top) return fail(ErrorCode::kNotFound, directory + ": " + std::strerror(errno));
  return std::make_unique<DirectoryFiles>(std::move(top), IgnoredFiles(ignored));
}

std::unique_ptr<SourceFiles> files_of_computer(linux::LiveComputer& computer) {
  return std::make_unique<ComputerFiles>(computer);
}

Result<std::vector<std::string>> expand_sources(SourceFiles& files, const std::string& pattern) {
  std::vector<std::string> found = {""};
  for (const std::string& part : parts_of(pattern)) {
    if (part == "..")
      return fail(ErrorCode::kInvalidInput, '"' + pattern + "\" leads out of the build directory",
                  "Copy from within it, or build with a directory above it.");
    std::vector<std::string> next;
    for (const std::string& path : found) {
      if (!has_wildcard(part)) {
        if (files.stat(below(path, part))) next.push_back(below(path, part));
        continue;
      }
      const auto listed = files.list(path);
      if (!listed) continue;  // no directory
      for (const SourceFile& each : *listed)
        if (matches_name(part, each.name)) next.push_back(below(path, each.name));
      if (next.size() > kMostPaths)
        return fail(ErrorCode::kTooLong, '"' + pattern + "\" matches too many files");
    }
    found = std::move(next);
  }
  if (found.empty())
    return fail(ErrorCode::kNotFound, "there is no file \"" + pattern + "\" to copy",
                "Paths are relative to the build directory; .dockerignore leaves files out.");
  return found;
}

}  // namespace membrane::computers
