// Images made by other programs: an OCI layout, or the output of `docker save`. Each is a directory or an
// archive of files; an archive of a newer Docker is both.
//
// Threads: pure.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "linux/image/blob.h"
#include "linux/image/config.h"
#include "linux/image/layer_writer.h"

namespace membrane::linux {

// The files of an image, by their paths. No path leads out of them.
class ImageFiles {
 public:
  virtual ~ImageFiles() = default;
  [[nodiscard]] virtual bool has(const std::string& path) const = 0;
  // Errors: kInvalidInput when it is not there.
  [[nodiscard]] virtual Result<Blob> open(const std::string& path) const = 0;
};

// Those in a directory.
std::unique_ptr<ImageFiles> files_of_directory(const std::string& directory);
// The files in a tar archive, compressed or not, stored in the spool. Errors: those of reading it; kTooLong.
Result<std::unique_ptr<ImageFiles>> files_of_archive(const Blob& archive, const std::shared_ptr<Spool>& spool,
                                                     const LayerLimits& limits = {});
// Whether an archive contains an image's files rather than a file system, judged by its first names.
Result<bool> is_image_archive(const Blob& archive);

struct FoundImage {
  std::vector<Blob> layers;  // tar archives, lowest first
  ImageConfig config;
};

bool is_oci(const ImageFiles& files);
bool is_docker(const ImageFiles& files);
// Of several images, selects the one with that name (Docker's tag or its annotation), for linux/amd64.
// Digests are checked. Errors: kInvalidInput, kNotFound, kUnsupported when all images are for other machines.
Result<FoundImage> read_oci(const ImageFiles& files, const std::string& name);
Result<FoundImage> read_docker(const ImageFiles& files, const std::string& name);

}  // namespace membrane::linux
