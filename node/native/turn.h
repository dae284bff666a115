// A running turn, and how it calls the functions and listeners of its session.
//
// The engine calls on the turn's thread. Either that is the loop's own (runSync()), or it waits while the event loop calls them.
//
// Threads: stop() on any; the rest as described.
#pragma once

#include <napi.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <membrane/session.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loop.h"

namespace membrane::node {

// [name, arguments, keywords, object] and [kind, json, type, message], as in src/functions.ts.
Napi::Array array_of(Napi::Env env, std::span<const FunctionCall> calls);
std::vector<Answer> answers_of(const Napi::Value& given);

class Turn : public std::enable_shared_from_this<Turn> {
 public:
  struct Options {
    bool is_sync = false;
    bool waits = false;              // functions may answer later
    std::chrono::milliseconds wall;  // the policy's; no answer is awaited for longer
  };
  // `owner` has the functions as its property "host", and exists as long as the turn.
  Turn(std::shared_ptr<Loop> loop, std::shared_ptr<Session> session, Napi::Reference<Napi::Object>* owner,
       const Options& options)
      : loop_(std::move(loop)),
        session_(std::move(session)),
        owner_(owner),
        is_sync_(options.is_sync),
        waits_(options.waits),
        wall_(options.wall) {}

  // On the thread of the turn.
  Report run(const std::function<Report(Session&)>& act);

  void stop();
  // Waits for some seconds.
  void stop_and_wait();

  // On the thread of the running turn.
  static std::vector<Answer> answer(std::span<const FunctionCall> calls);
  static void hear(const char* listener, std::string_view text);
  // The reply of a function of the host (src/sources.ts); nothing if it failed or the turn was stopped. `must_stop`, which may be null, is
  // polled meanwhile.
  struct Reply {
    std::optional<double> number{};
    std::string bytes{};
    // Of src/agents.ts: an error's code, or "", and its text; otherwise the answer.
    std::string code{}, text{};
    std::vector<float> numbers{};
    uint64_t tokens_in = 0, tokens_out = 0;
  };
  static std::optional<Reply> ask(const char* function, double argument,
                                  const std::function<bool()>* must_stop);
  // Whether the running turn is on the loop's thread, where it cannot wait for anything.
  static bool is_on_loop();
  // The same with arguments that `make` makes on the loop's thread. `make` may outlive the call. Waits until `until` at most.
  using Make = std::function<Napi::Value(Napi::Env)>;
  static std::optional<Reply> ask(const char* function, const Make& make,
                                  std::chrono::steady_clock::time_point until);

 private:
  using Clock = std::chrono::steady_clock;

  // A reply that comes from another thread or later.
  struct Question {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_over = false;
    std::optional<Reply> reply;

    void settle(std::optional<Reply> with);
    std::optional<Reply> wait(Clock::time_point deadline, const std::function<bool()>* must_stop);
  };
  void put(const std::shared_ptr<Question>& question, const char* function, const Make& make);
  std::optional<Reply> ask_here(const char* function, const Make& make);
  std::optional<Reply> ask_by_loop(const char* function, const Make& make, Clock::time_point until,
                                   const std::function<bool()>* must_stop);

  // Answers that come from another thread.
  struct Batch {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<std::vector<Answer>> answers;

    void settle(std::vector<Answer> with);
    std::vector<Answer> wait(const std::function<bool()>& must_stop);  // empty: the turn must end
  };

  std::vector<Answer> answer_here(std::span<const FunctionCall> calls);
  std::vector<Answer> answer_by_loop(std::span<const FunctionCall> calls);
  [[nodiscard]] Napi::Object host() const { return owner_->Value().Get("host").As<Napi::Object>(); }

  std::shared_ptr<Loop> loop_;
  std::shared_ptr<Session> session_;
  Napi::Reference<Napi::Object>* owner_;
  bool is_sync_, waits_;
  std::chrono::milliseconds wall_;
  Clock::time_point deadline_;  // later than the engine's own, which ends the turn

  std::mutex mutex_;
  std::condition_variable over_;
  bool is_stopped_ = false, is_over_ = false;
  std::shared_ptr<Batch> batch_;  // the one that it waits for
  std::shared_ptr<Question> question_;
};

}  // namespace membrane::node
