// Approval, a model, a person and receipts of a session (membrane/agents.hpp), as membrane/_agents.py describes them.
#pragma once

#include <nanobind/nanobind.h>

#include <membrane/session.hpp>
#include <string>

namespace membrane::python {

// (code, message, hint, traceback)
nanobind::tuple words_of(const Failure& failure);

// Needs the GIL. Its functions may raise only KeyboardInterrupt; anything else goes to sys.unraisablehook.
void add_agents(const nanobind::dict& words, SessionOptions& options);

// Adds the classes Flows and Receipts. `open` opens Receipts, and throws what the module translates.
void define_agents(nanobind::module_& module,
                   Receipts (*open)(std::string directory, ReceiptsOptions options));

}  // namespace membrane::python
