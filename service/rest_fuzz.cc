// REST requests: a method and a target, and then a body for the operation that they name. They are refused,
// or match the document; a policy in a body is parsed too.
//
// The form: "POST /v1/sandboxes
// " and the body.

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "base/json.h"
#include "service/client_policy.h"
#include "service/documents.h"
#include "service/environments.h"
#include "service/operations.h"

namespace membrane::service {
namespace {

const Operations& operations() {
  static const auto kRead = Operations::read(kOpenApiDocument, kReportSchema);
  if (!kRead) std::abort();
  return *kRead;
}

void read_policies(const nlohmann::json& body, bool is_policy) {
  for (const bool is_owner : {false, true}) {
    const policy::Limits usual;
    if (is_policy) static_cast<void>(read_client_policy(body, usual, is_owner));
    else if (body.contains("policy")) static_cast<void>(read_client_policy(body["policy"], usual, is_owner));
  }
}

}  // namespace
}  // namespace membrane::service

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace membrane::service;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(text.find('\n'), text.size());
  const size_t blank = std::min(text.find(' '), line);
  Request request;
  request.method = std::string(text.substr(0, blank));
  request.target = std::string(text.substr(std::min(blank + 1, line), line - std::min(blank + 1, line)));
  request.body = std::string(text.substr(std::min(line + 1, size)));
  if (!read_target(request)) return 0;
  const Operations::Match match = operations().match(request.method, request.segments);
  if (match.operation == nullptr || !operations().check_query(*match.operation, request)) return 0;
  if (match.operation->body != BodyForm::kJson) return 0;
  const auto body = operations().read_body(*match.operation, request);
  if (!body || !body->is_object()) return 0;
  read_policies(*body, match.operation->id == "setPolicy");
  if (body->contains("env")) static_cast<void>(check_environment((*body)["env"].get<Environment>()));
  return 0;
}
