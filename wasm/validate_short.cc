// Short and frequent instructions, which the validator takes by a table of their first bytes: all that it reads and changes is
// in registers meanwhile. Whatever is long, seldom or wrong is left to CodeValidator::walk().
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/findings.h"
#include "base/stop_scope.h"
#include "wasm/validate_code.h"
#include "wasm/validation_rules.h"

namespace membrane::wasm {
namespace {

// What is done with an instruction: what is frequent has a case of its own, numbers are alike.
enum class Step : uint8_t {
  kOther,
  kLocalGet,
  kLocalSet,
  kLocalTee,
  kGlobalGet,
  kConstant,
  kDrop,
  kUnary,
  kBinary,
  kLoad,
  kStore,
  kSelect,
  kGlobalSet,
  kOpen,
  kIf,
  kElse,
  kEnd,
  kBr,
  kBrIf,
  kReturn,
  kCall,
};

struct Row {
  Step step = Step::kOther;
  uint8_t most_align = 0;  // log2, of kLoad and kStore
  Opcode op{};
  ValType first{}, second{}, result{};  // of kConstant to kStore
};

constexpr Step step_of(Opcode op) {
  using enum Step;
  switch (op) {
    case Opcode::kLocalGet: return kLocalGet;
    case Opcode::kLocalSet: return kLocalSet;
    case Opcode::kLocalTee: return kLocalTee;
    case Opcode::kGlobalGet: return kGlobalGet;
    case Opcode::kGlobalSet: return kGlobalSet;
    case Opcode::kI32Const:
    case Opcode::kI64Const: return kConstant;
    case Opcode::kDrop: return kDrop;
    case Opcode::kSelect: return kSelect;
    case Opcode::kBlock:
    case Opcode::kLoop: return kOpen;
    case Opcode::kIf: return kIf;
    case Opcode::kElse: return kElse;
    case Opcode::kEnd: return kEnd;
    case Opcode::kBr: return kBr;
    case Opcode::kBrIf: return kBrIf;
    case Opcode::kReturn: return kReturn;
    case Opcode::kCall: return kCall;
    default: break;
  }
  const Rule rule = rule_of(info(op));
  const bool has_result = rule.result != ValType::kBottom;
  if (rule.operand_count == 0 || rule.operand_count > 2) return kOther;
  if (info(op).immediate == Immediate::kMem) return has_result ? kLoad : kStore;
  if (rule.kind != Rule::Kind::kPlain || !has_result) return kOther;
  return rule.operand_count == 1 ? kUnary : kBinary;
}

constexpr Row row_of(Opcode op) {
  if (op == Opcode::kCount) return {};
  const Rule rule = rule_of(info(op));
  return {step_of(op), rule.limit, op, rule.operands[0], rule.operands[1], rule.result};
}

constexpr std::array<Row, 256> kRows = [] consteval {
  std::array<Row, 256> rows;
  for (size_t byte = 0; byte < rows.size(); ++byte) rows[byte] = row_of(detail::kPlain[byte]);
  return rows;
}();

constexpr uint32_t kMostOfByte = 0x7F;  // an index of one byte
constexpr uint32_t kNoBlockType = 0x40;

// A LEB128 number of four bytes at most; `bytes` has its first byte lowest.
struct ShortLeb {
  uint32_t size;  // 0: it is longer
  uint32_t bits;
  [[gnu::always_inline]] explicit ShortLeb(uint64_t bytes) {
    size = 1;
    bits = bytes & 0x7F;
    if ((bytes & 0x80) == 0) return;
    const uint64_t last = ~bytes & 0x80808080;
    size = last == 0 ? 0 : static_cast<uint32_t>(std::countr_zero(last) + 1) / 8;
    const uint64_t all =
        (bytes & 0x7F) | (bytes & 0x7F00) >> 1 | (bytes & 0x7F0000) >> 2 | (bytes & 0x7F000000) >> 3;
    bits = static_cast<uint32_t>(all & ((uint64_t{1} << 7 * size) - 1));
  }
  [[nodiscard]] uint64_t sign_extended() const {
    const uint32_t unused = 32 - 7 * size;
    return static_cast<uint64_t>(int64_t{static_cast<int32_t>(bits << unused) >> unused});
  }
};

}  // namespace

// kNotes: LocalUses and DecodedBody hear of the instructions. Invariants: no v128 is on the stack, and
// what the validator's members say of the stack is true while one of its methods runs, and at the end.
template <bool kNotes>
class CodeValidator::ShortRun {
 public:
  ShortRun(CodeValidator& validator, BodyReader& reader)
      : validator_(validator),
        reader_(reader),
        at_(reader.rest().data()),
        end_(at_ + reader.rest().size()),
        locals_(validator.locals_.data()),
        local_count_(std::min(validator.direct_locals_, kMostOfByte + 1)),
        globals_(validator.module_.globals.data()),
        global_count_(std::min<size_t>(validator.module_.globals.size(), kMostOfByte + 1)) {
    if constexpr (kNotes) {
      const auto room = validator.decoded_->room();
      entry_ = room.data();
      last_entry_ = entry_ + room.size();
    }
    load();
  }
  [[gnu::always_inline]] Taken run() {
    while (end_ - at_ >= kBytesRead && top_ != limit_ && (!kNotes || entry_ != last_entry_))
      if (!take()) break;
    if constexpr (kNotes) validator_.decoded_->skip_to(entry_);
    reader_.skip_to(at_);
    store();
    return failed_ ? Taken::kFailed : validator_.frames_.empty() ? Taken::kAll : Taken::kSome;
  }

