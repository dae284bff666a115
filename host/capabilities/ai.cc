// ai: sub-models for programs, paid from the run's budget of tokens.
#include <cmath>
#include <nlohmann/json.hpp>

#include "host/call.h"
#include "host/capabilities/all.h"

namespace membrane::host {
namespace {

HostResult<Value> ask_model(Call& call, const ChatRequest& request) {
  MEMBRANE_ASSIGN(ChatAnswer answer, call.broker.ai_complete(request));
  return std::move(answer.text);
}

HostResult<Value> complete(Call& call) {
  return ask_model(call, {.system = {}, .prompt = std::string(call.text(0)), .max_tokens = 0});
}

HostResult<Value> complete_with(Call& call) {
  if (call.i32(2) < 0) return refuse(Errno::kInvalid, "max_tokens is negative");
  return ask_model(call, {.system = std::string(call.text(0)),
                          .prompt = std::string(call.text(1)),
                          .max_tokens = static_cast<uint32_t>(call.i32(2))});
}

HostResult<Value> embed(Call& call) {
  MEMBRANE_ASSIGN(const std::vector<float> vector, call.broker.ai_embed(call.text(0)));
  return nlohmann::json(vector).dump();
}

HostResult<Value> similarity(Call& call) {
  MEMBRANE_ASSIGN(const std::vector<float> a, call.broker.ai_embed(call.text(0)));
  MEMBRANE_ASSIGN(const std::vector<float> b, call.broker.ai_embed(call.text(1)));
  if (a.size() != b.size()) return refuse(Errno::kProtocol, "the model gave vectors of two lengths");
  double dot = 0, a_squared = 0, b_squared = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    dot += double{a[i]} * double{b[i]};
    a_squared += double{a[i]} * double{a[i]};
    b_squared += double{b[i]} * double{b[i]};
  }
  const double lengths = std::sqrt(a_squared) * std::sqrt(b_squared);
  return lengths == 0 ? 0.0 : dot / lengths;
}

constexpr Failure kNoGrant{Errno::kAccess, "no grant allows it"};
constexpr Failure kNoTokens{Errno::kBudget,
                            "the run's budget of tokens is used up (limits.tokens, --tokens)"};
constexpr Failure kNoModel{Errno::kUnsupported, "no model is configured, or it cannot do this"};
constexpr Failure kSlow{Errno::kTimedOut, "the model did not answer in time"};
constexpr Failure kFailed{Errno::kHost, "the model's service failed"};
constexpr Cost kCost{.base = 2'000, .per_byte = 1};

constexpr FunctionSpec kFunctions[] = {
    {.module = "ai",
     .name = "complete",
     .params = {{"prompt", Type::kText}},
     .result = Type::kText,
     .result_name = "text",
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = kCost,
     .summary = "Asks the model and gives its answer. Spends the run's tokens.",
     .details = "The answer may be cut at the grant's limit of tokens for a call.",
     .failures = {kNoGrant, kNoTokens, kNoModel, kSlow, kFailed},
     .example = R"((call $io.print (call $ai.complete! (string "Name three prime numbers."))))",
     .handler = complete},
    {.module = "ai",
     .name = "complete_with",
     .params = {{"system", Type::kText}, {"prompt", Type::kText}, {"max_tokens", Type::kI32}},
     .result = Type::kText,
     .result_name = "text",
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = kCost,
     .summary =
         "The same with a system prompt (\"\" for none) and a limit for the answer (0: the grant's own).",
     .failures = {kNoGrant, kNoTokens, kNoModel, kSlow, kFailed, {Errno::kInvalid, "max_tokens is negative"}},
     .example =
         R"((call $io.print (call $ai.complete_with! (string "Answer in one word.") (string "What is the capital of France?") (i32.const 10))))",
     .handler = complete_with},
    {.module = "ai",
     .name = "embed",
     .params = {{"text", Type::kText}},
     .result = Type::kText,
     .result_name = "json",
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = kCost,
     .summary = "The embedding of the text, as a JSON array of numbers.",
     .failures = {kNoGrant, kNoTokens, kNoModel, kSlow, kFailed},
     .example = R"((call $io.print_i32 (call $json.length! (call $ai.embed! (string "a cat")) (string ""))))",
     .handler = embed,
     .is_rare = true},
    {.module = "ai",
     .name = "similarity",
     .params = {{"a", Type::kText}, {"b", Type::kText}},
     .result = Type::kF64,
     .result_name = "cosine",
     .can_fail = true,
     .effect = Effect::kWorld,
     .cost = kCost,
     .summary = "How alike two texts are in meaning: the cosine of their embeddings, -1 to 1. Two calls of "
                "the model.",
     .failures = {kNoGrant,
                  kNoTokens,
                  kNoModel,
                  kSlow,
                  kFailed,
                  {Errno::kProtocol, "the model's vectors differ in length"}},
     .example = R"((call $io.print_f64 (call $ai.similarity! (string "a cat") (string "a kitten"))))",
     .handler = similarity,
     .is_rare = true},
};

}  // namespace

std::span<const FunctionSpec> ai_functions() { return kFunctions; }

}  // namespace membrane::host
