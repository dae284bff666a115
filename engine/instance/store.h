// The arena of instances that link with each other: a function that one of them puts into another's table lives as long as
// the Store.
//
// Ownership: of all that is in it. Threads: a Store, with all that is in it, belongs to one thread at a time.
//
// Specification: WebAssembly 2.0, chapters 4.2 (runtime structure) and 4.5 (modules).
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "engine/code/compiled_module.h"
#include "engine/code/trap.h"
#include "engine/heap/heap.h"
#include "engine/instance/exceptions.h"
#include "engine/instance/function.h"
#include "engine/instance/global.h"
#include "engine/instance/table.h"
#include "engine/instance/value.h"
#include "engine/memory/memory.h"

namespace membrane::engine {

class Instance;

// A value for an import, or that of an export. Borrowed from a Store.
struct Extern {
  wasm::ExternKind kind = wasm::ExternKind::kFunc;
  FunctionInstance* function = nullptr;
  Table* table = nullptr;
  Memory* memory = nullptr;
  GlobalInstance* global = nullptr;
  TagInstance* tag = nullptr;
};

// Provides imports. Return std::nullopt for an unknown one.
using Resolver = std::function<std::optional<Extern>(const wasm::Module&, const wasm::Import&)>;

struct InstanceLimits {
  uint64_t memory_bytes = 4ull << 30;    // of its own memories together
  uint32_t table_elements = 10'000'000;  // of its own tables together
  uint64_t exception_bytes =
      32u << 20;  // of exceptions that it throws and that are kept; they count as memory too
  uint64_t heap_bytes = 256u << 20;  // of structs and arrays; they count as memory as well
};

// How an instance begins, other than as its module says.
struct InstanceStart {
  // It stands alone: nothing but its exported functions can be used from outside, and only by the host. It then
  // costs little to make, however many functions it has. Only for a module that imports nothing but functions.
  bool is_alone = false;
  // How its own memories begin. No segment is written: the caller fills the instance next. Borrowed.
  const std::vector<MemoryStart>* memories = nullptr;
  bool has_tables = true;  // with `memories`: false when the caller fills tables and segments altogether
};

// Why an instance could not be made.
struct LinkError {
  enum class Kind : uint8_t { kUnknownImport, kIncompatibleImport, kTrap, kLimit } kind{};
  Error error;
  uint32_t import = UINT32_MAX;  // into Module::imports
  TrapKind trap{};               // kTrap: a segment did not fit its memory or table
};

class Store {
 public:
  Store();
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // The module's start function is run by the caller (Execution), not here.
  std::expected<Instance*, LinkError> instantiate(std::shared_ptr<CompiledModule> module,
                                                  const Resolver& resolver, const InstanceLimits& limits,
                                                  const InstanceStart& start = {});
  // The host's values have types that name no others.
  FunctionInstance* add_host_function(const wasm::FuncType& type, HostFunction function);
  Table* add_table(const wasm::TableType& type, uint32_t limit);  // null when its minimum is above it
  Result<Memory*> add_memory(const wasm::MemoryType& type, uint64_t limit_bytes,
                             MemoryBudget* shared = nullptr, MemoryStart start = {});
  GlobalInstance* add_global(const wasm::GlobalType& type, Value value);
  TagInstance* add_tag(const wasm::FuncType& type);  // of a type without results

 private:
  friend struct Instantiation;
  Table* add_table(const wasm::TableType& type, const std::shared_ptr<uint32_t>& allowance,
                   bool is_filled = true);
  TagInstance* add_tag(TagInstance tag);

  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace membrane::engine
