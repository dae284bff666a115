// The images that are stored on this machine, by name: one file each (layer.h) in the directory
// $MEMBRANE_IMAGES, else $XDG_DATA_HOME/membrane/images, else ~/.local/share/membrane/images; in addition,
// read-only, in share/membrane/images next to the program's directory.
//
// Threads: pure; the environment must not change meanwhile. Two concurrent imports of one name leave one of
// the two, complete.
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
  std::string digest = {};  // SHA-256 in hex, of its files and configuration
  int64_t made_s = 0;       // since 1970: when its file was written
  ImageConfig config;
};

// Letters, digits, '.', '_', '-', ':', at most 128 of them, and a letter or digit first: "debian", "python:3.12".
bool is_image_name(std::string_view name);

// A name with a '/' in it is the path of an image's file. Errors: kNotFound; kInvalidArgument for an invalid
// name; kInvalidInput for a file that is not an image.
Result<StoredImage> find_image(const std::string& name_or_path);
// Sorted by name. Files that are not images are left out.
Result<std::vector<StoredImage>> list_images();
// Removes the name; the image stays for sandboxes that started from it until prune_images(). Errors:
// kNotFound, also for an image outside the user's own directory.
Status remove_image(const std::string& name);
// Does the same before another file takes that path. Does nothing if the path has no image.
void retire_image(const std::string& path);
// Whether the store could hold an image at such a path; for paths from untrusted callers.
bool may_be_image(const std::string& path);
// Finds the image with that digest that was at the path: there, or among those that were removed or replaced
// since. Returns the path when it is not found.
std::string path_of_image(const std::string& path, std::string_view digest);
struct PrunedImages {
  size_t files = 0;
  uint64_t bytes = 0;  // freed
};
// Deletes the images that were removed or replaced. Errors: kUnavailable.
Result<PrunedImages> prune_images();
// Imports the path as what it looks like: a tar archive of a file system, an archive by `docker save`, an OCI
// layout as an archive or a directory, an image's file, or else a directory whose files are imported;
// archives may be compressed. Replaces an image of that name. Files from a directory belong to root, unless
// root imports them. Errors: kInvalidArgument, kInvalidInput, kNotFound, kTooLong, kUnavailable.
Result<StoredImage> import_image(const std::string& path, const std::string& name);
// The path at which to write an image of that name: in the user's own directory, which is created. Errors:
// kInvalidArgument; kUnavailable.
Result<std::string> path_of_new_image(const std::string& name);
// Exports the image's files as a tar archive.
Status export_image(const std::string& name, const std::string& archive);

}  // namespace membrane::linux
