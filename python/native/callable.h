// A Python callable that the engine holds. It is released with the GIL held, on any thread.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <utility>

namespace membrane::python {

class Callable {
 public:
  explicit Callable(nanobind::object callable) : callable_(std::move(callable)) {}
  ~Callable() {
    const nanobind::gil_scoped_acquire gil;
    callable_.reset();
  }
  Callable(const Callable&) = delete;
  Callable& operator=(const Callable&) = delete;
  [[nodiscard]] const nanobind::object& get() const { return callable_; }

 private:
  nanobind::object callable_;
};

// Null for None.
inline std::shared_ptr<Callable> hold(nanobind::object callable) {
  return callable.is_none() ? nullptr : std::make_shared<Callable>(std::move(callable));
}

}  // namespace membrane::python
