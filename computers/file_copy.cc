#include "computers/file_copy.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <memory>
#include <ranges>
#include <tuple>

#include "base/sha256.h"
#include "linux/image/tar.h"

namespace membrane::computers {
namespace {

constexpr size_t kMostFiles = 1'000'000;
constexpr size_t kPieceBytes = 1u << 20;
constexpr size_t kTarBlock = 512;
constexpr const char* kSpoolDirectory = "/tmp";

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }
std::string joined(const std::string& directory, const std::string& name) {
  return (directory.empty() || directory.ends_with('/') ? directory : directory + "/") + name;
}

Status check_going(const FileCopy& copy) {
  if (copy.is_cancelled && copy.is_cancelled()) return fail(ErrorCode::kCancelled, "the copy was cancelled");
  return {};
}

// The bytes of a file, one piece per call.
linux::LiveComputer::Pieces pieces_of(SourceFiles& files, const std::string& path, const FileCopy& copy) {
  return [&files, path, &copy, at = uint64_t{0}] mutable -> Result<std::string> {
    MEMBRANE_TRY(check_going(copy));
    MEMBRANE_ASSIGN(std::string bytes, files.read(path, at, kPieceBytes));
    at += bytes.size();
    return bytes;
  };
}

// Everything copied from one source, directories before their contents. Symbolic links in it are copied as
// links.
class Walk {
 public:
  using Visit =
      std::function<Status(const std::string& path, const std::string& relative, const SourceFile&)>;
  static Status run(SourceFiles& files, const std::string& source, const Visit& visit) {
    MEMBRANE_ASSIGN(SourceFile top, files.stat(source));
    std::vector<std::tuple<std::string, std::string, SourceFile>> left;
    left.emplace_back(source, "", std::move(top));
    for (size_t count = 0; !left.empty(); ++count) {
      if (count == kMostFiles) return fail(ErrorCode::kTooLong, "there are too many files to copy");
      const auto [path, relative, file] = std::move(left.back());
      left.pop_back();
      MEMBRANE_TRY(visit(path, relative, file));
      if (!S_ISDIR(file.mode)) continue;
      MEMBRANE_ASSIGN(auto listed, files.list(path));
      for (SourceFile& each : std::views::reverse(listed)) {
        std::string name = each.name;
        left.emplace_back(joined(path, name), joined(relative, name), std::move(each));
      }
    }
    return {};
  }
};

// Where a source that is a symbolic link leads, within its own root.
Result<std::string> resolve(SourceFiles& files, const std::string& source) {
  constexpr int kMostLinks = 40;
  std::string path = source;
  for (int links = 0; links < kMostLinks; ++links) {
    MEMBRANE_ASSIGN(const SourceFile file, files.stat(path));
    if (!S_ISLNK(file.mode)) return path;
    const size_t slash = path.rfind('/');
    const std::string directory =
        file.target.starts_with('/') || slash == path.npos ? "" : path.substr(0, slash);
    std::vector<std::string> parts;
    for (const auto part : std::views::split(joined(directory, file.target), '/')) {
      const std::string_view each(part.begin(), part.end());
      if (each == ".." && !parts.empty()) parts.pop_back();
      else if (!each.empty() && each != "." && each != "..") parts.emplace_back(each);
    }
    path.clear();
    for (const std::string& part : parts) path = joined(path, part);
  }
  return fail(ErrorCode::kInvalidInput, source + " goes through too many symbolic links");
}

Status set_facts(linux::LiveComputer& to, const std::string& path, uint32_t mode, const User& owner) {
  MEMBRANE_TRY(to.set_owner(path, owner.user, owner.group));
  return to.set_mode(path, mode);  // an owner's change may take bits of it
}

class Copying {
 public:
  Copying(SourceFiles& from, const FileCopy& copy, linux::LiveComputer& to)
      : from_(from), copy_(copy), to_(to) {}

  Status run() {
    for (const std::string& named : copy_.sources) {
      MEMBRANE_ASSIGN(const std::string source, resolve(from_, named));
      MEMBRANE_ASSIGN(const SourceFile top, from_.stat(source));
      if (S_ISDIR(top.mode)) {
        MEMBRANE_TRY(make_directories(to_, copy_.to, copy_.mode.value_or(0755), copy_.owner));
        MEMBRANE_TRY(walk(source, copy_.to));
        continue;
      }
      if (copy_.unpacks && S_ISREG(top.mode)) {
        MEMBRANE_ASSIGN(const bool was_archive, unpack(source));
        if (was_archive) continue;
      }
      MEMBRANE_TRY(walk(source, is_directory(copy_.to) ? joined(copy_.to, name_of(named)) : copy_.to));
    }
    return {};
  }

 private:
  bool is_directory(const std::string& path) {
    if (path.ends_with('/') || copy_.sources.size() > 1) return true;
    const auto there = to_.stat(path, true);
    return there && S_ISDIR(there->mode);
  }

