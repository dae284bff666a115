#include "linux/image/tar.h"

#include <archive.h>
#include <archive_entry.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <memory>

namespace membrane::linux {
namespace {

constexpr std::string_view kWhiteout = ".wh.", kOpaque = ".wh..wh..opq", kOtherMarks = ".wh..wh.";
constexpr size_t kMostAttributes = 64, kMostAttributeBytes = 65536;

struct FreeArchive {
  void operator()(struct archive* archive) const { archive_free(archive); }
};
using Archive = std::unique_ptr<struct archive, FreeArchive>;

std::unexpected<Error> no_archive(struct archive* archive) {
  const char* const why = archive_error_string(archive);
  return fail(ErrorCode::kInvalidInput, std::string("this is no tar archive: ") + (why == nullptr ? "it is damaged" : why),
              "Give a tar archive, as it is or compressed by gzip, zstd, xz or bzip2.");
}

// In UTF-8 where it is that, else the bytes: whatever the locale.
std::string text(const char* utf8, const char* bytes) {
  if (utf8 != nullptr) return utf8;
  return bytes == nullptr ? "" : bytes;
}

class TarReading {
 public:
  TarReading(LayerTree& tree, const std::shared_ptr<Spool>& spool, const LayerLimits& limits)
      : tree_(tree), spool_(spool), left_(limits.most_bytes), entries_left_(limits.most_entries) {
    archive_.reset(archive_read_new());
    if (archive_ == nullptr) return;
    archive_read_support_format_tar(archive_.get());
    archive_read_support_filter_gzip(archive_.get());
    archive_read_support_filter_zstd(archive_.get());
    archive_read_support_filter_xz(archive_.get());
    archive_read_support_filter_bzip2(archive_.get());
  }

  Status open_file(const std::string& path) {
    if (archive_read_open_filename(archive_.get(), path.c_str(), 1u << 18) != ARCHIVE_OK)
      return no_archive(archive_.get());
    return {};
  }
  Status open_bytes(std::string_view bytes) {
    if (archive_read_open_memory(archive_.get(), bytes.data(), bytes.size()) != ARCHIVE_OK)
      return no_archive(archive_.get());
    return {};
  }

  Status run() {
    tree_.begin_layer();
    while (true) {
      struct archive_entry* entry = nullptr;
      const int got = archive_read_next_header(archive_.get(), &entry);
      if (got == ARCHIVE_EOF) return {};
      if (got < ARCHIVE_WARN) return no_archive(archive_.get());
      if (entries_left_-- == 0) return too_large();
      MEMBRANE_TRY(take(entry));
    }
  }

 private:
  static std::unexpected<Error> too_large() {
    return fail(ErrorCode::kTooLong, "the archive has more in it than an image may have");
  }

  Status take(struct archive_entry* entry) {
    const std::string path = text(archive_entry_pathname_utf8(entry), archive_entry_pathname(entry));
    const size_t slash = path.rfind('/');
    const std::string above = slash == path.npos ? "" : path.substr(0, slash);
    const std::string name = slash == path.npos ? path : path.substr(slash + 1);
    if (name == kOpaque) return tree_.make_opaque(above);
    if (name.starts_with(kOtherMarks)) return {};
    if (name.starts_with(kWhiteout) && name.size() > kWhiteout.size())
      return tree_.remove(above + "/" + name.substr(kWhiteout.size()));
    if (archive_entry_hardlink(entry) != nullptr || archive_entry_hardlink_utf8(entry) != nullptr)
      return tree_.put_link(path, text(archive_entry_hardlink_utf8(entry), archive_entry_hardlink(entry)));
    MEMBRANE_ASSIGN(LayerItem item, item_of(entry));
    return tree_.put(path, std::move(item));
  }

  Result<LayerItem> item_of(struct archive_entry* entry) {
    const auto type = static_cast<uint32_t>(archive_entry_filetype(entry));
    LayerItem item{.mode = type | (static_cast<uint32_t>(archive_entry_perm(entry)) & 07777),
                   .uid = static_cast<uint32_t>(archive_entry_uid(entry)),
                   .gid = static_cast<uint32_t>(archive_entry_gid(entry)),
                   .modified = {archive_entry_mtime(entry), archive_entry_mtime_nsec(entry)}};
    switch (type) {
      case AE_IFREG: MEMBRANE_TRY(read_content(item, archive_entry_size(entry))); break;
      case AE_IFLNK:
        item.target = text(archive_entry_symlink_utf8(entry), archive_entry_symlink(entry));
        if (item.target.size() >= 4096) return fail(ErrorCode::kInvalidInput, "the archive has a symbolic link that is too long");
        break;
      case AE_IFCHR:
      case AE_IFBLK:
        item.special = makedev(static_cast<unsigned>(archive_entry_rdevmajor(entry)),
                               static_cast<unsigned>(archive_entry_rdevminor(entry)));
        break;
      case AE_IFDIR:
      case AE_IFIFO: break;
      default: return fail(ErrorCode::kInvalidInput, "the archive has an entry of a kind that no image has");
    }
    take_attributes(entry, item);
    return item;
  }

  static void take_attributes(struct archive_entry* entry, LayerItem& item) {
    archive_entry_xattr_reset(entry);
    const char* name = nullptr;
    const void* value = nullptr;
    size_t bytes = 0;
    while (item.attributes.size() < kMostAttributes &&
           archive_entry_xattr_next(entry, &name, &value, &bytes) == ARCHIVE_OK) {
      const std::string_view key = name == nullptr ? "" : name;
      const bool is_known = key.starts_with("user.") || key.starts_with("security.") || key.starts_with("trusted.");
      if (is_known && key.size() <= 255 && bytes <= kMostAttributeBytes)
        item.attributes.emplace(key, std::string(static_cast<const char*>(value), bytes));
    }
  }

  // Into the spool. A sparse file may end in a hole, so the size that the header says counts where it is greater.
  Status read_content(LayerItem& item, la_int64_t said) {
    const uint64_t begin = spool_->end;
    uint64_t size = 0;
    while (true) {
      const void* piece = nullptr;
      size_t bytes = 0;
      la_int64_t offset = 0;
      const int got = archive_read_data_block(archive_.get(), &piece, &bytes, &offset);
      if (got == ARCHIVE_EOF) break;
      if (got < ARCHIVE_WARN) return no_archive(archive_.get());
      const auto at = static_cast<uint64_t>(offset);
      if (offset < 0 || at > left_ || bytes > left_ - at) return too_large();
      MEMBRANE_TRY(spool_->write(begin + at, {static_cast<const std::byte*>(piece), bytes}));
      size = std::max(size, at + bytes);
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

  LayerTree& tree_;
  std::shared_ptr<Spool> spool_;
  uint64_t left_, entries_left_;
  Archive archive_;
};

}  // namespace

Status apply_tar(LayerTree& tree, const std::string& archive, const std::shared_ptr<Spool>& spool,
                 const LayerLimits& limits) {
  TarReading reading(tree, spool, limits);
  MEMBRANE_TRY(reading.open_file(archive));
  return reading.run();
}

Status apply_tar_bytes(LayerTree& tree, std::string_view archive, const std::shared_ptr<Spool>& spool,
                       const LayerLimits& limits) {
  TarReading reading(tree, spool, limits);
  MEMBRANE_TRY(reading.open_bytes(archive));
  return reading.run();
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
  MEMBRANE_TRY(apply_tar(tree, archive, spool, limits));
  return tree.write(image);
}

}  // namespace membrane::linux
