// One request of E2B's clients until its answer, and what its handlers share.
//
// Include from .cc files only: the JSON library is slow to compile. Threads: a Call is never changed; any
// thread may send its answers.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "service/e2b/connect.h"
#include "service/e2b/known.h"
#include "service/http.h"
#include "service/sandboxes.h"

namespace membrane::service::e2b {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

// All borrowed.
struct Service {
  Sandboxes& sandboxes;
  Tokens& tokens;
  KnownSandboxes& known;
};

struct Call {
  Request request;
  Caller caller;
  std::shared_ptr<Known> known;  // the requested sandbox; null for requests to the API
  Reply reply;

  [[nodiscard]] Actor actor() const { return {caller.tenant, caller.token_id, request.request_id}; }
  void answer(int status, const OrderedJson& json) const;
  // {"code","message"}, with the status of the error.
  void refuse(const ApiError& error) const;
  // The message alone, which is what the clients show for /execute and /contexts.
  void refuse_in_words(const ApiError& error) const;
};
using SharedCall = std::shared_ptr<const Call>;

// {"code": status, "message": …}
Response error_of(int status, const std::string& message);
Response error_of(const ApiError& error);
// The answer that clients recognise as a missing sandbox.
Response gone(std::string_view sandbox);

// The error for a token without this scope, which the audit log has then.
ApiError noted(const Service& service, const SharedCall& call, const std::string& scope);

// For features that another kind of sandbox has. `what` begins a sentence: "A PTY".
ApiError needs_linux(const std::string& what);
// For features that no sandbox of the service has.
ApiError not_here(const std::string& what);

// The object in a body; {} for an empty one. Errors: kInvalidRequest.
Answer<Json> read_object(std::string_view text);

// The members of an object, by type. An absent or null member gets the default; the first one of another type
// is the problem.
class Fields {
 public:
  explicit Fields(const Json& json) : json_(json) {}

  std::string text(const char* name, std::string absent = {});
  std::optional<std::string> optional_text(const char* name);
  std::optional<uint64_t> number(const char* name, uint64_t most = UINT32_MAX);
  bool flag(const char* name, bool absent = false);
  std::map<std::string, std::string> texts(const char* name);
  std::vector<std::string> list(const char* name);
  Json object(const char* name);
  [[nodiscard]] Answer<void> checked() const;

 private:
  const Json* find(const char* name) const;
  void complain(const char* name, const char* wanted);

  const Json& json_;
  std::string problem_;
};

// A path as a program in the sandbox resolves it: relative paths start at the home directory of E2B's user.
// "." and ".." are removed textually, as E2B's daemon does: "a/../b" is "b", wherever a link "a" leads.
inline constexpr std::string_view kHome = "/home/user";
std::string absolute_path(std::string_view path);

}  // namespace membrane::service::e2b
