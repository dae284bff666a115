// What a Linux sandbox is made of, as receipts tell it (sandbox/receipt_content.h).
//
// Threads: any.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "linux/abi/determinism.h"
#include "linux/image/store.h"

namespace membrane::computers {

// Which file an image is, to tell it from another one that has its place later; "" for one that is not there.
std::string mark_of(const linux::StoredImage& image);
// Reads the whole image, once for each file that it is (image_digests.h). Errors: kUnavailable for one that cannot be read, or without libcrypto;
// kNotFound when it is not the file of `mark` any more.
Result<std::string> sha256_of(const linux::StoredImage& image, const std::string& mark);
// sandbox::describe_computer() of a sandbox that began with the image. Errors: those of sha256_of().
Result<std::string> description_of(const linux::StoredImage& image, const std::string& mark,
                                   const std::string& platform, const std::string& directory,
                                   const std::optional<linux::Determinism>& deterministic);

}  // namespace membrane::computers
