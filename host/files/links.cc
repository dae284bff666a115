#include "host/files/links.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <ranges>
#include <thread>

#include "base/utf8.h"
#include "host/files/file_access.h"

namespace membrane::host {
namespace {

// The entry itself, if no component before it is a link.
HostResult<Fd> look(const Target& target, size_t count) {
  Target prefix{target.root, target.beneath, target.text};
  prefix.beneath.resize(count);
  return open_beneath(target.root.directory.get(), prefix.path(), O_PATH | O_NOFOLLOW, Symlinks::kNone);
}

bool is_link(const Fd& fd) {
  struct stat info{};
  return fstat(fd.get(), &info) == 0 && S_ISLNK(info.st_mode);
}

HostResult<std::string> read_target(const Fd& link, const std::string& text) {
  std::string target(kMaxTargetBytes + 1, '\0');
  const ssize_t got = readlinkat(link.get(), "", target.data(), target.size());
  if (got < 0) return std::unexpected(errno_of(text));
  target.resize(static_cast<size_t>(got));
  if (target.size() > kMaxTargetBytes || !is_utf8(target))
    return refuse(Errno::kAccess, text + " leads through a symbolic link whose target is not text.");
  return target;
}

// The names of a path in order; "." and empty ones are dropped.
Components names_of(std::string_view path) {
  Components names;
  for (const auto part : std::views::split(path, '/'))
    if (const std::string_view name(part.begin(), part.end()); !name.empty() && name != ".")
      names.emplace_back(name);
  return names;
}

std::unexpected<HostError> leads_out(const std::string& text) {
  return refuse(Errno::kAccess, text + " leads out of the granted directory.");
}

// A path being resolved: `done` has no links, `left` may have links and "..", the next name at its front.
struct Way {
  Components done;
  std::vector<std::string> left;
  size_t least = 0;  // names of the guest path that ".." must not leave

  // The names up to the next "..", appended to `done`.
  [[nodiscard]] Components ahead() const {
    Components path = done;
    path.insert(path.end(), left.begin(), std::ranges::find(left, ".."));
    return path;
  }
  // Moves past the names of ahead(), and the ".." that follow. False: they lead out.
  bool pass() {
    done = ahead();
    left.erase(left.begin(), std::ranges::find(left, ".."));
    while (!left.empty() && left.front() == "..") {
      if (done.size() <= least) return false;
      done.pop_back();
      left.erase(left.begin());
    }
    return true;
  }
  // The link is at `index` of the path, which is ahead().
  void follow(const Components& path, size_t index, const std::string& target) {
    const size_t taken = index + 1 - done.size();
    left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(taken));
    const Components names = names_of(target);
    left.insert(left.begin(), names.begin(), names.end());
    done.assign(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(index));
  }
};

}  // namespace

HostResult<std::optional<LinkBeneath>> find_link(const Target& target) {
  const size_t size = target.beneath.size();
  if (!target.root.grant.links || target.root.is_file() || size == 0) return std::nullopt;
  const auto whole = look(target, size);
  if (whole && !is_link(*whole)) return std::nullopt;
  if (!whole && whole.error().code != Errno::kAccess) return std::nullopt;
  // Finds the first component that cannot be passed, by bisection: all before it can.
  size_t passed = 0, stuck = size;
  while (stuck - passed > 1) {
    const size_t middle = passed + (stuck - passed) / 2;
    const auto entry = look(target, middle);
    if (entry && !is_link(*entry)) passed = middle;
    else stuck = middle;
  }
  const auto link = look(target, stuck);
  if (!link || !is_link(*link)) return std::nullopt;  // refused for another reason, which opening will report
  auto text = read_target(*link, target.text);
  if (!text) return std::unexpected(text.error());
  return LinkBeneath{stuck - 1, std::move(*text)};
}

HostResult<Components> follow_links(Roots& roots, Components path, LastComponent last) {
  Way way{.done = {}, .left = std::move(path)};
  for (int followed = 0;;) {
    const Components ahead = way.ahead();
    const std::string text = guest_text(ahead);
    if (ahead.size() > FileAccess::kMaxComponents)
      return refuse(Errno::kInvalid, text + " has too many parts.");
    const auto target = roots.locate(ahead, policy::FsMode::kRead);
    auto link = target ? find_link(*target) : HostResult<std::optional<LinkBeneath>>(std::nullopt);
    if (!link) return std::unexpected(link.error());
    const bool ends_here = way.done.size() + way.left.size() == ahead.size();
    if (*link && last == LastComponent::kKeep && ends_here && (*link)->index + 1 == target->beneath.size())
      return ahead;
    if (*link) {
      if (followed++ == kMaxLinksFollowed)
        return refuse(Errno::kAccess, text + " leads through too many symbolic links.");
      if ((*link)->target.starts_with('/')) return leads_out(text);
      way.least = target->root.guest.size();
      way.follow(ahead, way.least + (*link)->index, (*link)->target);
      continue;
    }
    if (!way.pass()) return leads_out(text);
    if (way.left.empty()) return way.done;  // a grant's refusal is reported where the path is used
  }
}

