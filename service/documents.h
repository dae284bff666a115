// Texts that are embedded in the program (tools/embed-text).
//
// Threads: constant.
#pragma once

#include <string_view>

namespace membrane::service {

extern const std::string_view kOpenApiDocument;  // service/openapi.json
extern const std::string_view kReportSchema;     // docs/report.schema.json

}  // namespace membrane::service
