// Archives into images and out of them, by libarchive: tar in all its forms, also compressed by gzip, zstd, xz or bzip2.
//
// Threads: pure.
#pragma once

#include <string>

#include "base/result.h"
#include "linux/image/blob.h"
#include "linux/image/layer_writer.h"

namespace membrane::linux {

// Puts what is in an archive into the tree, as a layer over what is there: with the whiteouts of OCI (".wh.NAME" removes a name,
// ".wh..wh..opq" what a directory had). Absolute names begin at the root. Contents come to stand in the spool until the tree
// is written. Errors: kInvalidInput for a damaged archive, for ".." in names, for hard links to nothing; kTooLong past the
// limits; kUnavailable.
Status apply_tar(LayerTree& tree, const Blob& archive, const std::shared_ptr<Spool>& spool,
                 const LayerLimits& limits = {});
// The same with an archive in memory.
Status apply_tar_bytes(LayerTree& tree, std::string_view archive, const std::shared_ptr<Spool>& spool,
                       const LayerLimits& limits = {});
// An image from an archive, over what is in the image `lower` unless that is empty. Gives its digest.
Result<std::string> import_tar(const std::string& archive, const std::string& image,
                               const std::string& lower = "", const LayerLimits& limits = {});
// A tree as an archive in the pax form. The same tree gives the same bytes. Errors: kUnavailable.
Status export_tar(const LayerTree& tree, const std::string& archive);

}  // namespace membrane::linux
