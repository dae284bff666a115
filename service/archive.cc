#include "service/archive.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <ranges>
#include <unordered_map>

namespace membrane::service {
namespace {

constexpr uint32_t kModeBits = 07777;
constexpr size_t kMostNameBytes = 4096;                             // of a path, and of a link's target
constexpr uint64_t kMostHeaderBytes = 1u << 20;                     // of an entry, extensions included
constexpr uint64_t kMostHeadersBytes = 8192 * kMostArchiveEntries;  // of them all, with what pads them

struct FreeArchive {
  void operator()(struct archive* archive) const { archive_free(archive); }
};
using Archive = std::unique_ptr<struct archive, FreeArchive>;
struct FreeEntry {
  void operator()(struct archive_entry* entry) const { archive_entry_free(entry); }
};

ApiError no_archive(struct archive* archive) {
  const char* const why = archive == nullptr ? nullptr : archive_error_string(archive);
  return {ApiCode::kInvalidValue,
          std::string("the body is not a tar archive: ") + (why == nullptr ? "it is damaged" : why),
          "Send a tar archive, plain or compressed with gzip."};
}

ApiError too_large() {
  return {ApiCode::kTooLarge,
          "the archive has more than " + std::to_string(kMostArchiveBytes >> 20) + " MiB or " +
              std::to_string(kMostArchiveEntries) + " entries",
          "Transfer it in parts, directory by directory."};
}

ApiError no_entry(const std::string& hint) {
  return {ApiCode::kInvalidValue, "the archive has an entry that is neither a file nor a directory inside it",
          hint};
}

ApiError too_long() {
  return {
      ApiCode::kTooLarge,
      "the archive has a name or a link's target of more than " + std::to_string(kMostNameBytes) + " bytes",
      "Shorten it."};
}

// A name without surrounding "./" and "/"; nothing for a name that leads elsewhere. "" is the archive's own
// directory.
std::optional<std::string> relative_name(std::string_view name) {
  if (name.starts_with('/')) return std::nullopt;
  std::string relative;
  for (const auto part : std::views::split(name, '/')) {
    const std::string_view each(part.begin(), part.end());
    if (each == "..") return std::nullopt;
    if (each.empty() || each == ".") continue;
    relative += (relative.empty() ? "" : "/") + std::string(each);
  }
  return relative;
}

la_ssize_t append(struct archive*, void* to, const void* bytes, size_t size) {
  static_cast<std::string*>(to)->append(static_cast<const char*>(bytes), size);
  return static_cast<la_ssize_t>(size);
}

// The bytes of an archive, decompressed where gzip compressed them, and counted: libarchive by itself takes as many as
// their headers ask for.
class Decompressed {
 public:
  explicit Decompressed(std::string_view bytes) : source_(archive_read_new()) {
    struct archive* const source = source_.get();
    if (source == nullptr) return;
    archive_read_support_format_raw(source);
    if (bytes.starts_with("\x1f\x8b"))  // once, whatever is inside
      archive_read_append_filter(source, ARCHIVE_FILTER_GZIP);
    struct archive_entry* all = nullptr;
    is_damaged_ = archive_read_open_memory(source, bytes.data(), bytes.size()) != ARCHIVE_OK ||
                  archive_read_next_header(source, &all) != ARCHIVE_OK;
  }

  // What is read next: a header, or an entry's contents.
  void expect_header() { most_ = std::min(left_, kMostHeaderBytes); }
  void expect_contents() { most_ = left_; }
  // Why reading them, by `archive`, has failed.
  [[nodiscard]] ApiError error(struct archive* archive) const {
    return is_too_large_ ? too_large() : no_archive(is_damaged_ ? source_.get() : archive);
  }
  // For archive_read_open(), with a Decompressed as `from`.
  static la_ssize_t read(struct archive*, void* from, const void** bytes) {
    return static_cast<Decompressed*>(from)->read(bytes);
  }

