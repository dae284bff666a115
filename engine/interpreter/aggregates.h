// The instructions on structs, arrays and casts, but for those that only read or write a field.
//
// Threads: one at a time, as for the Instance. Specification: WebAssembly 3.0, chapter 4.6.
#pragma once

#include "engine/code/code.h"
#include "engine/instance/run.h"

namespace membrane::engine {

// The outcome of an instruction that allocates, or works on a part of an array.
enum class AggregateOutcome : uint8_t {
  kDone,
  kTrapped,  // trap_kind says why
  kUnpaid,   // nothing was done; fuel_needed says what it takes
};

// The operation at `ip` of the run, whose registers are saved: word 1 names its first operand, where its result
// goes as well, and ends with the distance back to its header; word 2 has the two numbers of the instruction;
// word 3 the instruction.
AggregateOutcome perform_aggregate(Run& run, const Word* ip, uint64_t* fp);

// Whether a reference has a type, which is one of the running instance's module.
bool is_of_type(const Run& run, uint64_t bits, wasm::ValType type);

}  // namespace membrane::engine
