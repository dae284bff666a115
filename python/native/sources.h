// A session's clock, time zone, sleep and entropy, as membrane/_sources.py describes them.
#pragma once

#include <nanobind/nanobind.h>

#include <membrane/session.hpp>

namespace membrane::python {

// Needs the GIL. What its functions raise goes to sys.unraisablehook, and fails the program's call.
void add_sources(const nanobind::dict& words, SessionOptions& options);

}  // namespace membrane::python
