// Any text as a policy: TOML, JSON or flags, selected by the first byte. What is accepted must be valid,
// explainable, and parse back from its canonical JSON to the same policy.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "policy/policy.h"

using namespace membrane::policy;

namespace {

void check(const Policy& policy) {
  if (!validate(policy)) abort();
  if (explain(policy).empty()) abort();
  const std::string json = to_json(policy);
  const auto again = parse_policy(json, "again.json");
  if (!again || *again != policy || to_json(*again) != json) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  Policy policy;
  switch (data[0] % 3) {
    case 0:
      if (const auto parsed = parse_policy(text, "p.toml")) check(*parsed);
      break;
    case 1:
      if (const auto parsed = parse_policy(text, "p.json")) check(*parsed);
      break;
    default:
      if (allow(policy, text)) check(policy);
      break;
  }
  return 0;
}
