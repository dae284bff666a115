// COPY and ADD of a Dockerfile: files from a source into a sandbox, at the paths that Docker would give them.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "computers/source_files.h"
#include "computers/users.h"
#include "linux/image/layer_writer.h"
#include "linux/sandbox/live_computer.h"

namespace membrane::computers {

struct FileCopy {
  std::vector<std::string> sources;  // existing paths (expand_sources())
  std::string to;                    // absolute; with a trailing '/', a directory
  User owner;
  std::optional<uint32_t> mode = {};                      // for files and directories, instead of their own
  bool unpacks = false;                                   // unpack archives, as ADD does
  uint64_t most_bytes = linux::LayerLimits().most_bytes;  // for an archive, and for its contents
  std::function<bool()> is_cancelled = {};                // polled for each piece of a file
};

// A digest of what a copy brings: names, modes, contents. Errors: those of the source; kCancelled.
Result<std::string> digest_of_copy(SourceFiles& from, const FileCopy& copy);

// A directory's contents are copied to `to`; a file is copied to or into it. Errors: those of either side,
// with the path; kUnsupported for devices; kTooLong for an archive past the limit; kCancelled.
Status copy_files(SourceFiles& from, const FileCopy& copy, linux::LiveComputer& to);
// Writes one file from bytes (a here-document).
Status put_file(linux::LiveComputer& to, const std::string& path, std::string_view bytes, uint32_t mode,
                const User& owner);
// The same for bytes that come in pieces; an empty piece ends them.
Status put_pieces(linux::LiveComputer& to, const std::string& path, const linux::LiveComputer::Pieces& next,
                  uint32_t mode, const User& owner);
// Creates a directory and its parents, unless it exists. New directories belong to the owner.
Status make_directories(linux::LiveComputer& to, const std::string& path, uint32_t mode, const User& owner);

}  // namespace membrane::computers
