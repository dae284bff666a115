// The images of a user, by name: one file each, NAME.image, and what its maker said of it beside, NAME.json. They are in $MEMBRANE_IMAGES,
// else in membrane/images of the user's data directory.
//
// Threads: pure; two processes may use the store at once, since files appear whole.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace membrane::linux {

struct ImageConfig {
  std::vector<std::string> environment;  // NAME=VALUE
  std::vector<std::string> entrypoint, command;
  std::string directory, user;
};

struct StoredImage {
  std::string name, path;
  uint64_t size_bytes = 0;
  ImageConfig config;
};

// By its name, or by the path of an image file. Errors: kNotFound; kInvalidArgument for what is no name.
Result<StoredImage> find_image(const std::string& name_or_path);
// In the order of their names.
Result<std::vector<StoredImage>> list_images();
Status remove_image(const std::string& name);
// From a tarball of a file system, also compressed, or from a directory. Replaces one of the same name. Errors: kNotFound,
// kInvalidInput, kUnavailable.
Result<StoredImage> import_image(const std::string& source, const std::string& name);
Status export_image(const std::string& name, const std::string& archive);

}  // namespace membrane::linux
