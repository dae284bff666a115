#include "engine/testing/reference_testing.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "engine/code/fuel.h"
#include "engine/code/numeric.h"

namespace membrane::engine {
namespace {

using wasm::BodyReader;
using wasm::Instruction;
using wasm::Opcode;

template <typename T>
T from_bits(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<double>(bits);
  else return static_cast<T>(bits);
}

// An i32 is stored with its upper half zero.
template <typename T>
uint64_t to_bits(T value) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<uint32_t>(value);
  else if constexpr (std::is_same_v<T, double>) return std::bit_cast<uint64_t>(value);
  else if constexpr (std::is_same_v<T, bool>) return value ? 1 : 0;
  else return static_cast<std::make_unsigned_t<T>>(value);
}

bool fits(uint64_t from, uint64_t count, uint64_t size) { return from <= size && count <= size - from; }

}  // namespace

Reference::Reference(const wasm::Module& module) : module_(module), bodies_(module.functions.size()) {
  for (const wasm::Memory& memory : module.memories)
    memories.emplace_back(memory.type.limits.min * wasm::kPageBytes);
  for (const wasm::Table& table : module.tables) tables.emplace_back(table.type.limits.min);
  for (const wasm::Global& global : module.globals) globals.push_back(evaluate(global.init));
  for (const wasm::ElementSegment& segment : module.elements) {
    std::vector<uint64_t>& items = elements_.emplace_back();
    for (const wasm::ByteRange item : segment.items) items.push_back(number(item));
    for (const uint32_t function : segment.functions) items.push_back(uint64_t{function} + 1);
  }
  for (size_t i = 0; i < module.elements.size() && ok_; ++i) {
    const wasm::ElementSegment& segment = module.elements[i];
    if (segment.mode == wasm::SegmentMode::kActive) {
      const uint64_t to = number(segment.offset);
      ok_ = fits(to, elements_[i].size(), tables[segment.table].size());
      if (ok_) std::ranges::copy(elements_[i], tables[segment.table].begin() + static_cast<ptrdiff_t>(to));
    }
    if (segment.mode != wasm::SegmentMode::kPassive) elements_[i].clear();
  }
  for (const wasm::DataSegment& segment : module.datas) {
    datas_.push_back(module.view(segment.data));
    if (segment.mode != wasm::SegmentMode::kActive || !ok_) continue;
    const uint64_t to = number(segment.offset);
    std::vector<uint8_t>& memory = memories[segment.memory];
    ok_ = fits(to, segment.data.size, memory.size());
    if (ok_) std::ranges::copy(datas_.back(), memory.begin() + static_cast<ptrdiff_t>(to));
    datas_.back() = {};
  }
}

Cell Reference::evaluate(wasm::ByteRange range) const {
  std::vector<Cell> stack;
  const auto combine = [&](auto operation) {
    const uint64_t right = stack.back().get<uint64_t>(0);
    stack.pop_back();
    stack.back() = Cell(operation(stack.back().get<uint64_t>(0), right));
  };
  BodyReader reader(module_.view(range));
  while (reader.next() && reader.instruction().op != Opcode::kEnd) {
    const Instruction& in = reader.instruction();
    switch (in.op) {
      case Opcode::kGlobalGet: stack.push_back(globals[in.index]); break;
      case Opcode::kRefFunc: stack.push_back(Cell(uint64_t{in.index} + 1)); break;
      case Opcode::kRefNull: stack.push_back(Cell(0)); break;
      case Opcode::kI32Const: stack.push_back(Cell(static_cast<uint32_t>(in.value))); break;
      case Opcode::kI32Add: combine([](uint64_t a, uint64_t b) { return (a + b) & UINT32_MAX; }); break;
      case Opcode::kI32Sub: combine([](uint64_t a, uint64_t b) { return (a - b) & UINT32_MAX; }); break;
      case Opcode::kI32Mul: combine([](uint64_t a, uint64_t b) { return (a * b) & UINT32_MAX; }); break;
      case Opcode::kI64Add: combine([](uint64_t a, uint64_t b) { return a + b; }); break;
      case Opcode::kI64Sub: combine([](uint64_t a, uint64_t b) { return a - b; }); break;
      case Opcode::kI64Mul: combine([](uint64_t a, uint64_t b) { return a * b; }); break;
      case Opcode::kV128Const: stack.push_back(compute_vector(in, {})); break;
      default: stack.push_back(Cell(in.value));
    }
  }
  return stack.back();
}

