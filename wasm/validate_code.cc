#include "wasm/validate_code.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/findings.h"
#include "base/stop_scope.h"
#include "base/text.h"
#include "wasm/explain.h"
#include "wasm/limits.h"
#include "wasm/validation_rules.h"

namespace membrane::wasm {
namespace {

using enum DiagnosticCode;

using Kind = Rule::Kind;

constexpr std::array<Rule, kOpcodeCount> kRules = [] consteval {
  std::array<Rule, kOpcodeCount> rules;
  for (size_t i = 0; i < kOpcodeCount; ++i) rules[i] = rule_of(info(static_cast<Opcode>(i)));
  return rules;
}();

// Every "*" of the table has a method, and nothing else has.
consteval bool specials_match_table() {
  std::array<bool, kOpcodeCount> has_method{};
#define X(id, method) has_method[static_cast<size_t>(Opcode::id)] = true;
  MEMBRANE_SPECIAL_OPCODES(X)
  MEMBRANE_SHARING_OPCODES(X)
#undef X
  for (size_t i = 0; i < kOpcodeCount; ++i)
    if (has_method[i] != (kRules[i].kind == Kind::kSpecial)) return false;
  return true;
}
static_assert(specials_match_table());

}  // namespace

CodeValidator::CodeValidator(const Module& module, Report& report)
    : module_(module), report_(report), relations_(module) {
  const auto is_wide = [](const auto& space) { return space.type.limits.is_64; };
  has_wide_addresses_ =
      std::ranges::any_of(module.memories, is_wide) || std::ranges::any_of(module.tables, is_wide);
  has_plain_memory_ = !has_wide_addresses_ && !module.memories.empty();
}

// -- the walk

bool CodeValidator::function(uint32_t index, FunctionInfo& info, BodyNotes* notes) {
  const Function& f = module_.functions[index];
  function_ = index;
  code_offset_ = f.code.offset;
  has_calls_ = uses_simd_ = false;
  if (f.code.size > kMaxBodyBytes)
    return fail({}, {.code = kImplementationLimit,
                     .message = "the function's body is too large",
                     .found = count_of(f.code.size, "byte"),
                     .expected = "at most " + std::to_string(kMaxBodyBytes)});
  if (!prepare_locals(index, info)) return false;
  begin(f.code, module_.types[f.type].results);
  if (notes != nullptr) {
    uses_ = &notes->uses;
    uses_->begin(local_count_);
    decoded_ = &notes->body;
    decoded_->begin();
  }
  const bool valid = walk<Walk::kFunction>(f.code);
  uses_ = nullptr;
  decoded_ = nullptr;
  if (!valid) return false;
  info.max_stack_values = max_values_;
  info.max_stack_slots = max_slots_;
  info.max_nesting = max_nesting_;
  info.has_calls = has_calls_;
  info.uses_simd = uses_simd_;
  return true;
}

void CodeValidator::stack_types_at(uint32_t index, std::span<const uint32_t> offsets,
                                   const std::function<bool(size_t, const StackTypes&)>& take) {
  FunctionInfo info;
  const Function& f = module_.functions[index];
  function_ = index;
  wanted_offsets_ = offsets;
  next_wanted_ = 0;
  take_ = &take;
  stack_types_ = {};
  if (!prepare_locals(index, info)) return;
  begin(f.code, module_.types[f.type].results);
  static_cast<void>(walk<Walk::kStackTypes>(f.code));
}

// False when there is nothing left to look for.
bool CodeValidator::note_stack_types(const Instruction& in) {
  while (next_wanted_ < wanted_offsets_.size() && wanted_offsets_[next_wanted_] <= in.offset) {
    const size_t index = next_wanted_++;
    if (wanted_offsets_[index] != in.offset || frame().is_unreachable) continue;
    stack_types_.operands.assign(base_, top_);
    if (!(*take_)(index, stack_types_)) return false;
  }
  stack_types_.before = in.op;
  stack_types_.before_index = in.index;
  return next_wanted_ < wanted_offsets_.size();
}

bool CodeValidator::constant(ByteRange code, ValType type, uint32_t globals, std::string_view noun,
                             uint32_t index) {
  function_ = UINT32_MAX;
  local_count_ = direct_locals_ = 0;
  has_unset_locals_ = false;
  constant_noun_ = noun;
  constant_index_ = index;
  constant_globals_ = globals;
  begin(code, only(type));
  return walk<Walk::kConstant>(code);
}

bool CodeValidator::well_formed(uint32_t index) {
  const Function& f = module_.functions[index];
  function_ = index;
  begin(f.code, {});
  BodyReader reader(module_.view(f.code));
  while (reader.next()) {
    const Instruction& in = reader.instruction();
    switch (in.op) {
      case Opcode::kBlock:
      case Opcode::kLoop:
      case Opcode::kTryTable:
      case Opcode::kIf:
        if (nests_too_deep(in)) return false;
        frames_.push_back({{}, {}, 0, in.offset, 0, in.op, false});
        break;
      case Opcode::kElse:
        if (!else_fits(in)) return false;
        frame().op = Opcode::kElse;
        break;
      case Opcode::kEnd:
        frames_.pop_back();
        if (frames_.empty()) return finish(reader);
        break;
      case Opcode::kMemoryInit:
      case Opcode::kDataDrop:
      case Opcode::kArrayNewData:
      case Opcode::kArrayInitData:
        if (!has_data_count(in)) return false;
        break;
      default: break;
    }
  }
  return fail_malformed(reader);
}

void CodeValidator::begin(ByteRange code, Types results) {
  code_offset_ = code.offset;
  top_ = floor_ = before_ = base_;
  wide_ = max_values_ = max_slots_ = 0;
  highest_ = base_;
  frames_.clear();
  frames_.emplace_back(Types(), results, 0u, 0u, 0u, Opcode::kBlock, false);
  max_nesting_ = 1;
}

template <CodeValidator::Walk kWalk>
bool CodeValidator::walk(ByteRange code) {
  BodyReader reader(module_.view(code));
  while (true) {
    if constexpr (kWalk == Walk::kFunction)
      if (wide_ == 0 && reader.rest().size() >= kShortBytes)
        if (const Taken taken = take_short(reader); taken != Taken::kSome)
          return taken == Taken::kAll && finish(reader);
    if (!reader.next()) break;
    const Instruction& in = reader.instruction();
    if constexpr (kWalk == Walk::kStackTypes)
      if (!note_stack_types(in)) return false;
    if constexpr (kWalk == Walk::kFunction)
      if (decoded_ != nullptr) decoded_->add(in);
    const Rule& rule = kRules[static_cast<size_t>(in.op)];
    before_ = top_;
    if (top_ == limit_ && !reserve(1)) [[unlikely]]
      return false;
    if constexpr (kWalk == Walk::kConstant)
      if (!check_constant(in)) return false;
    uses_simd_ |= rule.is_simd;
    if (rule.kind == Kind::kSpecial) {
      if (!special(in)) return false;
      if (frames_.empty()) return finish(reader);
      continue;
    }
    if (rule.kind == Kind::kChecked) {
      if (!check_immediate(in, rule.limit)) return false;
      if (has_wide_addresses_) [[unlikely]] {
        if (!addressed(in)) return false;
        continue;
      }
    }
    for (size_t i = rule.operand_count; i-- > 0;)
      if (!pop(rule.operands[i])) [[unlikely]]
        return fail_operands(in, std::span(rule.operands).first(rule.operand_count));
    if (rule.result != ValType::kBottom) push(rule.result);
  }
  return fail_malformed(reader);
}

bool CodeValidator::finish(const BodyReader& reader) {
  if (reader.at_end()) return true;
  Instruction after_end;
  after_end.offset = reader.offset();
  return fail(after_end, {.code = kTrailingCode, .message = "there is code after the final end"});
}

bool CodeValidator::fail_malformed(const BodyReader& reader) {
  Instruction at;
  at.offset = reader.offset();
  if (reader.error() != BodyError::kNone) return fail(at, explain(reader.error()));
  return fail(at, {.code = kMissingEnd,
                   .message = "the code ends while " + describe_block(frame()) + " is open",
                   .expected = count_of(frames_.size(), "more end")});
}

bool CodeValidator::special(const Instruction& in) {
  if (StopScope::stop_wanted()) return fail(in, stopped_finding("the validation"));
  switch (in.op) {
#define X(id, method)                      \
  case Opcode::id: return on_##method(in);
    MEMBRANE_SPECIAL_OPCODES(X)
    MEMBRANE_SHARING_OPCODES(X)  // NOLINT(bugprone-branch-clone): several have one method
#undef X
    default: return false;  // not reached: specials_match_table()
  }
}

// A plain instruction in a module of which some addresses have 64 bits: the table of opcodes has them with 32.
bool CodeValidator::addressed(const Instruction& in) {
  Rule rule = kRules[static_cast<size_t>(in.op)];
  const auto memory = [&](uint32_t index) { return address_type(module_.memories[index].type.limits); };
  const auto narrower = [](ValType a, ValType b) { return a == b ? a : ValType::kI32; };
  switch (info(in.op).immediate) {
    case Immediate::kMem:
    case Immediate::kMemLane: rule.operands[0] = memory(in.index); break;
    case Immediate::kMemory:
      if (rule.operand_count != 0) rule.operands[0] = memory(in.index);
      if (rule.operand_count == 3) rule.operands[2] = memory(in.index);
      if (rule.result != ValType::kBottom) rule.result = memory(in.index);
      break;
    case Immediate::kMemoryCopy:
      rule.operands = {memory(in.index), memory(in.index2), narrower(memory(in.index), memory(in.index2))};
      break;
    case Immediate::kMemoryInit: rule.operands[0] = memory(in.index2); break;
    case Immediate::kTable: rule.result = address_of_table(in.index); break;  // table.size
    case Immediate::kTableCopy:
      rule.operands = {address_of_table(in.index), address_of_table(in.index2),
                       narrower(address_of_table(in.index), address_of_table(in.index2))};
      break;
    case Immediate::kTableInit: rule.operands[0] = address_of_table(in.index2); break;
    default: break;
  }
  const Types operands = std::span(rule.operands).first(rule.operand_count);
  if (!pop_all(operands)) return fail_operands(in, operands);
  if (rule.result != ValType::kBottom) push(rule.result);
  return true;
}

// -- the operand stack

bool CodeValidator::push_all(Types types) {
  if (!reserve(types.size())) return false;
  for (const ValType t : types) push(t);
  return true;
}

bool CodeValidator::pop_all(Types types) {
  for (size_t i = types.size(); i-- > 0;)
    if (!pop(types[i])) return false;
  return true;
}

bool CodeValidator::fit(Types actual, Types expected) {
  return std::ranges::equal(actual, expected, [this](ValType a, ValType b) { return fits(a, b); });
}

// Whether these very types are on top of the stack, as nearly always. Two bytes of a branch may ask for a thousand.
bool CodeValidator::is_topped_by(Types types) const {
  return types.size() <= static_cast<size_t>(top_ - floor_) &&
         (types.empty() || std::memcmp(top_ - types.size(), types.data(), types.size_bytes()) == 0);
}

bool CodeValidator::holds(Types types) {
  if (is_topped_by(types)) return true;
  const ValType* at = top_;
  for (size_t i = types.size(); i-- > 0;) {
    if (at == floor_) return frame().is_unreachable;
    if (!fits(*--at, types[i])) return false;
  }
  return true;
}

// Makes room for `values` more.
bool CodeValidator::reserve(size_t values) {
  const auto size = static_cast<size_t>(top_ - base_);
  const auto capacity = static_cast<size_t>(limit_ - base_);
  if (size + values <= capacity) return true;
  if (size + values > kMaxOperandStack)
    return fail({}, {.code = kImplementationLimit,
                     .message = "the operand stack grows too high",
                     .expected = "at most " + std::to_string(kMaxOperandStack) + " values"});
  const size_t grown = std::min<size_t>(std::max(capacity * 2, size + values), kMaxOperandStack);
  auto stack = std::make_unique_for_overwrite<ValType[]>(grown);
  std::copy_n(base_, capacity, stack.get());
  floor_ = stack.get() + (floor_ - base_);
  before_ = stack.get() + (before_ - base_);
  highest_ = stack.get() + (highest_ - base_);
  top_ = stack.get() + size;
  heap_stack_ = std::move(stack);
  base_ = heap_stack_.get();
  limit_ = base_ + grown;
  return true;
}

void CodeValidator::raise_height() {
  highest_ = std::max(highest_, top_);
  const auto values = static_cast<uint32_t>(top_ - base_);
  max_values_ = std::max(max_values_, values);
  max_slots_ = std::max(max_slots_, values + wide_);
}

// Drops what the innermost block has pushed.
void CodeValidator::clear_block() {
  if (wide_ != 0) wide_ -= static_cast<uint32_t>(std::count(floor_, top_, ValType::kV128));
  top_ = floor_;
}

void CodeValidator::mark_unreachable() {
  clear_block();
  frame().is_unreachable = true;
}

}  // namespace membrane::wasm
