#include "linux/files/regular_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <limits>

namespace membrane::linux {
namespace {

constexpr uint64_t kMostOffset = std::numeric_limits<int64_t>::max();
constexpr int kPassingFlags = O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_CLOEXEC;  // used only by open()

constexpr size_t kPieceBytes = 1 << 16;
using Piece = std::array<std::byte, kPieceBytes>;

}  // namespace

std::string description_of(const std::shared_ptr<const Location>& location, Node& node) {
  if (location == nullptr) return "";
  std::vector<std::string_view> names;
  for (const Location* at = location.get(); at != nullptr && at->parent != nullptr; at = at->parent.get())
    names.push_back(at->name);
  std::string path;
  for (auto name = names.rbegin(); name != names.rend(); ++name) path.append("/").append(*name);
  if (path.empty()) path = "/";
  if (node.attributes().links == 0) path += " (deleted)";
  return path;
}

RegularFile::RegularFile(NodeRef node, int with_flags) : node_(std::move(node)) { flags = with_flags; }

Try<size_t> RegularFile::read(Caller& caller, Buffer& to) {
  MEMBRANE_ASSIGN(const size_t count, read_at(caller, to, offset_));
  offset_ += count;
  return count;
}

Try<size_t> RegularFile::read_at(Caller&, Buffer& to, uint64_t offset) {
  if (offset > kMostOffset) return err(EINVAL);
  auto piece = std::make_unique_for_overwrite<Piece>();
  size_t done = 0;
  while (to.size() > 0 && done < kMostBytesOfCall) {
    const size_t wanted = std::min({to.size(), piece->size(), kMostBytesOfCall - done});
    auto got = node_->read(offset + done, std::span(*piece).first(wanted));
    if (!got && done == 0) return got;
    if (!got || *got == 0) break;
    auto put = to.put(std::span(*piece).first(std::min(*got, wanted)));
    if (!put && done == 0) return put;
    if (!put) break;
    done += *put;
    if (*put < wanted) break;
  }
  return done;
}

Try<size_t> RegularFile::write(Caller& caller, Buffer& from) {
  if ((flags & O_APPEND) != 0) offset_ = node_->attributes().size;
  MEMBRANE_ASSIGN(const size_t count, write_from(caller, from, offset_));
  offset_ += count;
  return count;
}

Try<size_t> RegularFile::write_at(Caller& caller, Buffer& from, uint64_t offset) {
  // Linux appends whatever the offset.
  if ((flags & O_APPEND) != 0) offset = node_->attributes().size;
  return write_from(caller, from, offset);
}

Try<size_t> RegularFile::write_from(Caller& caller, Buffer& from, uint64_t offset) {
  if (from.size() == 0) return 0;
  if (offset > kMostOffset) return err(EINVAL);
  size_t most = std::min<uint64_t>(kMostBytesOfCall, kMostOffset - offset);
  const uint64_t limit = caller.file_size_limit();
  if (offset >= limit) {
    caller.signal_self(SIGXFSZ);
    return err(EFBIG);
  }
  most = std::min<uint64_t>(most, limit - offset);
  if (most == 0) return err(EFBIG);
  auto piece = std::make_unique_for_overwrite<Piece>();
  size_t done = 0;
  while (from.size() > 0 && done < most) {
    const size_t wanted = std::min({from.size(), piece->size(), most - done});
    auto taken = from.take(std::span(*piece).first(wanted));
    if (!taken && done == 0) return taken;
    if (!taken || *taken == 0) break;
    auto written = node_->write(offset + done, std::span(*piece).first(std::min(*taken, wanted)));
    if (!written && done == 0) return written;
    if (!written) break;
    done += *written;
    if (*written < wanted) break;
  }
  return done;
}

Try<uint64_t> RegularFile::seek(int64_t offset, int whence) {
  int64_t base = 0;
  switch (whence) {
    case SEEK_SET: break;
    case SEEK_CUR: base = static_cast<int64_t>(offset_); break;
    case SEEK_END: base = static_cast<int64_t>(node_->attributes().size); break;
    case SEEK_DATA:
    case SEEK_HOLE: {
      if (offset < 0 || static_cast<uint64_t>(offset) >= node_->attributes().size) return err(ENXIO);
      MEMBRANE_ASSIGN(offset_, node_->seek_data(static_cast<uint64_t>(offset), whence == SEEK_HOLE));
      return offset_;
    }
    default: return err(EINVAL);
  }
  int64_t to = 0;
  if (__builtin_add_overflow(base, offset, &to) || to < 0) return err(EINVAL);
  offset_ = static_cast<uint64_t>(to);
  return offset_;
}

Try<int64_t> RegularFile::ioctl(Caller& caller, uint64_t request, uint64_t argument) {
  if (request != FIONREAD) return err(ENOTTY);
  const int64_t left = static_cast<int64_t>(node_->attributes().size) - static_cast<int64_t>(offset_);
  MEMBRANE_TRY(caller.put(argument, static_cast<int>(std::clamp<int64_t>(left, INT32_MIN, INT32_MAX))));
  return 0;
}

Done RegularFile::truncate(uint64_t size) {
  if ((flags & O_ACCMODE) == O_RDONLY) return err(EINVAL);
  if (size > kMostOffset) return err(EINVAL);
  return node_->resize(size);
}

Try<Backing> RegularFile::mapping(uint64_t offset, uint64_t length, bool is_shared, int protection) {
  const int access = flags & O_ACCMODE;
  if (access == O_WRONLY) return err(EACCES);
  if (is_shared && (protection & PROT_WRITE) != 0 && access != O_RDWR) return err(EACCES);
  MEMBRANE_ASSIGN(Backing backing, node_->mapping(offset, length, is_shared));
  backing.may_write = access == O_RDWR;
  return backing;
}

DirectoryFile::DirectoryFile(NodeRef node, int with_flags) : node_(std::move(node)) { flags = with_flags; }

Try<uint64_t> DirectoryFile::seek(int64_t offset, int whence) {
  if (whence == SEEK_CUR && __builtin_add_overflow(position_, offset, &offset)) return err(EINVAL);
  if ((whence != SEEK_SET && whence != SEEK_CUR) || offset < 0) return err(EINVAL);
  position_ = offset;
  return static_cast<uint64_t>(offset);
}

Done DirectoryFile::list(const std::function<bool(const DirectoryEntry&)>& add) {
  if (position_ == 0) {
    if (!add({.name = ".", .number = node_->attributes().number, .type = DT_DIR, .next = 1})) return {};
    position_ = 1;
  }
  if (position_ == 1) {
    // A root's parent is the root itself; a file system does not know the directory that it is mounted on.
    NodeRef parent = location != nullptr && location->parent != nullptr ? location->parent->node : nullptr;
    if (parent == nullptr) parent = node_->parent();
    if (parent == nullptr) parent = node_;
    if (!add({.name = "..", .number = parent->attributes().number, .type = DT_DIR, .next = 2})) return {};
    position_ = 2;
  }
  return node_->list(position_ - 2, [&](const DirectoryEntry& entry) {
    DirectoryEntry shifted = entry;
    shifted.next = entry.next + 2;
    if (!add(shifted)) return false;
    position_ = shifted.next;
    return true;
  });
}

Try<FileRef> open_node(Caller& caller, const NodeRef& node, int flags) {
  const int kept = flags & ~kPassingFlags;
  MEMBRANE_ASSIGN(FileRef made, node->open(caller, flags));
  if (made == nullptr) {
    switch (node->type()) {
      case S_IFREG: made = std::make_shared<RegularFile>(node, kept); break;
      case S_IFDIR: made = std::make_shared<DirectoryFile>(node, kept); break;
      case S_IFLNK: return err(ELOOP);
      default: return err(ENXIO);
    }
  }
  made->flags = kept;
  return made;
}

}  // namespace membrane::linux
