// Resolves a module's imports to functions of the host.
//
// Threads: those of the store.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "engine/instance/instance.h"

namespace membrane::sandbox {

struct HostImport {
  wasm::FuncType type;
  engine::HostFunction function;
};

// Resolves imports of functions only. `find` returns nothing for an unknown one; the store is borrowed.
inline engine::Resolver resolver_of(engine::Store& store,
                                    std::function<std::optional<HostImport>(const wasm::Import&)> find) {
  return [&store, find = std::move(find)](const wasm::Module&,
                                          const wasm::Import& import) -> std::optional<engine::Extern> {
    if (import.kind != wasm::ExternKind::kFunc) return std::nullopt;
    auto found = find(import);
    if (!found) return std::nullopt;
    engine::FunctionInstance* const made = store.add_host_function(found->type, std::move(found->function));
    return engine::Extern{wasm::ExternKind::kFunc, made, nullptr, nullptr, nullptr};
  };
}

}  // namespace membrane::sandbox
