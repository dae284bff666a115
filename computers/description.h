// What a Linux sandbox is made of, as receipts tell it (sandbox/receipt_content.h).
//
// Threads: pure.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "linux/abi/determinism.h"
#include "linux/image/store.h"

namespace membrane::computers {

// Reads the whole image once. Errors: kUnavailable for one that cannot be read, or without libcrypto.
Result<std::string> sha256_of(const linux::StoredImage& image);
// sandbox::describe_computer() of a sandbox that began with the image.
Result<std::string> description_of(const linux::StoredImage& image, const std::string& platform,
                                   const std::string& directory,
                                   const std::optional<linux::Determinism>& deterministic);

}  // namespace membrane::computers
