// The baseline compiler: from a validated function body to x86-64 code, in one pass
// after a short look over the body that counts how often locals are used.
//
// Locals that are used most have a register for the whole function ("pinned"); operands
// are constants, registers, slots, flags or names of locals until something needs them.
// Control joins agree on which pinned locals are in their registers; every way that
// arrives stores or loads what it lacks, on its own side of the jump.
//
// Vectors share the registers of floats; what becomes of each instruction on them is in vector_code.h.
//
// Fuel: segments and costs come from BodyWalk (wasm/body_walk.h), as the translator's do.
//
// Deterministic: the same body gives the same bytes. What is seldom asked (where a trap
// is, which register holds a local) is not kept: the function is compiled again with
// a Watch. The code is position-independent, except calls between functions of one batch.
//
// Studied: V8's Liftoff and Wasmtime's Winch (one pass, abstract stack), TPDE (a look
// ahead pays for itself), Titzer, "Whose baseline compiler is it anyway?" (CGO 2024).
//
// Threads: pure; scratch space belongs to the Compiler.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/code/code.h"
#include "wasm/decoded_body.h"
#include "wasm/module.h"

namespace membrane::engine::native {

// Where one slot's value is at a safepoint, when not in the slot.
struct Location {
  enum class Kind : uint8_t { kRegister, kReal, kConstant, kSlot } kind{};
  bool maybe_nan = false;  // kReal: a NaN in it is to be made canonical first
  bool is_f32 = false;     // the NaN's lanes, or the number
  uint8_t register_number = 0;
  uint8_t half = 0;  // kReal: 1 for the high one of a vector, whose slots are noted one by one
  uint16_t slot = 0;
  uint64_t value = 0;  // the constant, or the other slot
};

// Looks for one place while a function is compiled again.
struct Watch {
  static constexpr uint32_t kNothing = UINT32_MAX;
  uint32_t wanted_pc = kNothing;           // a byte of the function's code…
  uint32_t wanted_code_offset = kNothing;  // …or the charge of the segment that begins there

  bool found = false;
  bool behind_call = false;
  uint32_t behind_offset = 0;       // after a call: of the next instruction
  uint32_t frame_advance = 0;       // after a call: slots from the frame to that of the callee
  uint32_t segment = 0;             // number of the segment it is in
  uint32_t pc = 0;                  // of the charge, or after the call
  uint32_t code_offset = 0;         // of the instruction; of a charge: of its segment's first
  uint32_t cost_to_here = 0;        // of the segment, up to and with the instruction
  uint32_t cost = 0;                // of the whole segment
  std::vector<Location> locations;  // at a charge, or after a call: what is not in its slot
};

// What a batch fills in when all functions are there: 32 bits of the code.
struct BatchCall {
  uint32_t displacement_end;
  uint32_t function;
  enum class Wanted : uint8_t {
    kCode,
    kFrameBytes
  } wanted = Wanted::kCode;  // from the end of the displacement; of its frame
};

class FunctionCompiler;  // function_compiler.h

class Compiler {
 public:
  explicit Compiler(CompiledModule& module);
  ~Compiler();

  // The code of function `index`, which lives until the next is compiled. Empty when the function is beyond this
  // compiler's bounds (locals, bytes of code), or works on structs, arrays or references of a type. With `calls`,
  // calls of functions are direct, and to be filled in by the caller: they are appended, as places in this code; else
  // they go through FunctionCode, but those of the function itself. `notes` are the validator's, when it has just
  // read the function; else its body is read here, twice. The code is the same.
  // `catches` is given who catches what: its words are bytes of the code, and a landing is where control goes
  // with all values in their slots.
  std::span<const uint8_t> compile(uint32_t index, std::vector<BatchCall>* calls,
                                   std::span<Watch> watches = {}, CatchTable* catches = nullptr,
                                   const wasm::BodyNotes* notes = nullptr);

 private:
  std::unique_ptr<FunctionCompiler> function_;
};

// Whether this machine has what the code needs: an x86-64 with AVX2, FMA, BMI1, BMI2, LZCNT and POPCNT. Elsewhere nothing is compiled.
bool machine_is_supported();

}  // namespace membrane::engine::native
