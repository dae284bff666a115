#include <sys/sysmacros.h>

#include <memory>
#include <vector>

#include "base/private_file.h"
#include "linux/image/libarchive.h"
#include "linux/image/tar.h"

namespace membrane::linux {
namespace {

class TarWriting {
 public:
  explicit TarWriting(NewFile file) : file_(std::move(file)), buffer_(1u << 20) {}

  Status begin() {
    MEMBRANE_TRY(load_libarchive());
    archive_.reset(libarchive().archive_write_new());
    entry_.reset(libarchive().archive_entry_new());
    if (!archive_ || !entry_)
      return fail(ErrorCode::kExhausted, "there is not enough memory to write an archive");
    libarchive().archive_write_set_format_pax_restricted(archive_.get());
    if (libarchive().archive_write_open(archive_.get(), this, nullptr, &write_out, nullptr) != ARCHIVE_OK)
      return refused();
    return {};
  }

  Status add(const std::string& path, const LayerItem& item, const std::string& first) {
    struct archive_entry* const entry = libarchive().archive_entry_clear(entry_.get());
    libarchive().archive_entry_copy_pathname(entry, path.empty() ? "." : path.c_str());
    libarchive().archive_entry_set_mode(entry, item.mode);
    libarchive().archive_entry_set_uid(entry, item.uid);
    libarchive().archive_entry_set_gid(entry, item.gid);
    libarchive().archive_entry_set_mtime(entry, item.modified.tv_sec, item.modified.tv_nsec);
    if (!first.empty()) {
      libarchive().archive_entry_copy_hardlink(entry, first.c_str());
      libarchive().archive_entry_set_size(entry, 0);
      return write_header(entry);
    }
    if (S_ISLNK(item.mode)) libarchive().archive_entry_copy_symlink(entry, item.target.c_str());
    if (S_ISCHR(item.mode) || S_ISBLK(item.mode)) libarchive().archive_entry_set_rdev(entry, item.special);
    for (const auto& [name, value] : item.attributes)
      libarchive().archive_entry_xattr_add_entry(entry, name.c_str(), value.data(), value.size());
    libarchive().archive_entry_set_size(entry, S_ISREG(item.mode) ? static_cast<la_int64_t>(item.size) : 0);
    MEMBRANE_TRY(write_header(entry));
    return S_ISREG(item.mode) ? copy(item) : Status();
  }

  Status end() {
    if (libarchive().archive_write_close(archive_.get()) != ARCHIVE_OK) return refused();
    return file_.publish();
  }

 private:
  struct FreeArchive {
    void operator()(struct archive* archive) const { libarchive().archive_free(archive); }
  };
  struct FreeEntry {
    void operator()(struct archive_entry* entry) const { libarchive().archive_entry_free(entry); }
  };

  static la_ssize_t write_out(struct archive* archive, void* data, const void* bytes, size_t size) {
    auto& self = *static_cast<TarWriting*>(data);
    const auto wrote = self.file_.write(self.at_, {static_cast<const uint8_t*>(bytes), size});
    if (!wrote) {
      libarchive().archive_set_error(archive, EIO, "%s", wrote.error().message.c_str());
      return -1;
    }
    self.at_ += size;
    return static_cast<la_ssize_t>(size);
  }

  [[nodiscard]] std::unexpected<Error> refused() const {
    const char* const why = libarchive().archive_error_string(archive_.get());
    return fail(ErrorCode::kUnavailable,
                std::string("cannot write the archive: ") + (why == nullptr ? "" : why));
  }

  Status write_header(struct archive_entry* entry) {
    if (libarchive().archive_write_header(archive_.get(), entry) < ARCHIVE_WARN) return refused();
    return {};
  }

  Status copy(const LayerItem& item) {
    const Blob blob{item.holder, item.fd, item.at, item.size};
    for (uint64_t done = 0; done < blob.size;) {
      MEMBRANE_ASSIGN(const size_t got, blob.read(done, buffer_));
      if (got == 0) return fail(ErrorCode::kInvalidInput, "the image shrank while it was read");
      if (libarchive().archive_write_data(archive_.get(), buffer_.data(), got) !=
          static_cast<la_ssize_t>(got))
        return refused();
      done += got;
    }
    return {};
  }

  NewFile file_;
  uint64_t at_ = 0;
  std::vector<std::byte> buffer_;
  std::unique_ptr<struct archive, FreeArchive> archive_;
  std::unique_ptr<struct archive_entry, FreeEntry> entry_;
};

}  // namespace

Status export_tar(const LayerTree& tree, const std::string& archive) {
  MEMBRANE_ASSIGN(NewFile file, NewFile::create(archive));
  TarWriting writing(std::move(file));
  MEMBRANE_TRY(writing.begin());
  MEMBRANE_TRY(tree.visit_all([&](const std::string& path, const LayerItem& item, const std::string& first) {
    return writing.add(path, item, first);
  }));
  return writing.end();
}

}  // namespace membrane::linux
