#include "wasm/body.h"

#include <cstring>

#include "base/leb128.h"
#include "wasm/module.h"
#include "wasm/type_coding.h"

namespace membrane::wasm {

bool BodyReader::fail(BodyError error) {
  error_ = error;
  end_ = at_;  // nothing follows an error
  return false;
}

bool BodyReader::u8(uint8_t& out) {
  if (at_ == end_) return fail(BodyError::kUnexpectedEnd);
  out = *at_++;
  return true;
}

// Says whether a failed integer was cut off by the end or was malformed.
#define READ_LEB(out, T, BITS)                                               \
  const uint8_t* const next = read_leb128<T, BITS>(at_, end_, out);          \
  if (next == nullptr) {                                                     \
    const uint8_t* p = at_;                                                  \
    while (p != end_ && (*p & 0x80) && p - at_ < ((BITS) + 6) / 7) ++p;      \
    return fail(p == end_ ? BodyError::kUnexpectedEnd : BodyError::kBadLeb); \
  }                                                                          \
  at_ = next;                                                                \
  return true

bool BodyReader::u32(uint32_t& out) { READ_LEB(out, uint32_t, 32); }
bool BodyReader::u64(uint64_t& out) { READ_LEB(out, uint64_t, 64); }
bool BodyReader::s32(int32_t& out) { READ_LEB(out, int32_t, 32); }
bool BodyReader::s33(int64_t& out) { READ_LEB(out, int64_t, 33); }
bool BodyReader::s64(int64_t& out) { READ_LEB(out, int64_t, 64); }
#undef READ_LEB

bool BodyReader::bytes(const uint8_t*& out, uint32_t count) {
  if (static_cast<size_t>(end_ - at_) < count) return fail(BodyError::kUnexpectedEnd);
  out = at_;
  at_ += count;
  return true;
}

namespace {

// try, catch, rethrow, delegate, catch_all: what compilers wrote before there was try_table.
bool is_legacy_exception(uint8_t byte) {
  return byte == 0x06 || byte == 0x07 || byte == 0x09 || byte == 0x18 || byte == 0x19;
}

}  // namespace

// The instructions that next() leaves: prefixed, with longer immediates, at the end, or malformed.
bool BodyReader::next_long() {
  const uint8_t* const start = at_;
  Instruction& in = instruction_;
  in.offset = offset();
  const uint8_t byte = *at_++;
  in.op = detail::kShortRows[byte].op;
  if (in.op == Opcode::kCount) {
    uint32_t code = 0;
    if (byte != 0xFB && byte != 0xFC && byte != 0xFD) {
      at_ = start;
      constexpr uint8_t kAtomicPrefix = 0xFE;
      if (byte == kAtomicPrefix) return fail(BodyError::kAtomic);
      return fail(is_legacy_exception(byte) ? BodyError::kLegacyException : BodyError::kIllegalOpcode);
    }
    if (!u32(code)) return false;
    in.op = find_opcode(byte, code);
    if (in.op == Opcode::kCount) {
      at_ = start;
      return fail(BodyError::kIllegalOpcode);
    }
  }
  if (!decode_immediate(info(in.op).immediate)) return false;
  in.size = static_cast<uint32_t>(at_ - start);
  return true;
}

bool BodyReader::decode_block_type() {
  Instruction& in = instruction_;
  constexpr uint8_t kEmpty = 0x40, kSign = 0x40, kContinues = 0x80;
  if (at_ == end_) return fail(BodyError::kUnexpectedEnd);
  if (*at_ == kEmpty) {
    ++at_;
    in.block = {};
    return true;
  }
  if ((*at_ & (kSign | kContinues)) == kSign) {
    in.block = {BlockType::Kind::kValue, ValType::kBottom, 0};
    const uint8_t* const next = read_val_type(at_, end_, in.block.value);
    if (next == nullptr) return fail(BodyError::kBadBlockType);
    at_ = next;
    return true;
  }
  int64_t type = 0;
  if (!s33(type)) return false;
  if (type < 0) return fail(BodyError::kBadBlockType);
  in.block = {BlockType::Kind::kIndex, ValType::kBottom, static_cast<uint32_t>(type)};
  return true;
}

bool BodyReader::decode_select_types() {
  Instruction& in = instruction_;
  if (!u32(in.count)) return false;
  if (in.count > static_cast<size_t>(end_ - at_)) return fail(BodyError::kUnexpectedEnd);
  in.raw = at_;
  for (uint32_t i = 0; i < in.count; ++i) {
    ValType type{};
    const uint8_t* const next = read_val_type(at_, end_, type);
    if (next == nullptr) return fail(BodyError::kBadValType);
    at_ = next;
    if (i == 0) in.ref_type = type;
  }
  return true;
}

bool BodyReader::heap_type(ValType& out) {
  if (at_ == end_) return fail(BodyError::kUnexpectedEnd);
  const uint8_t* const next = read_heap_type(at_, end_, out);
  if (next == nullptr) return fail(BodyError::kBadRefType);
  at_ = next;
  return true;
}

bool BodyReader::decode_label_cast() {
  Instruction& in = instruction_;
  constexpr uint8_t kFromNull = 1, kToNull = 2;
  uint8_t flags = 0;
  if (!u8(flags)) return false;
  if (flags > (kFromNull | kToNull)) return fail(BodyError::kBadCast);
  if (!u32(in.index) || !heap_type(in.ref_type) || !heap_type(in.cast_type)) return false;
  if ((flags & kFromNull) == 0) in.ref_type = non_null(in.ref_type);
  if ((flags & kToNull) == 0) in.cast_type = non_null(in.cast_type);
  return true;
}

bool BodyReader::decode_clauses() {
  Instruction& in = instruction_;
  if (!u32(in.count)) return false;
  if (in.count > static_cast<size_t>(end_ - at_)) return fail(BodyError::kTooManyLabels);
  in.raw = at_;
  for (uint32_t i = 0; i < in.count; ++i) {
    uint8_t kind = 0;
    if (!u8(kind)) return false;
    if (kind >= CatchClause::kKinds) return fail(BodyError::kBadCatch);
    if ((kind & CatchClause::kAll) == 0 && !u32(in.index)) return false;
    if (!u32(in.index)) return false;
  }
  return true;
}

bool BodyReader::decode_immediate(Immediate kind) {
  Instruction& in = instruction_;
  switch (kind) {
    case Immediate::kNone: return true;
    case Immediate::kBlock: return decode_block_type();
    case Immediate::kTryTable: return decode_block_type() && decode_clauses();
    case Immediate::kLabel:
    case Immediate::kFunc:
    case Immediate::kLocal:
    case Immediate::kGlobal:
    case Immediate::kTag:
    case Immediate::kTable:
    case Immediate::kType:
    case Immediate::kMemory:
    case Immediate::kData:
    case Immediate::kElem: return u32(in.index);
    case Immediate::kLabelTable: {
      if (!u32(in.count)) return false;
      if (in.count >= static_cast<size_t>(end_ - at_)) return fail(BodyError::kTooManyLabels);
      in.raw = at_;
      for (uint32_t i = 0; i <= in.count; ++i)
        if (!u32(in.index)) return false;
      return true;
    }
    case Immediate::kField:
    case Immediate::kTypeCount:
    case Immediate::kTypeData:
    case Immediate::kTypeElem:
    case Immediate::kTypeCopy:
    case Immediate::kCallIndirect:
    case Immediate::kTableInit:
    case Immediate::kTableCopy:
    case Immediate::kMemoryCopy:
    case Immediate::kMemoryInit: return u32(in.index) && u32(in.index2);
    case Immediate::kMem: {
      uint32_t flags = 0;
      if (!u32(flags)) return false;
      if (flags >= 2 * kMemArgHasMemory) return fail(BodyError::kBadMemArg);
      in.align = flags % kMemArgHasMemory;
      in.index = 0;
      if (flags >= kMemArgHasMemory && !u32(in.index)) return false;
      return u64(in.mem_offset);
    }
    case Immediate::kMemLane: return decode_immediate(Immediate::kMem) && u8(in.lane);
    case Immediate::kLane: return u8(in.lane);
    case Immediate::kShuffle:
    case Immediate::kV128: return bytes(in.raw, 16);
    case Immediate::kI32: {
      int32_t value = 0;
      if (!s32(value)) return false;
      in.value = static_cast<uint64_t>(static_cast<int64_t>(value));
      return true;
    }
    case Immediate::kI64: {
      int64_t value = 0;
      if (!s64(value)) return false;
      in.value = static_cast<uint64_t>(value);
      return true;
    }
    case Immediate::kF32: {
      const uint8_t* p = nullptr;
      if (!bytes(p, 4)) return false;
      uint32_t bits = 0;
      std::memcpy(&bits, p, sizeof bits);
      in.value = bits;
      return true;
    }
    case Immediate::kF64: {
      const uint8_t* p = nullptr;
      if (!bytes(p, 8)) return false;
      std::memcpy(&in.value, p, sizeof in.value);
      return true;
    }
    case Immediate::kLabelCast: return decode_label_cast();
    case Immediate::kRefType: return heap_type(in.ref_type);
    case Immediate::kSelectTypes: return decode_select_types();
  }
  return fail(BodyError::kIllegalOpcode);
}

uint32_t LabelReader::next() {
  uint32_t label = 0;
  at_ = read_leb128<uint32_t>(at_, at_ + 5, label);
  return label;
}

ValType SelectTypeReader::next() {
  constexpr ptrdiff_t kLongest = 6;
  ValType type{};
  at_ = read_val_type(at_, at_ + kLongest, type);
  return type;
}

CatchClause CatchReader::next() {
  CatchClause clause;
  clause.kind = *at_++;
  if (!clause.catches_all()) at_ = read_leb128<uint32_t>(at_, at_ + 5, clause.tag);
  at_ = read_leb128<uint32_t>(at_, at_ + 5, clause.label);
  return clause;
}

}  // namespace membrane::wasm
