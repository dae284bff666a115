// How the owner of long work on foreign data ends it before it is done: parsing, validating and compiling take time in
// proportion to a program that somebody else wrote.
//
//   const StopScope scope([&] { return clock::now() >= deadline; });
//   auto module = parse_text(text);          // its loops ask StopScope::stop_wanted()
//   if (scope.stopped()) …                   // then the result is a failure, whatever it says
//
// Threads: a scope belongs to the thread that made it, and so does the work inside it. Scopes nest: the innermost counts.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

namespace membrane {

class StopScope {
 public:
  // `must_stop` is asked once in kStepsBetween steps of the work; from when it says yes, stop_wanted() does.
  explicit StopScope(std::function<bool()> must_stop)
      : must_stop_(std::move(must_stop)), outer_(std::exchange(innermost(), this)) {}
  ~StopScope() { innermost() = outer_; }
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

  [[nodiscard]] bool stopped() const { return stopped_; }

  // For loops over foreign data, once for each of their items. Whoever is told so returns a failure.
  [[nodiscard]] static bool stop_wanted() { return innermost() != nullptr && innermost()->step(); }

 private:
  static constexpr uint32_t kStepsBetween = 4096;  // some ten microseconds of work

  static StopScope*& innermost() {
    static constinit thread_local StopScope* scope = nullptr;
    return scope;
  }
  bool step() {
    if (--steps_left_ != 0) [[likely]]
      return stopped_;
    steps_left_ = kStepsBetween;
    return stopped_ = stopped_ || must_stop_();
  }

  std::function<bool()> must_stop_;
  StopScope* outer_;
  uint32_t steps_left_ = 1;  // the first step asks: work that must not begin does not
  bool stopped_ = false;
};

}  // namespace membrane