const Reference::Body& Reference::body_of(uint32_t function) {
  Body& body = bodies_[function];
  if (!body.code.empty()) return body;
  BodyReader reader(module_.view(module_.functions[function].code));
  std::vector<size_t> open;
  while (reader.next()) {
    const size_t at = body.code.size();
    const Opcode op = reader.instruction().op;
    body.code.push_back(reader.instruction());
    body.end_of.push_back(0);
    body.else_of.push_back(0);
    if (op == Opcode::kBlock || op == Opcode::kLoop || op == Opcode::kIf || op == Opcode::kTryTable)
      open.push_back(at);
    if (op == Opcode::kElse) body.else_of[open.back()] = at;
    if (op == Opcode::kEnd && !open.empty()) {
      body.end_of[open.back()] = at;
      if (body.else_of[open.back()] == 0) body.else_of[open.back()] = at;
      open.pop_back();
    }
  }
  return body;
}

void Reference::spend(uint64_t fuel) {
  outcome_.fuel += fuel;
  if (outcome_.fuel <= most_fuel_) return;
  outcome_.end = ReferenceOutcome::End::kTooLong;
  throw Stop{};
}

void Reference::trap(TrapKind kind) {
  outcome_.end = ReferenceOutcome::End::kTrapped;
  outcome_.trap = kind;
  outcome_.function = function_;
  outcome_.code_offset = module_.functions[function_].code.offset + offset_;
  throw Stop{};
}

ReferenceOutcome Reference::call(uint32_t function, std::span<const Value> arguments, uint64_t most_fuel,
                                 uint32_t most_depth) {
  outcome_ = {};
  stack_.clear();
  exceptions_.clear();
  objects_.clear();
  most_fuel_ = most_fuel;
  most_depth_ = most_depth;
  for (const Value& v : arguments) stack_.emplace_back(v.bits, v.high_bits);
  try {
    run(function, 0);
  } catch (const Stop&) {
    return outcome_;  // which says why
  } catch (const Throw& thrown) {
    return uncaught(thrown);
  }
  const std::vector<wasm::ValType>& types = module_.type_of_function(function).results;
  for (size_t i = 0; i < types.size(); ++i)
    outcome_.results.push_back({types[i], stack_[i].get<uint64_t>(0), stack_[i].get<uint64_t>(1)});
  return outcome_;
}

ReferenceOutcome Reference::uncaught(const Throw& thrown) {
  function_ = thrown.function;
  offset_ = thrown.offset;
  try {
    pay(thrown);
    trap(TrapKind::kUncaughtException);
  } catch (const Stop&) {
    return outcome_;
  }
}

void Reference::pay(const Throw& thrown) {
  uint32_t slots = 0;
  for (const wasm::ValType type : module_.type_of_tag(thrown.exception.tag).params) slots += slots_of(type);
  spend(throw_cost(thrown.frames, thrown.clauses, slots));
}

void Reference::throw_exception(const Instruction& in) {
  Throw thrown;
  thrown.function = function_;
  thrown.offset = in.offset;
  if (in.op == Opcode::kThrowRef) {
    thrown.reference = pop();
    if (thrown.reference == 0) trap(TrapKind::kNullException);
    thrown.exception = exceptions_[thrown.reference - 1];
    throw Throw(thrown);
  }
  const auto count = static_cast<ptrdiff_t>(module_.type_of_tag(in.index).params.size());
  thrown.exception = {in.index, std::vector<Cell>(stack_.end() - count, stack_.end())};
  throw Throw(thrown);
}