 private:
  la_ssize_t read(const void** bytes) {
    constexpr size_t kMostOfPiece = 64u << 10;
    if (is_damaged_ || is_too_large_) return ARCHIVE_FATAL;
    if (piece_.empty()) {
      const void* next = nullptr;
      size_t size = 0;
      la_int64_t offset = 0;
      const int got = archive_read_data_block(source_.get(), &next, &size, &offset);
      if (got == ARCHIVE_EOF) return 0;
      is_damaged_ = got != ARCHIVE_OK;
      if (is_damaged_) return ARCHIVE_FATAL;
      piece_ = {static_cast<const char*>(next), size};
    }
    const std::string_view given = piece_.substr(0, kMostOfPiece);
    is_too_large_ = given.size() > most_;
    if (is_too_large_) return ARCHIVE_FATAL;
    piece_.remove_prefix(given.size());
    most_ -= given.size();
    left_ -= given.size();
    *bytes = given.data();
    return static_cast<la_ssize_t>(given.size());
  }

  const Archive source_;
  bool is_damaged_ = true, is_too_large_ = false;
  std::string_view piece_;  // of the source, not yet read
  uint64_t left_ = kMostArchiveBytes + kMostHeadersBytes;
  uint64_t most_ = left_;
};

}  // namespace

Answer<std::string> write_archive(const std::vector<ArchiveEntry>& entries) {
  std::string bytes;
  const Archive archive(archive_write_new());
  const std::unique_ptr<struct archive_entry, FreeEntry> entry(archive_entry_new());
  bool ok = archive != nullptr && entry != nullptr &&
            archive_write_set_format_pax_restricted(archive.get()) == ARCHIVE_OK &&
            archive_write_open(archive.get(), &bytes, nullptr, &append, nullptr) == ARCHIVE_OK;
  for (const ArchiveEntry& each : entries) {
    if (!ok) break;
    archive_entry_clear(entry.get());
    archive_entry_set_pathname(
        entry.get(), (each.name + (each.is_directory ? "/" : "")).c_str());  // bytes, whatever the locale
    const bool is_link = !each.target.empty();
    archive_entry_set_filetype(entry.get(), each.is_directory ? AE_IFDIR : is_link ? AE_IFLNK : AE_IFREG);
    if (is_link) archive_entry_set_symlink(entry.get(), each.target.c_str());
    archive_entry_set_perm(entry.get(), each.mode != 0 ? each.mode : each.is_directory ? 0755 : 0644);
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(each.bytes.size()));
    archive_entry_set_mtime(entry.get(), each.modified_s, 0);
    ok = archive_write_header(archive.get(), entry.get()) >= ARCHIVE_WARN &&
         archive_write_data(archive.get(), each.bytes.data(), each.bytes.size()) ==
             static_cast<la_ssize_t>(each.bytes.size());
  }
  if (ok && archive_write_close(archive.get()) == ARCHIVE_OK) return bytes;
  return refuse(ApiCode::kInternal, "the archive could not be written");
}