namespace {

// The ".." of a relative target. Leading ones go up from the link's directory, which is not a link; the effect of
// those after a name depends on what that name is by then.
struct Ups {
  size_t leading = 0;
  bool follow_names = false;
};

Ups ups_of(std::string_view target) {
  const Components names = names_of(target);
  const auto first = std::ranges::find_if(names, [](const std::string& name) { return name != ".."; });
  return {static_cast<size_t>(first - names.begin()), std::find(first, names.end(), "..") != names.end()};
}

}  // namespace

HostResult<void> check_new_target(std::string_view target, size_t depth, const std::string& text) {
  if (target.empty() || target.size() > kMaxTargetBytes || target.find('\0') != std::string_view::npos ||
      !is_utf8(target))
    return refuse(Errno::kInvalid, text + " cannot be a link to that: the target is not a valid path.");
  if (target.starts_with('/')) return refuse(Errno::kAccess, text + " cannot be a link to an absolute path.");
  const Ups ups = ups_of(target);
  if (ups.follow_names)
    return refuse(Errno::kAccess,
                  text + " cannot be a link with \"..\" after a name, which may itself be a link.");
  if (ups.leading > depth)
    return refuse(Errno::kAccess, text + " cannot be a link out of the granted directory.");
  return {};
}

HostResult<MoveLock> MoveLock::take(const Root& root) {
  MoveLock lock;
  lock.directory_ = Fd(openat(root.directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.directory_.valid()) return std::unexpected(errno_of(guest_text(root.guest)));
  constexpr int kTries = 1000;
  for (int tries = 0; flock(lock.directory_.get(), LOCK_EX | LOCK_NB) != 0; ++tries) {
    if (errno != EWOULDBLOCK) return std::unexpected(errno_of(guest_text(root.guest)));
    if (tries == kTries)
      return refuse(Errno::kHost,
                    guest_text(root.guest) + " is locked by another program of the host (flock).");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return lock;
}

namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};

std::unexpected<HostError> cannot_move(const Target& directory) {
  return refuse(Errno::kUnsupported,
                directory.text +
                    " cannot be moved nearer to the granted directory: links in it could lead out. Copy it "
                    "instead.");
}

// Whether a link that does not lead out `depth` levels below the granted directory would do so at `new_depth`.
bool leads_out_when_moved(int directory, const char* name, size_t depth, size_t new_depth) {
  char target[kMaxTargetBytes + 1];
  const ssize_t length = readlinkat(directory, name, target, sizeof target);
  if (length < 0) return false;
  const std::string_view text(target, static_cast<size_t>(length));
  const Ups ups = ups_of(text);
  return !text.starts_with('/') && (ups.follow_names || (ups.leading <= depth && ups.leading > new_depth));
}

}  // namespace

HostResult<void> check_moved_links(const Target& directory, size_t depth) {
  std::vector<Components> waiting = {directory.beneath};
  for (size_t seen = 0; !waiting.empty();) {
    Target each{directory.root, std::move(waiting.back()), directory.text};
    waiting.pop_back();
    auto fd =
        open_beneath(directory.root.directory.get(), each.path(), O_RDONLY | O_DIRECTORY, Symlinks::kNone);
    if (!fd) return cannot_move(directory);
    const std::unique_ptr<DIR, CloseDirectory> entries(fdopendir(fd->get()));
    if (entries == nullptr) return cannot_move(directory);
    const int at = fd->release();
    const size_t new_depth = depth + each.beneath.size() - directory.beneath.size();
    while (const dirent* const entry = readdir(entries.get())) {
      const std::string_view name = entry->d_name;
      if (name == "." || name == "..") continue;
      struct stat info{};
      if (++seen > kMaxMovedEntries || fstatat(at, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return cannot_move(directory);
      if (S_ISLNK(info.st_mode) && leads_out_when_moved(at, entry->d_name, each.beneath.size(), new_depth))
        return cannot_move(directory);
      if (!S_ISDIR(info.st_mode)) continue;
      waiting.push_back(each.beneath);
      waiting.back().emplace_back(name);
    }
  }
  return {};
}

}  // namespace membrane::host