// The label of the first clause that catches; what it catches becomes the exception's values and itself.
std::optional<uint32_t> Reference::find_clause(const Instruction& try_table, Throw& thrown) {
  wasm::CatchReader reader(try_table);
  for (uint32_t i = 0; i < try_table.count; ++i) {
    const wasm::CatchClause clause = reader.next();
    ++thrown.clauses;
    if (!clause.catches_all() && clause.tag != thrown.exception.tag) continue;
    pay(thrown);
    if (clause.has_ref() && thrown.reference == 0) {
      exceptions_.push_back(thrown.exception);
      thrown.reference = exceptions_.size();
    }
    if (clause.catches_all()) thrown.exception.payload.clear();
    if (clause.has_ref()) thrown.exception.payload.emplace_back(thrown.reference);
    return clause.label;
  }
  return std::nullopt;
}

// Runs a function whose arguments are on the stack; its results replace them.
void Reference::run(uint32_t function, uint32_t depth) {
  for (std::optional<uint32_t> next = function; next;) next = run_body(*next, depth);
}

uint32_t Reference::indirect_callee(const Instruction& in) {
  const std::vector<uint64_t>& table = tables[in.index2];
  const uint32_t index = pop32();
  if (index >= table.size()) trap(TrapKind::kUndefinedElement);
  if (table[index] == 0) trap(TrapKind::kUninitializedElement);
  const auto callee = static_cast<uint32_t>(table[index] - 1);
  if (module_.type_of_function(callee) != module_.types[in.index]) trap(TrapKind::kIndirectCallTypeMismatch);
  return callee;
}

