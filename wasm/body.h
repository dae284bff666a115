// Walks the instructions of a function body or of a constant expression.
//
// BodyReader decodes every instruction; the validator, the printer and BodyWalk
// (body_walk.h) are its consumers. (The validator decodes the most frequent short
// ones itself: validate_short.cc.) It is checked: on malformed bytes
// it stops with an error and its offset, and never reads past `code`.
//
//   BodyReader reader(code);
//   while (reader.next()) use(reader.instruction());
//   if (reader.error()) …
//
// Threads: a reader belongs to one thread; the bytes must outlive it.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

#include "wasm/opcode.h"
#include "wasm/types.h"

namespace membrane::wasm {

// A block type: no value, one value type, or an index into Module::types.
struct BlockType {
  enum class Kind : uint8_t { kEmpty, kValue, kIndex } kind = Kind::kEmpty;
  ValType value = ValType::kBottom;
  uint32_t index = 0;
};

// One decoded instruction. Only the fields of its Immediate kind mean anything.
struct Instruction {
  Opcode op = Opcode::kNop;
  uint8_t lane = 0;         // kLane, kMemLane
  ValType ref_type{};       // kRefType: the nullable reference to it; kSelectTypes: the first type;
                            // kLabelCast: what is cast
  ValType cast_type{};      // kLabelCast: and to what
  BlockType block;          // kBlock, kTryTable
  uint32_t offset = 0;      // of the opcode, in bytes from the start of the code
  uint32_t size = 0;        // of opcode and immediates, in bytes
  uint32_t index = 0;       // label, function, type, local, global, tag, table, data, element, memory;
                            // the destination of a copy; the data or element of an init
  uint32_t index2 = 0;      // table of call_indirect; source of a copy; memory or table of an init;
                            // kField: the field; kTypeCount: the count; kTypeData, kTypeElem: the segment
  uint32_t align = 0;       // kMem, kMemLane: log2
  uint64_t mem_offset = 0;  // kMem, kMemLane
  uint64_t value = 0;       // kI32 (sign-extended), kI64, kF32 and kF64 as bits
  const uint8_t* raw = kNoBytes;  // kV128, kShuffle: 16 bytes; kLabelTable: the encoded labels, default
                                  // last; kSelectTypes: the encoded types; kTryTable: the encoded clauses
  uint32_t count = 0;             // kLabelTable: labels without the default; kSelectTypes: types;
                                  // kTryTable: clauses

  static constexpr uint8_t kNoBytes[16] = {};
};

// In the first number of a memarg: the index of a memory follows it.
inline constexpr uint32_t kMemArgHasMemory = 0x40;

enum class BodyError : uint8_t {
  kNone,
  kUnexpectedEnd,  // the bytes end inside an instruction
  kIllegalOpcode,  // no such instruction
  kAtomic,         // one of the threads proposal
  kBadLeb,         // an integer is too long or too large
  kBadBlockType,
  kBadRefType,
  kBadValType,
  kBadMemArg,        // malformed alignment flags
  kTooManyLabels,    // more labels than bytes left
  kBadCatch,         // a clause of no kind
  kBadCast,          // unknown flags of a br_on_cast
  kLegacyException,  // an instruction of the exception handling that came before try_table
};

namespace detail {

// What BodyReader::next() knows of an instruction by its first byte, when its immediates are short: none,
// an index, an i32 or i64, or alignment and offset, of one byte each.
struct ShortRow {
  Opcode op = Opcode::kCount;
  uint8_t size = 0;        // of opcode and immediates
  uint8_t index_mask = 0;  // of the byte after the opcode, when it is an index
  // Of the instruction's first four bytes: those bits that are zero when it is short. Of an instruction that
  // never is, some that are not.
  uint32_t zeros = 0xFF;
};

consteval ShortRow short_row(Opcode op) {
  switch (info(op).immediate) {
    case Immediate::kNone: return {op, 1, 0, 0};
    case Immediate::kLabel:
    case Immediate::kFunc:
    case Immediate::kLocal:
    case Immediate::kGlobal:
    case Immediate::kTag:
    case Immediate::kType:
    case Immediate::kTable: return {op, 2, 0x7F, 0x8000};
    case Immediate::kI32:
    case Immediate::kI64: return {op, 2, 0, 0x8000};
    case Immediate::kMem: return {op, 3, 0, 0x80C000};
    default: return {op};
  }
}

inline constexpr std::array<ShortRow, 256> kShortRows = [] consteval {
  std::array<ShortRow, 256> rows;
  for (size_t byte = 0; byte < rows.size(); ++byte)
    if (const Opcode op = kPlain[byte]; op != Opcode::kCount) rows[byte] = short_row(op);
  return rows;
}();

}  // namespace detail

class BodyReader {
 public:
  explicit BodyReader(std::span<const uint8_t> code)
      : begin_(code.data()), at_(code.data()), end_(code.data() + code.size()) {}