 private:
  static constexpr ptrdiff_t kBytesRead = kShortBytes;
  using Method = bool (CodeValidator::*)(const Instruction&);

  void load() {
    top_ = validator_.top_;
    highest_ = validator_.highest_;
    floor_ = validator_.floor_;
    limit_ = validator_.limit_;
  }
  void store() {
    if (highest_ != validator_.highest_) {
      validator_.top_ = highest_;
      validator_.raise_height();
    }
    validator_.top_ = top_;
  }

  // Takes one instruction; false when that cannot be done here, or was the last.
  [[gnu::always_inline]] bool take() {
    uint64_t bytes = 0;
    std::memcpy(&bytes, at_, sizeof bytes);
    row_ = &kRows[bytes & 0xFF];
    const auto byte = static_cast<uint32_t>(bytes >> 8 & 0xFF);
    switch (row_->step) {
      case Step::kLocalGet: return local_get(byte);
      case Step::kLocalSet: return local_set(byte, 1);
      case Step::kLocalTee: return local_set(byte, 0);
      case Step::kGlobalGet: return global_get(byte);
      case Step::kConstant: return constant(ShortLeb(bytes >> 8));
      case Step::kDrop: return drop();
      case Step::kUnary: return unary() && note(1, 0, 0);
      case Step::kBinary: return binary() && note(1, 0, 0);
      case Step::kLoad: {
        const ShortLeb offset(bytes >> 16);
        return is_access(byte, offset) && unary() && note(2 + offset.size, 0, offset.bits);
      }
      case Step::kStore: {
        const ShortLeb offset(bytes >> 16);
        return is_access(byte, offset) && store_operands() && note(2 + offset.size, 0, offset.bits);
      }
      case Step::kSelect: return call(1, 0, &CodeValidator::on_select);
      case Step::kElse: return call(1, 0, &CodeValidator::on_else);
      case Step::kEnd: return call(1, 0, &CodeValidator::on_end) && !validator_.frames_.empty();
      case Step::kReturn: return call(1, 0, &CodeValidator::on_return);
      case Step::kOpen: return byte == kNoBlockType && call(2, 0, &CodeValidator::on_block);
      case Step::kIf: return byte == kNoBlockType && call(2, 0, &CodeValidator::on_if);
      case Step::kGlobalSet: return byte <= kMostOfByte && call(2, byte, &CodeValidator::on_global_set);
      case Step::kBr: return byte <= kMostOfByte && call(2, byte, &CodeValidator::on_br);
      case Step::kBrIf: return byte <= kMostOfByte && call(2, byte, &CodeValidator::on_br_if);
      case Step::kCall: return byte <= kMostOfByte && call(2, byte, &CodeValidator::on_call);
      case Step::kOther: return false;
    }
    return false;
  }