std::optional<uint32_t> Reference::run_body(uint32_t function, uint32_t depth) {
  const wasm::FuncType& type = module_.type_of_function(function);
  const wasm::Function& declared = module_.functions[function];
  const Body& body = body_of(function);
  function_ = function;

  std::vector<Cell> locals(stack_.end() - static_cast<ptrdiff_t>(type.params.size()), stack_.end());
  stack_.resize(stack_.size() - type.params.size());
  uint32_t zeroed_slots = 0;
  for (uint32_t i = 0; i < declared.local_run_count; ++i) {
    const wasm::LocalRun& run = module_.local_runs[declared.first_local_run + i];
    locals.resize(locals.size() + run.count);
    zeroed_slots += run.count * slots_of(run.type);
  }
  spend(zeroing_cost(zeroed_slots));

  std::vector<Label> labels{{body.code.size(), stack_.size(), type.results.size(), false}};
  size_t pc = 0;
  const auto branch = [&](uint32_t depth_of_label) {
    const size_t index = labels.size() - 1 - depth_of_label;
    const Label target = labels[index];
    std::copy(stack_.end() - static_cast<ptrdiff_t>(target.arity), stack_.end(),
              stack_.begin() + static_cast<ptrdiff_t>(target.height));
    stack_.resize(target.height + target.arity);
    labels.resize(index);
    pc = target.target;
  };
  const auto call_function = [&](uint32_t callee) {
    if (depth + 1 > most_depth_) trap(TrapKind::kStackOverflow);
    run(callee, depth + 1);
    function_ = function;
  };
  // Of the frame's values, only the callee's arguments stay.
  const auto leave_for = [&](uint32_t callee) {
    const auto arguments = static_cast<ptrdiff_t>(module_.type_of_function(callee).params.size());
    stack_.erase(stack_.begin() + static_cast<ptrdiff_t>(labels.front().height), stack_.end() - arguments);
    return callee;
  };
  const auto open = [&](const Instruction& in, size_t at) {
    size_t params = 0, results = in.block.kind == wasm::BlockType::Kind::kValue ? 1 : 0;
    if (in.block.kind == wasm::BlockType::Kind::kIndex) {
      params = module_.types[in.block.index].params.size();
      results = module_.types[in.block.index].results.size();
    }
    const bool is_loop = in.op == Opcode::kLoop;
    labels.push_back({is_loop ? at : body.end_of[at] + 1, stack_.size() - params, is_loop ? params : results,
                      is_loop, in.op == Opcode::kTryTable ? &in : nullptr});
  };
  // What a try_table around the instruction catches continues at its label; everything else leaves the function.
  const auto catch_here = [&](Throw& thrown) {
    for (size_t i = labels.size(); i-- > 0;) {
      if (labels[i].try_table == nullptr) continue;
      const auto label = find_clause(*labels[i].try_table, thrown);
      if (!label) continue;
      stack_.resize(labels[i].height);
      labels.resize(i);
      stack_.insert(stack_.end(), thrown.exception.payload.begin(), thrown.exception.payload.end());
      branch(*label);
      return true;
    }
    ++thrown.frames;
    return false;
  };

  const auto execute = [&]() -> std::optional<uint32_t> {
    const size_t at = pc++;
    const Instruction& in = body.code[at];
    offset_ = in.offset;
    spend(wasm::info(in.op).cost);
    switch (in.op) {
      case Opcode::kTryTable:
      case Opcode::kBlock:
      case Opcode::kLoop: open(in, at); break;
      case Opcode::kIf:
        if (const uint32_t condition = pop32(); condition != 0) {
          open(in, at);
        } else {
          open(in, at);
          pc = body.else_of[at] == body.end_of[at] ? body.end_of[at] : body.else_of[at] + 1;
        }
        break;
      case Opcode::kElse: pc = labels.back().target - 1; break;  // the `end`, from the end of the first part
      case Opcode::kEnd: labels.pop_back(); break;
      case Opcode::kBr: branch(in.index); break;
      case Opcode::kBrIf:
        if (pop32() != 0) branch(in.index);
        break;
      case Opcode::kBrTable: {
        const uint32_t chosen = std::min(pop32(), in.count);
        wasm::LabelReader reader(in);
        uint32_t target = reader.next();
        for (uint32_t i = 0; i < chosen; ++i) target = reader.next();
        branch(target);
        break;
      }
      case Opcode::kReturn: branch(static_cast<uint32_t>(labels.size() - 1)); break;
      case Opcode::kCall: call_function(in.index); break;
      case Opcode::kCallIndirect: call_function(indirect_callee(in)); break;
      case Opcode::kCallRef:
        if (const uint64_t callee = pop(); callee != 0) call_function(static_cast<uint32_t>(callee - 1));
        else trap(TrapKind::kNullFunction);
        break;
      case Opcode::kBrOnNull:
        if (const uint64_t value = pop(); value == 0) branch(in.index);
        else push(value);
        break;
      case Opcode::kBrOnNonNull:
        if (stack_.back().get<uint64_t>(0) != 0) branch(in.index);
        else pop();
        break;
      case Opcode::kBrOnCast:
      case Opcode::kBrOnCastFail:
        if (is_of(stack_.back().get<uint64_t>(0), in.cast_type) == (in.op == Opcode::kBrOnCast))
          branch(in.index);
        break;
      case Opcode::kReturnCall: return leave_for(in.index);
      case Opcode::kReturnCallIndirect: return leave_for(indirect_callee(in));
      case Opcode::kLocalGet: push_cell(locals[in.index]); break;
      case Opcode::kLocalSet: locals[in.index] = pop_cell(); break;
      case Opcode::kLocalTee: locals[in.index] = stack_.back(); break;
      case Opcode::kThrow:
      case Opcode::kThrowRef: throw_exception(in);
      default: step(in);
    }
    return std::nullopt;
  };
  while (pc < body.code.size()) {
    try {
      if (const auto tail = execute()) return tail;
    } catch (Throw& thrown) {
      function_ = function;
      if (!catch_here(thrown)) throw;
    }
  }
  return std::nullopt;
}

