#include "wasm/local_uses.h"

namespace membrane::wasm {

void LocalUses::look_at(std::span<const uint8_t> code, uint32_t local_count) {
  begin(local_count);
  BodyReader body(code);
  while (body.next()) {
    const Instruction& in = body.instruction();
    switch (in.op) {
      case Opcode::kLocalGet: read(in.index); break;
      case Opcode::kLocalSet:
      case Opcode::kLocalTee: assign(in.index); break;
      case Opcode::kLoop: open_loop(); break;
      case Opcode::kBlock:
      case Opcode::kIf:
      case Opcode::kTryTable: open_block(); break;
      case Opcode::kEnd: close(); break;
      case Opcode::kCall:
      case Opcode::kCallIndirect:
      case Opcode::kCallRef: call(); break;
      default: break;
    }
  }
}

}  // namespace membrane::wasm
