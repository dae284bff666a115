// The description of a Linux sandbox in receipts (sandbox/receipt_content.h).
//
// Threads: any.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "linux/abi/determinism.h"
#include "linux/image/store.h"

namespace membrane::computers {

// Identifies an image's file, so that a later file at the same path can be told from it; "" if it does not
// exist.
std::string mark_of(const linux::StoredImage& image);
// Reads the whole image, once for each file (image_digests.h). Errors: kUnavailable if it cannot be read, or
// without libcrypto; kNotFound when it is no longer the file of `mark`.
Result<std::string> sha256_of(const linux::StoredImage& image, const std::string& mark);
// sandbox::describe_computer() for a sandbox that began with the image. Errors: those of sha256_of().
Result<std::string> description_of(const linux::StoredImage& image, const std::string& mark,
                                   const std::string& platform, const std::string& directory,
                                   const std::optional<linux::Determinism>& deterministic);

}  // namespace membrane::computers
