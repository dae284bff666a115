#include "linux/sandbox/outside_files.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "linux/files/memory_buffer.h"
#include "linux/files/own_caller.h"
#include "linux/image/layer.h"
#include "linux/kernel/announcing.h"
#include "linux/sandbox/protocol.h"

namespace membrane::linux {
namespace {

const Credentials kSuperuser = {};

ErrorCode code_of(int error) {
  switch (error) {
    case ENOENT: return ErrorCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS: return ErrorCode::kDenied;
    case ENAMETOOLONG:
    case EFBIG:
    case E2BIG: return ErrorCode::kTooLong;
    case ENOSPC:
    case ENOMEM:
    case EAGAIN: return ErrorCode::kExhausted;
    case EOPNOTSUPP: return ErrorCode::kUnsupported;
    case EIO: return ErrorCode::kUnavailable;
    default: return ErrorCode::kInvalidInput;
  }
}

bool is_path(const std::string& path) {
  return path.starts_with('/') && path.find('\0') == std::string::npos;
}

bool is_dots(std::string_view name) { return name.empty() || name == "." || name == ".."; }

Done is_new(Node& directory, const std::string& name) {
  const auto there = directory.look_up(name);
  if (there) return err(EEXIST);
  if (there.error() != ENOENT) return err(there.error());
  return {};
}

int64_t ns_of(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

FileFacts facts_of(std::string path, Node& node) {
  const Attributes attributes = node.attributes();
  FileFacts facts = {.path = std::move(path),
                     .mode = attributes.mode,
                     .user = attributes.uid,
                     .group = attributes.gid,
                     .size = attributes.size,
                     .links = attributes.links,
                     .modified_ns = ns_of(attributes.modified),
                     .target = {}};
  if (S_ISLNK(attributes.mode)) facts.target = node.target().value_or("");
  return facts;
}

// Whether `node` is `directory` or an ancestor of it.
bool is_above(const NodeRef& node, NodeRef directory) {
  for (;;) {
    if (directory == node) return true;
    NodeRef up = directory->parent();
    if (up == nullptr || up == directory) return false;
    directory = std::move(up);
  }
}

Status status_of(const std::string& path, const Done& done) {
  if (!done) return refused(path, done.error());
  return {};
}

}  // namespace

std::unexpected<Error> refused(const std::string& path, int error) {
  return fail(code_of(error), path + ": " + std::strerror(error));
}

OutsideFiles::OutsideFiles(Kernel& kernel)
    : kernel_(kernel), place_({.root = kernel.root, .directory = kernel.root}) {}

// -- finding ----------------------------------------------------------------------------------------------------------

Try<LocationRef> OutsideFiles::find(const std::string& path, bool follows_links) {
  if (!is_path(path)) return err(EINVAL);
  return walk(kernel_.mounts, place_, place_.root, path, kSuperuser, {.follows_last = follows_links});
}

Try<Parent> OutsideFiles::parent_of(const std::string& path) {
  if (!is_path(path)) return err(EINVAL);
  MEMBRANE_ASSIGN(Parent parent, walk_to_parent(kernel_.mounts, place_, place_.root, path, kSuperuser));
  if (is_dots(parent.name)) return err(EINVAL);
  return parent;
}

Result<FileFacts> OutsideFiles::stat(const std::string& path, bool follows_links) {
  const auto found = find(path, follows_links);
  if (!found) return refused(path, found.error());
  return facts_of(path, *(*found)->node);
}

Result<std::vector<FileFacts>> OutsideFiles::list(const std::string& path) {
  const auto found = find(path);
  if (!found) return refused(path, found.error());
  std::vector<std::string> names;
  const auto listed = (*found)->node->list(0, [&names](const DirectoryEntry& entry) {
    names.emplace_back(entry.name);
    return true;
  });
  if (!listed) return refused(path, listed.error());
  std::ranges::sort(names);
  const std::string before = path.ends_with('/') ? path : path + "/";
  std::vector<FileFacts> all;
  size_t bytes = 0;
  for (const std::string& name : names) {
    const auto child = (*found)->node->look_up(name);
    if (!child) continue;  // of a process that has ended
    all.push_back(facts_of(before + name, *kernel_.mounts.over(*child)));
    bytes += all.back().path.size() + all.back().target.size() + 8 * sizeof(uint64_t);
    if (bytes > kMostAnswerBytes / 2)
      return fail(ErrorCode::kTooLong, path + " has too many entries to list at once");
  }
  return all;
}

// -- reading ----------------------------------------------------------------------------------------------------------

Try<std::string> OutsideFiles::read_node(const NodeRef& node, uint64_t offset, uint64_t most) {
  const uint32_t type = node->type();
  if (type == S_IFDIR) return err(EISDIR);
  if (type != S_IFREG) return err(EINVAL);
  OwnCaller caller;
  MEMBRANE_ASSIGN(const FileRef opened, node->open(caller, O_RDONLY));
  std::string bytes(std::min<uint64_t>(most, kPieceBytes), '\0');
  const auto room = std::as_writable_bytes(std::span(bytes));
  size_t done = 0;
  while (done < room.size()) {
    MemoryTarget target(room.subspan(done));
    const auto got = opened == nullptr ? node->read(offset + done, room.subspan(done))
                                       : opened->read_at(caller, target, offset + done);
    if (!got) return err(got.error());
    if (*got == 0) break;
    done += *got;
  }
  bytes.resize(done);
  return bytes;
}

Result<std::string> OutsideFiles::read(const std::string& path, uint64_t offset, uint64_t most_bytes) {
  const auto found = find(path);
  if (!found) return refused(path, found.error());
  auto bytes = read_node((*found)->node, offset, most_bytes);
  if (!bytes) return refused(path, bytes.error());
  return std::move(*bytes);
}

// -- changing ---------------------------------------------------------------------------------------------------------

Done OutsideFiles::create(const std::string& path, NewNode made) {
  MEMBRANE_ASSIGN(const Parent parent, parent_of(path));
  Node& directory = *parent.directory->node;
  MEMBRANE_TRY(is_new(directory, parent.name));
  MEMBRANE_ASSIGN(const NodeRef node, directory.create(parent.name, made));
  announce_in(kernel_, directory, parent.name, *node, IN_CREATE);
  return {};
}

Status OutsideFiles::make_directory(const std::string& path, uint32_t mode) {
  return status_of(path, create(path, {.mode = S_IFDIR | (mode & 07777)}));
}

Status OutsideFiles::make_link(const std::string& path, const std::string& target) {
  if (target.empty() || target.size() >= 4096 || target.find('\0') != target.npos)
    return refused(path, target.size() >= 4096 ? ENAMETOOLONG : EINVAL);
  return status_of(path, create(path, {.mode = S_IFLNK | 0777, .target = target}));
}

Status OutsideFiles::set_owner(const std::string& path, uint32_t user, uint32_t group) {
  const auto found = find(path, false);
  if (!found) return refused(path, found.error());
  return status_of(
      path, (*found)->node->change({.mode = {}, .uid = user, .gid = group, .accessed = {}, .modified = {}}));
}

Status OutsideFiles::set_mode(const std::string& path, uint32_t mode) {
  const auto found = find(path);
  if (!found) return refused(path, found.error());
  return status_of(path, (*found)->node->change(
                             {.mode = mode & 07777, .uid = {}, .gid = {}, .accessed = {}, .modified = {}}));
}

Done OutsideFiles::move_to(const Parent& from, const Parent& to) {
  Node& directory = *to.directory->node;
  MEMBRANE_ASSIGN(const NodeRef node, from.directory->node->look_up(from.name));
  if (kernel_.mounts.over(node) != node) return err(EBUSY);
  const bool is_directory = node->type() == S_IFDIR;
  if (node->attributes().device != directory.attributes().device) return err(EXDEV);
  if (is_directory && is_above(node, to.directory->node)) return err(EINVAL);
  const auto replaced = directory.look_up(to.name);
  if (!replaced && replaced.error() != ENOENT) return err(replaced.error());
  if (replaced && *replaced == node) return {};
  if (replaced) {
    if (kernel_.mounts.over(*replaced) != *replaced) return err(EBUSY);
    const bool was_directory = (*replaced)->type() == S_IFDIR;
    if (is_directory != was_directory) return err(is_directory ? ENOTDIR : EISDIR);
  }
  MEMBRANE_TRY(from.directory->node->rename(from.name, directory, to.name, 0));
  announce_move(kernel_, from, to, *node);
  return {};
}

Status OutsideFiles::move(const std::string& from, const std::string& to) {
  const auto old_parent = parent_of(from);
  if (!old_parent) return refused(from, old_parent.error());
  const auto new_parent = parent_of(to);
  if (!new_parent) return refused(to, new_parent.error());
  const Done moved = move_to(*old_parent, *new_parent);
  return status_of(moved || moved.error() == ENOENT ? from : from + " to " + to, moved);
}

Done OutsideFiles::unlink(Node& directory, const std::string& name, Node& node) {
  if (node.type() == S_IFDIR) MEMBRANE_TRY(directory.remove_directory(name));
  else MEMBRANE_TRY(directory.unlink(name));
  announce_removal(kernel_, directory, name, node);
  return {};
}

// Deletes from the leaves up: of each directory the first entry, until there is none.
Done OutsideFiles::remove_tree(const Parent& parent, const NodeRef& top) {
  struct Level {
    NodeRef directory;  // that has the name
    std::string name;
    NodeRef node;
  };
  std::vector<Level> levels = {{parent.directory->node, parent.name, top}};
  while (!levels.empty()) {
    const Level& level = levels.back();
    if (kernel_.mounts.over(level.node) != level.node) return err(EBUSY);
    std::string first;
    if (level.node->type() == S_IFDIR)
      MEMBRANE_TRY(level.node->list(0, [&first](const DirectoryEntry& entry) {
        first = entry.name;
        return false;
      }));
    if (first.empty()) {
      MEMBRANE_TRY(unlink(*level.directory, level.name, *level.node));
      levels.pop_back();
      continue;
    }
    MEMBRANE_ASSIGN(NodeRef child, level.node->look_up(first));
    levels.push_back({level.node, std::move(first), std::move(child)});
  }
  return {};
}

Status OutsideFiles::remove(const std::string& path, bool with_contents) {
  const auto parent = parent_of(path);
  if (!parent) return refused(path, parent.error());
  const auto node = parent->directory->node->look_up(parent->name);
  if (!node) return refused(path, node.error());
  if (kernel_.mounts.over(*node) != *node) return refused(path, EBUSY);
  if (with_contents) return status_of(path, remove_tree(*parent, *node));
  return status_of(path, unlink(*parent->directory->node, parent->name, **node));
}

// -- writing ----------------------------------------------------------------------------------------------------------

// Finds the directory of the path's last part, creating missing ones above it.
Try<LocationRef> OutsideFiles::make_parents(const std::string& path) {
  LocationRef at = place_.root;
  const size_t end = path.find_last_of('/');
  for (size_t begin = 0; begin < end;) {
    const size_t next = std::min(path.find('/', begin + 1), end);
    const std::string name = path.substr(begin + 1, next - begin - 1);
    begin = next;
    if (name.empty()) continue;
    auto below = walk(kernel_.mounts, place_, at, name, kSuperuser, {.wants_directory = true});
    if (!below && below.error() == ENOENT && !is_dots(name) && is_new(*at->node, name)) {
      MEMBRANE_ASSIGN(const NodeRef made, at->node->create(name, {.mode = S_IFDIR | 0755}));
      announce_in(kernel_, *at->node, name, *made, IN_CREATE);
      below = walk(kernel_.mounts, place_, at, name, kSuperuser, {.wants_directory = true});
    }
    if (!below) return err(below.error());
    at = std::move(*below);
  }
  return at;
}

Try<OutsideFiles::Writing> OutsideFiles::open_writing(uint64_t number, const std::string& path,
                                                      uint32_t mode) {
  if (!is_path(path)) return err(EINVAL);
  if (path.size() >= 4096) return err(ENAMETOOLONG);
  Writing writing = {.path = path,
                     .name = path.substr(path.find_last_of('/') + 1),
                     .other_name = {},
                     .directory = {},
                     .file = {}};
  if (is_dots(writing.name)) return err(EISDIR);
  if (writing.name.size() > 255) return err(ENAMETOOLONG);
  NewNode made = {.mode = S_IFREG | (mode & 07777)};
  if (const auto there = find(path)) {  // also by a symbolic link
    const Attributes old = (*there)->node->attributes();
    if (!S_ISREG(old.mode)) return err(S_ISDIR(old.mode) ? EISDIR : EINVAL);
    if ((*there)->parent == nullptr) return err(EBUSY);
    writing.directory = (*there)->parent->node;
    writing.name = (*there)->name;
    made.uid = old.uid;
    made.gid = old.gid;
  } else {
    if (there.error() != ENOENT && there.error() != ELOOP) return err(there.error());
    MEMBRANE_ASSIGN(const LocationRef directory, make_parents(path));
    writing.directory = directory->node;
  }
  auto file = writing.directory->create_nameless(made);
  if (!file && file.error() == EOPNOTSUPP) {
    writing.other_name = ".membrane-" + std::to_string(number);
    file = writing.directory->create(writing.other_name, made);
  }
  if (!file) return err(file.error());
  writing.file = std::move(*file);
  return writing;
}

Status OutsideFiles::begin_write(uint64_t number, const std::string& path, uint32_t mode) {
  if (writings_.size() >= kMostWritings || writings_.contains(number))
    return fail(ErrorCode::kExhausted, "too many files are being written at once");
  auto writing = open_writing(number, path, mode);
  if (!writing) return refused(path, writing.error());
  writings_.emplace(number, std::move(*writing));
  return {};
}

void OutsideFiles::drop(const Writing& writing) {
  if (!writing.other_name.empty()) static_cast<void>(writing.directory->unlink(writing.other_name));
}

Status OutsideFiles::write_piece(uint64_t number, std::string_view bytes) {
  const auto found = writings_.find(number);
  if (found == writings_.end()) return fail(ErrorCode::kInvalidInput, "no such file is being written");
  const Done done = append(found->second, std::as_bytes(std::span(bytes)));
  if (done) return {};
  const std::string path = found->second.path;
  leave_write(number);
  return refused(path, done.error());
}

// Runs of pages that are all zeros, or all non-zero.
Done OutsideFiles::append(Writing& writing, std::span<const std::byte> bytes) {
  const auto first_of = [&](std::span<const std::byte> rest) {
    return rest.first(std::min<size_t>(kPageBytes - writing.size % kPageBytes, rest.size()));
  };
  const auto is_zero = [](std::span<const std::byte> page) {
    return std::ranges::all_of(page, [](std::byte b) { return b == std::byte{0}; });
  };
  while (!bytes.empty()) {
    auto run = first_of(bytes);
    if (is_zero(run)) {
      writing.size += run.size();
      bytes = bytes.subspan(run.size());
      continue;
    }
    for (size_t end = run.size(); end < bytes.size(); run = bytes.first(end)) {
      const auto next = bytes.subspan(end, std::min<size_t>(kPageBytes, bytes.size() - end));
      if (is_zero(next)) break;
      end += next.size();
    }
    MEMBRANE_ASSIGN(const size_t done, writing.file->write(writing.size, run));
    if (done == 0) return err(ENOSPC);
    writing.size += done;
    writing.written = writing.size;
    bytes = bytes.subspan(done);
  }
  return {};
}

void OutsideFiles::leave_write(uint64_t number) {
  const auto writing = writings_.extract(number);
  if (!writing.empty()) drop(writing.mapped());
}

Done OutsideFiles::commit(Writing& writing, uint64_t number) {
  if (writing.written < writing.size) MEMBRANE_TRY(writing.file->resize(writing.size));
  if (writing.other_name.empty()) {
    const std::string other = ".membrane-" + std::to_string(number);
    MEMBRANE_TRY(writing.directory->link(other, writing.file));
    writing.other_name = other;
  }
  const auto replaced = writing.directory->look_up(writing.name);
  MEMBRANE_TRY(writing.directory->rename(writing.other_name, *writing.directory, writing.name, 0));
  writing.other_name.clear();
  if (!replaced) announce_in(kernel_, *writing.directory, writing.name, *writing.file, IN_CREATE);
  announce_in(kernel_, *writing.directory, writing.name, *writing.file, IN_CLOSE_WRITE);
  return {};
}

Status OutsideFiles::end_write(uint64_t number) {
  auto writing = writings_.extract(number);
  if (writing.empty()) return fail(ErrorCode::kInvalidInput, "no such file is being written");
  const Done done = commit(writing.mapped(), number);
  if (!done) drop(writing.mapped());
  return status_of(writing.mapped().path, done);
}

}  // namespace membrane::linux