namespace {

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes), archive_(archive_read_new()) {}

  Answer<std::vector<ArchiveEntry>> read() {
    struct archive* const archive = archive_.get();
    if (archive == nullptr) return refuse(ApiCode::kInternal, "the archive could not be read");
    archive_read_support_format_tar(archive);
    if (archive_read_open(archive, &bytes_, nullptr, &Decompressed::read, nullptr) != ARCHIVE_OK)
      return std::unexpected(bytes_.error(archive));
    while (true) {
      struct archive_entry* entry = nullptr;
      bytes_.expect_header();
      const int got = archive_read_next_header(archive, &entry);
      if (got == ARCHIVE_EOF) return std::move(entries_);
      if (got < ARCHIVE_WARN) return std::unexpected(bytes_.error(archive));
      bytes_.expect_contents();
      if (auto added = add(entry); !added) return std::unexpected(added.error());
      if (archive_read_data_skip(archive) < ARCHIVE_WARN) return std::unexpected(bytes_.error(archive));
    }
  }

 private:
  Answer<void> add(struct archive_entry* entry) {
    const char* raw = archive_entry_pathname_utf8(entry);  // null for bytes that are not UTF-8
    if (raw == nullptr) raw = archive_entry_pathname(entry);
    if (raw == nullptr) raw = "/";
    if (std::string_view(raw).size() > kMostNameBytes) return std::unexpected(too_long());
    const auto name = relative_name(raw);
    const auto type = archive_entry_filetype(entry);
    const bool is_known =
        archive_entry_hardlink(entry) != nullptr || type == AE_IFREG || type == AE_IFDIR || type == AE_IFLNK;
    if (!name || !is_known)
      return std::unexpected(
          no_entry("Names are relative and have no \"..\"; devices and pipes are not supported."));
    if (entries_.size() == kMostArchiveEntries || name->size() > left_) return std::unexpected(too_large());
    left_ -= name->size();
    ArchiveEntry made = {.name = *name,
                         .is_directory = archive_entry_hardlink(entry) == nullptr && type == AE_IFDIR,
                         .bytes = {},
                         .modified_s = archive_entry_mtime(entry),
                         .mode = static_cast<uint32_t>(archive_entry_perm(entry)) & kModeBits};
    if (auto filled = fill(made, entry); !filled) return filled;
    if (made.bytes.size() > left_ || made.target.size() > left_ - made.bytes.size())
      return std::unexpected(too_large());
    left_ -= made.bytes.size() + made.target.size();
    if (name->empty()) return {};
    by_name_.try_emplace(*name, entries_.size());
    entries_.push_back(std::move(made));
    return {};
  }

  // Gives it its bytes, or its target.
  Answer<void> fill(ArchiveEntry& made, struct archive_entry* entry) {
    if (const char* const other = archive_entry_hardlink(entry)) {
      const auto first = std::string_view(other).size() > kMostNameBytes
                             ? by_name_.end()
                             : by_name_.find(relative_name(other).value_or(""));
      if (first == by_name_.end() || entries_[first->second].is_directory)
        return std::unexpected(no_entry("A hard link must follow its file."));
      const ArchiveEntry& file = entries_[first->second];
      if (file.bytes.size() > left_) return std::unexpected(too_large());
      made.bytes = file.bytes;
      made.target = file.target;
    } else if (archive_entry_filetype(entry) == AE_IFLNK) {
      const char* const target = archive_entry_symlink(entry);
      if (target == nullptr || *target == '\0')
        return std::unexpected(no_entry("A symbolic link needs a target."));
      if (std::string_view(target).size() > kMostNameBytes) return std::unexpected(too_long());
      made.target = target;
    } else {
      auto contents = read_bytes();
      if (!contents) return std::unexpected(contents.error());
      made.bytes = *std::move(contents);
    }
    return {};
  }

  // The contents of the entry whose header was read last.
  Answer<std::string> read_bytes() {
    std::string bytes;
    while (true) {
      const void* piece = nullptr;
      size_t size = 0;
      la_int64_t offset = 0;
      const int got = archive_read_data_block(archive_.get(), &piece, &size, &offset);
      if (got == ARCHIVE_EOF) return bytes;
      if (got != ARCHIVE_OK) return std::unexpected(bytes_.error(archive_.get()));
      if (offset < 0 || static_cast<uint64_t>(offset) > left_ || size > left_ - static_cast<uint64_t>(offset))
        return std::unexpected(too_large());
      bytes.resize(std::max<size_t>(bytes.size(), static_cast<size_t>(offset)));  // holes
      bytes.append(static_cast<const char*>(piece), size);
    }
  }

  Decompressed bytes_;
  const Archive archive_;
  std::vector<ArchiveEntry> entries_;
  std::unordered_map<std::string, size_t> by_name_;  // their places
  uint64_t left_ = kMostArchiveBytes;                // of names, targets and contents
};

}  // namespace

Answer<std::vector<ArchiveEntry>> read_archive(std::string_view bytes) {
  if (bytes.find_first_not_of('\0') == std::string_view::npos)
    return std::vector<ArchiveEntry>();  // its end, and nothing before
  return Reader(bytes).read();
}

