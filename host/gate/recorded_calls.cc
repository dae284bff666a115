#include "host/gate/recorded_calls.h"

#include <algorithm>

#include "host/broker/decisions.h"
#include "host/gate/flows.h"
#include "policy/budget.h"

namespace membrane::host {
namespace {

using policy::FsMode;

enum class Decision : uint8_t {
  kNothing,
  kHttp,     // method, URL
  kConnect,  // the URL of a TLS host; or a host and port that was not reached
  kLookUp,   // the name of a host
  kMounted,  // a granted directory that was read
  kMountedToWrite,
  kRead,        // a path's status: directories above the grants exist, too
  kLook,        // a path that is only examined: directories above the grants exist, too
  kWrite,       // a path that is written
  kName,        // a path whose name changes: not one that is itself granted
  kTwoNames,    // the same for two paths
  kSymlink,     // the second path becomes a link
  kLink,        // both paths, below a grant with links
  kOpen,        // a path; the mode of opening, as BrokerGate writes it
  kStore,       // the store as a whole
  kKey,         // a key
  kKeyToWrite,  // a key
  kDatabase,    // a name
  kModel,
  kEmbedding,
  kPerson,
};
enum class Price : uint8_t { kHostCall, kPartOfOne, kNothing };
constexpr uint64_t kPartsOfHostCall = 256;

struct Row {
  std::string_view function;
  Decision decision;
  size_t arguments;
  Price price;
};
constexpr Row kRows[] = {
#define RECORDED_CALL(name, decision, arguments, price) {name, Decision::decision, arguments, Price::price},
#include "host/gate/recorded_calls.def"
#undef RECORDED_CALL
};

const Row* find_row(std::string_view function) {
  const auto* const found = std::ranges::find(kRows, function, &Row::function);
  return found == std::end(kRows) ? nullptr : found;
}

}  // namespace

size_t deciding_arguments(std::string_view function) {
  const Row* const row = find_row(function);
  return row == nullptr ? 0 : row->arguments;
}

class CallJudge::Impl {
 public:
  explicit Impl(const policy::Policy& policy) : policy_(policy) {}

  Status prepare() {
    for (const policy::HttpGrant& grant : policy_.http) {
      MEMBRANE_ASSIGN(policy::UrlGrant url, policy::UrlGrant::parse(grant.url));
      http_.push_back({grant, std::move(url)});
    }
    for (const policy::FsGrant& grant : policy_.fs) {
      auto guest = parse_guest_path(grant.guest);
      if (!guest) return fail(ErrorCode::kInvalidArgument, grant.guest + ": " + guest.error().reason);
      fs_.push_back({grant, *std::move(guest)});
    }
    begin_run({});
    return {};
  }

  HostResult<void> decide(const Row& row, const RecordedCall& call);
  HostResult<void> pay(Price price) {
    const bool pays =
        price == Price::kHostCall || (price == Price::kPartOfOne && ++parts_ % kPartsOfHostCall == 0);
    if (!pays || ++calls_ <= policy_.limits.host_calls) return {};
    return refuse(Errno::kBudget, std::string(policy::used_up(policy::Resource::kHostCalls)));
  }
  void begin_run(std::string_view session) {
    calls_ = parts_ = 0;
    const bool goes_on = !session.empty() && session == session_;
    session_ = session;
    if (policy_.trifecta && !goes_on) flows_.emplace(policy_, std::make_shared<Flows>(), nullptr);
  }
  // By the trifecta rule. A call with `made` counts for later ones.
  std::optional<HostError> stop(const RecordedCall& call, bool made) {
    if (!flows_) return std::nullopt;
    flows_->begin_call();
    const std::vector<std::string_view> arguments(call.decided_by.begin(), call.decided_by.end());
    if (!made) return std::nullopt;
    if (auto why = flows_->would_stop(call.function, arguments)) return why;
    for (const HttpHop& hop : call.heard) flows_->hear(hop);
    const HostError error{call.code, std::string(call.reason), {}};
    flows_->note(call.function, arguments,
                 {.error = call.code == Errno::kOk ? nullptr : &error, .final_url = call.final_url});
    return std::nullopt;
  }

