#include "face/policy.h"

#include "face/convert.h"

namespace membrane {

using face::failure_of;

std::string_view version() { return MEMBRANE_VERSION; }

// -- Policy -------------------------------------------------------------------------------------

Policy::Policy() : state_(std::make_unique<State>()) {}
Policy::Policy(std::unique_ptr<State> state) : state_(std::move(state)) {}
Policy Policy::for_languages() {
  Policy made;
  made.state_->policy.limits = policy::language_limits();
  return made;
}
Policy::Policy(const Policy& other) : state_(std::make_unique<State>(*other.state_)) {}
// A policy that was moved from is empty, and safe to use.
Policy::Policy(Policy&& other) noexcept : state_(std::exchange(other.state_, std::make_unique<State>())) {}
Policy& Policy::operator=(Policy other) {
  std::swap(state_, other.state_);
  return *this;
}
Policy::~Policy() = default;

Expected<Policy> Policy::parse(std::string_view text, std::string_view name) {
  return parse(text, name, Policy());
}

Expected<Policy> Policy::parse(std::string_view text, std::string_view name, const Policy& unless_given) {
  auto parsed = policy::parse_policy(text, name, unless_given.state().policy.limits);
  if (!parsed) return std::unexpected(failure_of(parsed.error()));
  Policy made;
  made.state_->policy = std::move(*parsed);
  return made;
}

Expected<Policy> Policy::load(const std::string& path) {
  auto loaded = policy::load_policy(path);
  if (!loaded) return std::unexpected(failure_of(loaded.error()));
  Policy made;
  made.state_->policy = std::move(*loaded);
  return made;
}

Expected<void> Policy::allow(std::string_view grant) {
  if (auto done = policy::allow(state_->policy, grant); !done) {
    Failure failure = failure_of(done.error());
    constexpr std::string_view kFlag = "--allow";  // the command's
    if (failure.message.starts_with(kFlag)) failure.message.replace(0, kFlag.size(), "allow");
    return std::unexpected(std::move(failure));
  }
  return {};
}

Expected<void> Policy::limit(std::string_view name, std::string_view value) {
  if (auto done = policy::set_limit(state_->policy.limits, name, value); !done)
    return std::unexpected(failure_of(done.error()));
  return {};
}

std::string Policy::explain() const { return policy::explain(state_->policy); }
std::string Policy::to_json() const { return policy::to_json(state_->policy); }

// -- Budget -------------------------------------------------------------------------------------

Budget::Budget(const Policy& policy)
    : state_(std::make_shared<State>(std::make_shared<policy::Budget>(policy.state().policy.limits))) {}

uint64_t Budget::fuel_left() const { return state_->budget->left(policy::Resource::kFuel); }
uint64_t Budget::host_calls_left() const { return state_->budget->left(policy::Resource::kHostCalls); }
uint64_t Budget::wall_left_ms() const { return state_->budget->wall_left_ms(); }

}  // namespace membrane
