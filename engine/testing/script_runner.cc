#include "engine/testing/script_runner.h"

#include <cstring>
#include <map>

#include "engine/execution/execution.h"
#include "engine/execution/module.h"
#include "wasm/binary.h"
#include "wasm/text/parser.h"
#include "wasm/text/script.h"
#include "wasm/text/superseded.h"

namespace membrane::engine {
namespace {

using wasm::Command;
using wasm::ScriptModule;
using wasm::ScriptValue;
using wasm::ValType;

// Scripts say how much is too much recursion only by "it overflows some stack".
constexpr uint64_t kFuel = 2'000'000'000;
constexpr InstanceLimits kLimits{.memory_bytes = 4ull << 30, .table_elements = 10'000'000};

// How far a module came, and why no further.
struct Loaded {
  enum class Stage : uint8_t { kMalformed, kInvalid, kUnlinkable, kTrapped, kReady } stage{};
  std::string message;
  Instance* instance = nullptr;
};

Value value_of(const ScriptValue& v) {
  Value value{v.type, v.bits, 0};
  if (v.type == ValType::kV128) {
    std::memcpy(&value.bits, v.vector.data(), 8);
    std::memcpy(&value.high_bits, v.vector.data() + 8, 8);
  } else if (wasm::is_ref(v.type)) {
    value.bits = v.is_null ? 0 : v.bits + 1;
    if (v.is_host) value.bits = any_of_extern(value.bits);
  }
  return value;
}

// Whether a reference that is not null is of the abstract type that a pattern names.
bool is_of(ValType wanted, const Value& value, const Heap& heap) {
  switch (wanted) {
    case ValType::kI31Ref: return is_i31(value.bits);
    case ValType::kEqRef: return is_i31(value.bits) || heap.find(value.bits) != nullptr;
    case ValType::kStructRef:
    case ValType::kArrayRef: {
      const Object* const object = heap.find(value.bits);
      const auto kind = wanted == ValType::kStructRef ? wasm::TypeKind::kStruct : wasm::TypeKind::kArray;
      return object != nullptr && object->type->kind == kind;
    }
    default: return true;
  }
}

bool fits(const wasm::ResultPattern& pattern, const Value& value, const Heap& heap) {
  if (!pattern.either.empty())
    return std::ranges::any_of(pattern.either, [&](const auto& one) { return fits(one, value, heap); });
  if (!wasm::is_ref(value.type))
    return pattern.value.type == value.type && matches(pattern, value.bits, value.high_bits);
  if (pattern.value.is_null) return value.bits == 0;
  if (pattern.any_reference) return value.bits != 0 && is_of(pattern.value.type, value, heap);
  return value.bits == value_of(pattern.value).bits;
}

std::string show(const Value& value) {
  if (value.type == ValType::kV128)
    return "v128 " + std::to_string(value.bits) + " " + std::to_string(value.high_bits);
  return std::string(wasm::name_of(value.type)) + " " + std::to_string(value.bits);
}

class Runner {
 public:
  Runner(std::string_view file, Tier tier) : tier_(tier), file_(file) { provide_spectest(); }

  ScriptResult run(const std::vector<Command>& commands) {
    for (const Command& command : commands) run(command);
    return std::move(result_);
  }

 private:
  const Tier tier_;
  void pass() { ++result_.passed; }
  void fail(const Command& command, std::string what) {
    if (const auto rule = wasm::superseded_by(file_, command.line, command.message); !rule.empty()) {
      result_.superseded.push_back({command.line, std::string(name_of(command.kind)), std::string(rule)});
      return;
    }
    ++result_.failed;
    result_.failures.push_back({command.line, std::string(name_of(command.kind)), std::move(what)});
  }

  void provide_spectest();
  std::optional<Extern> resolve(const wasm::Import& import);
  std::expected<wasm::Module, Loaded> read(const ScriptModule& module);
  std::expected<std::shared_ptr<CompiledModule>, Loaded> compile(const ScriptModule& module);
  void count(const CompiledModule& compiled);
  Loaded load(const ScriptModule& module);
  Loaded instantiate(const std::shared_ptr<CompiledModule>& compiled);
  Instance* find(const std::string& name) {
    if (name.empty()) return current_;
    const auto found = named_.find(name);
    return found == named_.end() ? nullptr : found->second;
  }

  void run(const Command& command);
  void run_module(const Command& command);
  void define_module(const Command& command);
  void run_instance(const Command& command);
  void keep(const Command& command, const std::string& name, const Loaded& loaded);
  void run_register(const Command& command);
  void run_action(const Command& command);
  void expect_stage(const Command& command, Loaded::Stage wanted);
  RunState invoke(Instance& instance, const wasm::Action& action, std::vector<Value>& results,
                  std::string& trap);

