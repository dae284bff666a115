#include "loop.h"

#include "turn.h"

namespace membrane::node {

std::shared_ptr<Loop> Loop::create(Napi::Env env) {
  auto made = std::make_shared<Loop>();
  made->env_ = env;
  made->poster_ = Poster::New(env, "membrane", 0, 1);
  made->poster_.Unref(env);
  // Hooks are called in reverse order of registration, so the poster still exists then.
  env.AddCleanupHook([made] { made->end(); });
  return made;
}

void Loop::do_act(Napi::Env env, Napi::Function, std::nullptr_t*, Act* act) {
  const std::unique_ptr<Act> owned(act);
  if (static_cast<napi_env>(env) == nullptr) return;
  try {
    (*act)(env);
  } catch (const Napi::Error& error) {
    error.ThrowAsJavaScriptException();  // as an uncaught one
  }
}

bool Loop::post(Act act) {
  const std::scoped_lock lock(mutex_);
  if (is_over_) return false;
  auto owned = std::make_unique<Act>(std::move(act));
  if (poster_.NonBlockingCall(owned.get()) != napi_ok) return false;
  static_cast<void>(owned.release());
  return true;
}

void Loop::expect() {
  if (expected_++ == 0) poster_.Ref(env_);
}

void Loop::expect_no_more() {
  if (--expected_ == 0) poster_.Unref(env_);
}

void Loop::end() {
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
  }
  for (const auto& turn : turns_) turn->stop_and_wait();
  turns_.clear();
  session_class.Reset();
}

}  // namespace membrane::node
