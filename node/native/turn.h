// A turn that runs, and how it reaches the functions and listeners of its session.
//
// The engine calls them on the turn's thread. That one waits for the event loop, which calls them; or is the loop's own (runSync()).
//
// Threads: stop() from any; the rest as told.
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

// [name, arguments, keywords, object] and [kind, json, type, message], as src/functions.ts has them.
Napi::Array array_of(Napi::Env env, std::span<const FunctionCall> calls);
std::vector<Answer> answers_of(const Napi::Value& given);

class Turn : public std::enable_shared_from_this<Turn> {
 public:
  struct Options {
    bool is_sync = false;
    bool waits = false;              // functions may answer later
    std::chrono::milliseconds wall;  // of the policy: no answer is waited for longer
  };
  // `owner` has the functions, as its property "host"; it is there while the turn is.
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
  // For some seconds.
  void stop_and_wait();

  // On the thread of the turn that runs.
  static std::vector<Answer> answer(std::span<const FunctionCall> calls);
  static void hear(const char* listener, std::string_view text);
  // What a function of the host's (src/sources.ts) replies; nothing where it failed, or the turn was stopped. `must_stop`, which may be
  // null, is asked meanwhile.
  struct Reply {
    std::optional<double> number{};
    std::string bytes{};
    // Of src/agents.ts: an error's number, "" for none, and its text; else what was answered.
    std::string code{}, text{};
    std::vector<float> numbers{};
    uint64_t tokens_in = 0, tokens_out = 0;
  };
  static std::optional<Reply> ask(const char* function, double argument,
                                  const std::function<bool()>* must_stop);
  // Whether the turn that runs is on the loop's thread, where nothing that comes later is waited for.
  static bool is_on_loop();
  // The same with what `make` makes on the loop's thread, which may outlive the call; for no longer than until then.
  using Make = std::function<Napi::Value(Napi::Env)>;
  static std::optional<Reply> ask(const char* function, const Make& make,
                                  std::chrono::steady_clock::time_point until);

 private:
  using Clock = std::chrono::steady_clock;

  // A reply that comes from another thread, or later.
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
    std::vector<Answer> wait(const std::function<bool()>& must_stop);  // empty: the turn is to end
  };

  std::vector<Answer> answer_here(std::span<const FunctionCall> calls);
  std::vector<Answer> answer_by_loop(std::span<const FunctionCall> calls);
  [[nodiscard]] Napi::Object host() const { return owner_->Value().Get("host").As<Napi::Object>(); }

  std::shared_ptr<Loop> loop_;
  std::shared_ptr<Session> session_;
  Napi::Reference<Napi::Object>* owner_;
  bool is_sync_, waits_;
  std::chrono::milliseconds wall_;
  Clock::time_point deadline_;  // past the engine's own, which ends the turn then

  std::mutex mutex_;
  std::condition_variable over_;
  bool is_stopped_ = false, is_over_ = false;
  std::shared_ptr<Batch> batch_;  // that it waits for
  std::shared_ptr<Question> question_;
};

}  // namespace membrane::node
