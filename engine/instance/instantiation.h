// The steps of instantiation: resolving imports, making what the module defines, and writing its segments.
//
// Threads: one at a time, as for the Store. Specification: WebAssembly 2.0, chapter 4.5.4.
#pragma once

#include <expected>

#include "engine/instance/instance.h"

namespace membrane::engine {

struct Instantiation {
  // Fills `instance`, whose module, heap and limits are set. What was written before a step that fails stays written.
  static std::expected<void, LinkError> run(Store& store, Instance& instance, const Resolver& resolver,
                                            const InstanceLimits& limits, const InstanceStart& start);

 private:
  struct Steps;
};

}  // namespace membrane::engine
