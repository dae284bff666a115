#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/private_file.h"
#include "base/text.h"
#include "linux/image/archive.h"
#include "linux/image/libarchive.h"
#include "linux/image/oci.h"

namespace membrane::linux {
namespace {

constexpr size_t kMostFiles = 100'000, kMostLinks = 40;

std::unexpected<Error> missing(const std::string& path) {
  return fail(ErrorCode::kInvalidInput, "the image has no file \"" + path.substr(0, 300) + '"');
}

class DirectoryFiles final : public ImageFiles {
 public:
  explicit DirectoryFiles(const std::string& directory)
      : fd_(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {}
  ~DirectoryFiles() override {
    if (fd_ >= 0) close(fd_);
  }
  DirectoryFiles(const DirectoryFiles&) = delete;
  DirectoryFiles& operator=(const DirectoryFiles&) = delete;

  [[nodiscard]] bool has(const std::string& path) const override {
    const int fd = open_below(path);
    if (fd >= 0) close(fd);
    return fd >= 0;
  }
  [[nodiscard]] Result<Blob> open(const std::string& path) const override {
    const int fd = open_below(path);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == EXDEV)) return missing(path);
    if (fd < 0) return refused_by_system("open", path);
    return blob_of(fd, path);
  }

 private:
  [[nodiscard]] int open_below(const std::string& path) const {
    open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                    .mode = 0,
                    .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    return static_cast<int>(syscall(SYS_openat2, fd_, path.c_str(), &how, sizeof how));
  }
  int fd_;
};

// "a/./b/../c" becomes "a/c"; "" for a path that leads out.
std::string plain(const std::string& path) {
  const std::string normal = std::filesystem::path(path).lexically_normal().string();
  const std::string_view trimmed =
      std::string_view(normal).substr(std::min(normal.find_first_not_of('/'), normal.size()));
  if (trimmed == ".." || trimmed.starts_with("../")) return "";
  return std::string(trimmed);
}

class ArchivedFiles final : public ImageFiles {
 public:
  explicit ArchivedFiles(std::shared_ptr<Spool> spool) : spool_(std::move(spool)) {}

  Status read(ArchiveReading& archive, uint64_t bytes_left) {
    while (true) {
      MEMBRANE_ASSIGN(struct archive_entry* const entry, archive.next());
      if (entry == nullptr) return {};
      if (files_.size() + links_.size() >= kMostFiles) return too_large();
      const std::string path = plain(path_of(entry));
      if (path.empty()) continue;
      if (const std::string target = hard_link_of(entry); !target.empty()) {
        links_[path] = plain(target);
      } else if (libarchive().archive_entry_filetype(entry) == AE_IFLNK) {
        links_[path] = plain((std::filesystem::path(path).parent_path() / symbolic_link_of(entry)).string());
      } else if (libarchive().archive_entry_filetype(entry) == AE_IFREG) {
        MEMBRANE_ASSIGN(files_[path], read_file(archive, bytes_left));
      }
    }
  }

  [[nodiscard]] bool has(const std::string& path) const override { return find(path) != nullptr; }
  [[nodiscard]] Result<Blob> open(const std::string& path) const override {
    const Blob* const found = find(path);
    if (found == nullptr) return missing(path);
    return *found;
  }

 private:
  static std::unexpected<Error> too_large() {
    return fail(ErrorCode::kTooLong, "the archive has more in it than an image may have");
  }

  Result<Blob> read_file(ArchiveReading& archive, uint64_t& bytes_left) {
    Blob blob{spool_, spool_->fd(), spool_->end, 0};
    while (true) {
      MEMBRANE_ASSIGN(const ArchiveReading::Piece piece, archive.read());
      if (piece.is_end) break;
      if (piece.offset > bytes_left || piece.bytes.size() > bytes_left - piece.offset) return too_large();
      MEMBRANE_TRY(spool_->write(blob.at + piece.offset, std::as_bytes(std::span(piece.bytes))));
      blob.size = std::max(blob.size, piece.offset + piece.bytes.size());
    }
    bytes_left -= blob.size;
    spool_->end += blob.size;
    return blob;
  }

  [[nodiscard]] const Blob* find(std::string path) const {
    for (size_t links = 0; links < kMostLinks; ++links) {
      if (const auto found = files_.find(path); found != files_.end()) return &found->second;
      const auto link = links_.find(path);
      if (link == links_.end()) return nullptr;
      path = link->second;
    }
    return nullptr;
  }

  std::shared_ptr<Spool> spool_;
  std::map<std::string, Blob> files_;
  std::map<std::string, std::string> links_;
};

bool is_hex(std::string_view text) {
  return text.size() == 64 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// Whether an image's archive may have that name at its top.
bool is_of_image(const std::string& path) {
  const std::string top = path.substr(0, path.find('/'));
  if (top == "blobs" || top == "oci-layout" || top == "index.json" || top == "manifest.json" ||
      top == "repositories")
    return true;
  std::string_view stem = top;
  for (const std::string_view ending : {".json", ".tar", ".tar.gz"})
    if (stem.ends_with(ending)) stem.remove_suffix(ending.size());
  return is_hex(stem);
}

}  // namespace

std::unique_ptr<ImageFiles> files_of_directory(const std::string& directory) {
  return std::make_unique<DirectoryFiles>(directory);
}

Result<std::unique_ptr<ImageFiles>> files_of_archive(const Blob& archive, const std::shared_ptr<Spool>& spool,
                                                     const LayerLimits& limits) {
  MEMBRANE_ASSIGN(ArchiveReading reading, ArchiveReading::open(archive, ArchiveReading::Form::kTar));
  auto files = std::make_unique<ArchivedFiles>(spool);
  MEMBRANE_TRY(files->read(reading, limits.most_bytes));
  return files;
}

Result<bool> is_image_archive(const Blob& archive) {
  MEMBRANE_ASSIGN(ArchiveReading reading, ArchiveReading::open(archive, ArchiveReading::Form::kTar));
  bool has_any = false;
  for (size_t count = 0; count < kMostFiles; ++count) {
    MEMBRANE_ASSIGN(struct archive_entry* const entry, reading.next());
    if (entry == nullptr) return has_any;
    const std::string path = plain(path_of(entry));
    if (path.empty() || path == ".") continue;
    if (!is_of_image(path)) return false;
    has_any = true;
  }
  return false;
}

bool is_oci(const ImageFiles& files) { return files.has("index.json") && files.has("oci-layout"); }
bool is_docker(const ImageFiles& files) { return files.has("manifest.json"); }

}  // namespace membrane::linux
