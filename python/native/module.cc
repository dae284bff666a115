// The engine in this process, for membrane/_embedded.py: languages and sessions of include/membrane/session.hpp, with texts for values.
//
// The GIL is released while a guest runs, and taken for each call of a function.

#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <membrane/session.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "agents.h"
#include "callable.h"
#include "running.h"
#include "sources.h"

namespace nb = nanobind;

namespace {

using membrane::python::call_with_must_stop;
using membrane::python::hold;
using membrane::python::MustStop;
using membrane::python::RunningTurn;
using membrane::python::words_of;

// What membrane/_embedded.py raises as a MembraneError.
struct Failed {
  membrane::Failure failure;
};

template <typename T>
T value_or_throw(membrane::Expected<T> expected) {
  if (!expected) throw Failed{std::move(expected).error()};
  if constexpr (!std::is_void_v<T>) return *std::move(expected);
}

nb::bytes bytes_of(const auto& content) { return nb::bytes(content.data(), content.size()); }
std::span<const uint8_t> span_of(const nb::bytes& content) {
  return {reinterpret_cast<const uint8_t*>(content.c_str()), content.size()};
}

// (kind, json, type, message), as _embedded.py writes an answer.
using AnswerTuple = std::tuple<int, std::string, std::string, std::string>;
std::vector<membrane::Answer> answers_of(std::vector<AnswerTuple> given) {
  std::vector<membrane::Answer> answers;
  for (auto& [kind, json, type, message] : given)
    answers.push_back(
        {static_cast<membrane::Answer::Kind>(kind), std::move(json), std::move(type), std::move(message)});
  return answers;
}
// [(name, arguments, keywords, object)], as _functions.py has a WireCall.
nb::list wires_of(const auto& calls) {
  nb::list made;
  for (const auto& call : calls)
    made.append(nb::make_tuple(call.name, call.arguments, call.keywords, call.object));
  return made;
}

std::function<void(std::string_view)> listener_of(nb::object callable) {
  auto held = hold(std::move(callable));
  if (held == nullptr) return nullptr;
  return [held](std::string_view text) {
    const nb::gil_scoped_acquire gil;
    try {
      held->get()(nb::str(text.data(), text.size()));
    } catch (nb::python_error& error) {
      if (!RunningTurn::ends_by(error)) error.discard_as_unraisable("a listener of a session's output");
    }
  };
}

std::function<std::vector<membrane::Answer>(std::span<const membrane::FunctionCall>)> caller_of(
    nb::object callable) {
  auto held = hold(std::move(callable));
  if (held == nullptr) return nullptr;
  return [held](std::span<const membrane::FunctionCall> calls) {
    const nb::gil_scoped_acquire gil;
    try {
      return answers_of(nb::cast<std::vector<AnswerTuple>>(
          call_with_must_stop(held->get(), calls.front().must_stop, wires_of(calls))));
    } catch (
        nb::python_error& error) {  // _functions.py catches what functions raise, but for what ends the turn
      const std::string what = error.what();
      RunningTurn::ends_by(error);
      return std::vector(calls.size(), membrane::Answer::error("", what));
    }
  };
}

// A report, as little of it as most who run a cell look at; the rest is its JSON.
struct Outcome {
  membrane::Report report;

