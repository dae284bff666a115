// Converts archives to images and back with libarchive: tar in all its forms, also compressed with gzip,
// zstd, xz or bzip2.
//
// Threads: pure.
#pragma once

#include <string>

#include "base/result.h"
#include "linux/image/blob.h"
#include "linux/image/layer_writer.h"

namespace membrane::linux {

// Applies an archive to the tree as a layer, with the whiteouts of OCI (".wh.NAME" removes a name,
// ".wh..wh..opq" a directory's earlier contents). Absolute names begin at the root. Contents are stored in
// the spool until the tree is written. Errors: kInvalidInput for a damaged archive, for ".." in names, for
// hard links to missing files; kTooLong past the limits; kUnavailable.
Status apply_tar(LayerTree& tree, const Blob& archive, const std::shared_ptr<Spool>& spool,
                 const LayerLimits& limits = {});
// The same for an archive in memory.
Status apply_tar_bytes(LayerTree& tree, std::string_view archive, const std::shared_ptr<Spool>& spool,
                       const LayerLimits& limits = {});
// Makes an image from an archive, on top of the image `lower` unless that is empty. Returns its digest.
Result<std::string> import_tar(const std::string& archive, const std::string& image,
                               const std::string& lower = "", const LayerLimits& limits = {});
// Writes a tree as an archive in the pax format. The same tree gives the same bytes. Errors: kUnavailable.
Status export_tar(const LayerTree& tree, const std::string& archive);

}  // namespace membrane::linux