void Reference::step(const Instruction& in) {
  switch (in.op) {
    case Opcode::kUnreachable: trap(TrapKind::kUnreachable);
    case Opcode::kNop: return;
    case Opcode::kDrop: pop(); return;
    case Opcode::kSelect:
    case Opcode::kSelectTyped: {
      const uint32_t condition = pop32();
      const Cell b = pop_cell(), a = pop_cell();
      return push_cell(condition != 0 ? a : b);
    }
    case Opcode::kGlobalGet: return push_cell(globals[in.index]);
    case Opcode::kGlobalSet: globals[in.index] = pop_cell(); return;
    case Opcode::kTableGet: {
      const uint32_t index = pop32();
      if (index >= tables[in.index].size()) trap(TrapKind::kTableOutOfBounds);
      return push(tables[in.index][index]);
    }
    case Opcode::kTableSet: {
      const uint64_t value = pop();
      const uint32_t index = pop32();
      if (index >= tables[in.index].size()) trap(TrapKind::kTableOutOfBounds);
      tables[in.index][index] = value;
      return;
    }
    case Opcode::kTableSize: return push(tables[in.index].size());
    case Opcode::kRefNull: return push(0);
    case Opcode::kRefIsNull: return push(to_bits(pop() == 0));
    case Opcode::kRefFunc: return push(uint64_t{in.index} + 1);
    case Opcode::kMemorySize: return push(memories[in.index].size() / wasm::kPageBytes);
    case Opcode::kI32Const: return push(static_cast<uint32_t>(in.value));
    case Opcode::kI64Const:
    case Opcode::kF32Const:
    case Opcode::kF64Const: return push(in.value);
    case Opcode::kI32ReinterpretF32:
    case Opcode::kI64ReinterpretF64:
    case Opcode::kF32ReinterpretI32:
    case Opcode::kF64ReinterpretI64: return;
    case Opcode::kDataDrop: datas_[in.index] = {}; return;
    case Opcode::kElemDrop: elements_[in.index].clear(); return;
    default: break;
  }
  const wasm::OpcodeInfo& row = wasm::info(in.op);
  if (row.immediate == wasm::Immediate::kMemLane) return vector_access(in);
  if (row.immediate == wasm::Immediate::kMem) return row.prefix == 0xFD ? vector_access(in) : access(in);
  if (row.prefix == 0xFD) return vector(in);
  if (row.prefix == 0xFB || in.op == Opcode::kRefEq || in.op == Opcode::kRefAsNonNull) return reference(in);
  if (row.flow == wasm::Flow::kBulk) return bulk(in);
  numeric(in);
}

void Reference::numeric(const Instruction& in) {
  using namespace engine::numeric;
  switch (in.op) {
#define BINARY(id, type, function)                                     \
  case Opcode::id: {                                                   \
    const type b = from_bits<type>(pop()), a = from_bits<type>(pop()); \
    return push(to_bits(function(a, b)));                              \
  }
#define INTEGER_BINARY(id, type, function) BINARY(id, type, function)
#define INTEGER_COMPARE(id, type, function) BINARY(id, type, function)
#define FLOAT_BINARY(id, type, function) BINARY(id, type, function)
#define FLOAT_COMPARE(id, type, function) BINARY(id, type, function)
#define INTEGER_DIVIDE(id, type, function, overflows)                            \
  case Opcode::id: {                                                             \
    const type b = from_bits<type>(pop()), a = from_bits<type>(pop());           \
    if (b == 0) trap(TrapKind::kIntegerDivideByZero);                            \
    if (overflows && quotient_overflows(a, b)) trap(TrapKind::kIntegerOverflow); \
    return push(to_bits(function(a, b)));                                        \
  }
#define UNARY(id, from, to, expression)                \
  case Opcode::id: {                                   \
    const from x = from_bits<from>(pop());             \
    return push(to_bits(static_cast<to>(expression))); \
  }
#define TRUNCATE(id, from, to)                                     \
  case Opcode::id: {                                               \
    const from x = from_bits<from>(pop());                         \
    if (x != x) trap(TrapKind::kInvalidConversion);                \
    if (!truncation_fits<to>(x)) trap(TrapKind::kIntegerOverflow); \
    return push(to_bits(static_cast<to>(x)));                      \
  }
#include "engine/code/operations.def"
#undef BINARY
    default: trap(TrapKind::kUnreachable);
  }
}

