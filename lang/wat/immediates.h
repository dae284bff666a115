// Finds where an instruction's immediates end and its operands begin.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "lang/wat/environment.h"
#include "lang/wat/tree.h"
#include "wasm/opcode.h"
#include "wasm/types.h"

namespace membrane::lang {

using Types = std::span<const wasm::ValType>;

// Whether the table of opcodes has the operands and results of `op`; otherwise they depend on the module or on the
// stack.
bool has_fixed_signature(wasm::Opcode op);
Types operands_of(wasm::Opcode op);
Types results_of(wasm::Opcode op);

// Whether `op` reads or writes the linear memory.
bool uses_memory(wasm::Opcode op);

// The first node in [n, close) that is not a clause of a try_table, (catch …) and its like.
Tree::Node after_clauses(const Tree& tree, Tree::Node n, Tree::Node close);

// The first node in [n, close) that is not an immediate of `op`, whose mnemonic is before n. An optional immediate
// ((table.get $i)) is recognised when it names something of the right kind, or when enough operands follow it.
Tree::Node after_immediates(const Tree& tree, const Environment& environment, wasm::Opcode op, Tree::Node n,
                            Tree::Node close);

}  // namespace membrane::lang
