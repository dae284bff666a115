// The operations of the REST interface, from one description: openapi.json. The router, the required scopes,
// the schemas of bodies and parameters, and the published document all derive from it.
//
// The document has one extension field of Membrane's: "x-most-body-bytes", how large a body may be.
//
// Threads: constant once read.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "service/errors.h"
#include "service/http.h"

namespace membrane::service {

enum class BodyForm : uint8_t { kNone, kJson, kBytes };

struct Operation {
  std::string id;  // "createSandbox"
  std::string method;
  std::string path;  // "/v1/sandboxes/{sandbox}"
  // The scope that a token needs: "sandboxes:write". Nothing: anybody may; "": any token.
  std::optional<std::string> scope;
  BodyForm body = BodyForm::kNone;
  bool needs_body = false;
  uint64_t most_body_bytes = 0;  // also for kNone, so that an unexpected body can be answered
  size_t number = 0;             // among the operations
};

class Operations {
 public:
  // Errors: kInvalidInput for a document that uses unsupported features.
  static Result<Operations> read(std::string_view openapi, std::string_view report_schema);
  Operations(Operations&&) noexcept;
  ~Operations();

  [[nodiscard]] const std::vector<Operation>& all() const;

  struct Match {
    const Operation* operation = nullptr;                         // null: none
    std::vector<std::pair<std::string, std::string>> parameters;  // path parameters, by name
    std::string allowed_methods;  // for the path: "GET, POST"; "" when there is no such path
  };
  [[nodiscard]] Match match(std::string_view method, const std::vector<std::string>& segments) const;

  // Checks that query parameters are known, unique and valid. Errors: kInvalidRequest, kInvalidValue.
  [[nodiscard]] Answer<void> check_query(const Operation& operation, const RequestHead& head) const;
  // The checked body of an operation that takes JSON; null when there is none and none is needed, and for an
  // operation without a body, to which clients send "" or {}. Errors: kInvalidRequest for anything but JSON,
  // and for an unexpected body; kUnsupportedMediaType; kInvalidValue with the field's name.
  [[nodiscard]] Answer<nlohmann::json> read_body(const Operation& operation, const Request& request) const;

  // The published document, with the report's schema in it.
  [[nodiscard]] const std::string& document() const;

 private:
  struct Impl;
  explicit Operations(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace membrane::service