// Little endian, byte by byte.
void Reference::access(const Instruction& in) {
  struct Row {
    Opcode op;
    uint32_t bytes;
    uint32_t extends_to;  // bits of a sign extension, 0 for none
  };
  static constexpr Row kLoads[] = {
      {Opcode::kI32Load, 4, 0},     {Opcode::kI64Load, 8, 0},     {Opcode::kF32Load, 4, 0},
      {Opcode::kF64Load, 8, 0},     {Opcode::kI32Load8S, 1, 32},  {Opcode::kI32Load8U, 1, 0},
      {Opcode::kI32Load16S, 2, 32}, {Opcode::kI32Load16U, 2, 0},  {Opcode::kI64Load8S, 1, 64},
      {Opcode::kI64Load8U, 1, 0},   {Opcode::kI64Load16S, 2, 64}, {Opcode::kI64Load16U, 2, 0},
      {Opcode::kI64Load32S, 4, 64}, {Opcode::kI64Load32U, 4, 0}};
  static constexpr Row kStores[] = {
      {Opcode::kI32Store, 4, 0},  {Opcode::kI64Store, 8, 0},   {Opcode::kF32Store, 4, 0},
      {Opcode::kF64Store, 8, 0},  {Opcode::kI32Store8, 1, 0},  {Opcode::kI32Store16, 2, 0},
      {Opcode::kI64Store8, 1, 0}, {Opcode::kI64Store16, 2, 0}, {Opcode::kI64Store32, 4, 0}};
  std::vector<uint8_t>& memory = memories[in.index];
  const wasm::Limits& limits = module_.memories[in.index].type.limits;
  for (const Row& row : kLoads) {
    if (row.op != in.op) continue;
    const uint64_t base = pop_address(limits), address = base + in.mem_offset;
    if (address < base || !fits(address, row.bytes, memory.size())) trap(TrapKind::kMemoryOutOfBounds);
    uint64_t bits = 0;
    for (uint32_t i = 0; i < row.bytes; ++i) bits |= uint64_t{memory[address + i]} << (8 * i);
    if (row.extends_to != 0 && (bits >> (8 * row.bytes - 1)) != 0) bits |= ~uint64_t{0} << (8 * row.bytes);
    if (row.extends_to == 32) bits &= UINT32_MAX;
    return push(bits);
  }
  for (const Row& row : kStores) {
    if (row.op != in.op) continue;
    const uint64_t bits = pop();
    const uint64_t base = pop_address(limits), address = base + in.mem_offset;
    if (address < base || !fits(address, row.bytes, memory.size())) trap(TrapKind::kMemoryOutOfBounds);
    for (uint32_t i = 0; i < row.bytes; ++i) memory[address + i] = static_cast<uint8_t>(bits >> (8 * i));
    return;
  }
  trap(TrapKind::kUnreachable);
}

void Reference::vector(const Instruction& in) {
  const std::string_view signature = wasm::info(in.op).signature;
  std::vector<Cell> operands(signature.find(':'));
  for (size_t i = operands.size(); i-- > 0;) operands[i] = pop_cell();
  push_cell(compute_vector(in, operands));
}

void Reference::vector_access(const Instruction& in) {
  const bool has_operand = wasm::info(in.op).signature.starts_with("iv");
  const bool stores = wasm::info(in.op).signature.ends_with(":");
  const Cell value = has_operand ? pop_cell() : Cell();
  const uint64_t base = pop_address(module_.memories[in.index].type.limits), address = base + in.mem_offset;
  const size_t bytes = bytes_of_vector_access(in.op);
  std::vector<uint8_t>& memory = memories[in.index];
  if (address < base || !fits(address, bytes, memory.size())) trap(TrapKind::kMemoryOutOfBounds);
  if (!stores) return push_cell(loaded_vector(in, std::span(memory).subspan(address, bytes), value));
  const size_t first = in.op == Opcode::kV128Store ? 0 : in.lane * bytes;
  for (size_t i = 0; i < bytes; ++i) memory[address + i] = value.bytes[first + i];
}