  Status walk(const std::string& source, const std::string& to) {
    return Walk::run(from_, source,
                     [&](const std::string& path, const std::string& relative, const SourceFile& file) {
                       return put(path, relative.empty() ? to : joined(to, relative), file);
                     });
  }

  Status put(const std::string& path, const std::string& to, const SourceFile& file) {
    const uint32_t mode = copy_.mode.value_or(file.mode & 07777);
    switch (file.mode & S_IFMT) {
      case S_IFDIR: return put_directory(to, mode);
      case S_IFLNK: return put_link(to, file.target);
      case S_IFREG: return put_pieces(to, pieces_of(from_, path, copy_), mode, copy_.owner);
      case S_IFSOCK: return {};
      default: return fail(ErrorCode::kUnsupported, path + " is a device or a pipe, which cannot be copied");
    }
  }

  Status put_pieces(const std::string& to, const linux::LiveComputer::Pieces& next, uint32_t mode,
                    const User& owner) {
    if (const size_t slash = to.rfind('/'); slash > 0)
      MEMBRANE_TRY(make_directories(to_, to.substr(0, slash), 0755, owner));
    MEMBRANE_TRY(to_.write_pieces(to, next, mode));
    return set_facts(to_, to, mode, owner);
  }

  Status put_directory(const std::string& to, uint32_t mode) {
    const auto there = to_.stat(to, true);
    if (there && S_ISDIR(there->mode)) return {};
    MEMBRANE_TRY(make_directories(to_, to, mode, copy_.owner));
    return to_.set_mode(to, mode);
  }

  Status put_link(const std::string& to, const std::string& target) {
    if (const auto there = to_.stat(to, false)) {
      if (S_ISDIR(there->mode)) return fail(ErrorCode::kInvalidInput, to + " is a directory, not a link");
      MEMBRANE_TRY(to_.remove(to, false));
    } else if (const size_t slash = to.rfind('/'); slash > 0) {
      MEMBRANE_TRY(make_directories(to_, to.substr(0, slash), 0755, copy_.owner));
    }
    MEMBRANE_TRY(to_.make_link(to, target));
    return to_.set_owner(to, copy_.owner.user, copy_.owner.group);
  }

  // False for anything but an archive.
  Result<bool> unpack(const std::string& source) {
    MEMBRANE_ASSIGN(const std::string head, from_.read(source, 0, kTarBlock));
    if (!is_compressed(head) && !is_tar(head)) return false;
    MEMBRANE_ASSIGN(const auto archive, spooled(source));
    MEMBRANE_ASSIGN(const auto spool, linux::Spool::create(kSpoolDirectory));
    linux::LayerTree tree;
    const linux::Blob blob = {.holder = archive, .fd = archive->fd(), .at = 0, .size = archive->end};
    if (const Status read = linux::apply_tar(tree, blob, spool, {.most_bytes = copy_.most_bytes}); !read) {
      if (read.error().code == ErrorCode::kInvalidInput && !is_compressed(head)) return false;
      if (read.error().code == ErrorCode::kTooLong) return too_large(source);
      return std::unexpected(read.error());
    }
    MEMBRANE_TRY(make_directories(to_, copy_.to, 0755, copy_.owner));
    MEMBRANE_TRY(tree.visit_all([&](const std::string& path, const linux::LayerItem& item,
                                    const std::string&) { return put_item(path, item); }));
    return true;
  }

  static std::unexpected<Error> too_large(const std::string& source) {
    return fail(ErrorCode::kTooLong,
                "the archive " + source + " contains more than the sandbox's disk may hold", "Raise --disk.");
  }

  Result<std::shared_ptr<linux::Spool>> spooled(const std::string& source) {
    MEMBRANE_ASSIGN(const SourceFile file, from_.stat(source));
    if (file.size > copy_.most_bytes) return too_large(source);
    MEMBRANE_ASSIGN(auto spool, linux::Spool::create(kSpoolDirectory));
    for (const auto next = pieces_of(from_, source, copy_);;) {
      MEMBRANE_ASSIGN(const std::string bytes, next());
      if (bytes.empty()) return spool;
      MEMBRANE_TRY(spool->write(spool->end, std::as_bytes(std::span(bytes))));
      spool->end += bytes.size();
    }
  }

  // Checks the sum of the first header's bytes, in which its own field counts as blanks.
  static bool is_tar(std::string_view block) {
    constexpr size_t kSumAt = 148, kSumBytes = 8;
    if (block.size() < kTarBlock) return false;
    uint64_t sum = 0, said = 0;
    for (size_t i = 0; i < kTarBlock; ++i)
      sum += i >= kSumAt && i < kSumAt + kSumBytes ? ' ' : static_cast<unsigned char>(block[i]);
    const std::string_view field = block.substr(kSumAt, kSumBytes);
    const size_t first = std::min(field.find_first_not_of(' '), field.size());
    std::from_chars(field.data() + first, field.data() + field.size(), said, 8);
    return sum == said;
  }

