// An instance image in a file, with its module and its machine code, that is mapped and not read: a process has a
// warm interpreter of a hundred megabytes in milliseconds.
//
//   ┌────────┬─────────────────────────────┬────────────────────┬────────┬──────┬────────────┬────────────┐
//   │ header │ state: tables, globals,     │ of each function:  │ module │ code │ attachment │ memory 0 … │
//   │        │ segments; the embedder's    │ body, frame, code  │        │      │            │            │
//   └────────┴─────────────────────────────┴────────────────────┴────────┴──────┴────────────┴────────────┘
//
// The file is the user's own, closed to others, and of one build of this program; any other is refused. Nothing of it is
// used before it was checked: the header and the state have a checksum that every load compares; everything after them
// (tables of functions, module, machine code, attachment, memories) has another, which is compared when the file is loaded for the
// first time since it was written or the system started, together with the bounds of every table. A seal
// (base/sealed_file.h) notes that this was done. Who can write the user's private files is the user.
//
// Threads: any; processes may share a file.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file_mapping.h"
#include "base/result.h"
#include "base/sealed_file.h"
#include "engine/freeze/instance_image.h"

namespace membrane::engine {

// `embedder` and `attachment` are stored, and returned when the file is loaded: `embedder` as a copy, `attachment`
// mapped. Errors: kUnavailable for what the system refuses; kUnsupported for the image of a module that was not read
// from a binary.
Status write_image_file(const std::string& path, const InstanceImage& image,
                        std::span<const uint8_t> embedder, std::span<const uint8_t> attachment = {});

struct LoadedImage {
  std::shared_ptr<const InstanceImage> image;
  std::vector<uint8_t> embedder;
  std::shared_ptr<const FileMapping> attachment;  // null when there is none
};
// Errors: kNotFound when there is no such file, or it is not private; kUnsupported when it is of another build;
// kInvalidInput when it is damaged. `now_ns` is the time since 1970, which decides whether the file is sealed.
Result<LoadedImage> load_image_file(const std::string& path, Tier tier = Tier::kAuto,
                                    int64_t now_ns = real_time_ns());

// Corrects the checksums of an image file that was changed on purpose, so that tests and fuzzers reach the checks
// after them. Errors: kInvalidInput for what is too short to be one.
Status repair_image_checksums(int file);

}  // namespace membrane::engine
