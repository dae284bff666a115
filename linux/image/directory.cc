#include "linux/image/directory.h"

#include <fcntl.h>
#include <fts.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <map>
#include <vector>

#include "base/private_file.h"
#include "linux/image/blob.h"

namespace membrane::linux {
namespace {

constexpr size_t kPieceBytes = 1u << 20, kMostAttributeBytes = 65536;

class DirectoryReading {
 public:
  DirectoryReading(LayerTree& tree, const std::shared_ptr<Spool>& spool, const std::optional<Owner>& owner,
                   const LayerLimits& limits)
      : tree_(tree), spool_(spool), owner_(owner), left_(limits.most_bytes), buffer_(kPieceBytes) {}

  Status run(const std::string& directory, const std::string& under) {
    std::string path = directory;
    char* paths[] = {path.data(), nullptr};
    const auto by_name = [](const FTSENT** a, const FTSENT** b) {
      return std::string_view((*a)->fts_name).compare((*b)->fts_name);
    };
    const std::unique_ptr<FTS, int (*)(FTS*)> all(
        fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, by_name), &fts_close);
    if (!all) return refused_by_system("read", directory);
    while (true) {
      errno = 0;
      FTSENT* const entry = fts_read(all.get());
      if (entry == nullptr && errno == 0) return {};
      if (entry == nullptr) return refused_by_system("read", directory);
      if (entry->fts_info == FTS_DP) continue;
      const std::string host = entry->fts_path;
      if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR || entry->fts_info == FTS_NS) {
        errno = entry->fts_errno;
        return refused_by_system("read", host);
      }
      MEMBRANE_TRY(
          take(host, under + "/" + host.substr(std::min(directory.size(), host.size())), *entry->fts_statp));
    }
  }

 private:
  Status take(const std::string& host, const std::string& path, const struct stat& status) {
    if (S_ISSOCK(status.st_mode)) return {};
    const std::pair<uint64_t, uint64_t> identity = {status.st_dev, status.st_ino};
    if (!S_ISDIR(status.st_mode) && status.st_nlink > 1) {
      const auto [first, is_new] = first_.emplace(identity, path);
      if (!is_new) return tree_.put_link(path, first->second);
    }
    LayerItem item{.mode = status.st_mode,
                   .uid = owner_ ? owner_->uid : status.st_uid,
                   .gid = owner_ ? owner_->gid : status.st_gid,
                   .modified = status.st_mtim};
    if (S_ISREG(status.st_mode)) MEMBRANE_TRY(read_content(host, item));
    if (S_ISLNK(status.st_mode)) MEMBRANE_TRY(read_target(host, item));
    if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)) item.special = status.st_rdev;
    read_attributes(host, item);
    return tree_.put(path, std::move(item));
  }

  Status read_content(const std::string& host, LayerItem& item) {
    const int fd = open(host.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return refused_by_system("read", host);
    MEMBRANE_ASSIGN(const Blob blob, blob_of(fd, host));
    if (blob.size > left_)
      return fail(ErrorCode::kTooLong, "the directory has more in it than an image may have");
    left_ -= blob.size;
    const uint64_t begin = spool_->end;
    uint64_t done = 0;
    while (done < blob.size) {
      const off_t data = lseek(fd, static_cast<off_t>(done), SEEK_DATA);
      if (data < 0 && errno == ENXIO) break;  // the rest is a hole
      done = std::max(done, static_cast<uint64_t>(std::max<off_t>(data, 0)));
      MEMBRANE_ASSIGN(const size_t got, blob.read(done, buffer_));
      if (got == 0) break;
      MEMBRANE_TRY(spool_->write(begin + done, std::span(buffer_).first(got)));
      done += got;
    }
    MEMBRANE_TRY(spool_->extend(begin + blob.size));
    spool_->end = begin + blob.size;
    item.holder = spool_;
    item.fd = spool_->fd();
    item.at = begin;
    item.size = blob.size;
    return {};
  }

  static Status read_target(const std::string& host, LayerItem& item) {
    item.target.resize(4096);
    const ssize_t got = readlink(host.c_str(), item.target.data(), item.target.size());
    if (got < 0) return refused_by_system("read", host);
    item.target.resize(static_cast<size_t>(got));
    return {};
  }

  // What the host does not provide is absent.
  static void read_attributes(const std::string& host, LayerItem& item) {
    std::string names(kMostAttributeBytes, '\0');
    const ssize_t got = llistxattr(host.c_str(), names.data(), names.size());
    if (got <= 0) return;
    names.resize(static_cast<size_t>(got));
    for (size_t at = 0; at < names.size();) {
      const std::string name = names.c_str() + at;
      at += name.size() + 1;
      if (!name.starts_with("user.") && name != "security.capability") continue;
      std::string value(kMostAttributeBytes, '\0');
      const ssize_t bytes = lgetxattr(host.c_str(), name.c_str(), value.data(), value.size());
      if (bytes < 0) continue;
      value.resize(static_cast<size_t>(bytes));
      item.attributes.emplace(name, std::move(value));
    }
  }

  LayerTree& tree_;
  std::shared_ptr<Spool> spool_;
  std::optional<Owner> owner_;
  uint64_t left_;
  std::vector<std::byte> buffer_;
  std::map<std::pair<uint64_t, uint64_t>, std::string> first_;  // names of what has several
};

}  // namespace

Status apply_directory(LayerTree& tree, const std::string& directory, const std::string& under,
                       const std::shared_ptr<Spool>& spool, const std::optional<Owner>& owner,
                       const LayerLimits& limits) {
  tree.begin_layer();
  return DirectoryReading(tree, spool, owner, limits).run(directory, under);
}

}  // namespace membrane::linux
