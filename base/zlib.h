// Compressing bytes in zlib's form (RFC 1950), by zlib, which is loaded at the first use.
//
// Threads: any.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace membrane {

// Errors: kUnavailable when zlib is not installed.
Result<std::string> compress_bytes(std::string_view bytes);
// Decompresses data that must be exactly `bytes` long. Errors: also kInvalidInput.
Result<std::string> decompress_bytes(std::string_view compressed, size_t bytes);

}  // namespace membrane