void Reference::bulk(const Instruction& in) {
  if (in.op == Opcode::kMemoryGrow) {
    std::vector<uint8_t>& memory = memories[in.index];
    const uint64_t pages = pop32(), before = memory.size() / wasm::kPageBytes;
    const uint64_t most = module_.memories[in.index].type.limits.max.value_or(wasm::kMaxPages);
    if (before + pages > most) return push(UINT32_MAX);
    spend(memory_grow_cost(pages));
    memory.resize(memory.size() + pages * wasm::kPageBytes);
    return push(before);
  }
  if (in.op == Opcode::kTableGrow) {
    std::vector<uint64_t>& table = tables[in.index];
    const uint64_t count = pop32(), value = pop(), before = table.size();
    const uint64_t most = std::min<uint64_t>(module_.tables[in.index].type.limits.max.value_or(UINT32_MAX),
                                             InstanceLimits{}.table_elements);
    if (before + count > most) return push(UINT32_MAX);
    spend(bulk_table_cost(count));
    table.resize(before + count, value);
    return push(before);
  }
  const uint64_t count = pop32(), second = pop(), to = pop32();
  const uint64_t from = static_cast<uint32_t>(second);
  const auto check = [&](size_t target, size_t source, TrapKind kind) {
    if (!fits(to, count, target) || !fits(from, count, source)) trap(kind);
  };
  switch (in.op) {
    case Opcode::kMemoryFill: {
      std::vector<uint8_t>& memory = memories[in.index];
      if (!fits(to, count, memory.size())) trap(TrapKind::kMemoryOutOfBounds);
      spend(bulk_memory_cost(count));
      for (uint64_t i = 0; i < count; ++i) memory[to + i] = static_cast<uint8_t>(second);
      return;
    }
    case Opcode::kMemoryCopy: {
      std::vector<uint8_t>&target = memories[in.index], &source = memories[in.index2];
      check(target.size(), source.size(), TrapKind::kMemoryOutOfBounds);
      spend(bulk_memory_cost(count));
      const std::vector<uint8_t> moved(source.begin() + static_cast<ptrdiff_t>(from),
                                       source.begin() + static_cast<ptrdiff_t>(from + count));
      std::ranges::copy(moved, target.begin() + static_cast<ptrdiff_t>(to));
      return;
    }
    case Opcode::kMemoryInit: {
      std::vector<uint8_t>& memory = memories[in.index2];
      check(memory.size(), datas_[in.index].size(), TrapKind::kMemoryOutOfBounds);
      spend(bulk_memory_cost(count));
      for (uint64_t i = 0; i < count; ++i) memory[to + i] = datas_[in.index][from + i];
      return;
    }
    case Opcode::kTableFill: {
      std::vector<uint64_t>& table = tables[in.index];
      if (!fits(to, count, table.size())) trap(TrapKind::kTableOutOfBounds);
      spend(bulk_table_cost(count));
      for (uint64_t i = 0; i < count; ++i) table[to + i] = second;
      return;
    }
    case Opcode::kTableCopy: {
      std::vector<uint64_t>& target = tables[in.index];
      const std::vector<uint64_t> source = tables[in.index2];
      check(target.size(), source.size(), TrapKind::kTableOutOfBounds);
      spend(bulk_table_cost(count));
      for (uint64_t i = 0; i < count; ++i) target[to + i] = source[from + i];
      return;
    }
    case Opcode::kTableInit: {
      std::vector<uint64_t>& target = tables[in.index2];
      check(target.size(), elements_[in.index].size(), TrapKind::kTableOutOfBounds);
      spend(bulk_table_cost(count));
      for (uint64_t i = 0; i < count; ++i) target[to + i] = elements_[in.index][from + i];
      return;
    }
    default: trap(TrapKind::kUnreachable);
  }
}

}  // namespace membrane::engine
