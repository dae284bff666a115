// One system call of a task, and what its handler may do. Handlers are functions `int64_t sys_NAME(Call&)`,
// one for each row of syscalls.def that is not absent, defined by subject in calls_*.cc. They return a value
// or -ERRNO.
//
// A call that must wait returns call.wait(…): the task sleeps until a queue that it joined is woken, the
// deadline has passed, or a signal arrives. Then the handler is called again from its beginning, with the
// same arguments. It keeps nothing in between except `call.kept()`. So a waiting task is only data, and a
// sandbox can be copied at any time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "linux/abi/answer.h"
#include "linux/files/file.h"
#include "linux/kernel/task.h"

namespace membrane::linux {

class Kernel;

// What a signal does to a call that waits (signal(7)).
enum class OnSignal : uint8_t {
  kRestart,  // restarted if the handler has SA_RESTART, else EINTR: read, write, wait4, accept, futex, flock…
  kInterrupt,  // always EINTR: poll, select, epoll_wait, nanosleep, sigtimedwait, pause…
};

class Call {
 public:
  Call(Kernel& in, Task& of) : kernel(in), task(of) {}
  Kernel& kernel;
  Task& task;

  [[nodiscard]] Process& process() const { return *task.process; }
  // The arguments, 0 to 5, converted to the type that the handler needs.
  [[nodiscard]] uint64_t arg(int i) const;
  [[nodiscard]] int int_arg(int i) const { return static_cast<int>(arg(i)); }

  // -- guest memory
  template <typename T>
  Try<T> get(uint64_t address) {
    return task.get<T>(address);
  }
  template <typename T>
  Done put(uint64_t address, const T& value) {
    return task.put(address, value);
  }
  // Reads a string up to its zero. Errors: EFAULT, ENAMETOOLONG.
  Try<std::string> get_string(uint64_t address, size_t most = 4096);

  // -- waiting
  // Joins the queues of a file, or one queue. Then `return call.wait();`
  void join(File& file) { file.join(task); }
  void join(WaitQueue& queue) { task.join(queue); }
  int64_t wait(OnSignal on_signal = OnSignal::kRestart);
  // Waits with a deadline, after which `is_late()`. The deadline that was set first stays when the call is
  // retried.
  int64_t wait_until(std::chrono::steady_clock::time_point deadline, OnSignal on_signal);
  [[nodiscard]] bool is_again() const { return task.waiting.is_again; }
  [[nodiscard]] bool is_late() const;
  [[nodiscard]] std::optional<std::chrono::steady_clock::time_point> deadline() const {
    return task.waiting.deadline;
  }
  // A value kept across retries of the call: how much was written so far.
  [[nodiscard]] uint64_t& kept() { return task.waiting.kept; }
};

// The results of a handler that waits (wait() returns it), and of one that has set the registers itself.
constexpr int64_t kWaits = INT64_MIN, kNoAnswer = INT64_MIN + 1;

// `return answer(some_try);`
inline int64_t answer(const Done& done) { return done ? 0 : -done.error(); }
template <typename T>
int64_t answer(const Try<T>& got) {
  return got ? static_cast<int64_t>(*got) : -got.error();
}

// For handlers, which return an int64_t.
#define CALL_TRY(expr)                                                  \
  do {                                                                  \
    if (auto call_try_ = (expr); !call_try_) return -call_try_.error(); \
  } while (false)
#define CALL_ASSIGN(decl, expr)                                                                \
  auto MEMBRANE_CONCAT(call_r_, __LINE__) = (expr);                                            \
  if (!MEMBRANE_CONCAT(call_r_, __LINE__)) return -MEMBRANE_CONCAT(call_r_, __LINE__).error(); \
  decl = std::move(*MEMBRANE_CONCAT(call_r_, __LINE__))

using Handler = int64_t (*)(Call&);

enum class CallState : uint8_t { kWhole, kPartly, kAbsent };
struct CallRow {
  const char* name;
  Handler handler;  // nullptr when absent
  CallState state;
};
// nullptr for a number that x86-64 does not use.
const CallRow* row_of(uint64_t number);

}  // namespace membrane::linux
