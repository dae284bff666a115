// The types that a block takes from the operand stack, and those that it leaves there.
#pragma once

#include <span>

#include "wasm/body.h"
#include "wasm/module.h"

namespace membrane::wasm {

// Lives as long as the module.
struct BlockSignature {
  std::span<const ValType> params, results;
};

// If it has a type index, the module has that type.
inline BlockSignature signature_of(const Module& module, const BlockType& type) {
  switch (type.kind) {
    case BlockType::Kind::kEmpty: return {};
    case BlockType::Kind::kValue: return {{}, only(type.value)};
    case BlockType::Kind::kIndex: break;
  }
  return {module.types[type.index].params, module.types[type.index].results};
}

}  // namespace membrane::wasm
