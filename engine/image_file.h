// An instance image in a file, with its module and its machine code, that is mapped and not read: a process has a
// warm interpreter of a hundred megabytes in milliseconds.
//
//   ┌────────┬─────────────────────────────┬────────────────────┬────────┬──────┬────────────┐
//   │ header │ state: tables, globals,     │ of each function:  │ module │ code │ memory 0 … │
//   │        │ segments; the embedder's    │ body, frame, code  │        │      │            │
//   └────────┴─────────────────────────────┴────────────────────┴────────┴──────┴────────────┘
//
// The file is the user's own, closed to others, and of one build of this program; any other is refused. The header and
// the state have a checksum. The rest has none, as no shared library has: it is not read but for what is used. Who can
// write the user's private files is the user.
//
// Threads: any; processes may share a file.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/instance_image.h"

namespace membrane::engine {

// `embedder` is kept and given back. Errors: kUnavailable for what the system refuses; kUnsupported for the image of a
// module that was not read from a binary.
Status write_image_file(const std::string& path, const InstanceImage& image,
                        std::span<const uint8_t> embedder);

struct LoadedImage {
  std::shared_ptr<const InstanceImage> image;
  std::vector<uint8_t> embedder;
};
// Errors: kNotFound when there is no such file, or it is not private; kUnsupported when it is of another build;
// kInvalidInput when it is damaged.
Result<LoadedImage> load_image_file(const std::string& path, Tier tier = Tier::kAuto);

}  // namespace membrane::engine