  static bool is_compressed(std::string_view bytes) {
    return bytes.starts_with("\x1f\x8b") || bytes.starts_with("BZh") ||
           bytes.starts_with(
               "\xfd"
               "7zXZ") ||
           bytes.starts_with("\x28\xb5\x2f\xfd");
  }

  // Files from an archive keep their owners, as in Docker.
  Status put_item(const std::string& path, const linux::LayerItem& item) {
    if (path.empty()) return {};
    const std::string to = joined(copy_.to, path);
    const User owner = {.user = item.uid, .group = item.gid};
    switch (item.mode & S_IFMT) {
      case S_IFDIR:
        MEMBRANE_TRY(put_directory(to, item.mode & 07777));
        return to_.set_owner(to, owner.user, owner.group);
      case S_IFLNK: return put_link(to, item.target);
      case S_IFREG: {
        const linux::Blob blob = {.holder = item.holder, .fd = item.fd, .at = item.at, .size = item.size};
        const auto next = [&, at = uint64_t{0}] mutable -> Result<std::string> {
          MEMBRANE_TRY(check_going(copy_));
          std::string bytes(kPieceBytes, '\0');
          MEMBRANE_ASSIGN(const size_t got, blob.read(at, std::as_writable_bytes(std::span(bytes))));
          bytes.resize(got);
          at += got;
          return bytes;
        };
        return put_pieces(to, next, item.mode & 07777, owner);
      }
      default: return fail(ErrorCode::kUnsupported, path + " in the archive is a device or a pipe");
    }
  }

  SourceFiles& from_;
  const FileCopy& copy_;
  linux::LiveComputer& to_;
};

}  // namespace

Result<std::string> digest_of_copy(SourceFiles& from, const FileCopy& copy) {
  MEMBRANE_ASSIGN(Sha256 all, Sha256::begin());
  const auto add = [&all](std::string_view text) {
    const uint64_t size = text.size();
    all.add({reinterpret_cast<const char*>(&size), sizeof size});
    all.add(text);
  };
  for (const std::string& named : copy.sources) {
    add(name_of(named));
    MEMBRANE_ASSIGN(const std::string source, resolve(from, named));
    MEMBRANE_TRY(Walk::run(
        from, source,
        [&](const std::string& path, const std::string& relative, const SourceFile& file) -> Status {
          add(relative);
          add(std::to_string(file.mode));
          add(file.target);
          if (!S_ISREG(file.mode)) return {};
          MEMBRANE_ASSIGN(Sha256 content, Sha256::begin());
          for (const auto next = pieces_of(from, path, copy);;) {
            MEMBRANE_ASSIGN(const std::string bytes, next());
            if (bytes.empty()) break;
            content.add(bytes);
          }
          MEMBRANE_ASSIGN(const std::string digest, content.finish());
          add(digest);
          return {};
        }));
  }
  return all.finish();
}

Status copy_files(SourceFiles& from, const FileCopy& copy, linux::LiveComputer& to) {
  return Copying(from, copy, to).run();
}

Status put_file(linux::LiveComputer& to, const std::string& path, std::string_view bytes, uint32_t mode,
                const User& owner) {
  if (const size_t slash = path.rfind('/'); slash > 0)
    MEMBRANE_TRY(make_directories(to, path.substr(0, slash), 0755, owner));
  MEMBRANE_TRY(to.write_file(path, bytes, mode));
  return set_facts(to, path, mode, owner);
}

Status put_pieces(linux::LiveComputer& to, const std::string& path, const linux::LiveComputer::Pieces& next,
                  uint32_t mode, const User& owner) {
  if (const size_t slash = path.rfind('/'); slash > 0)
    MEMBRANE_TRY(make_directories(to, path.substr(0, slash), 0755, owner));
  MEMBRANE_TRY(to.write_pieces(path, next, mode));
  return set_facts(to, path, mode, owner);
}

Status make_directories(linux::LiveComputer& to, const std::string& path, uint32_t mode, const User& owner) {
  for (size_t at = 0; at != path.npos;) {
    at = path.find('/', at + 1);
    const std::string part = path.substr(0, at);
    if (part.empty() || part == "/" || part.ends_with('/')) continue;
    const auto there = to.stat(part, true);
    if (there && S_ISDIR(there->mode)) continue;
    if (there) return fail(ErrorCode::kInvalidInput, part + " is a file, not a directory");
    if (there.error().code != ErrorCode::kNotFound) return std::unexpected(there.error());
    MEMBRANE_TRY(to.make_directory(part, at == path.npos ? mode : 0755));
    MEMBRANE_TRY(to.set_owner(part, owner.user, owner.group));
  }
  return {};
}

}  // namespace membrane::computers
