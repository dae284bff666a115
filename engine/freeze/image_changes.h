// What an instance has changed since the image that it began with, as bytes: of its memories only the bytes that differ;
// of its tables, globals and segments those that do. Read back, they are an image that differs from the first one in the
// same places, and whose instances touch no other pages.
//
//   auto kept = write_changes(**InstanceImage::capture(instance, Keep::kChanges), *began_with);
//   auto image = read_changes(*kept, *began_with, limits);    // maybe in another process
//
// The bytes are in docs/session-format.md. They have neither a checksum nor a version of their own, and do not say which
// image they are of: that is for the caller (InstanceImage::identity()).
//
// The reader trusts nothing: bytes that were cut, damaged or forged are refused, or are a state that the module's own
// types allow. Nothing is allocated by what a count says, only by what is there: a few times the size of the bytes, and
// the tables, which the limits bound.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/freeze/instance_image.h"

namespace membrane::engine {

// `of` is whole, and both are of the same CompiledModule. Errors: kUnsupported for references that are no functions of
// the module; kInvalidArgument for images of different modules.
Result<std::vector<uint8_t>> write_changes(const InstanceImage& image, const InstanceImage& of);

// `of` is the image that the bytes were made from, or one with the same identity. Errors: kInvalidInput for what cannot
// be changes of it; kExhausted for tables beyond the limits. (A memory beyond them is refused by instantiate().)
Result<std::shared_ptr<const InstanceImage>> read_changes(std::span<const uint8_t> bytes,
                                                          const InstanceImage& of,
                                                          const InstanceLimits& limits);

}  // namespace membrane::engine
