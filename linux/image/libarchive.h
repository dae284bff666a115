// libarchive, loaded when the first archive needs it: the command starts without it, and runs where it is not installed.
//
//   MEMBRANE_TRY(load_libarchive());
//   struct archive* reader = libarchive().archive_read_new();
//
// Types and constants come from its headers, which cost nothing. Threads: any; the table is immutable.
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include "base/result.h"

namespace membrane::linux {

// X(function): every function that the project calls.
#define MEMBRANE_ARCHIVE_FUNCTIONS(X)        \
  X(archive_entry_clear)                     \
  X(archive_entry_copy_hardlink)             \
  X(archive_entry_copy_pathname)             \
  X(archive_entry_copy_symlink)              \
  X(archive_entry_filetype)                  \
  X(archive_entry_free)                      \
  X(archive_entry_gid)                       \
  X(archive_entry_hardlink)                  \
  X(archive_entry_hardlink_utf8)             \
  X(archive_entry_mtime)                     \
  X(archive_entry_mtime_nsec)                \
  X(archive_entry_new)                       \
  X(archive_entry_pathname)                  \
  X(archive_entry_pathname_utf8)             \
  X(archive_entry_perm)                      \
  X(archive_entry_rdevmajor)                 \
  X(archive_entry_rdevminor)                 \
  X(archive_entry_set_gid)                   \
  X(archive_entry_set_mode)                  \
  X(archive_entry_set_mtime)                 \
  X(archive_entry_set_rdev)                  \
  X(archive_entry_set_size)                  \
  X(archive_entry_set_uid)                   \
  X(archive_entry_size)                      \
  X(archive_entry_symlink)                   \
  X(archive_entry_symlink_utf8)              \
  X(archive_entry_uid)                       \
  X(archive_entry_xattr_add_entry)           \
  X(archive_entry_xattr_next)                \
  X(archive_entry_xattr_reset)               \
  X(archive_error_string)                    \
  X(archive_free)                            \
  X(archive_read_data_block)                 \
  X(archive_read_new)                        \
  X(archive_read_next_header)                \
  X(archive_read_open1)                      \
  X(archive_read_open_memory)                \
  X(archive_read_set_callback_data)          \
  X(archive_read_set_read_callback)          \
  X(archive_read_set_seek_callback)          \
  X(archive_read_set_skip_callback)          \
  X(archive_read_support_filter_bzip2)       \
  X(archive_read_support_filter_gzip)        \
  X(archive_read_support_filter_xz)          \
  X(archive_read_support_filter_zstd)        \
  X(archive_read_support_format_empty)       \
  X(archive_read_support_format_raw)         \
  X(archive_read_support_format_tar)         \
  X(archive_set_error)                       \
  X(archive_write_close)                     \
  X(archive_write_data)                      \
  X(archive_write_header)                    \
  X(archive_write_new)                       \
  X(archive_write_open)                      \
  X(archive_write_set_format_pax_restricted)

struct LibArchive {
#define X(function) decltype(&::function) function = nullptr;
  MEMBRANE_ARCHIVE_FUNCTIONS(X)
#undef X
};

// Errors: kUnavailable when it is not installed. The same answer each time.
Status load_libarchive();
// After load_libarchive() has succeeded.
const LibArchive& libarchive();

}  // namespace membrane::linux