Answer<std::string> pack_files(Guest& guest, const std::string& context, const std::string& directory) {
  const auto facts = guest.act_on_files(context, {wasi::FileAct::kList, directory, "", true});
  if (!facts) return std::unexpected(facts.error());
  std::string base = directory;
  while (base.ends_with('/')) base.pop_back();
  const bool has_modes = guest.kind() == Kind::kLinux;
  std::vector<ArchiveEntry> entries;
  uint64_t left = kMostArchiveBytes;
  for (const wasi::FileFact& fact : *facts) {
    const bool is_directory = fact.type == wasi::FileType::kDirectory;
    const bool is_link = has_modes && fact.type == wasi::FileType::kSymbolicLink;
    if (!is_directory && !is_link && fact.type != wasi::FileType::kRegularFile) continue;
    if (entries.size() == kMostArchiveEntries || fact.size_bytes > left) return std::unexpected(too_large());
    ArchiveEntry entry{fact.path.substr(base.size() + 1),
                       is_directory,
                       {},
                       static_cast<int64_t>(fact.modified_ns / 1'000'000'000)};
    if (has_modes) {
      const auto found = guest.stat_file(fact.path, false);
      if (!found && found.error().code == ApiCode::kNotFound) continue;  // gone by now
      if (!found) return std::unexpected(found.error());
      entry.mode = found->mode & kModeBits;
      if (is_link) entry.target = found->target;
    }
    if (!is_directory && !is_link) {
      auto bytes = guest.read_file(context, fact.path);
      if (!bytes) return std::unexpected(bytes.error());
      left -= bytes->size();
      entry.bytes = *std::move(bytes);
    }
    entries.push_back(std::move(entry));
  }
  return write_archive(entries);
}

namespace {

// Nothing is written through a link.
Answer<void> remove_link(Guest& guest, const std::string& context, const std::string& path) {
  const auto facts = guest.stat_file(path, false);
  if (!facts || facts->target.empty()) return {};
  const auto removed = guest.act_on_files(context, {wasi::FileAct::kRemove, path, "", false});
  if (!removed) return std::unexpected(removed.error());
  return {};
}

}  // namespace

Answer<void> unpack_files(Guest& guest, const std::string& context, const std::string& directory,
                          std::string_view archive) {
  const auto entries = read_archive(archive);
  if (!entries) return std::unexpected(entries.error());
  const bool has_modes = guest.kind() == Kind::kLinux;
  if (!has_modes && std::ranges::any_of(*entries, [](const auto& each) { return !each.target.empty(); }))
    return std::unexpected(no_entry("Only Linux sandboxes have symbolic links."));
  const auto make_directory = [&](const std::string& path) {
    return guest.act_on_files(context, {wasi::FileAct::kMakeDirectory, path, "", false});
  };
  std::string base = directory;
  while (base.ends_with('/')) base.pop_back();
  if (const auto made = make_directory(directory); !made) return std::unexpected(made.error());
  for (const ArchiveEntry& entry : *entries) {
    const std::string path = base + "/" + entry.name;
    if (!entry.target.empty()) {
      if (auto made = guest.make_link(path, entry.target); !made) return made;
      continue;
    }
    if (has_modes && !entry.is_directory)
      if (auto removed = remove_link(guest, context, path); !removed) return removed;
    if (!entry.is_directory) {
      if (auto written = guest.write_file(context, path, entry.bytes); !written) return written;
    } else if (const auto made = make_directory(path); !made) {
      return std::unexpected(made.error());
    }
  }
  if (!has_modes) return {};
  for (const ArchiveEntry& entry : *entries | std::views::reverse)  // a directory may forbid what is in it
    if (entry.target.empty() && entry.mode != 0)
      if (auto set = guest.set_mode(base + "/" + entry.name, entry.mode); !set) return set;
  return {};
}

}  // namespace membrane::service
