// The event loop of one Node environment, for use by other threads.
//
// Threads: post() on any; the rest on the loop's.
#pragma once

#include <napi.h>

#include <functional>
#include <memory>
#include <mutex>
#include <set>

namespace membrane::node {

class Turn;

class Loop : public std::enable_shared_from_this<Loop> {
 public:
  using Act = std::function<void(Napi::Env)>;

  static std::shared_ptr<Loop> create(Napi::Env env);

  // The loop calls it after what was posted before. Returns false if the environment has ended; then it is not called.
  bool post(Act act);

  // The process does not exit by itself while something is expected from another thread.
  void expect();
  void expect_no_more();

  // Running turns are stopped before the environment ends.
  void add(std::shared_ptr<Turn> turn) { turns_.insert(std::move(turn)); }
  void remove(const std::shared_ptr<Turn>& turn) { turns_.erase(turn); }

  Napi::FunctionReference session_class;

 private:
  static void do_act(Napi::Env env, Napi::Function, std::nullptr_t*, Act* act);
  using Poster = Napi::TypedThreadSafeFunction<std::nullptr_t, Act, do_act>;

  void end();

  napi_env env_ = nullptr;
  Poster poster_;
  std::mutex mutex_;  // guards the poster, which must not be used after the environment
  bool is_over_ = false;
  size_t expected_ = 0;
  std::set<std::shared_ptr<Turn>> turns_;
};

}  // namespace membrane::node
