#include "linux/image/archive.h"
#include "linux/image/libarchive.h"

#include <algorithm>
#include <cerrno>

namespace membrane::linux {
namespace {

constexpr size_t kBufferBytes = 1u << 18;

std::string text(const char* utf8, const char* bytes) {
  if (utf8 != nullptr) return utf8;
  return bytes == nullptr ? "" : bytes;
}

}  // namespace

std::string path_of(struct archive_entry* entry) {
  return text(libarchive().archive_entry_pathname_utf8(entry), libarchive().archive_entry_pathname(entry));
}
std::string hard_link_of(struct archive_entry* entry) {
  return text(libarchive().archive_entry_hardlink_utf8(entry), libarchive().archive_entry_hardlink(entry));
}
std::string symbolic_link_of(struct archive_entry* entry) {
  return text(libarchive().archive_entry_symlink_utf8(entry), libarchive().archive_entry_symlink(entry));
}

la_ssize_t ArchiveReading::read_source(struct archive* archive, void* data, const void** bytes) {
  auto& source = *static_cast<Source*>(data);
  const auto got = source.blob.read(source.position, source.buffer);
  if (!got) {
    libarchive().archive_set_error(archive, EIO, "%s", got.error().message.c_str());
    return -1;
  }
  source.position += *got;
  *bytes = source.buffer.data();
  return static_cast<la_ssize_t>(*got);
}

la_int64_t ArchiveReading::skip_source(struct archive*, void* data, la_int64_t wanted) {
  auto& source = *static_cast<Source*>(data);
  const uint64_t left = source.blob.size - std::min(source.position, source.blob.size);
  const uint64_t step = wanted < 0 ? 0 : std::min(static_cast<uint64_t>(wanted), left);
  source.position += step;
  return static_cast<la_int64_t>(step);
}

la_int64_t ArchiveReading::seek_source(struct archive*, void* data, la_int64_t offset, int whence) {
  auto& source = *static_cast<Source*>(data);
  const auto size = static_cast<la_int64_t>(source.blob.size);
  const la_int64_t base = whence == SEEK_SET   ? 0
                          : whence == SEEK_CUR ? static_cast<la_int64_t>(source.position)
                                               : size;
  la_int64_t to = 0;
  if (__builtin_add_overflow(base, offset, &to) || to < 0 || to > size) return ARCHIVE_FATAL;
  source.position = static_cast<uint64_t>(to);
  return to;
}

Result<ArchiveReading> ArchiveReading::begin(Form form) {
  MEMBRANE_TRY(load_libarchive());
  ArchiveReading reading;
  reading.archive_.reset(libarchive().archive_read_new());
  struct archive* const archive = reading.archive_.get();
  if (archive == nullptr) return fail(ErrorCode::kExhausted, "there is not enough memory to read an archive");
  if (form == Form::kTar) {
    libarchive().archive_read_support_format_tar(archive);
  } else {
    libarchive().archive_read_support_format_raw(archive);
    libarchive().archive_read_support_format_empty(archive);
  }
  libarchive().archive_read_support_filter_gzip(archive);
  libarchive().archive_read_support_filter_zstd(archive);
  libarchive().archive_read_support_filter_xz(archive);
  libarchive().archive_read_support_filter_bzip2(archive);
  return reading;
}

Result<ArchiveReading> ArchiveReading::open(const Blob& blob, Form form) {
  MEMBRANE_ASSIGN(ArchiveReading reading, begin(form));
  reading.source_ = std::make_unique<Source>(blob, 0, std::vector<std::byte>(kBufferBytes));
  struct archive* const archive = reading.archive_.get();
  libarchive().archive_read_set_read_callback(archive, &read_source);
  libarchive().archive_read_set_skip_callback(archive, &skip_source);
  libarchive().archive_read_set_seek_callback(archive, &seek_source);
  libarchive().archive_read_set_callback_data(archive, reading.source_.get());
  if (libarchive().archive_read_open1(archive) != ARCHIVE_OK) return reading.damaged();
  return reading;
}

Result<ArchiveReading> ArchiveReading::open(std::string_view bytes, Form form) {
  MEMBRANE_ASSIGN(ArchiveReading reading, begin(form));
  if (libarchive().archive_read_open_memory(reading.archive_.get(), bytes.data(), bytes.size()) != ARCHIVE_OK)
    return reading.damaged();
  return reading;
}

std::unexpected<Error> ArchiveReading::damaged() const {
  const char* const why = libarchive().archive_error_string(archive_.get());
  return fail(ErrorCode::kInvalidInput,
              std::string("this is not a tar archive: ") + (why == nullptr ? "it is damaged" : why),
              "Pass a tar archive, plain or compressed with gzip, zstd, xz or bzip2.");
}

Result<struct archive_entry*> ArchiveReading::next() {
  struct archive_entry* entry = nullptr;
  const int got = libarchive().archive_read_next_header(archive_.get(), &entry);
  if (got == ARCHIVE_EOF) return nullptr;
  if (got < ARCHIVE_WARN) return damaged();
  return entry;
}

Result<ArchiveReading::Piece> ArchiveReading::read() {
  const void* bytes = nullptr;
  size_t size = 0;
  la_int64_t offset = 0;
  const int got = libarchive().archive_read_data_block(archive_.get(), &bytes, &size, &offset);
  if (got == ARCHIVE_EOF) return Piece{{}, 0, true};
  if (got < ARCHIVE_WARN || offset < 0) return damaged();
  return Piece{{static_cast<const char*>(bytes), size}, static_cast<uint64_t>(offset)};
}

}  // namespace membrane::linux
