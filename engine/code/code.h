// The internal code that the interpreter runs, and the frames that it runs in.
//
// Invariants
//  1. A function's code is made once from its validated body, at its first call, and is on
//     one machine the same each time it is made: a trap's place is found by making it again
//     (translate.h).
//  2. Operands are slots of the frame, 64 bits each: parameters, then locals, then the
//     operand stack. i32 and f32 fill the low half; the high half is zero. A v128 fills two
//     slots, lane 0 lowest, and is named by the first.
//  3. Code is cut into segments. A segment begins with a header word that holds its
//     cost; what enters it pays that first, whole, or pauses there.
//  4. local.get and constants of numbers make no code: their consumers name the local's
//     slot, or carry the constant. What is pending that way is written to its own slot before
//     control splits or joins, and before the local changes.
//
//   word 0            word 1                          word 2 …
//   ┌───────────────┐ ┌──────┬──────┬──────┬──────┐  ┌─────────────────┐
//   │ handler       │ │ a    │ b    │ c    │ d    │  │ constant, …     │
//   └───────────────┘ └──────┴──────┴──────┴──────┘  └─────────────────┘
//   header: ┌─────────────┬──────────────────┐
//           │ cost (u32)  │ code offset (u32)│   the body offset of the segment's first instruction
//           └─────────────┴──────────────────┘
//
// A frame and its callee's overlap: the arguments on the caller's operand stack are
// the callee's first slots, and its results replace them.
//
//   caller: │params│locals│ operands … │ arg0 │ arg1 │
//   callee:                            │ params      │ locals │ operands …
//
// Threads: code is shared by all instances of a module; frames belong to one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "wasm/body.h"

namespace membrane::engine {

class Run;
union Word;
class CompiledModule;

// Register state of the interpreter: the same values pass from handler to handler. The accumulators are the
// last integer, f64 and f32 result; each is in its slot as well, so that nothing but the next operations
// of the same segment needs them.
using Handler = void (*)(const Word* ip, uint64_t* fp, int64_t fuel, uint8_t* memory, Run* run, uint64_t acc,
                         double acc64, float acc32);

// The views of one word. The operation says which one applies (translate*.cc write, *_handlers.cc read; each
// handler's comment has its format).
struct HeaderWord {
  uint32_t cost, code_offset;
};
struct SlotsWord {
  uint16_t a, b, c, d;
};
struct ImmediateWord {
  uint16_t a, b;
  int32_t value;  // a constant, an offset or an index
};
struct BranchWord {
  uint16_t a, b;
  int32_t target;  // words from this word to the header of its target
};

union Word {
  Handler handler;
  HeaderWord header;
  SlotsWord slots;
  ImmediateWord imm;
  BranchWord branch;
  uint64_t constant;
  struct FunctionCode* function;
};
static_assert(sizeof(Word) == 8);

// The clauses of a function's try_tables, by the words of its code.
struct CatchTable {
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Boundary {  // from this word on up to the next boundary
    uint32_t from;
    uint32_t region;  // the innermost; kNone where there is none
  };
  struct Region {
    uint32_t outer;  // kNone for none
    uint32_t first_clause, clause_count;
  };
  struct Clause {
    wasm::CatchClause clause;
    uint32_t landing;  // the header where control goes; kNone: the function returns
    uint32_t slot;     // of the frame, where the caught values are put
  };
  std::vector<Boundary> boundaries;  // ascending
  std::vector<Region> regions;
  std::vector<Clause> clauses;
  [[nodiscard]] uint32_t region_at(uint32_t word) const;
};

struct FunctionCode {
  std::atomic<const Word*> entry =
      nullptr;  // where a call by the interpreter goes: code, or a stub that leads elsewhere
  std::atomic<const Word*> code = nullptr;  // the first header; null until the function is translated
  // Where a call by compiled code goes (native/state.h); null as long as the module has none.
  std::atomic<const void*> native_entry = nullptr;
  std::atomic<const uint8_t*> native_code = nullptr;  // its machine code; null as long as it has none
  uint32_t frame_slots = 0;                           // of the whole frame
  uint32_t param_slots = 0;
  uint32_t zero_slots = 0;  // locals after the parameters
  uint32_t result_slots = 0;
  bool uses_vectors = false;  // of vectors: an instruction, a parameter, a result or a local
  uint32_t index = 0;         // in the module
  // How often a run came from compiled code into this function's interpreted code, by a call or a return. Each
  // crossing costs as much as many instructions: the function is compiled when that has added up
  // (native/runtime.cc). Not exact where threads share the module.
  mutable std::atomic<uint32_t> crossings = 0;
  const CatchTable* catches = nullptr;  // set before `code` is; null when nothing is caught here
  CompiledModule* module = nullptr;
};

enum class Operation : uint16_t {
#define E(operation) operation,
#include "engine/code/operations_each.def"
  kCount,
};

extern const Handler kHandlers[static_cast<size_t>(Operation::kCount)];
extern const Word kTranslateStub[2];  // a header of no cost, and kTranslate
extern const Word kNativeStub[2];     // the same with kEnterNative

}  // namespace membrane::engine
