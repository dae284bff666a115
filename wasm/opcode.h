// The opcode table as C++ values. The data is opcodes.def; nothing about an
// instruction is written anywhere else.
//
// Threads: everything here is constant.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace membrane::wasm {

enum class Opcode : uint16_t {
#define OPCODE(id, text, prefix, code, imm, sig, align, cost, flow) id,
#include "wasm/opcodes.def"
#undef OPCODE
  kCount,
};
inline constexpr size_t kOpcodeCount = static_cast<size_t>(Opcode::kCount);

// The fields after an opcode, in the binary format's order.
enum class Immediate : uint8_t {
  kNone,
  kBlock,         // block type: s33
  kTryTable,      // block type: s33, vec(catch clause)
  kLabel,         // label index
  kLabelTable,    // vec(label) label
  kFunc,          // function index
  kCallIndirect,  // type index, table index
  kType,          // type index
  kField,         // type index, field index
  kTypeCount,     // type index, count
  kTypeData,      // type index, data index
  kTypeElem,      // type index, element index
  kTypeCopy,      // destination and source type index
  kLabelCast,     // flags, label index, heap type, heap type
  kLocal,
  kGlobal,
  kTag,
  kTable,
  kMem,          // memarg: align (log2), memory index where it is not 0, offset
  kMemLane,      // memarg, lane byte
  kLane,         // lane byte
  kShuffle,      // 16 lane bytes
  kV128,         // 16 bytes
  kI32,          // s32
  kI64,          // s64
  kF32,          // 4 bytes, little endian
  kF64,          // 8 bytes, little endian
  kRefType,      // heap type
  kSelectTypes,  // vec(valtype)
  kMemory,       // memory index
  kMemoryCopy,   // destination and source memory index
  kMemoryInit,   // data index, memory index
  kData,
  kTableInit,  // element index, table index
  kElem,
  kTableCopy,  // destination and source table index
};

// What an instruction does to control: to labels, to whether what follows can be reached, and to the fuel segment
// that it is in (docs/fuel.md). BodyWalk (body_walk.h) follows it.
enum class Flow : uint8_t {
  kStraight,  // nothing: the segment continues
  kOpens,     // opens a label; the segment continues
  kLoops,     // opens a label, and a segment begins at it
  kTests,     // opens a label; the segment ends, since the other arm may be next
  kElse,      // begins the other arm, and a segment
  kCloses,    // closes a label; a segment begins if another way leads here
  kForks,     // the segment ends: control may go elsewhere and not come back
  kLeaves,    // the same, and what follows cannot be reached
  kBulk,      // a segment of its own, since its cost depends on its operands
  kOwn,       // the same; if a segment begins with it already, that one is its own
  kThrows,    // as kOwn, and what follows cannot be reached
};

struct OpcodeInfo {
  std::string_view text;
  std::string_view signature;  // see opcodes.def
  uint16_t code;
  uint8_t prefix;
  Immediate immediate;
  uint8_t align;
  uint8_t cost;
  Flow flow;
};

namespace detail {
using enum Immediate;
using enum Flow;
inline constexpr std::array<OpcodeInfo, kOpcodeCount> kOpcodes{{
#define OPCODE(id, text, prefix, code, imm, sig, align, cost, flow)             \
  OpcodeInfo{text, sig, code, prefix, Immediate::imm, align, cost, Flow::flow},
#include "wasm/opcodes.def"
#undef OPCODE
}};

// Opcode numbers by code; kCount where there is none.
template <size_t kCodes>
consteval std::array<Opcode, kCodes> opcodes_behind(uint8_t prefix) {
  std::array<Opcode, kCodes> map;
  map.fill(Opcode::kCount);
  for (size_t i = 0; i < kOpcodeCount; ++i)
    if (kOpcodes[i].prefix == prefix) map[kOpcodes[i].code] = static_cast<Opcode>(i);
  return map;
}
inline constexpr auto kPlain = opcodes_behind<0x100>(0);
inline constexpr auto kPrefixFB = opcodes_behind<0x20>(0xFB);
inline constexpr auto kPrefixFC = opcodes_behind<0x100>(0xFC);
inline constexpr auto kPrefixFD = opcodes_behind<0x114>(0xFD);
}  // namespace detail

constexpr const OpcodeInfo& info(Opcode op) { return detail::kOpcodes[static_cast<size_t>(op)]; }

// The instruction with this encoding, or Opcode::kCount when there is none.
constexpr Opcode find_opcode(uint8_t prefix, uint32_t code) {
  const auto in = [&](const auto& map) { return code < map.size() ? map[code] : Opcode::kCount; };
  switch (prefix) {
    case 0: return in(detail::kPlain);
    case 0xFB: return in(detail::kPrefixFB);
    case 0xFC: return in(detail::kPrefixFC);
    case 0xFD: return in(detail::kPrefixFD);
    default: return Opcode::kCount;
  }
}

// The instruction with this mnemonic. "select", "ref.test" and "ref.cast" give kSelect, kRefTest and kRefCast
// (the parser chooses the other form by its immediates). Constant time; first call builds a table.
std::optional<Opcode> find_mnemonic(std::string_view text);

}  // namespace membrane::wasm
