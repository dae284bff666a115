// The event loop of one environment of Node's, as other threads reach it.
//
// Threads: post() from any; the rest on the loop's.
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

  // The loop does it after what was posted before. False: the environment is over, and nothing comes of it.
  bool post(Act act);

  // While something is expected of another thread, the process does not end by itself.
  void expect();
  void expect_no_more();

  // Those that run are stopped before the environment goes.
  void add(std::shared_ptr<Turn> turn) { turns_.insert(std::move(turn)); }
  void remove(const std::shared_ptr<Turn>& turn) { turns_.erase(turn); }

  Napi::FunctionReference session_class;

 private:
  static void do_act(Napi::Env env, Napi::Function, std::nullptr_t*, Act* act);
  using Poster = Napi::TypedThreadSafeFunction<std::nullptr_t, Act, do_act>;

  void end();

  napi_env env_ = nullptr;
  Poster poster_;
  std::mutex mutex_;  // of the poster, which must not be used after the environment
  bool is_over_ = false;
  size_t expected_ = 0;
  std::set<std::shared_ptr<Turn>> turns_;
};

}  // namespace membrane::node