  [[nodiscard]] std::string_view outcome() const { return membrane::name_of(report.outcome); }
  [[nodiscard]] nb::list waits_for() const { return wires_of(report.waits_for); }
};

using Pairs = std::vector<std::pair<std::string, std::string>>;

struct FunctionWords {
  std::string module, name, signature, doc;
  bool is_async = false;
};
membrane::GuestFunction function_of(const nb::tuple& words) {
  return {.module = nb::cast<std::string>(words[0]),
          .name = nb::cast<std::string>(words[1]),
          .signature = nb::cast<std::string>(words[2]),
          .doc = nb::cast<std::string>(words[3]),
          .is_async = nb::cast<bool>(words[4])};
}
membrane::GuestType type_of(const nb::tuple& words) {
  membrane::GuestType type{.name = nb::cast<std::string>(words[0]),
                           .module = nb::cast<std::string>(words[1]),
                           .doc = nb::cast<std::string>(words[2])};
  for (const nb::handle method : nb::cast<nb::list>(words[3]))
    type.methods.push_back(function_of(nb::cast<nb::tuple>(method)));
  type.attributes = nb::cast<std::vector<std::string>>(words[4]);
  return type;
}

membrane::SessionOptions options_of(const membrane::Policy& policy, const nb::dict& given) {
  membrane::SessionOptions options;
  options.policy = policy;
  for (const nb::handle each : nb::cast<nb::list>(given["functions"]))
    options.functions.push_back(function_of(nb::cast<nb::tuple>(each)));
  for (const nb::handle each : nb::cast<nb::list>(given["types"]))
    options.types.push_back(type_of(nb::cast<nb::tuple>(each)));
  options.modules = nb::cast<Pairs>(given["modules"]);
  options.inputs = nb::cast<Pairs>(given["inputs"]);
  options.call_many = caller_of(nb::borrow(given["call"]));
  options.on_stdout = listener_of(nb::borrow(given["on_stdout"]));
  options.on_stderr = listener_of(nb::borrow(given["on_stderr"]));
  options.on_poll = &RunningTurn::poll;
  options.isolated = nb::cast<bool>(given["isolated"]);
  options.accepted_missing_walls = nb::cast<std::vector<std::string>>(given["accepted_missing_walls"]);
  membrane::python::add_sources(nb::cast<nb::dict>(given["sources"]), options);
  membrane::python::add_agents(nb::cast<nb::dict>(given["agents"]), options);
  return options;
}

class Session {
 public:
  explicit Session(membrane::Session of) : session_(std::move(of)) {}

  Outcome run(std::string code, std::string name, bool is_script, bool only_checks,
              std::vector<std::string> arguments, std::string input, bool declares_calls, Pairs inputs) {
    return turn([&] {
      return session_.run({.code = std::move(code),
                           .name = std::move(name),
                           .is_script = is_script,
                           .only_checks = only_checks,
                           .declares_calls = declares_calls,
                           .arguments = std::move(arguments),
                           .input = std::move(input),
                           .inputs = std::move(inputs)});
    });
  }
  Outcome resume(std::vector<AnswerTuple> answers) {
    return turn([&] { return session_.resume(answers_of(std::move(answers))); });
  }
  void abandon() {
    const nb::gil_scoped_release released;
    value_or_throw(session_.abandon());
  }
  [[nodiscard]] nb::list waits_for() const { return wires_of(session_.waits_for()); }
  Session fork() {
    const nb::gil_scoped_release released;
    return Session(value_or_throw(session_.fork()));
  }
  [[nodiscard]] nb::bytes dump() const {
    std::vector<uint8_t> bytes;
    {
      const nb::gil_scoped_release released;
      bytes = value_or_throw(session_.dump());
    }
    return bytes_of(bytes);
  }
  [[nodiscard]] nb::bytes read_file(std::string_view path) const {
    std::string content;
    {
      const nb::gil_scoped_release released;
      content = value_or_throw(session_.read_file(path));
    }
    return bytes_of(content);
  }
  void write_file(std::string_view path, const nb::bytes& content) {
    const std::string_view bytes(content.c_str(), content.size());
    const nb::gil_scoped_release released;
    value_or_throw(session_.write_file(path, bytes));
  }
  [[nodiscard]] std::vector<std::pair<std::string, uint64_t>> files() const {
    const nb::gil_scoped_release released;
    std::vector<std::pair<std::string, uint64_t>> made;
    for (const auto& file : session_.files()) made.emplace_back(file.path, file.size_bytes);
    return made;
  }
  std::vector<std::string> complete(std::string_view code) {
    const nb::gil_scoped_release released;
    return session_.complete(code);
  }
  void cancel() {
    ++*cancels_;
    session_.cancel();
  }

 private:
  Outcome turn(auto&& act) {
    RunningTurn running(session_, cancels_);
    Outcome outcome;
    {
      const nb::gil_scoped_release released;
      outcome.report = act();
    }
    running.raise();
    return outcome;
  }

  membrane::Session session_;
  membrane::python::Cancels cancels_ = std::make_shared<std::atomic<uint64_t>>(0);
};

}  // namespace

