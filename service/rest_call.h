// One validated REST request until its answer, and what handlers use.
//
// Threads: a Call is constant; answers come from any.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "service/audit.h"
#include "service/errors.h"
#include "service/http.h"
#include "service/sandboxes.h"
#include "service/secrets.h"
#include "service/tokens.h"

namespace membrane::service {

struct Call {
  Request request;
  Caller caller;
  std::vector<std::pair<std::string, std::string>> parameters;  // of the path
  nlohmann::json body;
  Reply reply;

  [[nodiscard]] Actor actor() const { return {caller.tenant, caller.token_id, request.request_id}; }
  [[nodiscard]] const std::string& parameter(std::string_view name) const {
    return std::ranges::find(parameters, name, &std::pair<std::string, std::string>::first)->second;
  }
  // "" when it is absent.
  [[nodiscard]] std::string query(std::string_view name) const {
    return std::string(request.query_value(name).value_or(""));
  }
  void answer(int status, const nlohmann::ordered_json& json) const {
    reply(json_response(status, json_text(json)));
  }
  void answer_nothing() const { reply({.status = 204}); }
  void refuse(const ApiError& error) const { reply(error_response(error, request.request_id)); }
};
using SharedCall = std::shared_ptr<const Call>;
using Handler = std::function<void(const SharedCall&)>;
using Handlers = std::map<std::string_view, Handler>;  // by operationId

template <typename T>
std::optional<T> optional_at(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  if (found == json.end()) return std::nullopt;
  return found->get<T>();
}

nlohmann::ordered_json to_json(const SandboxInfo& info);
// With the ETag.
void answer_sandbox(const SharedCall& call, int status, const Answer<SandboxInfo>& info);
inline void answer_done(const SharedCall& call, const Answer<void>& done) {
  if (done) call->answer_nothing();
  else call->refuse(done.error());
}
Response event_stream(std::shared_ptr<BodySource> source);

// Each adds the handlers of its operations; the arguments are borrowed.
void add_lifecycle_handlers(Handlers& handlers, Sandboxes& sandboxes, Secrets& secrets);
void add_file_handlers(Handlers& handlers, Sandboxes& sandboxes);
// `audit` may be null.
void add_receipt_handlers(Handlers& handlers, Sandboxes& sandboxes, Audit* audit);
void add_secret_handlers(Handlers& handlers, Sandboxes& sandboxes, Secrets& secrets);

}  // namespace membrane::service