  // Decodes the next instruction. False at the end of the bytes or on an error.
  bool next() {
    if (end_ - at_ < kShortBytes) [[unlikely]]
      return at_ != end_ && next_long();
    static_assert(std::endian::native == std::endian::little);
    uint32_t bytes = 0;
    std::memcpy(&bytes, at_, sizeof bytes);
    const detail::ShortRow& row = detail::kShortRows[bytes & 0xFF];
    if ((bytes & row.zeros) != 0) [[unlikely]]
      return next_long();
    // All immediates at once, whichever there are: that is faster than to ask.
    instruction_.op = row.op;
    instruction_.offset = offset();
    instruction_.size = row.size;
    instruction_.index = bytes >> 8 & row.index_mask;
    instruction_.align = bytes >> 8 & 0x3F;
    instruction_.mem_offset = bytes >> 16 & 0x7F;
    instruction_.value = static_cast<uint64_t>(static_cast<int64_t>(uint64_t{bytes} << 49) >> 57);
    at_ += row.size;
    return true;
  }

  [[nodiscard]] const Instruction& instruction() const { return instruction_; }
  [[nodiscard]] BodyError error() const { return error_; }
  [[nodiscard]] bool at_end() const { return at_ == end_; }
  // Bytes from the start of the code to the next instruction (or to the error).
  [[nodiscard]] uint32_t offset() const { return static_cast<uint32_t>(at_ - begin_); }

  // -- for a consumer that decodes some instructions by itself
  // The bytes from the next one on.
  [[nodiscard]] std::span<const uint8_t> rest() const { return {at_, end_}; }
  void skip_to(const uint8_t* next) { at_ = next; }
  // The next one, of which the consumer knows what it is: a block without a type, or with an index or nothing.
  const Instruction& take(Opcode op, uint32_t size, uint32_t index) {
    instruction_.op = op;
    instruction_.offset = offset();
    instruction_.size = size;
    instruction_.index = index;
    instruction_.block = {};
    at_ += size;
    return instruction_;
  }

 private:
  static constexpr ptrdiff_t kShortBytes = 4;  // that are read at once
  bool next_long();
  bool decode_immediate(Immediate kind);
  bool decode_block_type();
  bool decode_select_types();
  bool heap_type(ValType& out);
  bool decode_label_cast();
  bool decode_clauses();
  bool fail(BodyError error);
  bool u8(uint8_t& out);
  bool u32(uint32_t& out);
  bool u64(uint64_t& out);
  bool s32(int32_t& out);
  bool s33(int64_t& out);
  bool s64(int64_t& out);
  bool bytes(const uint8_t*& out, uint32_t count);

  const uint8_t* begin_;
  const uint8_t* at_;
  const uint8_t* end_;
  BodyError error_ = BodyError::kNone;
  Instruction instruction_;
};

// Reads the labels of a br_table, which are LEB128 in the code: call next() count+1 times.
class LabelReader {
 public:
  explicit LabelReader(const Instruction& br_table) : at_(br_table.raw) {}
  uint32_t next();  // the bytes were checked by BodyReader

 private:
  const uint8_t* at_;
};

// Reads the types of a typed select: call next() count times.
class SelectTypeReader {
 public:
  explicit SelectTypeReader(const Instruction& select) : at_(select.raw) {}
  ValType next();  // the bytes were checked by BodyReader

 private:
  const uint8_t* at_;
};

// A clause of a try_table. The byte that says of which kind it is in the binary format.
struct CatchClause {
  static constexpr uint8_t kRef = 1, kAll = 2, kKinds = 4;
  uint8_t kind = 0;    // kRef and kAll, or both or neither
  uint32_t tag = 0;    // unless it catches all
  uint32_t label = 0;  // counted from outside of the try_table
  [[nodiscard]] bool catches_all() const { return (kind & kAll) != 0; }
  [[nodiscard]] bool has_ref() const { return (kind & kRef) != 0; }  // the exception itself comes along
};

// Reads the clauses of a try_table: call next() count times.
class CatchReader {
 public:
  explicit CatchReader(const Instruction& try_table) : at_(try_table.raw) {}
  CatchClause next();  // the bytes were checked by BodyReader

 private:
  const uint8_t* at_;
};

}  // namespace membrane::wasm
