// Approval, a model, a person and receipts of a session (membrane/agents.hpp), as membrane/_agents.py tells of them.
#pragma once

#include <nanobind/nanobind.h>

#include <membrane/session.hpp>
#include <string>

namespace membrane::python {

// (code, message, hint, traceback)
nanobind::tuple words_of(const Failure& failure);

// With the GIL. Its functions do not raise, but for KeyboardInterrupt; what they raise all the same is told by sys.unraisablehook.
void add_agents(const nanobind::dict& words, SessionOptions& options);

// The classes Flows and Receipts. `open` is what Receipts are opened by, which throws what the module translates.
void define_agents(nanobind::module_& module,
                   Receipts (*open)(std::string directory, ReceiptsOptions options));

}  // namespace membrane::python
