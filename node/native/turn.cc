#include "turn.h"

#include <algorithm>
#include <chrono>

namespace membrane::node {

namespace {

thread_local Turn* current = nullptr;

// The engine counts a turn's time from a moment later than Turn::run(). An answer that fails before its time is up would go on as a
// program's error.
constexpr std::chrono::milliseconds kPastTheWall{20};
// Of any longer one.
constexpr std::chrono::milliseconds kLongestWall = std::chrono::hours(24 * 365);

std::vector<Answer> all_failed(size_t count, const std::string& why) {
  return std::vector(count, Answer::error("", why));
}

}  // namespace

Napi::Array array_of(Napi::Env env, std::span<const FunctionCall> calls) {
  const Napi::Array made = Napi::Array::New(env, calls.size());
  for (uint32_t i = 0; i < calls.size(); ++i) {
    const Napi::Array call = Napi::Array::New(env, 4);
    uint32_t place = 0;
    for (const std::string* part :
         {&calls[i].name, &calls[i].arguments, &calls[i].keywords, &calls[i].object})
      call.Set(place++, Napi::String::New(env, *part));
    made.Set(i, call);
  }
  return made;
}

std::vector<Answer> answers_of(const Napi::Value& given) {
  const auto all = given.As<Napi::Array>();
  std::vector<Answer> answers;
  for (uint32_t i = 0; i < all.Length(); ++i) {
    const auto each = all.Get(i).As<Napi::Array>();
    const auto text = [&](uint32_t place) { return each.Get(place).As<Napi::String>().Utf8Value(); };
    answers.push_back({static_cast<Answer::Kind>(each.Get(uint32_t{0}).As<Napi::Number>().Uint32Value()),
                       text(1), text(2), text(3)});
  }
  return answers;
}

// -- answers that come from another thread --------------------------------------------------------------------------

void Turn::Batch::settle(std::vector<Answer> with) {
  const std::scoped_lock lock(mutex);
  if (answers) return;  // the turn was stopped before
  answers = std::move(with);
  changed.notify_one();
}

std::vector<Answer> Turn::Batch::wait(const std::function<bool()>& must_stop) {
  using namespace std::chrono_literals;
  std::unique_lock lock(mutex);
  while (!changed.wait_for(lock, 20ms, [this] { return answers.has_value(); }))
    if (must_stop()) answers.emplace();  // what comes later is heard by nobody
  return std::move(*answers);
}

// -- a turn ---------------------------------------------------------------------------------------------------------

Report Turn::run(const std::function<Report(Session&)>& act) {
  Turn* const outer = std::exchange(current, this);
  deadline_ = Clock::now() + std::min(wall_, kLongestWall) + kPastTheWall;
  Report report = act(*session_);
  current = outer;
  const std::scoped_lock lock(mutex_);
  session_.reset();
  is_over_ = true;
  over_.notify_all();
  return report;
}

void Turn::stop() {
  const std::scoped_lock lock(mutex_);
  if (is_over_) return;
  is_stopped_ = true;
  session_->cancel();
  if (batch_) batch_->settle({});
  if (question_) question_->settle(std::nullopt);
}

void Turn::stop_and_wait() {
  using namespace std::chrono_literals;
  for (int i = 0; i < 1000; ++i) {
    stop();  // again: a turn that has only just begun may not have seen it
    std::unique_lock lock(mutex_);
    if (over_.wait_for(lock, 5ms, [this] { return is_over_; })) return;
  }
}

std::vector<Answer> Turn::answer(std::span<const FunctionCall> calls) {
  if (current == nullptr) return all_failed(calls.size(), "no turn runs");
  return current->is_sync_ ? current->answer_here(calls) : current->answer_by_loop(calls);
}

std::vector<Answer> Turn::answer_here(std::span<const FunctionCall> calls) {
  const Napi::Env env = owner_->Env();
  const Napi::HandleScope scope(env);
  try {
    const auto function = host().Get("answerSync").As<Napi::Function>();
    return answers_of(function.Call({array_of(env, calls), Napi::Boolean::New(env, waits_)}));
  } catch (const Napi::Error& error) {
    return all_failed(calls.size(), error.Message());
  }
}

std::vector<Answer> Turn::answer_by_loop(std::span<const FunctionCall> calls) {
  const auto batch = std::make_shared<Batch>();
  {
    const std::scoped_lock lock(mutex_);
    if (is_stopped_) {
      session_->cancel();  // the turn had not begun, and has not seen it
      return all_failed(calls.size(), "the turn was stopped");
    }
    batch_ = batch;
  }
  const size_t count = calls.size();
  const bool is_posted = loop_->post(
      [turn = shared_from_this(), batch, calls = std::vector(calls.begin(), calls.end())](Napi::Env env) {
        try {
          const auto reply = Napi::Function::New(
              env, [batch](const Napi::CallbackInfo& info) { batch->settle(answers_of(info[0])); });
          const auto function = turn->host().Get("answer").As<Napi::Function>();
          function.Call({array_of(env, calls), Napi::Boolean::New(env, turn->waits_), reply});
        } catch (const Napi::Error& error) {
          batch->settle(all_failed(calls.size(), error.Message()));
        }
      });
  std::vector<Answer> answers;
  if (is_posted) answers = batch->wait(calls.front().must_stop);
  const std::scoped_lock lock(mutex_);
  batch_.reset();
  if (answers.size() < count) return all_failed(count, "the turn was stopped");
  return answers;
}

// -- questions ------------------------------------------------------------------------------------------------------

void Turn::Question::settle(std::optional<Reply> with) {
  const std::scoped_lock lock(mutex);
  if (std::exchange(is_over, true)) return;
  reply = std::move(with);
  changed.notify_one();
}

std::optional<Turn::Reply> Turn::Question::wait(Clock::time_point deadline,
                                                const std::function<bool()>* must_stop) {
  using namespace std::chrono_literals;
  std::unique_lock lock(mutex);
  if (must_stop == nullptr) changed.wait_until(lock, deadline, [this] { return is_over; });
  else
    while (!changed.wait_for(lock, 20ms, [this] { return is_over; }) && !(*must_stop)()) continue;
  is_over = true;
  return std::move(reply);
}

std::optional<Turn::Reply> Turn::ask(const char* function, double argument,
                                     const std::function<bool()>* must_stop) {
  if (current == nullptr) return std::nullopt;
  const Make make = [argument](Napi::Env env) { return Napi::Number::New(env, argument); };
  return current->is_sync_ ? current->ask_here(function, make)
                           : current->ask_by_loop(function, make, current->deadline_, must_stop);
}

bool Turn::is_on_loop() { return current != nullptr && current->is_sync_; }

std::optional<Turn::Reply> Turn::ask(const char* function, const Make& make, Clock::time_point until) {
  if (current == nullptr) return std::nullopt;
  return current->is_sync_
             ? current->ask_here(function, make)
             : current->ask_by_loop(function, make, std::min(until, current->deadline_), nullptr);
}

namespace {

uint64_t count_of(const Napi::Value& value) {
  return value.IsNumber() ? static_cast<uint64_t>(value.As<Napi::Number>().Int64Value()) : 0;
}

// {code, text, numbers, tokensIn, tokensOut}, whose values src/agents.ts has checked.
Turn::Reply reply_of(const Napi::Object& said) {
  const auto text = [&](const char* name) {
    const Napi::Value value = said.Get(name);
    return value.IsString() ? value.As<Napi::String>().Utf8Value() : std::string();
  };
  Turn::Reply reply{.code = text("code"),
                    .text = text("text"),
                    .tokens_in = count_of(said.Get("tokensIn")),
                    .tokens_out = count_of(said.Get("tokensOut"))};
  if (said.Get("numbers").IsTypedArray()) {
    const auto numbers = said.Get("numbers").As<Napi::Float32Array>();
    reply.numbers.assign(numbers.Data(), numbers.Data() + numbers.ElementLength());
  }
  return reply;
}

}  // namespace

// On the loop's thread.
void Turn::put(const std::shared_ptr<Question>& question, const char* function, const Make& make) {
  {
    const std::scoped_lock lock(question->mutex);
    if (question->is_over) return;  // the turn waits no longer
  }
  const Napi::Env env = owner_->Env();
  try {
    const auto reply = Napi::Function::New(env, [question](const Napi::CallbackInfo& info) {
      if (info[0].IsNumber()) question->settle(Reply{.number = info[0].As<Napi::Number>().DoubleValue()});
      else if (info[0].IsTypedArray()) {
        const auto bytes = info[0].As<Napi::Uint8Array>();
        question->settle(
            Reply{.bytes = std::string(reinterpret_cast<const char*>(bytes.Data()), bytes.ByteLength())});
      } else if (info[0].IsObject()) {
        question->settle(reply_of(info[0].As<Napi::Object>()));
      } else {
        question->settle(std::nullopt);
      }
    });
    host().Get(function).As<Napi::Function>().Call({make(env), reply});
  } catch (const Napi::Error&) {  // src/sources.ts and agents.ts have caught what their functions throw
    question->settle(std::nullopt);
  }
}

// What has not replied by then waits for the loop, which waits for the turn.
std::optional<Turn::Reply> Turn::ask_here(const char* function, const Make& make) {
  const Napi::HandleScope scope(owner_->Env());
  const auto question = std::make_shared<Question>();
  put(question, function, make);
  question->settle(std::nullopt);
  return std::move(question->reply);
}

std::optional<Turn::Reply> Turn::ask_by_loop(const char* function, const Make& make, Clock::time_point until,
                                             const std::function<bool()>* must_stop) {
  const auto question = std::make_shared<Question>();
  {
    const std::scoped_lock lock(mutex_);
    if (is_stopped_) {
      session_->cancel();  // the turn had not begun, and has not seen it
      return std::nullopt;
    }
    question_ = question;
  }
  const bool is_posted = loop_->post([turn = shared_from_this(), question, function, make](Napi::Env) {
    turn->put(question, function, make);
  });
  std::optional<Reply> reply;
  if (is_posted) reply = question->wait(until, must_stop);
  const std::scoped_lock lock(mutex_);
  question_.reset();
  return reply;
}

void Turn::hear(const char* listener, std::string_view text) {
  if (current == nullptr) return;
  if (current->is_sync_) {
    const Napi::Env env = current->owner_->Env();
    const Napi::HandleScope scope(env);
    try {
      current->host().Get(listener).As<Napi::Function>().Call(
          {Napi::String::New(env, text.data(), text.size())});
    } catch (const Napi::Error&) {  // src/session.ts has caught what listeners throw
    }
    return;
  }
  current->loop_->post(
      [turn = current->shared_from_this(), listener, text = std::string(text)](Napi::Env env) {
        turn->host().Get(listener).As<Napi::Function>().Call({Napi::String::New(env, text)});
      });
}

}  // namespace membrane::node
