// A session as an object of JavaScript's, for src/session.ts.
#pragma once

#include <napi.h>

#include <chrono>
#include <membrane/session.hpp>
#include <memory>

#include "loop.h"
#include "turn.h"

namespace membrane::node {

// An Error with the failure's code and hint, which src/native.ts makes a MembraneError of.
Napi::Error error_of(Napi::Env env, const Failure& failure);

template <typename T>
T value_or_throw(Napi::Env env, Expected<T> expected) {
  if (!expected) throw error_of(env, expected.error());
  if constexpr (!std::is_void_v<T>) return *std::move(expected);
}

class SessionWrap final : public Napi::ObjectWrap<SessionWrap> {
 public:
  static Napi::Function define(Napi::Env env);
  // `wall`: how long a turn may take.
  static Napi::Value make(Napi::Env env, Session session, std::chrono::milliseconds wall, Napi::Value host);

  explicit SessionWrap(const Napi::CallbackInfo& info);
  void Finalize(Napi::BasicEnv env) override;

 private:
  Napi::Value run(const Napi::CallbackInfo& info);       // (cell, waits): Promise<NativeReport>
  Napi::Value run_sync(const Napi::CallbackInfo& info);  // (cell, waits): NativeReport
  Napi::Value resume(const Napi::CallbackInfo& info);    // (answers): Promise<NativeReport>
  void abandon(const Napi::CallbackInfo& info);
  Napi::Value waits_for(const Napi::CallbackInfo& info);  // (): calls
  Napi::Value fork(const Napi::CallbackInfo& info);       // (host): SessionWrap
  Napi::Value dump(const Napi::CallbackInfo& info);       // (head): Uint8Array, which begins with the head
  Napi::Value read_file(const Napi::CallbackInfo& info);
  void write_file(const Napi::CallbackInfo& info);
  Napi::Value files(const Napi::CallbackInfo& info);  // [path, size][]
  Napi::Value complete(const Napi::CallbackInfo& info);
  void cancel(const Napi::CallbackInfo& info);
  void close(const Napi::CallbackInfo& info);

  Session& idle(Napi::Env env) const;  // else it throws
  Napi::Value begin(Napi::Env env, std::function<Report(Session&)> act, bool waits);

  std::shared_ptr<Session> session_;
  std::chrono::milliseconds wall_{};
  std::shared_ptr<Turn> turn_;  // that runs
};

}  // namespace membrane::node
