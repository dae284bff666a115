#include "policy/linux_words.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/json.h"
#include "policy/quantity.h"

namespace membrane::policy {
namespace {

// Limits of WebAssembly, and of host functions that Linux sandboxes do not have, are not enforced.
bool is_heeded(std::string_view limit) {
  constexpr std::string_view kOthers[] = {"fuel",           "stack",  "call_depth",
                                          "table_elements", "tokens", "module"};
  return std::ranges::find(kOthers, limit) == std::end(kOthers);
}

std::string words_of(std::string_view limit, std::string_view words) {
  if (limit == "memory") return "of memory, of all its processes together";
  if (limit == "output") return "of output of a command";
  if (limit == "wall") return "of wall-clock time of a command";
  if (limit == "host_calls") return "requests and connections";
  return std::string(words);
}

}  // namespace

std::string explain_for_linux(const Policy& policy) {
  std::string out = "A Linux sandbox is limited to";
  std::string_view separator = " ";
#define LIMIT(member, name, kind, least, most, words)                                             \
  if (is_heeded(name)) {                                                                          \
    out += std::string(separator) + format_quantity(Quantity::kind, policy.limits.member) + " " + \
           words_of(name, words);                                                                 \
    separator = ", ";                                                                             \
  }
#include "policy/limits.def"
#undef LIMIT
  out += policy.platform.empty() ? "." : ", and runs on the platform " + policy.platform + " or not at all.";
  return out +
         " Fuel, stack, call depth and tables are not limited there. Its clock and its random numbers are "
         "this "
         "machine's; with --deterministic the clock starts at " +
         format_time(policy.time.start_ms) + ", and random numbers come from the seed " +
         std::to_string(policy.random.seed) + ".\n";
}

std::string to_json_for_linux(const Policy& policy) {
  using nlohmann::json;
  json out = read_json(to_json(policy)).value();
  for (const char* const absent : {"time", "random", "ask"}) out.erase(absent);
  json& limits = out["limits"];
#define LIMIT(member, name, kind, least, most, words)                               \
  if (!is_heeded(name)) limits.erase(name);                                         \
  else if (Quantity::kind == Quantity::kCount) limits[name] = policy.limits.member; \
  else limits[name] = format_quantity(Quantity::kind, policy.limits.member);
#include "policy/limits.def"
#undef LIMIT
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace membrane::policy
