// The images that are kept on this machine, by their names: one file each (layer.h) in the directory $MEMBRANE_IMAGES, else
// $XDG_DATA_HOME/membrane/images, else ~/.local/share/membrane/images; also, to be read only, in share/membrane/images beside the
// program's directory.
//
// Threads: pure; the environment must not change meanwhile. Two that import one name at a time leave one of the two, whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "linux/image/config.h"

namespace membrane::linux {

struct StoredImage {
  std::string name, path;
  uint64_t size_bytes = 0;
  std::string digest = {};  // SHA-256 in hex, of its files and its configuration
  int64_t made_s = 0;       // since 1970: when its file was written
  ImageConfig config;
};

// Letters, digits, '.', '_', '-', ':', at most 128 of them, and a letter or digit first: "debian", "python:3.12".
bool is_image_name(std::string_view name);

// With a '/' in it, it is the path of an image's file. Errors: kNotFound; kInvalidArgument for what is no name; kInvalidInput for a
// file that is no image.
Result<StoredImage> find_image(const std::string& name_or_path);
// By name. What is no image is left out.
Result<std::vector<StoredImage>> list_images();
// It has no name any more, but stays for sandboxes that began with it until prune_images(). Errors: kNotFound, also for one that is not in
// the user's own directory.
Status remove_image(const std::string& name);
// The same before another file takes that path. Nothing where no image is there.
void retire_image(const std::string& path);
// Whether the store keeps images at such a path: for one that was named by somebody who is not trusted.
bool may_be_image(const std::string& path);
// Where the image with that digest is that was at the path: there, or among those that were removed or replaced since; the path when it is
// nowhere.
std::string path_of_image(const std::string& path, std::string_view digest);
struct PrunedImages {
  size_t files = 0;
  uint64_t bytes = 0;  // that are free now
};
// Those that were removed or replaced are gone. Errors: kUnavailable.
Result<PrunedImages> prune_images();
// Takes what is at the path for what it looks like: a tar archive of a file system, an archive by `docker save`, an OCI layout as an
// archive or a directory, an image's file, or else a directory whose files are taken; archives may be compressed. Replaces an
// image of that name. What is in the directory is root's, unless root asks. Errors: kInvalidArgument, kInvalidInput, kNotFound,
// kTooLong, kUnavailable.
Result<StoredImage> import_image(const std::string& path, const std::string& name);
// Where an image of that name is kept, for one who writes it: in the user's own directory, which is made. Errors: kInvalidArgument;
// kUnavailable.
Result<std::string> path_of_new_image(const std::string& name);
// The image's files as a tar archive.
Status export_image(const std::string& name, const std::string& archive);

}  // namespace membrane::linux
