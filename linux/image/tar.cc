#include "linux/image/tar.h"

#include <sys/sysmacros.h>

#include <filesystem>
#include <memory>

#include "linux/image/archive.h"
#include "linux/image/libarchive.h"

namespace membrane::linux {
namespace {

constexpr std::string_view kWhiteout = ".wh.", kOpaque = ".wh..wh..opq", kOtherMarks = ".wh..wh.";
constexpr size_t kMostAttributes = 64, kMostAttributeBytes = 65536;

class TarReading {
 public:
  TarReading(ArchiveReading archive, LayerTree& tree, const std::shared_ptr<Spool>& spool,
             const LayerLimits& limits)
      : archive_(std::move(archive)),
        tree_(tree),
        spool_(spool),
        left_(limits.most_bytes),
        entries_left_(limits.most_entries) {}

  Status run() {
    tree_.begin_layer();
    while (true) {
      MEMBRANE_ASSIGN(struct archive_entry* const entry, archive_.next());
      if (entry == nullptr) return {};
      if (entries_left_-- == 0) return too_large();
      MEMBRANE_TRY(take(entry));
    }
  }

 private:
  static std::unexpected<Error> too_large() {
    return fail(ErrorCode::kTooLong, "the archive has more in it than an image may have");
  }

  Status take(struct archive_entry* entry) {
    const std::string path = path_of(entry);
    const size_t slash = path.rfind('/');
    const std::string above = slash == path.npos ? "" : path.substr(0, slash);
    const std::string name = slash == path.npos ? path : path.substr(slash + 1);
    if (name == kOpaque) return tree_.make_opaque(above);
    if (name.starts_with(kOtherMarks)) return {};
    if (name.starts_with(kWhiteout) && name.size() > kWhiteout.size())
      return tree_.remove(above + "/" + name.substr(kWhiteout.size()));
    if (const std::string target = hard_link_of(entry); !target.empty()) return tree_.put_link(path, target);
    MEMBRANE_ASSIGN(LayerItem item, item_of(entry));
    return tree_.put(path, std::move(item));
  }

  Result<LayerItem> item_of(struct archive_entry* entry) {
    const auto type = static_cast<uint32_t>(libarchive().archive_entry_filetype(entry));
    LayerItem item{
        .mode = type | (static_cast<uint32_t>(libarchive().archive_entry_perm(entry)) & 07777),
        .uid = static_cast<uint32_t>(libarchive().archive_entry_uid(entry)),
        .gid = static_cast<uint32_t>(libarchive().archive_entry_gid(entry)),
        .modified = {libarchive().archive_entry_mtime(entry), libarchive().archive_entry_mtime_nsec(entry)}};
    switch (type) {
      case AE_IFREG: MEMBRANE_TRY(read_content(item, libarchive().archive_entry_size(entry))); break;
      case AE_IFLNK:
        item.target = symbolic_link_of(entry);
        if (item.target.size() >= 4096)
          return fail(ErrorCode::kInvalidInput, "the archive has a symbolic link that is too long");
        break;
      case AE_IFCHR:
      case AE_IFBLK:
        item.special = makedev(static_cast<unsigned>(libarchive().archive_entry_rdevmajor(entry)),
                               static_cast<unsigned>(libarchive().archive_entry_rdevminor(entry)));
        break;
      case AE_IFDIR:
      case AE_IFIFO: break;
      default:
        return fail(ErrorCode::kInvalidInput,
                    "the archive has an entry of a kind that images do not support");
    }
    take_attributes(entry, item);
    const uint64_t bytes = item.attribute_bytes();
    if (bytes > left_) return too_large();
    left_ -= bytes;
    return item;
  }

  static void take_attributes(struct archive_entry* entry, LayerItem& item) {
    libarchive().archive_entry_xattr_reset(entry);
    const char* name = nullptr;
    const void* value = nullptr;
    size_t bytes = 0;
    while (item.attributes.size() < kMostAttributes &&
           libarchive().archive_entry_xattr_next(entry, &name, &value, &bytes) == ARCHIVE_OK) {
      const std::string_view key = name == nullptr ? "" : name;
      const bool is_known =
          key.starts_with("user.") || key.starts_with("security.") || key.starts_with("trusted.");
      if (is_known && key.size() <= 255 && bytes <= kMostAttributeBytes)
        item.attributes.emplace(key, std::string(static_cast<const char*>(value), bytes));
    }
  }

  // Copies into the spool. A sparse file may end in a hole, so the header's size applies where it is greater.
  Status read_content(LayerItem& item, la_int64_t said) {
    const uint64_t begin = spool_->end;
    uint64_t size = 0;
    while (true) {
      MEMBRANE_ASSIGN(const ArchiveReading::Piece piece, archive_.read());
      if (piece.is_end) break;
      if (piece.offset > left_ || piece.bytes.size() > left_ - piece.offset) return too_large();
      MEMBRANE_TRY(spool_->write(begin + piece.offset, std::as_bytes(std::span(piece.bytes))));
      size = std::max(size, piece.offset + piece.bytes.size());
    }
    size = std::max(size, static_cast<uint64_t>(std::max<la_int64_t>(said, 0)));
    if (size > left_) return too_large();
    left_ -= size;
    MEMBRANE_TRY(spool_->extend(begin + size));
    spool_->end = begin + size;
    item.holder = spool_;
    item.fd = spool_->fd();
    item.at = begin;
    item.size = size;
    return {};
  }

  ArchiveReading archive_;
  LayerTree& tree_;
  std::shared_ptr<Spool> spool_;
  uint64_t left_, entries_left_;
};

}  // namespace

Status apply_tar(LayerTree& tree, const Blob& archive, const std::shared_ptr<Spool>& spool,
                 const LayerLimits& limits) {
  MEMBRANE_ASSIGN(ArchiveReading reading, ArchiveReading::open(archive, ArchiveReading::Form::kTar));
  return TarReading(std::move(reading), tree, spool, limits).run();
}

Status apply_tar_bytes(LayerTree& tree, std::string_view archive, const std::shared_ptr<Spool>& spool,
                       const LayerLimits& limits) {
  MEMBRANE_ASSIGN(ArchiveReading reading, ArchiveReading::open(archive, ArchiveReading::Form::kTar));
  return TarReading(std::move(reading), tree, spool, limits).run();
}

Result<std::string> import_tar(const std::string& archive, const std::string& image, const std::string& lower,
                               const LayerLimits& limits) {
  LayerTree tree(limits);
  if (!lower.empty()) {
    MEMBRANE_ASSIGN(const auto below, Layer::open(lower));
    MEMBRANE_TRY(tree.load(below));
  }
  const std::string directory = std::filesystem::path(image).parent_path().string();
  MEMBRANE_ASSIGN(const auto spool, Spool::create(directory.empty() ? "." : directory));
  MEMBRANE_ASSIGN(const Blob blob, open_blob(archive));
  MEMBRANE_TRY(apply_tar(tree, blob, spool, limits));
  return tree.write(image);
}

}  // namespace membrane::linux
