// Functions of the host for the modules of tests and fuzz targets.
#pragma once

#include <optional>
#include <utility>

#include "engine/instance/host_call.h"
#include "engine/instance/store.h"

namespace membrane::engine {

// Gives a module this function for each function that it imports. The Store outlives the resolver.
inline Resolver importing(Store& store, HostFunction function) {
  return [&store, function = std::move(function)](const wasm::Module& module,
                                                  const wasm::Import& import) -> std::optional<Extern> {
    return Extern{wasm::ExternKind::kFunc,
                  store.add_host_function(module.type_of_function(import.index), function), nullptr, nullptr,
                  nullptr};
  };
}

}  // namespace membrane::engine
