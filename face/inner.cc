#include "face/inner.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "face/policy.h"
#include "face/receipts.h"

namespace membrane::face {

Policy policy_of(policy::Policy policy) { return Policy(std::make_unique<Policy::State>(std::move(policy))); }

Budget budget_of(std::shared_ptr<policy::Budget> budget) {
  return Budget(std::make_shared<Budget::State>(std::move(budget)));
}

Receipts receipts_of(sandbox::ReceiptBook& borrowed) {
  auto state = std::make_shared<Receipts::State>();
  state->book = &borrowed;
  return Receipts(std::move(state));
}

Error error_of(const Failure& failure) {
  constexpr ErrorCode kCodes[] = {
#define X(id, name, sentence) ErrorCode::id,
      MEMBRANE_ERROR_CODES(X)
#undef X
  };
  const auto found = std::ranges::find(kCodes, failure.code, [](ErrorCode code) { return name_of(code); });
  return {found == std::end(kCodes) ? ErrorCode::kInternal : *found, failure.message, failure.hint};
}

}  // namespace membrane::face