  std::string_view file_;
  Store store_;
  std::map<std::string, std::map<std::string, Extern>> provided_;  // spectest
  std::map<std::string, Instance*> registered_;
  std::map<std::string, Instance*> named_;
  std::map<std::string, std::shared_ptr<CompiledModule>> definitions_;  // "": the last
  Instance* current_ = nullptr;
  ScriptResult result_;
};

void Runner::provide_spectest() {
  auto& spectest = provided_["spectest"];
  const auto print = [&](const char* name, std::vector<ValType> params) {
    FunctionInstance* const f =
        store_.add_host_function({std::move(params), {}}, [](HostCall&) { return HostAction::kContinue; });
    spectest[name] = {wasm::ExternKind::kFunc, f, nullptr, nullptr, nullptr};
  };
  print("print", {});
  print("print_i32", {ValType::kI32});
  print("print_i64", {ValType::kI64});
  print("print_f32", {ValType::kF32});
  print("print_f64", {ValType::kF64});
  print("print_i32_f32", {ValType::kI32, ValType::kF32});
  print("print_f64_f64", {ValType::kF64, ValType::kF64});
  const auto global = [&](const char* name, Value value) {
    spectest[name] = {wasm::ExternKind::kGlobal, nullptr, nullptr, nullptr,
                      store_.add_global({value.type, false}, value)};
  };
  global("global_i32", Value::i32(666));
  global("global_i64", Value::i64(666));
  global("global_f32", Value::f32(666.6f));
  global("global_f64", Value::f64(666.6));
  spectest["table"] = {wasm::ExternKind::kTable, nullptr,
                       store_.add_table({ValType::kFuncRef, {10, 20}}, kLimits.table_elements), nullptr,
                       nullptr};
  spectest["table64"] = {wasm::ExternKind::kTable, nullptr,
                         store_.add_table({ValType::kFuncRef, {10, 20, true}}, kLimits.table_elements),
                         nullptr, nullptr};
  if (auto memory = store_.add_memory({{1, 2}}, kLimits.memory_bytes))
    spectest["memory"] = {wasm::ExternKind::kMemory, nullptr, nullptr, *memory, nullptr};
}

std::optional<Extern> Runner::resolve(const wasm::Import& import) {
  if (const auto module = registered_.find(import.module); module != registered_.end())
    return module->second->find_export(import.name);
  if (const auto module = provided_.find(import.module); module != provided_.end())
    if (const auto found = module->second.find(import.name); found != module->second.end())
      return found->second;
  return std::nullopt;
}

std::expected<wasm::Module, Loaded> Runner::read(const ScriptModule& module) {
  if (module.kind != ScriptModule::Kind::kBinary) {
    auto parsed = wasm::parse_text(module.source());
    if (!parsed)
      return std::unexpected(Loaded{Loaded::Stage::kMalformed, parsed.error().front().message, nullptr});
    return std::move(*parsed);
  }
  const auto* const bytes = reinterpret_cast<const uint8_t*>(module.bytes.data());
  auto decoded = wasm::decode(std::span(bytes, module.bytes.size()));
  if (!decoded) return std::unexpected(Loaded{Loaded::Stage::kMalformed, decoded.error().message, nullptr});
  return std::move(*decoded);
}

std::expected<std::shared_ptr<CompiledModule>, Loaded> Runner::compile(const ScriptModule& module) {
  using enum Loaded::Stage;
  auto parsed = read(module);
  if (!parsed) return std::unexpected(parsed.error());
  auto compiled = compile_module(std::move(*parsed), {}, tier_);
  if (compiled) {
    count(**compiled);
    return *compiled;
  }
  return std::unexpected(Loaded{wasm::is_malformed(compiled.error().code) ? kMalformed : kInvalid,
                                compiled.error().message, nullptr});
}

void Runner::count(const CompiledModule& compiled) {
  const auto& functions = compiled.module().functions;
  for (size_t i = 0; i < functions.size(); ++i) {
    if (functions[i].import != wasm::kNotImported) continue;
    ++result_.functions;
    if (compiled.functions()[i].native_code.load(std::memory_order_acquire) != nullptr) ++result_.compiled;
  }
}

Loaded Runner::load(const ScriptModule& module) {
  const auto compiled = compile(module);
  return compiled ? instantiate(*compiled) : compiled.error();
}

Loaded Runner::instantiate(const std::shared_ptr<CompiledModule>& compiled) {
  using enum Loaded::Stage;
  auto made = store_.instantiate(
      compiled, [this](const wasm::Module&, const wasm::Import& import) { return resolve(import); }, kLimits);
  if (!made) {
    if (made.error().kind == LinkError::Kind::kTrap)
      return {kTrapped, std::string(text_of(made.error().trap)), nullptr};
    return {kUnlinkable, made.error().error.message, nullptr};
  }
  Instance* const instance = *made;
  if (const uint32_t start = instance->module().start; start != UINT32_MAX) {
    Execution run;
    run.add_fuel(kFuel);
    if (!run.start(instance->function(start), {}) || run.resume() == RunState::kTrapped)
      return {kTrapped, run.trap().message, nullptr};
  }
  return {kReady, {}, instance};
}

void Runner::run(const Command& command) {
  using Kind = Command::Kind;
  switch (command.kind) {
    case Kind::kModule: return run_module(command);
    case Kind::kModuleDefinition: return define_module(command);
    case Kind::kModuleInstance: return run_instance(command);
    case Kind::kRegister: return run_register(command);
    case Kind::kAction:
    case Kind::kAssertReturn:
    case Kind::kAssertTrap:
    case Kind::kAssertException:
    case Kind::kAssertExhaustion: return run_action(command);
    case Kind::kAssertTrapModule: return expect_stage(command, Loaded::Stage::kTrapped);
    case Kind::kAssertInvalid: return expect_stage(command, Loaded::Stage::kInvalid);
    case Kind::kAssertMalformed: return expect_stage(command, Loaded::Stage::kMalformed);
    case Kind::kAssertUnlinkable: return expect_stage(command, Loaded::Stage::kUnlinkable);
  }
}

void Runner::run_module(const Command& command) { keep(command, command.module.name, load(command.module)); }

void Runner::define_module(const Command& command) {
  const auto compiled = compile(command.module);
  if (!compiled) return fail(command, compiled.error().message);
  definitions_[""] = definitions_[command.module.name] = *compiled;
  pass();
}

void Runner::run_instance(const Command& command) {
  const auto definition = definitions_.find(command.module_name);
  if (definition == definitions_.end()) return fail(command, "no such definition");
  keep(command, command.name, instantiate(definition->second));
}

// The outcome of a module's instantiation; the commands after it are about it.
void Runner::keep(const Command& command, const std::string& name, const Loaded& loaded) {
  current_ = loaded.instance;
  if (loaded.instance == nullptr) return fail(command, loaded.message);
  if (!name.empty()) named_[name] = loaded.instance;
  pass();
}

void Runner::run_register(const Command& command) {
  Instance* const instance = find(command.module_name);
  if (instance == nullptr) return fail(command, "no such module");
  registered_[command.name] = instance;
  pass();
}

RunState Runner::invoke(Instance& instance, const wasm::Action& action, std::vector<Value>& results,
                        std::string& trap) {
  Execution run;
  run.add_fuel(kFuel);
  std::vector<Value> arguments;
  for (const ScriptValue& v : action.arguments) arguments.push_back(value_of(v));
  FunctionInstance* const function = instance.find_function(action.name);
  if (function == nullptr) {
    trap = "no such function";
    return RunState::kTrapped;
  }
  if (const auto started = run.start(function, arguments); !started) {
    trap = started.error().message;
    return RunState::kTrapped;
  }
  const RunState state = run.resume();
  results = run.results();
  trap = state == RunState::kTrapped ? run.trap().message : "";
  return state;
}

void Runner::run_action(const Command& command) {
  Instance* const instance = find(command.action.module);
  if (instance == nullptr) return fail(command, "no such module");
  std::vector<Value> results;
  std::string trap;
  RunState state = RunState::kFinished;
  if (command.action.kind == wasm::Action::Kind::kGet) {
    const auto found = instance->find_export(command.action.name);
    if (!found || found->global == nullptr) return fail(command, "no such global");
    results = {{found->global->type.type, found->global->bits, found->global->high_bits}};
  } else {
    state = invoke(*instance, command.action, results, trap);
  }
  if (command.kind == Command::Kind::kAssertTrap || command.kind == Command::Kind::kAssertExhaustion) {
    // The official wording of a trap is a prefix: "uninitialized element 7".
    if (state != RunState::kTrapped)
      return fail(command, "expected the trap \"" + command.message + "\", and it returned");
    if (!command.message.starts_with(trap))
      return fail(command, "expected the trap \"" + command.message + "\", got \"" + trap + "\"");
    return pass();
  }
  if (command.kind == Command::Kind::kAssertException) {
    if (state == RunState::kTrapped && trap.starts_with(text_of(TrapKind::kUncaughtException))) return pass();
    return fail(command,
                "expected an exception" + (trap.empty() ? ", and it returned" : ", got \"" + trap + "\""));
  }
  if (state != RunState::kFinished) return fail(command, "did not return: " + trap);
  if (command.kind == Command::Kind::kAction) return pass();
  bool same = results.size() == command.results.size();
  for (size_t i = 0; same && i < results.size(); ++i)
    same = fits(command.results[i], results[i], instance->heap());
  if (same) return pass();
  std::string found;
  for (const Value& value : results) found += (found.empty() ? "" : ", ") + show(value);
  fail(command, "returned " + found);
}

void Runner::expect_stage(const Command& command, Loaded::Stage wanted) {
  const Loaded loaded = load(command.module);
  // The suite calls a text module malformed also where it is only the text that cannot say it.
  if (loaded.stage == wanted) return pass();
  static constexpr const char* kStages[] = {"malformed", "invalid", "unlinkable", "trapped", "accepted"};
  fail(command, "expected \"" + command.message + "\", and it was " +
                    kStages[static_cast<size_t>(loaded.stage)] +
                    (loaded.message.empty() ? "" : ": " + loaded.message));
}

}  // namespace

Result<ScriptResult> run_script(std::string_view text, std::string_view file, Tier tier) {
  auto commands = wasm::parse_script(text);
  if (!commands)
    return membrane::fail(ErrorCode::kInvalidInput, "line " + std::to_string(commands.error().place.line) +
                                                        ": " + commands.error().message);
  return Runner(file, tier).run(*commands);
}

}  // namespace membrane::engine
