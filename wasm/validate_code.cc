#include "wasm/validate_code.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/findings.h"
#include "base/stop_scope.h"
#include "wasm/explain.h"
#include "wasm/limits.h"

namespace membrane::wasm {
namespace {

using enum DiagnosticCode;

// -- the opcode table, digested

enum class Kind : uint8_t {
  kPlain,    // only its signature matters
  kChecked,  // and its immediate must be checked
  kSpecial,  // has a method of its own
};

struct Rule {
  Kind kind = Kind::kPlain;
  uint8_t operand_count = 0;
  std::array<ValType, 4> operands{};  // three at most
  ValType result = ValType::kBottom;  // kBottom: none
  uint8_t limit = 0;                  // of the immediate: log2 alignment, or number of lanes
  bool is_simd = false;
  bool is_narrow = false;  // plain, and none of the types is v128
  bool is_access = false;  // loads from memory, or stores there
};

// The types from `at` on are the operands of the rule. All are compared that there may be: how many there are cannot be
// predicted. One by one, as they were written: a wider read would wait for the writes.
bool are_operands(const ValType* at, const Rule& rule) {
  static constexpr size_t kMost = 3;
  static constexpr uint32_t kMasks[kMost + 1][kMost] = {
      {0, 0, 0}, {UINT32_MAX, 0, 0}, {UINT32_MAX, UINT32_MAX, 0}, {UINT32_MAX, UINT32_MAX, UINT32_MAX}};
  uint32_t difference = 0;
  for (size_t i = 0; i < kMost; ++i)
    difference |= (static_cast<uint32_t>(at[i]) ^ static_cast<uint32_t>(rule.operands[i])) &
                  kMasks[rule.operand_count][i];
  return difference == 0;
}

consteval ValType type_of_letter(char letter) {
  switch (letter) {
    case 'i': return ValType::kI32;
    case 'I': return ValType::kI64;
    case 'f': return ValType::kF32;
    case 'F': return ValType::kF64;
    case 'v': return ValType::kV128;
  }
  throw "a signature has a letter that is no type";
}

consteval bool needs_check(Immediate immediate) {
  switch (immediate) {
    case Immediate::kNone:
    case Immediate::kV128:
    case Immediate::kI32:
    case Immediate::kI64:
    case Immediate::kF32:
    case Immediate::kF64: return false;
    default: return true;
  }
}

// "i8x16.extract_lane_s" has 16.
consteval uint8_t lanes_of(std::string_view mnemonic) {
  const size_t x = mnemonic.find('x');
  uint8_t lanes = 0;
  for (size_t i = x + 1; mnemonic[i] != '.'; ++i)
    lanes = static_cast<uint8_t>(lanes * 10 + (mnemonic[i] - '0'));
  return lanes;
}

consteval Rule rule_of(const OpcodeInfo& row) {
  Rule rule;
  rule.is_simd = row.prefix == 0xFD;
  rule.limit = row.immediate == Immediate::kLane ? lanes_of(row.text) : row.align;
  if (row.signature == "*") {
    rule.kind = Kind::kSpecial;
    return rule;
  }
  rule.kind = needs_check(row.immediate) ? Kind::kChecked : Kind::kPlain;
  rule.is_access = row.immediate == Immediate::kMem;
  size_t i = 0;
  for (; row.signature[i] != ':'; ++i) rule.operands[rule.operand_count++] = type_of_letter(row.signature[i]);
  if (++i < row.signature.size()) rule.result = type_of_letter(row.signature[i++]);
  if (i != row.signature.size()) throw "a signature has more than one result";
  rule.is_narrow = rule.result != ValType::kV128;
  for (const ValType operand : rule.operands) rule.is_narrow &= operand != ValType::kV128;
  return rule;
}

consteval std::array<Rule, kOpcodeCount> all_rules() {
  std::array<Rule, kOpcodeCount> rules;
  for (size_t i = 0; i < kOpcodeCount; ++i) rules[i] = rule_of(info(static_cast<Opcode>(i)));
  return rules;
}
constexpr std::array<Rule, kOpcodeCount> kRules = all_rules();

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

// Locals of which the type is looked up directly; see local_type().
constexpr uint32_t kDirectLocals = 1024;

}  // namespace

CodeValidator::CodeValidator(const Module& module, Report& report)
    : module_(module), report_(report), relations_(module) {
  const auto is_wide = [](const auto& space) { return space.type.limits.is_64; };
  has_wide_addresses_ =
      std::ranges::any_of(module.memories, is_wide) || std::ranges::any_of(module.tables, is_wide);
  plain_memories_ = has_wide_addresses_ ? 0 : static_cast<uint32_t>(module.memories.size());
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

void CodeValidator::standings_at(uint32_t index, std::span<const uint32_t> offsets,
                                 const std::function<bool(size_t, const Standing&)>& take) {
  FunctionInfo info;
  const Function& f = module_.functions[index];
  function_ = index;
  wanted_offsets_ = offsets;
  next_wanted_ = 0;
  take_ = &take;
  standing_ = {};
  if (!prepare_locals(index, info)) return;
  begin(f.code, module_.types[f.type].results);
  static_cast<void>(walk<Walk::kStanding>(f.code));
}

// False when there is nothing left to look for.
bool CodeValidator::stand_at(const Instruction& in) {
  while (next_wanted_ < wanted_offsets_.size() && wanted_offsets_[next_wanted_] <= in.offset) {
    const size_t index = next_wanted_++;
    if (wanted_offsets_[index] != in.offset || frame().is_unreachable) continue;
    standing_.operands.assign(base_, top_);
    if (!(*take_)(index, standing_)) return false;
  }
  standing_.before = in.op;
  standing_.before_index = in.index;
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

// Whether it is a local.set or local.tee of a value that is just of the local's type, as nearly always; then it is done.
inline bool CodeValidator::sets_local(const Instruction& in) {
  if (in.op != Opcode::kLocalSet && in.op != Opcode::kLocalTee) return false;
  if (in.index >= direct_locals_ || top_ == floor_ || top_[-1] != locals_[in.index]) return false;
  if (uses_ != nullptr) uses_->assign(in.index);
  if (in.op == Opcode::kLocalTee) return true;
  wide_ -= *--top_ == ValType::kV128;
  return true;
}

template <CodeValidator::Walk kWalk>
bool CodeValidator::walk(ByteRange code) {
  BodyReader reader(module_.view(code));
  while (reader.next()) {
    const Instruction& in = reader.instruction();
    if constexpr (kWalk == Walk::kStanding)
      if (!stand_at(in)) return false;
    if constexpr (kWalk == Walk::kFunction)
      if (decoded_ != nullptr) decoded_->add(in);
    const Rule& rule = kRules[static_cast<size_t>(in.op)];
    before_ = top_;
    if (top_ == limit_ && !reserve(1)) [[unlikely]]
      return false;
    if constexpr (kWalk == Walk::kConstant)
      if (!check_constant(in)) return false;
    uses_simd_ |= rule.is_simd;
    if (in.op == Opcode::kLocalGet && in.index < direct_locals_) {  // the most frequent of all
      push(locals_[in.index]);
      if (uses_ != nullptr) uses_->read(in.index);
      continue;
    }
    if (sets_local(in)) continue;
    if (rule.kind == Kind::kSpecial) {
      if (!special(in)) return false;
      if (frames_.empty()) return finish(reader);
      continue;
    }
    if (rule.kind == Kind::kChecked && !(rule.is_access && is_plain_access(in, rule.limit))) {
      if (!check_immediate(in, rule.limit)) return false;
      if (has_wide_addresses_) [[unlikely]] {
        if (!addressed(in)) return false;
        continue;
      }
    }
    if (rule.is_narrow && top_ - floor_ >= rule.operand_count &&
        are_operands(top_ - rule.operand_count, rule)) [[likely]] {
      ValType* const first = top_ - rule.operand_count;
      *first = rule.result;
      top_ = first + (rule.result != ValType::kBottom);
      note_height();
      continue;
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
  Instruction behind;
  behind.offset = reader.offset();
  return fail(behind, {.code = kTrailingCode, .message = "code goes on behind the final end"});
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

// -- immediates of plain instructions

bool CodeValidator::check_immediate(const Instruction& in, uint8_t limit) {
  const auto memory = [&](uint32_t index) {
    if (index < module_.memories.size()) return true;
    if (!module_.memories.empty())
      return fail_unknown(in, kUnknownMemory, "memory", index, module_.memories.size());
    return fail(in, {.code = kMissingMemory,
                     .message = std::string(info(in.op).text) + " needs a memory, and the module has none"});
  };
  const auto offset = [&] {
    return in.mem_offset <= UINT32_MAX || module_.memories[in.index].type.limits.is_64 ||
           fail(in, {.code = kOffsetTooLarge,
                     .message = "the offset of " + std::string(info(in.op).text) +
                                " is beyond a memory with 32-bit addresses",
                     .found = "offset=" + std::to_string(in.mem_offset),
                     .expected = "offset=4294967295 or less"});
  };
  const auto access = [&] {
    return memory(in.index) &&
           (in.align <= limit ||
            fail(in, {.code = kAlignmentTooLarge,
                      .message = "the alignment of " + std::string(info(in.op).text) + " is too large",
                      .found = in.align < 64 ? "align=" + std::to_string(uint64_t{1} << in.align) : "",
                      .expected = "align=" + std::to_string(1u << limit) + " or less"})) &&
           offset();
  };
  const auto lane = [&](uint32_t index, uint32_t lanes) {
    return index < lanes ||
           fail(in, {.code = kLaneOutOfRange,
                     .message = std::string(info(in.op).text) + " has no lane " + std::to_string(index),
                     .found = std::to_string(index),
                     .expected = "0 to " + std::to_string(lanes - 1)});
  };
  const auto data = [&] {
    return has_data_count(in) &&
           (in.index < module_.datas.size() ||
            fail_unknown(in, kUnknownData, "data segment", in.index, module_.datas.size()));
  };
  const auto element = [&] {
    return in.index < module_.elements.size() ||
           fail_unknown(in, kUnknownElement, "element segment", in.index, module_.elements.size());
  };
  const auto same_type = [&](ValType from, ValType to) {
    return fits(from, to) ||
           fail(in, {.code = kTableTypeMismatch,
                     .message = std::string(info(in.op).text) + " copies between different types",
                     .found = name_of(from),
                     .expected = name_of(to)});
  };
  switch (info(in.op).immediate) {
    case Immediate::kMem: return access();
    case Immediate::kMemLane: return access() && lane(in.lane, 16u >> limit);
    case Immediate::kLane: return lane(in.lane, limit);
    case Immediate::kShuffle:
      return std::ranges::all_of(std::span(in.raw, 16), [&](uint8_t index) { return lane(index, 32); });
    case Immediate::kMemory: return memory(in.index);
    case Immediate::kMemoryCopy: return memory(in.index) && memory(in.index2);
    case Immediate::kMemoryInit: return memory(in.index2) && data();
    case Immediate::kData: return data();
    case Immediate::kElem: return element();
    case Immediate::kTable: return table(in, in.index) != nullptr;
    case Immediate::kTableInit: {
      const Table* const to = table(in, in.index2);
      return to != nullptr && element() && same_type(module_.elements[in.index].type, to->type.element);
    }
    case Immediate::kTableCopy: {
      const Table* const to = table(in, in.index);
      const Table* const from = to == nullptr ? nullptr : table(in, in.index2);
      return from != nullptr && same_type(from->type.element, to->type.element);
    }
    case Immediate::kNone:
    case Immediate::kV128:
    case Immediate::kI32:
    case Immediate::kI64:
    case Immediate::kF32:
    case Immediate::kF64: return true;
    case Immediate::kBlock:  // these belong to special instructions only
    case Immediate::kLabel:
    case Immediate::kLabelTable:
    case Immediate::kFunc:
    case Immediate::kCallIndirect:
    case Immediate::kType:
    case Immediate::kField:
    case Immediate::kTypeCount:
    case Immediate::kTypeData:
    case Immediate::kTypeElem:
    case Immediate::kTypeCopy:
    case Immediate::kLabelCast:
    case Immediate::kLocal:
    case Immediate::kGlobal:
    case Immediate::kTag:
    case Immediate::kTryTable:
    case Immediate::kRefType:
    case Immediate::kSelectTypes: return false;
  }
  return false;
}

bool CodeValidator::has_data_count(const Instruction& in) {
  return module_.has_data_count ||
         fail(in, {.code = kDataCountRequired,
                   .message = std::string(info(in.op).text) + " needs a data count section"});
}

// Constant instructions (3.4.14.2), and of globals only those that have their values by then.
bool CodeValidator::check_constant(const Instruction& in) {
  switch (in.op) {
    case Opcode::kI32Const:
    case Opcode::kI64Const:
    case Opcode::kF32Const:
    case Opcode::kF64Const:
    case Opcode::kV128Const:
    case Opcode::kI32Add:
    case Opcode::kI32Sub:
    case Opcode::kI32Mul:
    case Opcode::kI64Add:
    case Opcode::kI64Sub:
    case Opcode::kI64Mul:
    case Opcode::kRefNull:
    case Opcode::kRefFunc:
    case Opcode::kRefI31:
    case Opcode::kStructNew:
    case Opcode::kStructNewDefault:
    case Opcode::kArrayNew:
    case Opcode::kArrayNewDefault:
    case Opcode::kArrayNewFixed:
    case Opcode::kAnyConvertExtern:
    case Opcode::kExternConvertAny:
    case Opcode::kEnd: return true;
    case Opcode::kGlobalGet: {
      const Global* const g = global(in);
      if (g == nullptr) return false;
      if (in.index >= constant_globals_)
        return fail(
            in, {.code = kUnknownGlobal,
                 .message = "global " + label_of_global(module_, in.index) + " has no value yet where " +
                            std::string(constant_noun_) + " " + std::to_string(constant_index_) + " reads it",
                 .found = std::to_string(in.index),
                 .expected = "one of the first " + count_of(constant_globals_, "global"),
                 .hint = "Move that global before this one, or write the value itself here."});
      return !g->type.is_mutable || fail(in, {.code = kNotConstant,
                                              .message = "a constant expression reads a mutable global",
                                              .found = "global.get " + std::to_string(in.index)});
    }
    default:
      return fail(in, {.code = kNotConstant,
                       .message = std::string(constant_noun_) + " " + std::to_string(constant_index_) +
                                  " must be constant",
                       .found = std::string(info(in.op).text)});
  }
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
  auto stack = std::make_unique_for_overwrite<ValType[]>(grown + kReadBehind);
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

// -- control

bool CodeValidator::block_signature(const Instruction& in, BlockSignature& signature) {
  if (in.block.kind == BlockType::Kind::kIndex && function_type(in, in.block.index) == nullptr) return false;
  if (in.block.kind == BlockType::Kind::kValue && !known(in, in.block.value)) return false;
  signature = signature_of(module_, in.block);
  return true;
}

bool CodeValidator::nests_too_deep(const Instruction& in) {
  return frames_.size() >= kMaxNesting && !fail(in, {.code = kImplementationLimit,
                                                     .message = "blocks are nested too deeply",
                                                     .expected = "at most " + std::to_string(kMaxNesting)});
}

bool CodeValidator::push_frame(const Instruction& in) {
  BlockSignature block;
  if (!block_signature(in, block)) return false;
  if (nests_too_deep(in)) return false;
  if (!pop_all(block.params)) return fail_operands(in, block.params);
  const auto height = static_cast<uint32_t>(top_ - base_);
  const auto set_locals = static_cast<uint32_t>(set_locals_.size());
  frames_.emplace_back(block.params, block.results, height, in.offset, set_locals, in.op, false);
  max_nesting_ = std::max(max_nesting_, static_cast<uint32_t>(frames_.size()));
  floor_ = top_;
  if (uses_ != nullptr) in.op == Opcode::kLoop ? uses_->open_loop() : uses_->open_block();
  return push_all(block.params);
}

bool CodeValidator::on_unreachable(const Instruction&) {
  mark_unreachable();
  return true;
}

bool CodeValidator::on_block(const Instruction& in) { return push_frame(in); }
bool CodeValidator::on_loop(const Instruction& in) { return push_frame(in); }

// The clauses stand outside of their block: its operands are on the stack still when they are looked at.
bool CodeValidator::on_try_table(const Instruction& in) { return clauses(in) && push_frame(in); }

bool CodeValidator::clauses(const Instruction& in) {
  if (in.count > kMaxBranchTableLabels)
    return fail(in, {.code = kImplementationLimit,
                     .message = "try_table has too many clauses",
                     .found = std::to_string(in.count),
                     .expected = "at most " + std::to_string(kMaxBranchTableLabels)});
  CatchReader reader(in);
  for (uint32_t i = 0; i < in.count; ++i)
    if (!clause_fits(in, reader.next())) return false;
  return true;
}

// What is caught must be what the label takes: the values of the tag, then the exception itself.
bool CodeValidator::clause_fits(const Instruction& in, const CatchClause& clause) {
  Types params;
  if (!clause.catches_all()) {
    const FuncType* const type = tag_type(in, clause.tag);
    if (type == nullptr) return false;
    params = type->params;
  }
  const Frame* const target = label(in, clause.label);
  if (target == nullptr) return false;
  const Types wanted = target->label_types();
  const size_t refs = clause.has_ref() ? 1 : 0;
  if (wanted.size() == params.size() + refs && fit(params, wanted.first(params.size())) &&
      (refs == 0 || fits(non_null(ValType::kExnRef), wanted.back())))
    return true;
  static constexpr std::string_view kNames[] = {"catch", "catch_ref", "catch_all", "catch_all_ref"};
  std::vector<ValType> caught(params.begin(), params.end());
  if (clause.has_ref()) caught.push_back(ValType::kExnRef);
  return fail(in,
              {.code = kBranchTypeMismatch,
               .message = std::string(kNames[clause.kind]) + " leaves other values than " +
                          describe_block(*target) + " takes that it branches to",
               .found = list_of(caught),
               .expected = list_of(wanted),
               .hint = "Give the block that is branched to the result type " + list_of(caught) +
                       ": what the tag carries" + (clause.has_ref() ? ", and an exnref behind it." : ".")});
}

bool CodeValidator::on_throw(const Instruction& in) {
  const FuncType* const type = tag_type(in, in.index);
  if (type == nullptr) return false;
  if (!pop_all(type->params)) return fail_operands(in, type->params);
  mark_unreachable();
  return true;
}

bool CodeValidator::on_throw_ref(const Instruction& in) {
  if (!pop(ValType::kExnRef)) return fail_operands(in, only(ValType::kExnRef));
  mark_unreachable();
  return true;
}

const FuncType* CodeValidator::tag_type(const Instruction& in, uint32_t index) {
  if (index < module_.tags.size()) return &module_.type_of_tag(index);
  fail_unknown(in, kUnknownTag, "tag", index, module_.tags.size());
  return nullptr;
}

bool CodeValidator::on_if(const Instruction& in) {
  if (!pop(ValType::kI32)) return fail_operands(in, only(ValType::kI32));
  before_ = top_;  // the block's parameters are shown without the condition
  return push_frame(in);
}

bool CodeValidator::else_fits(const Instruction& in) {
  return frame().op == Opcode::kIf ||
         fail(in, {.code = kElseWithoutIf,
                   .message = "an else stands in " + describe_block(frame()) + ", not in an if"});
}

bool CodeValidator::on_else(const Instruction& in) {
  if (!else_fits(in)) return false;
  Frame& f = frame();
  if (!pop_all(f.results) || top_ != floor_) return fail_results(in, f);
  f.op = Opcode::kElse;
  f.is_unreachable = false;
  if (has_unset_locals_) forget_set(f.set_locals);
  return push_all(f.params);
}

bool CodeValidator::on_end(const Instruction& in) {
  const Frame& f = frame();
  if (!pop_all(f.results) || top_ != floor_) return fail_results(in, f);
  if (f.op == Opcode::kIf && !fit(f.params, f.results))
    return fail(in, {.code = kIfWithoutElse,
                     .message = "this if has results and no else",
                     .found = list_of(f.params),
                     .expected = list_of(f.results)});
  const Types results = f.results;
  if (has_unset_locals_) forget_set(f.set_locals);
  frames_.pop_back();
  if (uses_ != nullptr) uses_->close();
  if (frames_.empty()) return true;
  floor_ = base_ + frame().height;
  return push_all(results);
}

const CodeValidator::Frame* CodeValidator::label(const Instruction& in, uint32_t depth) {
  if (depth < frames_.size()) return &frames_[frames_.size() - 1 - depth];
  fail_unknown(in, kUnknownLabel, "label", depth, frames_.size());
  return nullptr;
}

bool CodeValidator::on_br(const Instruction& in) {
  const Frame* const target = label(in, in.index);
  if (target == nullptr) return false;
  if (!holds(target->label_types())) return fail_branch(in, *target, false);
  mark_unreachable();
  return true;
}

bool CodeValidator::on_br_if(const Instruction& in) {
  const Frame* const target = label(in, in.index);
  if (target == nullptr) return false;
  const Types types = target->label_types();
  if (!pop(ValType::kI32)) return fail_branch(in, *target, true);
  if (is_topped_by(types)) return true;
  if (!pop_all(types)) return fail_branch(in, *target, true);
  return push_all(types);
}

bool CodeValidator::on_br_table(const Instruction& in) {
  if (in.count > kMaxBranchTableLabels)
    return fail(in, {.code = kImplementationLimit,
                     .message = "br_table has too many labels",
                     .found = std::to_string(in.count),
                     .expected = "at most " + std::to_string(kMaxBranchTableLabels)});
  if (!pop(ValType::kI32)) return fail_operands(in, only(ValType::kI32));
  LabelReader labels(in);
  const Frame* first = nullptr;
  seen_labels_.assign(frames_.size(), false);  // large tables repeat themselves
  for (uint32_t i = 0; i <= in.count; ++i) {
    const uint32_t depth = labels.next();
    const Frame* const target = label(in, depth);
    if (target == nullptr) return false;
    if (seen_labels_[depth]) continue;
    seen_labels_[depth] = true;
    if (first == nullptr) first = target;
    const Types types = target->label_types();
    if (types.size() != first->label_types().size())
      return fail(in, {.code = kBranchTableArity,
                       .message = "the labels of br_table take different numbers of values",
                       .found = list_of(types),
                       .expected = list_of(first->label_types())});
    if (!holds(types)) return fail_branch(in, *target, true);
  }
  mark_unreachable();
  return true;
}

bool CodeValidator::on_return(const Instruction& in) {
  const Frame& body = frames_[0];
  if (!holds(body.results)) return fail_branch(in, body, false);
  mark_unreachable();
  return true;
}

// The type of the function that a call names; null after having reported that there is none.
const FuncType* CodeValidator::callee_type(const Instruction& in) {
  if (in.index < module_.functions.size()) return &module_.type_of_function(in.index);
  fail_unknown(in, kUnknownFunction, "function", in.index, module_.functions.size());
  return nullptr;
}

// The function type with that index; null after having reported that there is none.
const FuncType* CodeValidator::function_type(const Instruction& in, uint32_t index) {
  if (index >= module_.types.size()) {
    fail_unknown(in, kUnknownType, "type", index, module_.types.size());
    return nullptr;
  }
  if (module_.kind_of_type(index) == TypeKind::kFunc) return &module_.types[index];
  fail(in, {.code = kTypeMismatch,
            .message = std::string(info(in.op).text) + " needs a function type",
            .found = "type " + std::to_string(index),
            .expected = "(func …)"});
  return nullptr;
}

const FuncType* CodeValidator::indirect_type(const Instruction& in) {
  const Table* const t = table(in, in.index2);
  if (t == nullptr) return nullptr;
  if (!fits(t->type.element, ValType::kFuncRef)) {
    fail(in, {.code = kTableTypeMismatch,
              .message = std::string(info(in.op).text) + " needs a table of functions",
              .found = name_of(t->type.element),
              .expected = "funcref"});
    return nullptr;
  }
  return function_type(in, in.index);
}

bool CodeValidator::pop_arguments(const FuncType& type, ValType last, const Instruction& in) {
  has_calls_ = true;
  if ((last == ValType::kBottom || pop(last)) && pop_all(type.params)) return true;
  return last == ValType::kBottom ? fail_operands(in, type.params) : fail_operands(in, type.params, last);
}

bool CodeValidator::call_type(const FuncType* type, ValType last, const Instruction& in) {
  if (uses_ != nullptr) uses_->call();
  return type != nullptr && pop_arguments(*type, last, in) && push_all(type->results);
}

// What a tail call gives back is what its function gives back.
bool CodeValidator::tail_call_type(const FuncType* type, ValType last, const Instruction& in) {
  if (type == nullptr || !pop_arguments(*type, last, in)) return false;
  const Types results = frames_[0].results;
  if (!fit(type->results, results))
    return fail(in,
                {.code = kResultTypeMismatch,
                 .message = std::string(info(in.op).text) +
                            " calls a function with other results than those of the function that it leaves",
                 .found = list_of(type->results),
                 .expected = list_of(results),
                 .hint = "Call it without return_, and make its results those of this function."});
  mark_unreachable();
  return true;
}

bool CodeValidator::on_call(const Instruction& in) {
  return call_type(callee_type(in), ValType::kBottom, in);
}
bool CodeValidator::on_call_indirect(const Instruction& in) {
  const FuncType* const type = indirect_type(in);
  return type != nullptr && call_type(type, address_of_table(in.index2), in);
}
bool CodeValidator::on_return_call(const Instruction& in) {
  return tail_call_type(callee_type(in), ValType::kBottom, in);
}
bool CodeValidator::on_return_call_indirect(const Instruction& in) {
  const FuncType* const type = indirect_type(in);
  return type != nullptr && tail_call_type(type, address_of_table(in.index2), in);
}

// The type of what call_ref takes.
const FuncType* CodeValidator::referenced_type(const Instruction& in) { return function_type(in, in.index); }

bool CodeValidator::on_call_ref(const Instruction& in) {
  const FuncType* const type = referenced_type(in);
  return type != nullptr && call_type(type, ref_null_to(in.index), in);
}
bool CodeValidator::on_return_call_ref(const Instruction& in) {
  const FuncType* const type = referenced_type(in);
  return type != nullptr && tail_call_type(type, ref_null_to(in.index), in);
}

// -- parametric

bool CodeValidator::on_drop(const Instruction& in) {
  ValType type{};
  return pop_any(type) || fail_operands(in, only(ValType::kBottom));
}

bool CodeValidator::on_select(const Instruction& in) {
  ValType second{}, first{};
  constexpr std::array kOperands = {ValType::kBottom, ValType::kBottom, ValType::kI32};
  if (!pop(ValType::kI32) || !pop_any(second) || !pop_any(first)) return fail_operands(in, kOperands);
  if (is_ref(first) || is_ref(second))
    return fail(in, {.code = kSelectNeedsType,
                     .message = "select without a type chooses between references",
                     .found = list_of({{first, second}}),
                     .expected = "two numbers or two vectors"});
  if (first != second && first != ValType::kBottom && second != ValType::kBottom) {
    const std::array expected = {first, first, ValType::kI32};
    return fail_operands(in, expected);
  }
  push(first == ValType::kBottom ? second : first);
  return true;
}

bool CodeValidator::on_select_typed(const Instruction& in) {
  if (in.count != 1)
    return fail(in, {.code = kSelectArity,
                     .message = "a typed select names one type",
                     .found = count_of(in.count, "type"),
                     .expected = "1 type"});
  const ValType type = in.ref_type;
  if (!known(in, type)) return false;
  const std::array operands = {type, type, ValType::kI32};
  if (!pop_all(operands)) return fail_operands(in, operands);
  push(type);
  return true;
}

// -- variables

// Large functions of few instructions would take long to lay out, so only the first locals have
// their types in locals_; those after are found among the runs.
bool CodeValidator::local_type(const Instruction& in, ValType& type) {
  if (in.index < locals_.size()) [[likely]] {
    type = locals_[in.index];
    return true;
  }
  if (in.index >= local_count_) return fail_unknown(in, kUnknownLocal, "local", in.index, local_count_);
  type = std::ranges::upper_bound(far_runs_, in.index, {}, &FarRun::end)->type;
  return true;
}

bool CodeValidator::prepare_locals(uint32_t index, FunctionInfo& info) {
  const Function& f = module_.functions[index];
  const auto& params = module_.types[f.type].params;
  const auto runs = std::span(module_.local_runs).subspan(f.first_local_run, f.local_run_count);
  locals_.clear();
  far_runs_.clear();
  uint64_t count = 0, slots = 0;
  const auto add = [&](ValType type, uint32_t times) {
    const size_t size = locals_.size();
    const size_t direct = std::min<size_t>(times, kDirectLocals - std::min<size_t>(size, kDirectLocals));
    locals_.resize(size + direct);
    std::fill_n(locals_.data() + size, direct, type);
    count += times;
    if (count > kDirectLocals && count <= kMaxLocals)
      far_runs_.push_back({static_cast<uint32_t>(count), type});
    slots += uint64_t{times} * slots_of(type);
    uses_simd_ |= type == ValType::kV128;
  };
  for (const ValType t : params) add(t, 1);
  for (const LocalRun& run : runs)
    if (run.count != 0) add(run.type, run.count);
  if (count > kMaxLocals)
    return fail({}, {.code = kImplementationLimit,
                     .message = "the function has too many locals",
                     .found = std::to_string(count),
                     .expected = "at most " + std::to_string(kMaxLocals)});
  for (const ValType t : module_.types[f.type].results) uses_simd_ |= t == ValType::kV128;
  param_count_ = static_cast<uint32_t>(params.size());
  set_locals_.clear();
  has_unset_locals_ = false;
  for (const LocalRun& run : runs) {
    if (!known({}, run.type)) return false;
    has_unset_locals_ |= run.count != 0 && !is_defaultable(run.type);
  }
  if (has_unset_locals_) is_set_.assign(count, false);
  direct_locals_ = has_unset_locals_ ? param_count_ : static_cast<uint32_t>(locals_.size());
  direct_locals_ = std::min(direct_locals_, static_cast<uint32_t>(locals_.size()));
  info.local_count = local_count_ = static_cast<uint32_t>(count);
  info.local_slots = static_cast<uint32_t>(slots);
  return true;
}

// Whether a local has a value by now. One that begins without has one from local.set on to the block's end.
bool CodeValidator::has_value(const Instruction& in, ValType type) {
  if (!has_unset_locals_ || in.index < param_count_ || is_defaultable(type) || is_set_[in.index]) return true;
  const std::string name = label_of_local(module_, function_, in.index);
  return fail(in, {.code = kUninitializedLocal,
                   .message = "local " + name + " is read before it has a value: its type has no null",
                   .found = name_of(type),
                   .expected = name_of(nullable(type)),
                   .hint = "Set it first, in this block or around it, or declare it as " +
                           name_of(nullable(type)) + "."});
}

void CodeValidator::note_set(uint32_t local, ValType type) {
  if (!has_unset_locals_ || local < param_count_ || is_defaultable(type) || is_set_[local]) return;
  is_set_[local] = true;
  set_locals_.push_back(local);
}

// All but the first `count` of those that were set.
void CodeValidator::forget_set(uint32_t count) {
  for (; set_locals_.size() > count; set_locals_.pop_back()) is_set_[set_locals_.back()] = false;
}

bool CodeValidator::known(const Instruction& in, ValType type) {
  return is_known(type) || fail_unknown(in, kUnknownType, "type", type_index_of(type), module_.types.size());
}

bool CodeValidator::on_local_get(const Instruction& in) {
  ValType type{};
  if (!local_type(in, type) || !has_value(in, type)) return false;
  if (uses_ != nullptr) uses_->read(in.index);
  push(type);
  return true;
}

bool CodeValidator::on_local_set(const Instruction& in) {
  ValType type{};
  if (!local_type(in, type)) return false;
  if (uses_ != nullptr) uses_->assign(in.index);
  if (!pop(type)) return fail_operands(in, only(type));
  note_set(in.index, type);
  return true;
}

bool CodeValidator::on_local_tee(const Instruction& in) {
  ValType type{};
  if (!local_type(in, type)) return false;
  if (uses_ != nullptr) uses_->assign(in.index);
  if (!pop(type)) return fail_operands(in, only(type));
  note_set(in.index, type);
  push(type);
  return true;
}

const Global* CodeValidator::global(const Instruction& in) {
  if (in.index < module_.globals.size()) return &module_.globals[in.index];
  fail_unknown(in, kUnknownGlobal, "global", in.index, module_.globals.size());
  return nullptr;
}

bool CodeValidator::on_global_get(const Instruction& in) {
  const Global* const g = global(in);
  if (g == nullptr) return false;
  push(g->type.type);
  return true;
}

bool CodeValidator::on_global_set(const Instruction& in) {
  const Global* const g = global(in);
  if (g == nullptr) return false;
  if (!g->type.is_mutable)
    return fail(
        in, {.code = kImmutableGlobal,
             .message = "global " + label_of_global(module_, in.index) + " is immutable and cannot be set",
             .found = name_of(g->type.type),
             .expected = "(mut " + name_of(g->type.type) + ")"});
  return pop(g->type.type) || fail_operands(in, only(g->type.type));
}

// -- tables and references

const Table* CodeValidator::table(const Instruction& in, uint32_t index) {
  if (index < module_.tables.size()) return &module_.tables[index];
  fail_unknown(in, kUnknownTable, "table", index, module_.tables.size());
  return nullptr;
}

bool CodeValidator::on_table_get(const Instruction& in) {
  const Table* const t = table(in, in.index);
  if (t == nullptr) return false;
  const ValType address = address_type(t->type.limits);
  if (!pop(address)) return fail_operands(in, only(address));
  push(t->type.element);
  return true;
}

bool CodeValidator::on_table_set(const Instruction& in) {
  const Table* const t = table(in, in.index);
  if (t == nullptr) return false;
  const std::array operands = {address_type(t->type.limits), t->type.element};
  return pop_all(operands) || fail_operands(in, operands);
}

bool CodeValidator::on_table_grow(const Instruction& in) {
  const Table* const t = table(in, in.index);
  if (t == nullptr) return false;
  const ValType address = address_type(t->type.limits);
  const std::array operands = {t->type.element, address};
  if (!pop_all(operands)) return fail_operands(in, operands);
  push(address);
  return true;
}

bool CodeValidator::on_table_fill(const Instruction& in) {
  const Table* const t = table(in, in.index);
  if (t == nullptr) return false;
  const ValType address = address_type(t->type.limits);
  const std::array operands = {address, t->type.element, address};
  return pop_all(operands) || fail_operands(in, operands);
}

// -- failures

bool CodeValidator::fail(const Instruction& in, Diagnostic d) {
  if (function_ != UINT32_MAX) d.function = label_of_function(module_, function_);
  return report_.fail_at(code_offset_ + in.offset, std::move(d));
}

std::string CodeValidator::describe_block(const Frame& at) const {
  if (&at == frames_.data()) {
    if (function_ == UINT32_MAX) return std::string(constant_noun_) + " " + std::to_string(constant_index_);
    return "the function";
  }
  switch (at.op) {
    case Opcode::kLoop: return "the loop";
    case Opcode::kIf: return "the if";
    case Opcode::kElse: return "the else";
    case Opcode::kTryTable: return "the try_table";
    default: return "the block";
  }
}

namespace {

std::string name_of_instruction(const Module& module, uint32_t function, const Instruction& in) {
  std::string name(info(in.op).text);
  switch (info(in.op).immediate) {
    case Immediate::kFunc: return name + " " + label_of_function(module, in.index);
    case Immediate::kLocal: return name + " " + label_of_local(module, function, in.index);
    case Immediate::kGlobal: return name + " " + label_of_global(module, in.index);
    case Immediate::kTag: return name + " " + label_of_tag(module, in.index);
    case Immediate::kLabel:
    case Immediate::kType:
    case Immediate::kTable: return name + " " + std::to_string(in.index);
    default: return name;
  }
}

// How to turn the operand `found` of `taker` into `expected`, given how many operands lie above it.
std::string repair_of(ValType found, ValType expected, size_t above, Opcode taker) {
  const std::string instruction(conversion(found, expected));
  if (instruction.empty()) return {};
  const std::string wrapped = "(" + instruction + " …)";
  if (taker == Opcode::kEnd || taker == Opcode::kElse) return "convert the value: " + wrapped + ".";
  if (above != 0) return "convert the operand: " + wrapped + ".";
  return "convert the operand: " + wrapped + ", or " + instruction + " right before " +
         std::string(info(taker).text) + ".";
}

std::string sentence(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

}  // namespace

// Says what is missing or wrong on the stack for a taker ("i32.add takes", "the block must end
// with") of `expected`. kBottom in `expected` stands for any type.
bool CodeValidator::fail_stack(const Instruction& in, Types expected, DiagnosticCode mismatch,
                               std::string_view taker) {
  const Types stack(floor_, static_cast<size_t>(before_ - floor_));
  const std::string takes = std::string(taker) + " " + list_of(expected) + ", ";
  Diagnostic d{.code = kMissingValue, .expected = list_of(expected)};
  for (size_t above = 0; above < expected.size(); ++above) {
    const ValType wanted = expected[expected.size() - 1 - above];
    if (above == stack.size()) break;
    const ValType actual = stack[stack.size() - 1 - above];
    if (wanted == ValType::kBottom || fits(actual, wanted)) continue;
    d.code = mismatch;
    d.message = takes + "but the stack holds " + list_of(stack, 8) + ": " +
                (expected.size() == 1 ? "the value"
                                      : "operand " + std::to_string(expected.size() - above) + " of " +
                                            std::to_string(expected.size())) +
                " is " + name_of(actual);
    d.found = list_of(stack.last(std::min(stack.size(), expected.size())));
    d.hint = repair_of(actual, wanted, above, in.op);
    if (stack.size() >= expected.size())
      if (const auto other = sibling(in.op, stack.last(expected.size())); !other.empty())
        d.hint = "use " + std::string(other) + " instead" + (d.hint.empty() ? "." : ", or " + d.hint);
    d.hint = sentence(std::move(d.hint));
    if (function_ == UINT32_MAX) d.hint = "Write a constant of type " + name_of(wanted) + ".";
    return fail(in, std::move(d));
  }
  d.message = takes + "but the stack holds " + (stack.empty() ? "nothing" : "only " + list_of(stack, 8));
  d.found = list_of(stack);
  if (in.op == Opcode::kEnd || in.op == Opcode::kElse)
    d.hint = "Leave " + d.expected + " on the stack as the last thing before the end.";
  if (floor_ != base_)
    d.hint = "Push " + count_of(expected.size() - std::min(stack.size(), expected.size()), "more value") +
             " inside this block: what was pushed before a block is out of its reach, so keep it in a local.";
  return fail(in, std::move(d));
}

bool CodeValidator::fail_operands(const Instruction& in, Types expected) {
  return fail_stack(in, expected, kTypeMismatch, name_of_instruction(module_, function_, in) + " takes");
}

bool CodeValidator::fail_operands(const Instruction& in, Types expected, ValType last) {
  std::vector<ValType> all(expected.begin(), expected.end());
  all.push_back(last);
  return fail_operands(in, all);
}

bool CodeValidator::fail_branch(const Instruction& in, const Frame& at, bool has_condition) {
  std::vector<ValType> all(at.label_types().begin(), at.label_types().end());
  if (has_condition) all.push_back(ValType::kI32);
  return fail_stack(in, all, kBranchTypeMismatch,
                    std::string(info(in.op).text) + " to " + describe_block(at) + " takes");
}

bool CodeValidator::fail_results(const Instruction& in, const Frame& at) {
  const Types stack(floor_, static_cast<size_t>(before_ - floor_));
  // Leftover values are reported as such, when what is on top of them is right or nothing is wanted.
  top_ = before_;
  if (!holds(at.results))
    return fail_stack(in, at.results, kResultTypeMismatch, describe_block(at) + " must end with");
  const size_t extra = stack.size() - at.results.size();
  return fail(
      in,
      {.code = kLeftoverValues,
       .message = count_of(extra, "value") + " left over on the stack at the end of " + describe_block(at),
       .found = list_of(stack),
       .expected = list_of(at.results),
       .hint = "Add `drop` " + std::string(extra == 1 ? "once" : std::to_string(extra) + " times") +
               " where the value is not needed" +
               (at.results.empty() ? ", or declare (result " + name_of(stack.back()) + ")." : ".")});
}

bool CodeValidator::fail_unknown(const Instruction& in, DiagnosticCode code, std::string_view noun,
                                 uint32_t index, size_t count) {
  return fail(in, {.code = code,
                   .message = "there is no " + std::string(noun) + " " + std::to_string(index) + ": " +
                              (count == 0 ? "there are none"
                                          : "there " + std::string(count == 1 ? "is " : "are ") +
                                                std::to_string(count)),
                   .found = std::to_string(index),
                   .expected = count == 0   ? ""
                               : count == 1 ? "0"
                                            : "0 to " + std::to_string(count - 1)});
}

}  // namespace membrane::wasm
