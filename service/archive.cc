#include "service/archive.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <ranges>

namespace membrane::service {
namespace {

constexpr uint32_t kModeBits = 07777;

struct FreeArchive {
  void operator()(struct archive* archive) const { archive_free(archive); }
};
using Archive = std::unique_ptr<struct archive, FreeArchive>;
struct FreeEntry {
  void operator()(struct archive_entry* entry) const { archive_entry_free(entry); }
};

ApiError no_archive(struct archive* archive) {
  const char* const why = archive_error_string(archive);
  return {ApiCode::kInvalidValue,
          std::string("the body is not a tar archive: ") + (why == nullptr ? "it is damaged" : why),
          "Send a tar archive, plain or compressed with gzip."};
}

ApiError too_large() {
  return {ApiCode::kTooLarge,
          "the archive has more than " + std::to_string(kMostArchiveBytes >> 20) + " MiB or " +
              std::to_string(kMostArchiveEntries) + " entries",
          "Download it in parts, directory by directory."};
}

ApiError no_entry(const std::string& hint) {
  return {ApiCode::kInvalidValue, "the archive has an entry that is neither a file nor a directory inside it",
          hint};
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

// The bytes of the entry that was read last.
Answer<std::string> read_bytes(struct archive* archive, uint64_t most) {
  std::string bytes;
  while (true) {
    const void* piece = nullptr;
    size_t size = 0;
    la_int64_t offset = 0;
    const int got = archive_read_data_block(archive, &piece, &size, &offset);
    if (got == ARCHIVE_EOF) return bytes;
    if (got != ARCHIVE_OK) return std::unexpected(no_archive(archive));
    if (offset < 0 || static_cast<uint64_t>(offset) > most || size > most - static_cast<uint64_t>(offset))
      return std::unexpected(too_large());
    bytes.resize(std::max<size_t>(bytes.size(), static_cast<size_t>(offset)));  // holes
    bytes.append(static_cast<const char*>(piece), size);
  }
}

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

Answer<std::vector<ArchiveEntry>> read_archive(std::string_view bytes) {
  if (bytes.find_first_not_of('\0') == std::string_view::npos)
    return std::vector<ArchiveEntry>();  // its end, and nothing before
  const Archive archive(archive_read_new());
  if (archive == nullptr) return refuse(ApiCode::kInternal, "the archive could not be read");
  archive_read_support_format_tar(archive.get());
  archive_read_support_filter_gzip(archive.get());
  if (archive_read_open_memory(archive.get(), bytes.data(), bytes.size()) != ARCHIVE_OK)
    return std::unexpected(no_archive(archive.get()));
  std::vector<ArchiveEntry> entries;
  uint64_t left = kMostArchiveBytes;
  while (true) {
    struct archive_entry* entry = nullptr;
    const int got = archive_read_next_header(archive.get(), &entry);
    if (got == ARCHIVE_EOF) return entries;
    if (got < ARCHIVE_WARN) return std::unexpected(no_archive(archive.get()));
    const char* raw = archive_entry_pathname_utf8(entry);  // null for bytes that are not UTF-8
    if (raw == nullptr) raw = archive_entry_pathname(entry);
    const auto name = relative_name(raw == nullptr ? "/" : raw);
    const auto type = archive_entry_filetype(entry);
    const char* const other = archive_entry_hardlink(entry);
    const bool is_known = other != nullptr || type == AE_IFREG || type == AE_IFDIR || type == AE_IFLNK;
    if (!name || !is_known)
      return std::unexpected(
          no_entry("Names are relative and have no \"..\"; devices and pipes are not supported."));
    if (entries.size() == kMostArchiveEntries) return std::unexpected(too_large());
    ArchiveEntry made = {.name = *name,
                         .is_directory = other == nullptr && type == AE_IFDIR,
                         .bytes = {},
                         .modified_s = archive_entry_mtime(entry),
                         .mode = static_cast<uint32_t>(archive_entry_perm(entry)) & kModeBits};
    if (other != nullptr) {
      const auto first = std::ranges::find(entries, relative_name(other).value_or(""), &ArchiveEntry::name);
      if (first == entries.end() || first->is_directory)
        return std::unexpected(no_entry("A hard link must follow its file."));
      if (first->bytes.size() > left) return std::unexpected(too_large());
      made.bytes = first->bytes;
      made.target = first->target;
    } else if (type == AE_IFLNK) {
      const char* const target = archive_entry_symlink(entry);
      if (target == nullptr || *target == '\0')
        return std::unexpected(no_entry("A symbolic link needs a target."));
      made.target = target;
    } else {
      auto contents = read_bytes(archive.get(), left);
      if (!contents) return std::unexpected(contents.error());
      made.bytes = *std::move(contents);
    }
    left -= made.bytes.size();
    if (!name->empty()) entries.push_back(std::move(made));
  }
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
