#include "session.h"

#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "threads.h"
#include "values.h"

namespace membrane::node {

namespace {

// What the collector is told that one has, besides the object: about what one has after a few turns.
constexpr int64_t kUsualBytes = 1 << 20;

Napi::Value bytes_of(Napi::Env env, std::string_view head, std::string_view content) {
  auto made = Napi::Uint8Array::New(env, head.size() + content.size());
  if (!head.empty()) std::memcpy(made.Data(), head.data(), head.size());
  if (!content.empty()) std::memcpy(made.Data() + head.size(), content.data(), content.size());
  return made;
}
std::string_view view_of(const Napi::Uint8Array& bytes) {
  return {reinterpret_cast<const char*>(bytes.Data()), bytes.ByteLength()};
}

Cell cell_of(const Napi::Value& given) {
  const auto of = given.As<Napi::Object>();
  return {.code = text_of(of.Get("code")),
          .name = text_of(of.Get("name")),
          .is_script = of.Get("isScript").ToBoolean(),
          .only_checks = of.Get("onlyChecks").ToBoolean(),
          .declares_calls = of.Get("declaresCalls").ToBoolean(),
          .arguments = all_of(of.Get("arguments"), text_of),
          .input = text_of(of.Get("input")),
          .inputs = all_of(of.Get("inputs"), pair_of)};
}

std::shared_ptr<Loop> loop_of(Napi::Env env) { return *env.GetInstanceData<std::shared_ptr<Loop>>(); }

}  // namespace

Napi::Error error_of(Napi::Env env, const Failure& failure) {
  const Napi::Error error = Napi::Error::New(env, failure.message);
  error.Set("isFailure", Napi::Boolean::New(env, true));
  error.Set("code", Napi::String::New(env, failure.code));
  error.Set("hint", Napi::String::New(env, failure.hint));
  return error;
}

namespace {

// What src/native.ts has of a report, as a NativeReport: {json, receipt, unsealed}.
struct Told {
  std::string json, receipt;
  std::optional<Failure> unsealed;

  explicit Told(Report report)
      : json(report.to_json()), receipt(std::move(report.receipt)), unsealed(std::move(report.unsealed)) {}

