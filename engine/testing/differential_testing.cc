#include "engine/testing/differential_testing.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/base64.h"
#include "base/sha256.h"
#include "engine/code/numeric.h"
#include "engine/execution/execution.h"
#include "engine/execution/module.h"
#include "engine/freeze/snapshot.h"
#include "engine/testing/module_generator_testing.h"
#include "engine/testing/reference_testing.h"
#include "wasm/binary.h"

namespace membrane::engine {
namespace {

constexpr uint64_t kMostFuel = 4'000;
constexpr uint32_t kMostDepth = 40;
constexpr uint64_t kMostFrozenFuel = 2'000;
// More than the reference had: a segment that traps in its middle is first paid whole.
constexpr uint64_t kEnoughFuel = kMostFuel + 1'000'000;

// What can be seen of a run and of the state after it. References are shown as the index of a function or
// an exception, plus one.
// A value has two words, of which only a vector uses the second.
struct Observed {
  std::string end;
  std::vector<uint64_t> results;
  uint64_t fuel = 0;
  std::vector<uint64_t> globals, table;
  std::vector<std::vector<uint8_t>> memories;
};

std::string describe_trap(TrapKind kind, uint32_t function, uint32_t offset) {
  return std::string(name_of(kind)) + " in function " + std::to_string(function) + " at offset " +
         std::to_string(offset);
}

void append(std::vector<uint64_t>& words, std::span<const Value> values) {
  for (const Value& v : values) words.insert(words.end(), {v.bits, v.high_bits});
}

Observed observe(Instance& instance, const Execution& run) {
  Observed seen;
  if (run.state() == RunState::kTrapped && !run.trap().backtrace.empty()) {
    const CodePlace& place = run.trap().backtrace.front();
    seen.end = describe_trap(run.trap().kind, place.function, place.code_offset);
  } else {
    seen.end = run.state() == RunState::kFinished ? "finished"
                                                  : "state " + std::to_string(static_cast<int>(run.state()));
  }
  append(seen.results, run.results());
  seen.fuel = run.fuel_used();
  for (const char* const name : {"g0", "g1", "g2", "g3", "g4", "g5"}) {
    const auto found = instance.find_export(name);
    if (!found) continue;  // only a module with exceptions has the last
    const GlobalInstance& global = *found->global;
    seen.globals.insert(seen.globals.end(), {global.bits, global.high_bits});
  }
  for (const uint64_t bits : instance.find_export("table")->table->elements)
    seen.table.push_back(bits == 0 ? 0 : instance.index_of(bits).value() + 1);
  for (const char* const name : {"memory", "memory1", "memory2"}) {
    const std::span<const uint8_t> memory = instance.find_export(name)->memory->bytes();
    seen.memories.emplace_back(memory.begin(), memory.end());
  }
  return seen;
}

Observed observe(const wasm::Module& module, Reference& reference, const ReferenceOutcome& outcome) {
  Observed seen;
  seen.end = outcome.end == ReferenceOutcome::End::kTrapped
                 ? describe_trap(outcome.trap, outcome.function, outcome.code_offset)
                 : "finished";
  append(seen.results, outcome.results);
  seen.fuel = outcome.fuel;
  for (size_t i = 0; i < reference.globals.size(); ++i) {
    if (wasm::is_indexed(module.globals[i].type.type)) continue;  // objects have other numbers there
    const Cell& global = reference.globals[i];
    seen.globals.insert(seen.globals.end(), {global.get<uint64_t>(0), global.get<uint64_t>(1)});
  }
  seen.table = reference.tables[0];
  seen.memories = std::move(reference.memories);
  return seen;
}

std::string show(const std::vector<uint64_t>& values) {
  std::string text = "[";
  for (const uint64_t v : values) text += " " + std::to_string(v);
  return text + " ]";
}

std::string difference(const Observed& wanted, const Observed& got) {
  if (wanted.end != got.end) return "ends: " + wanted.end + ", but got: " + got.end;
  if (wanted.results != got.results)
    return "results: " + show(wanted.results) + ", but got: " + show(got.results);
  if (wanted.fuel != got.fuel)
    return "fuel: " + std::to_string(wanted.fuel) + ", but got: " + std::to_string(got.fuel);
  if (wanted.globals != got.globals)
    return "globals: " + show(wanted.globals) + ", but got: " + show(got.globals);
  if (wanted.table != got.table) return "table: " + show(wanted.table) + ", but got: " + show(got.table);
  for (size_t i = 0; i < wanted.memories.size(); ++i) {
    const std::string name = "memory " + std::to_string(i);
    const std::vector<uint8_t>&want = wanted.memories[i], &have = got.memories[i];
    if (want.size() != have.size()) return name + " has another size";
    // memcmp, since a loop of our own would be slow where it is instrumented.
    if (std::memcmp(want.data(), have.data(), want.size()) == 0) continue;
    return name + " differs at " + std::to_string(std::ranges::mismatch(want, have).in1 - want.begin());
  }
  return "";
}

// Few enough that objects are collected now and then.
InstanceLimits small_heap() {
  InstanceLimits limits;
  limits.heap_bytes = 700;
  return limits;
}

ExecutionLimits limits() {
  ExecutionLimits l;
  l.call_depth = kMostDepth;
  return l;
}

// With `step` fuel at a time; 0: all at once.
std::string run_engine(const std::shared_ptr<CompiledModule>& compiled, std::span<const Value> arguments,
                       uint64_t fuel, uint64_t step, Observed& seen) {
  const auto instance = Instance::create(compiled, {}, small_heap());
  if (!instance) return "no instance: " + instance.error().error.to_string();
  Execution run(limits());
  if (auto started = run.start((*instance)->find_function("run"), arguments); !started) return "no start";
  if (step == 0) run.add_fuel(fuel);
  uint64_t added = 0;
  while (run.resume() == RunState::kOutOfFuel && step != 0 && added < fuel) {
    run.add_fuel(step);
    added += step;
  }
  seen = observe(**instance, run);
  return "";
}

// With `step` fuel at a time, and from one step to the next as bytes, in another instance.
std::string run_frozen(const std::shared_ptr<CompiledModule>& compiled, std::span<const Value> arguments,
                       uint64_t fuel, uint64_t step, Tier tier, Observed& seen) {
  auto store = std::make_unique<Store>();
  auto instance = store->instantiate(compiled, {}, small_heap());
  if (!instance) return "no instance: " + instance.error().error.to_string();
  auto run = std::make_unique<Execution>(limits());
  if (!run->start((*instance)->find_function("run"), arguments)) return "no start";
  uint64_t used = 0;
  run->add_fuel(step);
  for (uint64_t added = step; run->resume() == RunState::kOutOfFuel && added < fuel; added += step) {
    const uint64_t left = run->fuel_left();
    const auto frozen = freeze(*run, **instance);
    if (!frozen) return "not frozen: " + frozen.error().message;
    const auto snapshot = Snapshot::read(*frozen, tier);
    if (!snapshot) return "not read: " + snapshot.error().message;
    used += run->fuel_used();
    run = std::make_unique<Execution>(limits());
    store = std::make_unique<Store>();
    instance = snapshot->instantiate(*store, {}, small_heap());
    if (!instance) return "not thawed: " + instance.error().error.message;
    if (auto put = snapshot->resume_in(*run, **instance); !put) return "not resumed: " + put.error().message;
    run->add_fuel(left + step);
  }
  seen = observe(**instance, *run);
  seen.fuel += used;
  return "";
}

std::vector<Value> arguments_of(const GeneratedModule& made, const wasm::Module& module) {
  std::vector<Value> arguments;
  for (size_t i = 0; i < made.arguments.size() && i < module.type_of_function(0).params.size(); ++i) {
    const wasm::ValType type = module.type_of_function(0).params[i];
    const bool narrow = type == wasm::ValType::kI32 || type == wasm::ValType::kF32;
    const uint64_t bits = made.arguments[i];
    const uint64_t high_bits = type == wasm::ValType::kV128 ? std::rotl(bits, 20) : 0;
    arguments.push_back({type, narrow ? bits & UINT32_MAX : bits, high_bits});
  }
  return arguments;
}

// A NaN cannot be handed over bit by bit.
void make_canonical(Value& value) {
  if (value.type == wasm::ValType::kF32) {
    const auto x = std::bit_cast<float>(static_cast<uint32_t>(value.bits));
    if (x != x) value.bits = numeric::kCanonicalNan32;
  } else if (value.type == wasm::ValType::kF64) {
    const auto x = std::bit_cast<double>(value.bits);
    if (x != x) value.bits = numeric::kCanonicalNan64;
  }
}

std::string list(std::span<const Value> values) {
  std::string text;
  for (const Value& v : values)
    text += (text.empty() ? "" : ",") + std::string(name_of(v.type)) + ":" + std::to_string(v.bits);
  return text;
}

}  // namespace

std::string compare_with_reference(std::span<const uint8_t> choices, DifferentialCount& count, Tier tier) {
  const GeneratedModule made = generate_module(choices);
  auto decoded = wasm::decode(made.binary);
  if (!decoded) return "the generated module does not decode: " + decoded.error().message;
  auto compiled = compile_module(std::move(*decoded), {}, tier);
  if (!compiled)
    return "the generated module is not valid: " + compiled.error().message + " in " +
           compiled.error().function;

  const wasm::Module& module = (*compiled)->module();
  const std::vector<Value> arguments = arguments_of(made, module);

  Reference reference(module);
  const ReferenceOutcome outcome = reference.call(0, arguments, kMostFuel, kMostDepth);
  Observed at_once, stepped;
  if (outcome.end == ReferenceOutcome::End::kTooLong) {
    ++count.too_long;
    if (auto failed = run_engine(*compiled, arguments, kMostFuel, 0, at_once); !failed.empty()) return failed;
    if (at_once.end.starts_with(name_of(TrapKind::kHeapExhausted))) return "";
    return at_once.end == "state " + std::to_string(static_cast<int>(RunState::kOutOfFuel)) &&
                   at_once.fuel <= kMostFuel
               ? ""
               : "ends: out of fuel, but got: " + at_once.end;
  }
  ++(outcome.end == ReferenceOutcome::End::kFinished ? count.finished : count.trapped);
  count.fuel += outcome.fuel;
  Observed wanted = observe(module, reference, outcome);
  if (auto failed = run_engine(*compiled, arguments, kEnoughFuel, 0, at_once); !failed.empty()) return failed;
  // The reference's heap has no limit; when the engine reaches its own, all tiers must, also after
  // thawing.
  if (at_once.end.starts_with(name_of(TrapKind::kHeapExhausted))) wanted = at_once;
  if (auto differs = difference(wanted, at_once); !differs.empty()) return differs;
  const uint64_t step = 1 + (choices.empty() ? 0 : choices.back() % 7);
  if (auto failed = run_engine(*compiled, arguments, kEnoughFuel, step, stepped); !failed.empty())
    return failed;
  if (auto differs = difference(wanted, stepped); !differs.empty())
    return "with " + std::to_string(step) + " fuel at a time: " + differs;
  if (outcome.fuel > kMostFrozenFuel) return "";
  Observed frozen;
  const uint64_t pause = 1 + outcome.fuel / 3 + step;
  if (auto failed = run_frozen(*compiled, arguments, kEnoughFuel, pause, tier, frozen); !failed.empty())
    return "frozen: " + failed;
  if (auto differs = difference(wanted, frozen); !differs.empty())
    return "frozen after " + std::to_string(pause) + " fuel: " + differs;
  return "";
}

std::string run_for_others(std::span<const uint8_t> choices, Tier tier) {
  constexpr uint64_t kFuel = 200'000;
  const GeneratedModule made = generate_module(choices, Dialect::kShared);
  auto compiled = compile_module(*wasm::decode(made.binary), {}, tier);
  if (!compiled) return "not valid: " + compiled.error().message;
  std::vector<Value> arguments = arguments_of(made, (*compiled)->module());
  std::ranges::for_each(arguments, make_canonical);
  const auto instance = Instance::create(*compiled, {}, {});
  if (!instance) return "no instance: " + instance.error().error.message;
  ExecutionLimits deep;
  deep.call_depth = 400;
  Execution run(deep);
  if (!run.start((*instance)->find_function("run"), arguments)) return "no start";
  run.add_fuel(kFuel);
  const RunState state = run.resume();
  if (state != RunState::kFinished && state != RunState::kTrapped) return "";
  if (state == RunState::kTrapped && run.trap().kind == TrapKind::kStackOverflow) return "";

  std::string out =
      base64_encode(std::string_view(reinterpret_cast<const char*>(made.binary.data()), made.binary.size()));
  out += "\t" + list(arguments) + "\t";
  out += state == RunState::kFinished ? "finished" : std::string(name_of(run.trap().kind));
  out += "\t" + list(run.results()) + "\t";
  for (const char* const name : {"g0", "g1", "g2", "g3"})
    out += (name[1] == '0' ? "" : ",") + std::to_string((*instance)->find_export(name)->global->bits);
  out += "\t";
  for (const uint64_t element : (*instance)->find_export("table")->table->elements)
    out += element == 0 ? "0" : "1";
  const std::span<const uint8_t> memory = (*instance)->memory()->bytes();
  const std::string_view bytes(reinterpret_cast<const char*>(memory.data()), memory.size());
  return out + "\t" + std::to_string(memory.size()) + "\t" + sha256_hex(bytes).value_or("");
}

}  // namespace membrane::engine
