// The decoded instructions of a body: the validator notes them in passing, and code is made of them without decoding
// the body a second time.
//
// An instruction with one immediate takes sixteen bytes, whatever its encoding. The others are found by their place
// and decoded again. No more than kMostInstructions are kept, so that memory does not follow the size of a body;
// of a longer one there is nothing.
//
// Threads: belongs to one thread. Its memory is kept from one body to the next.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "wasm/body.h"
#include "wasm/local_uses.h"

namespace membrane::wasm {

class DecodedBody {
 public:
  static constexpr size_t kMostInstructions = size_t{1} << 16;

  // -- for the decoder's caller
  void begin() {
    next_ = entries_.data();
    is_whole_ = true;
  }
  void add(const Instruction& in) {
    if (next_ == end_) [[unlikely]]
      grow();
    const Form form = kForms[static_cast<size_t>(in.op)];
    const bool has_type = form == Form::kBlock && in.block.kind != BlockType::Kind::kEmpty;
    const uint64_t immediate = form == Form::kAccess ? in.mem_offset : in.value;
    *next_++ = {in.op, static_cast<uint8_t>(in.size), form != Form::kOther && !has_type, in.index, immediate};
  }

  struct Entry {
    Opcode op;
    uint8_t size;   // in bytes
    bool is_plain;  // all of the instruction is here
    uint32_t index;
    uint64_t value;  // or the offset of a memory access
  };
  static_assert(sizeof(Entry) == 16);
  // For a caller that writes entries by itself: where the next ones go, and where it stopped. It may be empty; then add()
  // makes room.
  [[nodiscard]] std::span<Entry> room() { return {next_, end_}; }
  void skip_to(Entry* next) { next_ = next; }

  // Whether all instructions of the body are there.
  [[nodiscard]] bool is_whole() const { return is_whole_; }

 private:
  friend class DecodedReader;
  // What of an instruction an entry holds: not all, an index or a number, a block without a type, an access of memory.
  enum class Form : uint8_t { kOther, kPlain, kBlock, kAccess };
  static consteval Form form_of(Immediate immediate);
  static consteval std::array<Form, kOpcodeCount> all_forms();
  static const std::array<Form, kOpcodeCount> kForms;

  // Of a body that is too long, the entries are written over: nobody reads them.
  [[gnu::noinline]] void grow() {
    const size_t size = entries_.size();
    if (size == kMostInstructions) {
      is_whole_ = false;
      next_ = entries_.data();
      return;
    }
    entries_.resize(std::clamp<size_t>(2 * size, 256, kMostInstructions));
    next_ = entries_.data() + size;
    end_ = entries_.data() + entries_.size();
  }

  std::vector<Entry> entries_;
  Entry* next_ = nullptr;  // of entries_: where the next one goes
  Entry* end_ = nullptr;
  bool is_whole_ = false;
};

consteval DecodedBody::Form DecodedBody::form_of(Immediate immediate) {
  switch (immediate) {
    case Immediate::kNone:
    case Immediate::kLabel:
    case Immediate::kFunc:
    case Immediate::kLocal:
    case Immediate::kGlobal:
    case Immediate::kTag:
    case Immediate::kTable:
    case Immediate::kType:
    case Immediate::kMemory:
    case Immediate::kData:
    case Immediate::kElem:
    case Immediate::kI32:
    case Immediate::kI64:
    case Immediate::kF32:
    case Immediate::kF64: return Form::kPlain;
    case Immediate::kBlock: return Form::kBlock;
    case Immediate::kMem: return Form::kAccess;
    default: return Form::kOther;
  }
}
consteval std::array<DecodedBody::Form, kOpcodeCount> DecodedBody::all_forms() {
  std::array<Form, kOpcodeCount> forms{};
  for (size_t i = 0; i < kOpcodeCount; ++i) forms[i] = form_of(info(static_cast<Opcode>(i)).immediate);
  return forms;
}
inline constexpr std::array<DecodedBody::Form, kOpcodeCount> DecodedBody::kForms = all_forms();

// Gives the same instructions as a BodyReader of the body's code, but for the alignment of memory accesses. The body is
// whole, and valid.
class DecodedReader {
 public:
  DecodedReader(const DecodedBody& body, std::span<const uint8_t> code)
      : at_(body.entries_.data()), end_(body.next_), code_(code) {}

  bool next() {
    if (at_ == end_) return false;
    const DecodedBody::Entry& entry = *at_++;
    if (!entry.is_plain) [[unlikely]]
      return decode_again();
    current_ = &plain_;
    plain_.op = entry.op;
    plain_.offset = offset_;
    plain_.size = entry.size;
    plain_.index = entry.index;
    plain_.mem_offset = plain_.value = entry.value;
    offset_ += entry.size;
    return true;
  }
  [[nodiscard]] const Instruction& instruction() const { return *current_; }

 private:
  [[gnu::noinline]] bool decode_again() {
    BodyReader reader(code_.subspan(offset_));
    if (!reader.next()) return false;
    decoded_ = reader.instruction();
    decoded_.offset = offset_;
    offset_ += decoded_.size;
    current_ = &decoded_;
    return true;
  }

  const DecodedBody::Entry* at_;
  const DecodedBody::Entry* end_;
  std::span<const uint8_t> code_;
  uint32_t offset_ = 0;  // of the next instruction
  Instruction plain_, decoded_;
  const Instruction* current_ = &plain_;
};

// What is noted of a body while it is validated, to make code of it.
struct BodyNotes {
  LocalUses uses;
  DecodedBody body;
};

}  // namespace membrane::wasm
