#include "agents.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "callable.h"
#include "running.h"

namespace nb = nanobind;

namespace membrane::python {
namespace {

using Clock = std::chrono::steady_clock;

// What a program wrote, which need not be UTF-8.
nb::object text_of(std::string_view text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::tuple tuple_of(const FlowReads& reads) {
  nb::list first;
  for (const FlowRead& read : reads.first)
    first.append(nb::make_tuple(read.call, text_of(read.function), text_of(read.target)));
  return nb::make_tuple(first, reads.more);
}

// What the function gives for the words and a MustStop.
nb::object call(const nb::object& function, Clock::time_point until, const std::atomic<bool>* cancel,
                const auto&... words) {
  const std::function<bool()> must_stop = [was_cancelled = RunningTurn::was_cancelled(), until, cancel] {
    return was_cancelled() || Clock::now() >= until ||
           (cancel != nullptr && cancel->load(std::memory_order_relaxed));
  };
  nb::object given = call_with_must_stop(function, must_stop, words...);
  RunningTurn::cancel_if_wanted();
  return given;
}

std::chrono::milliseconds bounded(uint64_t timeout_ms) {
  constexpr uint64_t kLongestMs = 1000ull * 60 * 60 * 24 * 365;
  return std::chrono::milliseconds(std::min(timeout_ms, kLongestMs));
}

std::unexpected<Failure> failed(std::string code, std::string message) {
  return std::unexpected(Failure{.code = std::move(code), .message = std::move(message)});
}

// Of (code, message, value) of _agents.py: `made` of the value where there is no code.
template <typename Value, typename Make>
Expected<Value> answered(const char* what, const nb::object& function, uint64_t timeout_ms, Make make,
                         const auto&... words) {
  return asked(what, Expected<Value>(failed("EHOST", "the embedder's function failed")),
               [&]() -> Expected<Value> {
                 const auto until = Clock::now() + bounded(timeout_ms);
                 const auto said = nb::cast<nb::tuple>(
                     call(function, until, nullptr, words..., static_cast<double>(timeout_ms) / 1000));
                 const auto code = nb::cast<std::string>(said[0]);
                 if (!code.empty()) return failed(code, nb::cast<std::string>(said[1]));
                 return make(nb::object(said[2]));
               });
}

Approve approve_of(std::shared_ptr<Callable> held) {
  if (held == nullptr) return nullptr;
  return [held](const EgressQuestion& question) {
    return asked("the approve of a session", Approval::kNobody, [&] {
      const std::chrono::duration<double> left = question.until - Clock::now();
      const nb::object said = call(held->get(), question.until, question.cancel, text_of(question.function),
                                   text_of(question.target), question.bytes, tuple_of(question.private_reads),
                                   tuple_of(question.untrusted_reads), std::max(left.count(), 0.0));
      return static_cast<Approval>(nb::cast<int>(said));
    });
  };
}

Model model_of(std::shared_ptr<Callable> complete, std::shared_ptr<Callable> embed) {
  Model model;
  if (complete != nullptr)
    model.complete = [complete](const ModelRequest& request) {
      const auto make = [](const nb::object& value) {
        const auto all = nb::cast<nb::tuple>(value);
        return ModelAnswer{nb::cast<std::string>(all[0]), nb::cast<uint64_t>(all[1]),
                           nb::cast<uint64_t>(all[2])};
      };
      const nb::gil_scoped_acquire gil;
      return answered<ModelAnswer>("the model of a session", complete->get(), request.timeout_ms, make,
                                   text_of(request.system), text_of(request.prompt), request.max_tokens);
    };
  if (embed != nullptr)
    model.embed = [embed](std::string_view text, uint64_t timeout_ms) {
      const auto make = [](const nb::object& value) { return nb::cast<std::vector<float>>(value); };
      const nb::gil_scoped_acquire gil;
      return answered<std::vector<float>>("the model of a session", embed->get(), timeout_ms, make,
                                          text_of(text));
    };
  return model;
}

Ask ask_of(std::shared_ptr<Callable> held) {
  if (held == nullptr) return nullptr;
  return [held](std::string_view question, uint64_t timeout_ms) {
    const auto make = [](const nb::object& value) { return nb::cast<std::string>(value); };
    const nb::gil_scoped_acquire gil;
    return answered<std::string>("the ask of a session", held->get(), timeout_ms, make, text_of(question));
  };
}

}  // namespace

nb::tuple words_of(const Failure& failure) {
  return nb::make_tuple(failure.code, failure.message, failure.hint, failure.traceback);
}

void add_agents(const nb::dict& words, SessionOptions& options) {
  const auto held = [&](const char* name) { return hold(nb::borrow(words[name])); };
  options.approve = approve_of(held("approve"));
  options.model = model_of(held("complete"), held("embed"));
  options.ask = ask_of(held("ask"));
  if (!words["flows"].is_none()) options.flows = nb::cast<Flows>(words["flows"]);
  if (!words["receipts"].is_none()) options.receipts = nb::cast<Receipts>(words["receipts"]);
}

void define_agents(nb::module_& module, Receipts (*open)(std::string, ReceiptsOptions)) {
  nb::class_<Flows>(module, "Flows")
      .def(nb::init<>())
      .def_prop_ro("private_reads", [](const Flows& flows) { return tuple_of(flows.private_reads()); })
      .def_prop_ro("untrusted_reads", [](const Flows& flows) { return tuple_of(flows.untrusted_reads()); })
      .def_prop_ro("is_closed", &Flows::is_closed);
  nb::class_<Receipts>(module, "Receipts")
      .def_static("open",
                  [open](std::string directory, std::string key_file, bool makes_key) {
                    const nb::gil_scoped_release released;
                    return open(std::move(directory), {std::move(key_file), makes_key});
                  })
      .def_prop_ro("problem", [](const Receipts& receipts) -> nb::object {
        const auto problem = receipts.problem();
        if (!problem) return nb::none();
        return words_of(*problem);
      });
}

}  // namespace membrane::python