  [[nodiscard]] Napi::Value value(Napi::Env env) const {
    const Napi::Object made = Napi::Object::New(env);
    made.Set("json", Napi::String::New(env, json));
    if (!receipt.empty()) made.Set("receipt", Napi::String::New(env, receipt));
    if (unsealed) made.Set("unsealed", error_of(env, *unsealed).Value());
    return made;
  }
};

}  // namespace

Napi::Function SessionWrap::define(Napi::Env env) {
  return DefineClass(
      env, "NativeSession",
      {InstanceMethod<&SessionWrap::run>("run"), InstanceMethod<&SessionWrap::run_sync>("runSync"),
       InstanceMethod<&SessionWrap::resume>("resume"), InstanceMethod<&SessionWrap::abandon>("abandon"),
       InstanceMethod<&SessionWrap::waits_for>("waitsFor"), InstanceMethod<&SessionWrap::fork>("fork"),
       InstanceMethod<&SessionWrap::dump>("dump"), InstanceMethod<&SessionWrap::read_file>("readFile"),
       InstanceMethod<&SessionWrap::write_file>("writeFile"), InstanceMethod<&SessionWrap::files>("files"),
       InstanceMethod<&SessionWrap::complete>("complete"), InstanceMethod<&SessionWrap::cancel>("cancel"),
       InstanceMethod<&SessionWrap::close>("close")});
}

// -- its life -------------------------------------------------------------------------------------------------------

SessionWrap::SessionWrap(const Napi::CallbackInfo& info) : ObjectWrap(info) {}

// The functions are a property of the object: the collector sees what they refer to, which may be the session itself.
Napi::Value SessionWrap::make(Napi::Env env, Session session, std::chrono::milliseconds wall,
                              Napi::Value host) {
  const Napi::Object made = loop_of(env)->session_class.New({});
  made.Set("host", host);
  SessionWrap& wrap = *Unwrap(made);
  wrap.session_ = std::make_shared<Session>(std::move(session));
  wrap.wall_ = wall;
  Napi::MemoryManagement::AdjustExternalMemory(env, kUsualBytes);
  return made;
}

void SessionWrap::Finalize(Napi::BasicEnv env) {
  if (session_) Napi::MemoryManagement::AdjustExternalMemory(env, -kUsualBytes);
}

void SessionWrap::close(const Napi::CallbackInfo& info) {
  if (!session_) return;
  session_.reset();  // a turn that runs has it until it ends
  Napi::MemoryManagement::AdjustExternalMemory(info.Env(), -kUsualBytes);
}

Session& SessionWrap::idle(Napi::Env env) const {
  if (!session_)
    throw error_of(env, {.code = "session_over",
                         .message = "the session is closed",
                         .hint = "",
                         .place = {},
                         .backtrace = {}});
  if (turn_)
    throw error_of(env,
                   {.code = "busy",
                    .message = "a turn of this session runs",
                    .hint = "Await it first. A function that a turn calls cannot use the turn's own session.",
                    .place = {},
                    .backtrace = {}});
  return *session_;
}

// -- turns ----------------------------------------------------------------------------------------------------------

Napi::Value SessionWrap::begin(Napi::Env env, std::function<Report(Session&)> act, bool waits) {
  idle(env);
  const auto loop = loop_of(env);
  const auto promise = Napi::Promise::Deferred::New(env);
  turn_ = std::make_shared<Turn>(loop, session_, this, Turn::Options{.waits = waits, .wall = wall_});
  Ref();
  loop->expect();
  loop->add(turn_);
  run_on_thread([this, loop, promise, turn = turn_, act = std::move(act)] {
    Told told(turn->run(act));
    loop->post([this, loop, promise, turn, told = std::move(told)](Napi::Env env) {
      turn_.reset();
      loop->remove(turn);
      loop->expect_no_more();
      promise.Resolve(told.value(env));
      Unref();
    });
  });
  return promise.Promise();
}

Napi::Value SessionWrap::run(const Napi::CallbackInfo& info) {
  return begin(
      info.Env(), [cell = cell_of(info[0])](Session& session) { return session.run(cell); },
      info[1].ToBoolean());
}

Napi::Value SessionWrap::run_sync(const Napi::CallbackInfo& info) {
  idle(info.Env());
  const Cell cell = cell_of(info[0]);
  const Turn::Options options{.is_sync = true, .waits = info[1].ToBoolean(), .wall = wall_};
  const auto turn = turn_ = std::make_shared<Turn>(loop_of(info.Env()), session_, this, options);
  const Told told(turn->run([&](Session& session) { return session.run(cell); }));
  turn_.reset();
  return told.value(info.Env());
}

Napi::Value SessionWrap::resume(const Napi::CallbackInfo& info) {
  return begin(
      info.Env(), [answers = answers_of(info[0])](Session& session) { return session.resume(answers); },
      true);
}

void SessionWrap::abandon(const Napi::CallbackInfo& info) {
  value_or_throw(info.Env(), idle(info.Env()).abandon());
}

Napi::Value SessionWrap::waits_for(const Napi::CallbackInfo& info) {
  return array_of(info.Env(), idle(info.Env()).waits_for());
}

void SessionWrap::cancel(const Napi::CallbackInfo&) {
  if (turn_) turn_->stop();
}

// -- branches, bytes and files --------------------------------------------------------------------------------------

Napi::Value SessionWrap::fork(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return make(env, value_or_throw(env, idle(env).fork()), wall_, info[0]);
}

Napi::Value SessionWrap::dump(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const std::vector<uint8_t> content = value_or_throw(env, idle(env).dump());
  return bytes_of(env, view_of(info[0].As<Napi::Uint8Array>()),
                  {reinterpret_cast<const char*>(content.data()), content.size()});
}

Napi::Value SessionWrap::read_file(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  return bytes_of(env, "", value_or_throw(env, idle(env).read_file(text_of(info[0]))));
}

void SessionWrap::write_file(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  value_or_throw(env, idle(env).write_file(text_of(info[0]), view_of(info[1].As<Napi::Uint8Array>())));
}

Napi::Value SessionWrap::files(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const Napi::Array made = Napi::Array::New(env);
  for (const Report::File& file : idle(env).files()) {
    const Napi::Array entry = Napi::Array::New(env, 2);
    entry.Set(uint32_t{0}, Napi::String::New(env, file.path));
    entry.Set(uint32_t{1}, Napi::Number::New(env, static_cast<double>(file.size_bytes)));
    made.Set(made.Length(), entry);
  }
  return made;
}

Napi::Value SessionWrap::complete(const Napi::CallbackInfo& info) {
  const Napi::Env env = info.Env();
  const Napi::Array made = Napi::Array::New(env);
  for (const std::string& name : idle(env).complete(text_of(info[0])))
    made.Set(made.Length(), Napi::String::New(env, name));
  return made;
}

}  // namespace membrane::node
