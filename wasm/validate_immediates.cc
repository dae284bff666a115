// The immediates of plain instructions, and what a constant expression may hold.
#include <algorithm>
#include <span>
#include <string>

#include "base/text.h"
#include "wasm/explain.h"
#include "wasm/validate_code.h"

namespace membrane::wasm {

using enum DiagnosticCode;

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

// Constant instructions (3.4.14.2), with only those globals that have their values by then.
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

}  // namespace membrane::wasm
