// kv: a key-value store that outlives the run if the grant names a file.
#include "base/json.h"
#include "host/call.h"
#include "host/capabilities/all.h"

namespace membrane::host {
namespace {

HostResult<Value> get(Call& call) { return call.broker.kv_get(call.text(0)); }
HostResult<Value> set(Call& call) { return nothing(call.broker.kv_set(call.text(0), call.text(1))); }
HostResult<Value> remove(Call& call) { return nothing(call.broker.kv_remove(call.text(0))); }

HostResult<Value> exists(Call& call) {
  const auto value = call.broker.kv_get(call.text(0));
  if (!value && value.error().code != Errno::kNotFound) return std::unexpected(value.error());
  return truth(value.has_value());
}

HostResult<Value> keys(Call& call) {
  MEMBRANE_ASSIGN(const std::vector<std::string> found, call.broker.kv_keys(call.text(0)));
  uint64_t bytes = 2;
  for (const std::string& key : found) bytes += json_text_bytes(key) + 1;
  MEMBRANE_TRY(call.check_size(bytes));
  std::string text = "[";
  text.reserve(bytes);
  for (const std::string& key : found)
    text.append(text.size() == 1 ? "" : ",").append(json_text(nlohmann::json(key)));
  return text + "]";
}

constexpr Param kKey{"key", Type::kText};
constexpr Failure kNoGrant{Errno::kAccess, "no grant allows it, or the key lacks the prefix of the grant"};
constexpr Failure kNoWrite{Errno::kAccess,
                           "no grant allows writing, or the key lacks the prefix of the grant"};
constexpr Failure kBadKey{Errno::kInvalid, "the key is empty"};

constexpr FunctionSpec kFunctions[] = {
    {.module = "kv",
     .name = "get",
     .params = {kKey},
     .result = Type::kBytes,
     .result_name = "value",
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = {.base = 200, .per_byte = 1},
     .summary = "The value of the key; ENOENT when there is none.",
     .failures = {{Errno::kNotFound, "there is no such key"}, kNoGrant, kBadKey},
     .example = R"((call $kv.set! (string "colour") (string "blue"))
(call $io.print (call $kv.get! (string "colour"))))",
     .prints = "blue",
     .handler = get},
    {.module = "kv",
     .name = "set",
     .params = {kKey, {"value", Type::kBytes}},
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = {.base = 1'000, .per_byte = 1},
     .summary = "Sets the value of the key, over what it was.",
     .failures = {kNoWrite,
                  {Errno::kQuota,
                   "the store would hold more keys or bytes than granted, or the key or value is too long"},
                  kBadKey},
     .example = R"((call $kv.set! (string "n") (string "1"))
(call $kv.set! (string "n") (string "2"))
(call $io.print (call $kv.get! (string "n"))))",
     .prints = "2",
     .handler = set},
    {.module = "kv",
     .name = "delete",
     .params = {kKey},
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = {.base = 500, .per_byte = 1},
     .summary = "Removes the key; ENOENT when there is none.",
     .failures = {{Errno::kNotFound, "there is no such key"}, kNoWrite, kBadKey},
     .example = R"((call $kv.set! (string "n") (string "1"))
(call $kv.delete! (string "n"))
(call $io.print_i32 (call $kv.exists! (string "n"))))",
     .prints = "0",
     .handler = remove},
    {.module = "kv",
     .name = "exists",
     .params = {kKey},
     .result = Type::kI32,
     .result_name = "found",
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = {.base = 200, .per_byte = 1},
     .summary = "1 when there is such a key, else 0.",
     .failures = {kNoGrant, kBadKey},
     .example = R"((call $io.print_i32 (call $kv.exists! (string "never set"))))",
     .prints = "0",
     .handler = exists},
    {.module = "kv",
     .name = "keys",
     .params = {{"prefix", Type::kText}},
     .result = Type::kText,
     .result_name = "json",
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = {.base = 300, .per_byte = 1},
     .summary = "The keys that start with the prefix, sorted, as a JSON array; \"\" gives all.",
     .details = "Keys that the grant's prefix hides are not shown.",
     .failures = {{Errno::kAccess, "no grant allows it"}},
     .example = R"((call $kv.set! (string "day/2") (string "x"))
(call $kv.set! (string "day/1") (string "y"))
(call $io.print (call $kv.keys! (string "day/"))))",
     .prints = R"(["day/1","day/2"])",
     .handler = keys},
};

}  // namespace

std::span<const FunctionSpec> kv_functions() { return kFunctions; }

}  // namespace membrane::host
