// The turn that runs on this thread, and what of Python's ends it: a KeyboardInterrupt, wherever it is raised meanwhile.
//
// On the main thread signals are looked for while the guest runs, so that their handlers run as they would in Python's own code.
#pragma once

#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <membrane/session.hpp>
#include <memory>
#include <optional>
#include <utility>

namespace membrane::python {

// Asks whether the turn that calls is to end. What Python keeps of it after the call says no more.
class MustStop {
 public:
  explicit MustStop(const std::function<bool()>& asks) : asks_(&asks) {}
  void forget() { asks_ = nullptr; }
  bool operator()() const { return asks_ == nullptr || (*asks_)(); }

 private:
  const std::function<bool()>* asks_;
};

// Calls `callable` with the arguments and a MustStop, with the GIL held.
template <typename... Arguments>
nanobind::object call_with_must_stop(const nanobind::object& callable, const std::function<bool()>& asks,
                                     Arguments&&... arguments) {
  const nanobind::object must_stop = nanobind::cast(MustStop(asks));
  struct Forgets {
    MustStop& of;
    ~Forgets() { of.forget(); }
  } const forgets{nanobind::cast<MustStop&>(must_stop)};
  return callable(std::forward<Arguments>(arguments)..., must_stop);
}

// How often a session was cancelled: what waits for Python's code asks whether its turn has been, since it began.
using Cancels = std::shared_ptr<std::atomic<uint64_t>>;

class RunningTurn {
 public:
  // With the GIL held. `session` outlives it.
  RunningTurn(Session& session, Cancels cancels)
      : session_(&session),
        outer_(std::exchange(current(), this)),
        takes_signals_(is_main_thread()),
        cancels_(std::move(cancels)),
        cancels_before_(*cancels_) {}
  ~RunningTurn() { current() = outer_; }
  RunningTurn(const RunningTurn&) = delete;
  RunningTurn& operator=(const RunningTurn&) = delete;

  // With the GIL held, when the turn is over: raises what ended it.
  void raise() {
    if (!interrupt_) return;
    interrupt_->restore();
    interrupt_.reset();
    throw nanobind::python_error();
  }

  // With the GIL held, of what a function of the embedder's raised: whether it ends the turn that calls, which raise() then raises.
  static bool ends_by(nanobind::python_error& error) {
    RunningTurn* const turn = current();
    if (turn == nullptr || !error.matches(PyExc_KeyboardInterrupt)) return false;
    turn->end_by(std::move(error));
    return true;
  }

  // Whether the turn of this thread was cancelled. What is returned may be asked on any thread, also after the turn.
  static std::function<bool()> was_cancelled() {
    RunningTurn* const turn = current();
    if (turn == nullptr) return [] { return false; };
    return [cancels = turn->cancels_, before = turn->cancels_before_] { return *cancels != before; };
  }
  // Cancels the turn of this thread again, where it was before the engine's had begun.
  static void cancel_if_wanted() {
    RunningTurn* const turn = current();
    if (turn != nullptr && *turn->cancels_ != turn->cancels_before_) turn->session_->cancel();
  }

  // Without the GIL, now and then while the guest runs: SessionOptions::on_poll.
  static void poll() {
    RunningTurn* const turn = current();
    if (turn == nullptr || !turn->takes_signals_ || turn->interrupt_) return;
    constexpr std::chrono::milliseconds kBetween(20);  // taking the GIL may take a while
    const auto now = std::chrono::steady_clock::now();
    if (now < turn->next_look_) return;
    turn->next_look_ = now + kBetween;
    const nanobind::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) turn->end_by(nanobind::python_error());
  }

 private:
  static RunningTurn*& current() {
    static thread_local RunningTurn* turn = nullptr;
    return turn;
  }
  static bool is_main_thread() {
    const nanobind::object threading = nanobind::module_::import_("threading");
    return threading.attr("current_thread")().is(threading.attr("main_thread")());
  }
  void end_by(nanobind::python_error error) {
    if (!interrupt_) interrupt_.emplace(std::move(error));
    session_->cancel();
  }

  Session* session_;
  RunningTurn* outer_;
  bool takes_signals_;
  Cancels cancels_;
  uint64_t cancels_before_;
  std::chrono::steady_clock::time_point next_look_{};
  std::optional<nanobind::python_error> interrupt_;
};

// What `act`, which asks code of Python's, gives with the GIL held; `failed` where it raises.
template <typename Value, typename Act>
Value asked(const char* what, Value failed, Act act) {
  const nanobind::gil_scoped_acquire gil;
  try {
    return act();
  } catch (nanobind::python_error& error) {
    if (!RunningTurn::ends_by(error)) error.discard_as_unraisable(what);
  } catch (const nanobind::cast_error&) {  // _sources.py and _agents.py have checked what they give
  }
  return failed;
}

}  // namespace membrane::python