 private:
  [[nodiscard]] HostResult<void> check_http(const RecordedCall& call) const;
  [[nodiscard]] HostResult<void> check_connect(std::string_view to) const;
  [[nodiscard]] HostResult<void> check_look_up(std::string_view name) const;
  [[nodiscard]] HostResult<void> check_hops(std::span<const HttpHop> redirected) const;
  HostResult<void> check_fs(std::string_view text, FsMode mode, bool may_be_above = false);
  HostResult<void> check_name(std::string_view text, bool needs_links = false);
  [[nodiscard]] bool is_above_grants(const Components& path) const {
    return std::ranges::any_of(fs_, [&](const FsRule& rule) {
      return rule.guest.size() > path.size() && begins_with(rule.guest, path);
    });
  }

  const policy::Policy policy_;  // the rules refer to it
  std::vector<HttpRule> http_;
  std::vector<FsRule> fs_;
  uint64_t calls_ = 0, parts_ = 0;
  std::optional<FlowGuard> flows_;
  std::string session_;
};

// A URL in which a secret was hidden may no longer be valid.
HostResult<void> CallJudge::Impl::check_hops(std::span<const HttpHop> redirected) const {
  for (const HttpHop& hop : redirected) {
    const auto url = policy::parse_url(hop.url);
    if (!url) continue;
    if (auto rule = find_rule(http_, hop.method, *url, true); !rule) return std::unexpected(rule.error());
  }
  return {};
}

// A malformed URL was refused under any policy.
HostResult<void> CallJudge::Impl::check_http(const RecordedCall& call) const {
  const auto url = policy::parse_url(call.decided_by[1]);
  if (!url) return {};
  if (auto rule = find_rule(http_, call.decided_by[0], *url, false); !rule)
    return std::unexpected(rule.error());
  if (!call.heard.empty()) return check_hops(call.heard.subspan(1));
  if (call.final_url.empty() || call.final_url == url->text()) return {};
  const auto final_url = policy::parse_url(call.final_url);
  if (!final_url) return {};
  // A redirect may have changed the method to GET, which the journal does not show: one of the two must be granted.
  if (find_rule(http_, call.decided_by[0], *final_url, true)) return {};
  if (auto rule = find_rule(http_, "GET", *final_url, true); !rule) return std::unexpected(rule.error());
  return {};
}

HostResult<void> CallJudge::Impl::check_connect(std::string_view to) const {
  if (!to.contains("://")) {
    const auto url = policy::parse_url("http://" + std::string(to) + "/");
    if (!url || reaches(http_, *url, url->port)) return {};
    return std::unexpected(reach_denial(to, false));
  }
  const auto url = policy::parse_url(to);
  if (!url) return {};
  if (auto rule = find_rule(http_, "CONNECT", *url, false); !rule) return std::unexpected(rule.error());
  return {};
}

HostResult<void> CallJudge::Impl::check_look_up(std::string_view name) const {
  const auto url = policy::parse_url("http://" + std::string(name) + "/");
  if (!url || reaches(http_, *url, 0)) return {};
  return std::unexpected(reach_denial(name, true));
}

HostResult<void> CallJudge::Impl::check_fs(std::string_view text, FsMode mode, bool may_be_above) {
  const auto path = parse_guest_path(text);
  if (!path || (may_be_above && is_above_grants(*path))) return {};
  const FsRule* const rule = find_rule(fs_, *path);
  return check_path(rule == nullptr ? nullptr : &rule->grant, *path, mode);
}

HostResult<void> CallJudge::Impl::check_name(std::string_view text, bool needs_links) {
  MEMBRANE_TRY(check_fs(text, FsMode::kWrite));
  const auto path = parse_guest_path(text);
  if (!path) return {};
  const FsRule* const rule = find_rule(fs_, *path);
  if (rule->guest.size() == path->size() || is_above_grants(*path))
    return refuse(Errno::kAccess, guest_text(*path) + " is itself granted; it cannot be moved.");
  if (needs_links && !rule->grant.links)
    return refuse(Errno::kAccess, guest_text(*path) + " cannot be a link: the grant has no links.");
  return {};
}

HostResult<void> CallJudge::Impl::decide(const Row& row, const RecordedCall& call) {
  const auto argument = [&](size_t i) -> std::string_view { return call.decided_by[i]; };
  switch (row.decision) {
    case Decision::kNothing: return {};
    case Decision::kHttp: return check_http(call);
    case Decision::kConnect: return check_connect(argument(0));
    case Decision::kLookUp: return check_look_up(argument(0));
    case Decision::kMounted: return check_fs(argument(0), FsMode::kRead);
    case Decision::kMountedToWrite: return check_fs(argument(0), FsMode::kWrite);
    case Decision::kRead:
    case Decision::kLook: return check_fs(argument(0), FsMode::kRead, true);
    case Decision::kWrite: return check_fs(argument(0), FsMode::kWrite);
    case Decision::kName: return check_name(argument(0));
    case Decision::kTwoNames: {
      auto first = check_name(argument(0));
      return first ? check_name(argument(1)) : first;
    }
    case Decision::kSymlink: return check_name(argument(1), true);
    case Decision::kLink: {
      auto first = check_name(argument(0));
      return first ? check_name(argument(1), true) : first;
    }
    case Decision::kOpen:
      return check_fs(argument(0), argument(1).find_first_of("wct") == std::string_view::npos
                                       ? FsMode::kRead
                                       : FsMode::kWrite);
    case Decision::kStore: return check_kv(policy_);
    case Decision::kKey:
    case Decision::kKeyToWrite: {
      auto may = check_kv(policy_);
      if (may && row.decision == Decision::kKeyToWrite) may = check_writable(*policy_.kv);
      return may ? check_key(*policy_.kv, argument(0)) : may;
    }
    case Decision::kDatabase: {
      const auto found = find_database(policy_, argument(0));
      return found ? HostResult<void>() : std::unexpected(found.error());
    }
    case Decision::kModel: return check_ai(policy_);
    case Decision::kEmbedding: {
      auto may = check_ai(policy_);
      return may ? check_embedding(*policy_.ai) : may;
    }
    case Decision::kPerson: return check_ask(policy_);
  }
  return {};
}

CallJudge::CallJudge(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
CallJudge::CallJudge(CallJudge&& other) noexcept = default;
CallJudge::~CallJudge() = default;

Result<CallJudge> CallJudge::create(const policy::Policy& policy) {
  auto impl = std::make_unique<Impl>(policy);
  MEMBRANE_TRY(impl->prepare());
  return CallJudge(std::move(impl));
}

void CallJudge::begin_run(std::string_view session) { impl_->begin_run(session); }

Result<std::optional<HostError>> CallJudge::judge(const RecordedCall& call) {
  const Row* const row = find_row(call.function);
  if (row == nullptr)
    return fail(ErrorCode::kUnsupported,
                "no policy can decide a call of " + std::string(call.function) + " here",
                "Use the version of Membrane that recorded it, or a newer one.");
  if (call.decided_by.size() < row->arguments)
    return fail(ErrorCode::kInvalidInput,
                "the record of a call of " + std::string(call.function) + " does not say what decides it");
  const bool pays_last = row->decision == Decision::kConnect;  // a refused connection costs nothing
  HostResult<void> may = pays_last ? HostResult<void>() : impl_->pay(row->price);
  if (may) may = impl_->decide(*row, call);
  if (may && pays_last) may = impl_->pay(row->price);
  const bool is_refused = !may && (may.error().code == Errno::kAccess || may.error().code == Errno::kBudget);
  auto stopped = impl_->stop(call, !is_refused);
  return is_refused ? std::optional(may.error()) : stopped;
}

}  // namespace membrane::host
