// Memories and tables.
#include "engine/testing/body_generator_testing.h"
#include "wasm/body.h"

namespace membrane::engine::generator {

void BodyGenerator::address() {
  demand({kI32});
  if (!choices_.one_in(24)) {
    constant_i32(choices_.one_in(3) ? 0xFF : 0xFFFF);
    put(Opcode::kI32And);
    stack_.pop_back();
  }
  if (choices_.one_in(2)) {
    constant_i32(choices_.one_in(8) ? static_cast<uint32_t>(choices_.number()) : choices_.below(256));
    put(Opcode::kI32Add);
    stack_.pop_back();
  }
}

void BodyGenerator::memory_access(const Plain& entry) {
  address();
  const uint32_t index = choices_.one_in(8) && !choices_.is_shared() ? 2 : memory();
  if (index == 2) {  // its addresses have 64 bits
    put(choices_.one_in(8) ? Opcode::kI64ExtendI32S : Opcode::kI64ExtendI32U);
    stack_.back() = kI64;
  }
  if (entry.operands.size() == 2) demand({stack_.back(), entry.operands[1]});
  put(entry.op);
  write_leb128(out_, choices_.below(uint32_t{wasm::info(entry.op).align} + 1) +
                         (index == 0 ? 0 : wasm::kMemArgHasMemory));
  if (index != 0) write_leb128(out_, index);
  const uint32_t kind = choices_.below(32);
  write_leb128(out_, kind < 20    ? choices_.below(64)
                     : kind == 31 ? static_cast<uint32_t>(choices_.number())
                                  : 0u);
  if (wasm::info(entry.op).immediate == Immediate::kMemLane)
    out_.push_back(static_cast<uint8_t>(choices_.below(16u >> wasm::info(entry.op).align)));
  drop_types(entry.operands.size());
  push(entry.results);
}

void BodyGenerator::small_length() {
  constant_i32(choices_.one_in(16) ? static_cast<uint32_t>(choices_.number()) : choices_.below(80));
}

void BodyGenerator::memory_bulk() {
  const uint32_t kind = choices_.below(6);
  if (kind == 0) {
    constant_i32(choices_.one_in(6) ? static_cast<uint32_t>(choices_.number()) : choices_.below(2));
    put(Opcode::kMemoryGrow, memory());
    return;
  }
  if (kind == 5) return put(Opcode::kDataDrop, 0);
  address();
  if (kind == 1) {
    leaf(kI32);
    small_length();
    put(Opcode::kMemoryFill, memory());
  } else if (kind == 4) {
    constant_i32(choices_.below(kDataBytes / 2));
    constant_i32(choices_.below(kDataBytes / 2 + 2));
    put(Opcode::kMemoryInit, 0);
    write_leb128(out_, memory());
  } else {
    constant_i32(choices_.below(255) * 7);
    small_length();
    put(Opcode::kMemoryCopy, memory());
    write_leb128(out_, memory());
  }
  drop_types(3);
}

void BodyGenerator::table_index() {
  if (choices_.one_in(12)) return leaf(kI32);
  constant_i32(choices_.below(kTableSize));
}

void BodyGenerator::reference() {
  if (choices_.one_in(4)) {
    put(Opcode::kRefNull);
    out_.push_back(static_cast<uint8_t>(kFuncRef));
  } else {
    put(Opcode::kRefFunc, choices_.below(kFunctionCount));
  }
}

void BodyGenerator::table_instruction() {
  switch (choices_.below(8)) {
    case 0: put(Opcode::kTableSize, 0); return push(kI32);
    case 1:
    case 2:
      table_index();
      put(Opcode::kTableGet, 0);
      put(Opcode::kRefIsNull);
      return;  // an i32 for an i32
    case 3:
      table_index();
      reference();
      put(Opcode::kTableSet, 0);
      return stack_.pop_back();
    case 4:
      reference();
      constant_i32(choices_.below(3));
      put(Opcode::kTableGrow, 0);
      return;
    case 5:
      table_index();
      reference();
      constant_i32(choices_.below(3));
      put(Opcode::kTableFill, 0);
      return drop_types(2);
    case 6:
      table_index();
      table_index();
      constant_i32(choices_.below(4));
      put(Opcode::kTableCopy, 0);
      out_.push_back(0);
      return drop_types(3);
    default:
      if (choices_.one_in(8)) return put(Opcode::kElemDrop, 1);
      table_index();
      constant_i32(choices_.below(2));
      constant_i32(choices_.below(3));
      put(Opcode::kTableInit, 1);
      out_.push_back(0);
      return drop_types(3);
  }
}

}  // namespace membrane::engine::generator
