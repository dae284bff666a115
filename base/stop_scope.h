// How the owner of long work on foreign data stops it early: parsing, validating and compiling take time in
// proportion to an untrusted program.
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
  // Calls `must_stop` once every kStepsBetween steps of the work; once it returns true, stop_wanted() does, too.
  explicit StopScope(std::function<bool()> must_stop)
      : must_stop_(std::move(must_stop)), outer_(std::exchange(innermost(), this)) {}
  ~StopScope() { innermost() = outer_; }
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

  [[nodiscard]] bool stopped() const { return stopped_; }

  // For loops over foreign data, called once per item, or once for many with their number. If it returns true, the loop
  // must return a failure.
  [[nodiscard]] static bool stop_wanted(uint64_t steps = 1) {
    return innermost() != nullptr && innermost()->step(steps);
  }

 private:
  static constexpr uint32_t kStepsBetween = 4096;  // about ten microseconds of work

  static StopScope*& innermost() {
    static constinit thread_local StopScope* scope = nullptr;
    return scope;
  }
  bool step(uint64_t steps) {
    if (steps < steps_left_) [[likely]] {
      steps_left_ -= static_cast<uint32_t>(steps);
      return stopped_;
    }
    steps_left_ = kStepsBetween;
    return stopped_ = stopped_ || must_stop_();
  }

  std::function<bool()> must_stop_;
  StopScope* outer_;
  uint32_t steps_left_ = 1;  // the first step checks, so that work that should not begin does not
  bool stopped_ = false;
};

}  // namespace membrane
