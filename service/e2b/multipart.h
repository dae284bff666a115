// Parses multipart/form-data (RFC 7578), the format of uploads.
//
// Threads: pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "service/errors.h"

namespace membrane::service::e2b {

struct FormPart {
  std::string name;
  std::string file_name;  // as the client wrote it; "" when it has none
  std::string_view bytes;
};

// The parts of a body, which they point into. `content_type` names the boundary. Errors: kInvalidRequest;
// kTooLarge for more than kMostParts.
inline constexpr size_t kMostParts = 1'000;
Answer<std::vector<FormPart>> read_form(std::string_view content_type, std::string_view body);

}  // namespace membrane::service::e2b
