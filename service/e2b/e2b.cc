#include "service/e2b/e2b.h"

#include <algorithm>

#include "base/sha256.h"
#include "service/e2b/handlers.h"
#include "service/rest.h"
#include "service/times.h"

namespace membrane::service::e2b {
namespace {

constexpr std::string_view kSandboxHeader = "E2b-Sandbox-Id";
constexpr uint64_t kMostFileBytes = 64u << 20, kMostBodyBytes = 16u << 20;
constexpr std::string_view kApi[] = {"sandboxes", "v2", "v3", "snapshots", "templates", "volumes", "secrets"};

struct Part {
  std::string_view path;  // the first segment
  void (*handle)(const Service&, const SharedCall&);
};
constexpr Part kParts[] = {{"files", handle_files},
                           {"process.Process", handle_process},
                           {"filesystem.Filesystem", handle_filesystem},
                           {"execute", handle_code},
                           {"contexts", handle_code}};

const Part* part_of(const RequestHead& head) {
  const auto* const found = std::ranges::find_if(
      kParts, [&](const Part& part) { return !head.segments.empty() && head.segments[0] == part.path; });
  return found == std::end(kParts) ? nullptr : found;
}

bool is_api(const RequestHead& head) {
  return !head.segments.empty() && std::ranges::find(kApi, head.segments[0]) != std::end(kApi);
}

bool is_health(const RequestHead& head) { return head.segments.size() == 1 && head.segments[0] == "health"; }

}  // namespace

struct E2b::Impl {
  Impl(Sandboxes& of, Tokens& by) : sandboxes(of), tokens(by) {}

  Sandboxes& sandboxes;
  Tokens& tokens;
  KnownSandboxes known;

  [[nodiscard]] Service service() { return {sandboxes, tokens, known}; }

  // Who may access the sandbox; it may be gone.
  Answer<Caller> authorize(const Known& sandbox, const RequestHead& head) const {
    if (const auto token = head.headers.find("X-Access-Token").value_or(""); !token.empty())
      return authorize_by(sandbox, token);
    if (const auto token = head.headers.find("E2B-Traffic-Access-Token").value_or(""); !token.empty())
      return authorize_by(sandbox, token);
    auto caller = tokens.find(Rest::token_of(head), system_now_ms());
    if (caller && caller->tenant != sandbox.tenant) return refused();
    return caller;
  }
  Answer<Caller> authorize_by(const Known& sandbox, std::string_view token) const {
    const auto hash = sha256_hex(token);
    if (!hash) return std::unexpected(api_error(hash.error()));
    auto caller = sandbox.find_access(*hash);
    if (!caller || !tokens.has(caller->token_id, system_now_ms())) return refused();
    return *std::move(caller);
  }
  static std::unexpected<ApiError> refused() {
    return refuse(ApiCode::kUnauthorized, "the sandbox has no such access token",
                  "Sandbox.connect() returns one for the API key.");
  }

  struct Found {
    Caller caller;
    std::shared_ptr<Known> sandbox;
  };
  // The sandbox that a request names, and the caller; otherwise the answer.
  std::expected<Found, Response> find(const RequestHead& head) {
    const std::string id(head.headers.find(kSandboxHeader).value_or(""));
    if (id.empty())
      return std::unexpected(error_of({ApiCode::kInvalidRequest, "the request names no sandbox",
                                       "Send E2b-Sandbox-Id, as E2B's clients do."}));
    std::shared_ptr<Known> sandbox = known.find(id);
    if (!sandbox) {  // one that was made by another interface, or before the service began
      const auto caller = tokens.find(Rest::token_of(head), system_now_ms());
      if (!caller || !sandboxes.get(caller->tenant, id)) return std::unexpected(gone(id));
      sandbox = known.of(*caller, id);
    }
    const auto info = sandboxes.get(sandbox->tenant, id);
    if (!info) known.forget(id);
    if (!info || info->state == SandboxState::kPaused) return std::unexpected(gone(id));
    auto caller = authorize(*sandbox, head);
    if (!caller) return std::unexpected(error_of(caller.error()));
    return Found{*std::move(caller), std::move(sandbox)};
  }
};

E2b::E2b(Sandboxes& sandboxes, Tokens& tokens) : impl_(std::make_unique<Impl>(sandboxes, tokens)) {}
E2b::~E2b() = default;

bool E2b::serves(const RequestHead& head) const {
  return is_api(head) || part_of(head) != nullptr || head.headers.find(kSandboxHeader).has_value();
}

HttpApplication::Admission E2b::admit(const RequestHead& head) {
  if (is_api(head)) {
    auto caller = impl_->tokens.find(Rest::token_of(head), system_now_ms());
    if (!caller) return {.refusal = error_of(caller.error())};
    return {.most_body_bytes = kMostBodyBytes, .tenant = std::move(caller->tenant)};
  }
  const auto found = impl_->find(head);
  if (!found) return {.refusal = found.error()};
  const Part* const part = part_of(head);
  if (part == nullptr && !is_health(head))
    return {.refusal = error_of(not_here("A port that is reached from outside"))};
  return {
      .most_body_bytes = part != nullptr && part->handle == handle_files ? kMostFileBytes : kMostBodyBytes,
      .tenant = found->caller.tenant};
}

void E2b::handle(Request request, Reply reply) {
  const Service service = impl_->service();
  if (is_api(request)) {
    auto caller =
        impl_->tokens.find(Rest::token_of(request), system_now_ms());  // the body may have taken long
    if (!caller) return reply(error_of(caller.error()));
    return handle_api(service, std::make_shared<const Call>(
                                   Call{std::move(request), *std::move(caller), nullptr, std::move(reply)}));
  }
  auto found = impl_->find(request);
  if (!found) return reply(std::move(found.error()));
  const Part* const part = part_of(request);
  if (part == nullptr) return reply({.status = 204});  // /health
  part->handle(service, std::make_shared<const Call>(Call{std::move(request), std::move(found->caller),
                                                          std::move(found->sandbox), std::move(reply)}));
}

}  // namespace membrane::service::e2b
