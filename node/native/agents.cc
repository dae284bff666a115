#include "agents.h"

#include <algorithm>
#include <chrono>

#include "session.h"
#include "turn.h"

namespace membrane::node {
namespace {

using Clock = std::chrono::steady_clock;

Napi::Object object_of(Napi::Env env, const FlowReads& reads) {
  const Napi::Object made = Napi::Object::New(env);
  const Napi::Array first = Napi::Array::New(env);
  for (const FlowRead& read : reads.first) {
    const Napi::Object each = Napi::Object::New(env);
    each.Set("call", Napi::Number::New(env, static_cast<double>(read.call)));
    each.Set("function", Napi::String::New(env, read.function));
    each.Set("target", Napi::String::New(env, read.target));
    first.Set(first.Length(), each);
  }
  made.Set("first", first);
  made.Set("more", Napi::Number::New(env, static_cast<double>(reads.more)));
  return made;
}

double ms_until(Clock::time_point until) {
  return std::max(std::chrono::duration<double, std::milli>(until - Clock::now()).count(), 0.0);
}
Clock::time_point after(uint64_t timeout_ms) {
  constexpr uint64_t kLongestMs = 1000ull * 60 * 60 * 24 * 365;
  return Clock::now() + std::chrono::milliseconds(std::min(timeout_ms, kLongestMs));
}

Approval approve(const EgressQuestion& question) {
  const auto make = [question](Napi::Env env) {
    const Napi::Object made = Napi::Object::New(env);
    made.Set("function", Napi::String::New(env, question.function));
    made.Set("target", Napi::String::New(env, question.target));
    made.Set("bytes", Napi::Number::New(env, static_cast<double>(question.bytes)));
    made.Set("privateReads", object_of(env, question.private_reads));
    made.Set("untrustedReads", object_of(env, question.untrusted_reads));
    made.Set("timeoutMs", Napi::Number::New(env, ms_until(question.until)));
    return made;
  };
  const auto reply = Turn::ask("approve", make, question.until);
  if (!reply || !reply->number) return Approval::kNobody;
  return *reply->number == 0 ? Approval::kYes : *reply->number == 1 ? Approval::kNo : Approval::kNobody;
}

std::unexpected<Failure> failed(std::string code, std::string message) {
  return std::unexpected(Failure{.code = std::move(code), .message = std::move(message)});
}

// The reply of a host's function; a failure where it has failed, or does not come.
Expected<Turn::Reply> answer(const char* function, const Turn::Make& make, uint64_t timeout_ms) {
  auto reply = Turn::ask(function, make, after(timeout_ms));
  if (!reply && Turn::is_on_loop())
    return failed("EHOST", "the answer is not there at once: use run(), and not runSync()");
  if (!reply) return failed("ETIMEDOUT", "there was no answer in time");
  if (!reply->code.empty()) return failed(reply->code, reply->text);
  return *std::move(reply);
}

Turn::Make text_of(std::string_view text, uint64_t timeout_ms) {
  return [text = std::string(text), timeout_ms](Napi::Env env) {
    const Napi::Object made = Napi::Object::New(env);
    made.Set("text", Napi::String::New(env, text));
    made.Set("timeoutMs", Napi::Number::New(env, static_cast<double>(timeout_ms)));
    return made;
  };
}

Expected<ModelAnswer> complete(const ModelRequest& request) {
  const auto make = [request](Napi::Env env) {
    const Napi::Object made = Napi::Object::New(env);
    made.Set("system", Napi::String::New(env, request.system));
    made.Set("prompt", Napi::String::New(env, request.prompt));
    made.Set("maxTokens", Napi::Number::New(env, request.max_tokens));
    made.Set("timeoutMs", Napi::Number::New(env, static_cast<double>(request.timeout_ms)));
    return made;
  };
  auto said = answer("complete", make, request.timeout_ms);
  if (!said) return std::unexpected(std::move(said).error());
  return ModelAnswer{std::move(said->text), said->tokens_in, said->tokens_out};
}

Expected<std::vector<float>> embed(std::string_view text, uint64_t timeout_ms) {
  auto said = answer("embed", text_of(text, timeout_ms), timeout_ms);
  if (!said) return std::unexpected(std::move(said).error());
  return std::move(said->numbers);
}

Expected<std::string> ask(std::string_view question, uint64_t timeout_ms) {
  auto said = answer("ask", text_of(question, timeout_ms), timeout_ms);
  if (!said) return std::unexpected(std::move(said).error());
  return std::move(said->text);
}

template <typename T>
Napi::Value external_of(Napi::Env env, T made) {
  return Napi::External<T>::New(env, new T(std::move(made)), [](Napi::BasicEnv, T* gone) { delete gone; });
}
template <typename T>
const T& held_in(const Napi::Value& external) {
  return *external.As<Napi::External<T>>().Data();
}

// (): flows
Napi::Value new_flows(const Napi::CallbackInfo& info) { return external_of(info.Env(), Flows()); }

// (flows): {privateReads, untrustedReads, isClosed}
Napi::Value state_of_flows(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const auto& flows = held_in<Flows>(info[0]);
  const Napi::Object made = Napi::Object::New(env);
  made.Set("privateReads", object_of(env, flows.private_reads()));
  made.Set("untrustedReads", object_of(env, flows.untrusted_reads()));
  made.Set("isClosed", Napi::Boolean::New(env, flows.is_closed()));
  return made;
}

// (directory, keyFile, makesKey): receipts
Napi::Value open_receipts(const Napi::CallbackInfo& info) {
  const auto text = [&](size_t place) { return info[place].As<Napi::String>().Utf8Value(); };
  ReceiptsOptions options{.key_file = text(1), .makes_key = info[2].ToBoolean()};
  return external_of(info.Env(), value_or_throw(info.Env(), Receipts::open(text(0), options)));
}

// (receipts): an Error, or undefined
Napi::Value problem_of(const Napi::CallbackInfo& info) {
  const auto problem = held_in<Receipts>(info[0]).problem();
  if (!problem) return info.Env().Undefined();
  return error_of(info.Env(), *problem).Value();
}

}  // namespace

void add_agents(const Napi::Object& words, SessionOptions& options) {
  const auto has = [&](const char* name) { return words.Get(name).ToBoolean().Value(); };
  if (has("approve")) options.approve = approve;
  if (has("complete")) options.model.complete = complete;
  if (has("embed")) options.model.embed = embed;
  if (has("ask")) options.ask = ask;
  if (words.Get("flows").IsExternal()) options.flows = held_in<Flows>(words.Get("flows"));
  if (words.Get("receipts").IsExternal()) options.receipts = held_in<Receipts>(words.Get("receipts"));
}

void define_agents(Napi::Env env, Napi::Object exports) {
  exports.Set("newFlows", Napi::Function::New<new_flows>(env));
  exports.Set("stateOfFlows", Napi::Function::New<state_of_flows>(env));
  exports.Set("openReceipts", Napi::Function::New<open_receipts>(env));
  exports.Set("problemOf", Napi::Function::New<problem_of>(env));
}

}  // namespace membrane::node