  [[gnu::always_inline]] bool note(uint32_t size, uint32_t index, uint64_t value) {
    at_ += size;
    if constexpr (kNotes) *entry_++ = {row_->op, static_cast<uint8_t>(size), true, index, value};
    return true;
  }
  // By a method of the validator, which also reports.
  [[gnu::always_inline]] bool call(uint32_t size, uint32_t index, Method method) {
    reader_.skip_to(at_);
    const Instruction& in = reader_.take(row_->op, size, index);
    note(size, index, 0);
    if constexpr (kNotes) validator_.decoded_->skip_to(entry_);
    store();
    validator_.before_ = top_;
    const bool is_valid = StopScope::stop_wanted() ? validator_.fail(in, stopped_finding("the validation"))
                                                   : (validator_.*method)(in);
    failed_ = !is_valid;
    load();
    return !failed_ && validator_.wide_ == 0;
  }

  [[gnu::always_inline]] void push(ValType type) {
    *top_++ = type;
    highest_ = std::max(highest_, top_);
  }
  [[gnu::always_inline]] bool local_get(uint32_t index) {
    if (index >= local_count_ || locals_[index] == ValType::kV128) return false;
    push(locals_[index]);
    if constexpr (kNotes) validator_.uses_->read(index);
    return note(2, index, 0);
  }
  [[gnu::always_inline]] bool local_set(uint32_t index, uint32_t popped) {
    if (index >= local_count_ || top_ == floor_ || top_[-1] != locals_[index]) return false;
    top_ -= popped;
    if constexpr (kNotes) validator_.uses_->assign(index);
    return note(2, index, 0);
  }
  [[gnu::always_inline]] bool global_get(uint32_t index) {
    if (index >= global_count_ || globals_[index].type.type == ValType::kV128) return false;
    push(globals_[index].type.type);
    return note(2, index, 0);
  }
  [[gnu::always_inline]] bool constant(ShortLeb number) {
    if (number.size == 0) return false;
    push(row_->result);
    return note(1 + number.size, 0, number.sign_extended());
  }
  [[gnu::always_inline]] bool drop() {
    if (top_ == floor_) return false;
    --top_;
    return note(1, 0, 0);
  }
  // Of the first memory, with 32-bit addresses.
  [[gnu::always_inline]] bool is_access(uint32_t align, const ShortLeb& offset) const {
    return align <= row_->most_align && offset.size != 0 && validator_.has_plain_memory_;
  }
  [[gnu::always_inline]] bool unary() {
    if (top_ == floor_ || top_[-1] != row_->first) return false;
    top_[-1] = row_->result;
    return true;
  }
  [[gnu::always_inline]] bool has_two() const {
    return top_ - floor_ >= 2 && top_[-1] == row_->second && top_[-2] == row_->first;
  }
  [[gnu::always_inline]] bool binary() {
    if (!has_two()) return false;
    *(--top_ - 1) = row_->result;
    return true;
  }
  [[gnu::always_inline]] bool store_operands() {
    if (!has_two()) return false;
    top_ -= 2;
    return true;
  }

  CodeValidator& validator_;
  BodyReader& reader_;
  const uint8_t* at_;
  const uint8_t* const end_;
  const ValType* const locals_;
  const uint32_t local_count_;
  const Global* const globals_;
  const size_t global_count_;
  const Row* row_ = nullptr;
  ValType *top_ = nullptr, *highest_ = nullptr, *floor_ = nullptr, *limit_ = nullptr;
  DecodedBody::Entry *entry_ = nullptr, *last_entry_ = nullptr;
  bool failed_ = false;
};

CodeValidator::Taken CodeValidator::take_short(BodyReader& reader) {
  return decoded_ != nullptr ? ShortRun<true>(*this, reader).run() : ShortRun<false>(*this, reader).run();
}

}  // namespace membrane::wasm