NB_MODULE(_native, module) {
  module.attr("version") = std::string(membrane::version());
  nb::set_leak_warnings(false);

  // (code, message, hint, traceback): what Failure of _embedded.py is made of.
  static PyObject* const failure =
      PyErr_NewException("membrane._native.Failure", PyExc_RuntimeError, nullptr);
  module.attr("Failure") = nb::borrow(failure);
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Failed& failed) {
      PyErr_SetObject(failure, words_of(failed.failure).ptr());
    }
  });

  nb::class_<MustStop>(module, "MustStop").def("__call__", &MustStop::operator());

  nb::class_<membrane::Policy>(module, "Policy")
      .def_static("for_languages", &membrane::Policy::for_languages)
      .def_static(
          "parse",
          [](std::string_view text, std::string_view name) {
            return value_or_throw(membrane::Policy::parse(text, name, membrane::Policy::for_languages()));
          })
      .def("allow",
           [](membrane::Policy& policy, std::string_view grant) { value_or_throw(policy.allow(grant)); })
      .def("limit", [](membrane::Policy& policy, std::string_view name,
                       std::string_view value) { value_or_throw(policy.limit(name, value)); })
      .def("explain", &membrane::Policy::explain)
      .def("to_json", &membrane::Policy::to_json);

  nb::class_<membrane::Language>(module, "Language")
      .def_static(
          "open",
          [](std::string_view name, nb::object on_progress) {
            membrane::LanguageOptions options;
            options.on_progress = listener_of(std::move(on_progress));
            const nb::gil_scoped_release released;
            return value_or_throw(membrane::Language::open(name, options));
          },
          nb::arg("name"), nb::arg("on_progress").none())
      .def_prop_ro("name", &membrane::Language::name);

  membrane::python::define_agents(module, [](std::string directory, membrane::ReceiptsOptions options) {
    return value_or_throw(membrane::Receipts::open(std::move(directory), options));
  });

  nb::class_<Outcome>(module, "Outcome")
      .def_prop_ro("outcome", &Outcome::outcome)
      .def_prop_ro("text", [](const Outcome& of) { return of.report.result; })
      .def_prop_ro("stdout", [](const Outcome& of) { return of.report.stdout_text; })
      .def_prop_ro("stderr", [](const Outcome& of) { return of.report.stderr_text; })
      .def_prop_ro("fuel_used", [](const Outcome& of) { return of.report.fuel_used; })
      .def_prop_ro("exit_code", [](const Outcome& of) { return of.report.exit_code; })
      .def_prop_ro("waits_for", &Outcome::waits_for)
      .def_prop_ro("receipt", [](const Outcome& of) { return of.report.receipt; })
      .def_prop_ro("unsealed",
                   [](const Outcome& of) -> nb::object {
                     if (!of.report.unsealed) return nb::none();
                     return words_of(*of.report.unsealed);
                   })
      .def("to_json", [](const Outcome& of) { return of.report.to_json(); });

  nb::class_<Session>(module, "Session")
      .def_static(
          "create",
          [](const membrane::Language& language, const membrane::Policy& policy, const nb::dict& options) {
            membrane::SessionOptions how = options_of(policy, options);
            const nb::gil_scoped_release released;
            return Session(value_or_throw(membrane::Session::create(language, std::move(how))));
          })
      .def_static(
          "load",
          [](const membrane::Language& language, const nb::bytes& bytes, const membrane::Policy& policy,
             const nb::dict& options) {
            membrane::SessionOptions how = options_of(policy, options);
            const nb::gil_scoped_release released;
            return Session(value_or_throw(membrane::Session::load(language, span_of(bytes), std::move(how))));
          })
      .def("run", &Session::run)
      .def("resume", &Session::resume)
      .def("abandon", &Session::abandon)
      .def_prop_ro("waits_for", &Session::waits_for)
      .def("fork", &Session::fork)
      .def("dump", &Session::dump)
      .def("read_file", &Session::read_file)
      .def("write_file", &Session::write_file)
      .def_prop_ro("files", &Session::files)
      .def("complete", &Session::complete)
      .def("cancel", &Session::cancel);
}
