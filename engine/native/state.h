// What compiled code and the rest of the engine know of each other.
//
// Registers, while compiled code runs:
//   rbp  the frame's first slot           rbx  base of the linear memory
//   r15  fuel left in the slice           r14  NativeState
//   rsp  the guest's return addresses     rax, xmm0  the result of a call; rax also what an exit is about
//   all others: values, of locals in rdi, r8 to r13 and xmm6 to xmm15 (registers.h)
//
// Frames are those of the interpreter (code.h): parameters, locals and operands in slots.
// Between safepoints values may live in registers; at a call all are in their slots, and
// at a charge of fuel the compiler can say which register holds which slot (compiler.h).
//
// Return addresses are on a stack of their own, one word a frame, so that its depth
// counts calls. Record d of the interpreter's frames and word d of this stack belong to
// the same depth: the side that made the call filled in its own.
//
// Compiled code leaves by an exit: it saves every register here and returns to enter()'s
// caller, which does what `exit` says and may enter again with what is saved.
//
// Threads: belongs to one Run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "engine/code/trap.h"
#include "engine/instance/function.h"
#include "engine/instance/global.h"
#include "engine/instance/table.h"
#include "engine/memory/memory.h"

namespace membrane::engine::native {

enum class Exit : uint32_t {
  kFuel,      // a charge is not covered; pc is in its stub
  kCall,      // of a function without compiled code (rax: its FunctionCode); rsp: the return address
  kInstance,  // of an import or of another instance (rax: its FunctionInstance); rsp: the return address
  kReturned,  // to a frame of the interpreter
  kHelper,    // pc points to a HelperCall
  kOverflow,  // the frame does not fit; rsp: the return address
  kFault,     // an access outside of the memory; pc is the instruction
  kTrap,      // and kTrap + TrapKind: pc is after the call that left
};
inline constexpr size_t kFrameRegister = 5, kResultRegister = 0;  // rbp and rax in `registers`
inline constexpr size_t kTrapKinds = static_cast<size_t>(TrapKind::kHost);

// A request to a helper, in the code after the exit. The helper reads and writes slots.
struct HelperCall {
  uint16_t helper;  // a wasm::Opcode
  uint16_t slot;    // of the first operand, and of the result
  uint32_t index;   // table, segment, function
  uint32_t index2;
  uint32_t distance;  // back to the charge of the segment, in bytes from here
};

// The charge of a segment, as the compiler writes it and as the answer to its exit reads it again:
//
//   49 81 EF cost         sub r15, cost        cost: 4 bytes
//   0F 8C distance        jl stub              distance: 4 bytes
//   stub: 41 FF 56 ..     call [r14 + exit_fuel]
//         distance        from here to what follows the jl: 4 bytes
struct Charge {
  static constexpr uint32_t kSubtractBytes = 7, kBranchBytes = 6;
  const uint8_t* at;

  // The charge of the stub whose exit returns to `pc`.
  static Charge of_stub(const uint8_t* pc) {
    int32_t distance = 0;
    std::memcpy(&distance, pc, sizeof distance);
    return {pc + distance - (kBranchBytes + kSubtractBytes)};
  }
  [[nodiscard]] uint32_t cost() const {
    uint32_t cost = 0;
    std::memcpy(&cost, at + kSubtractBytes - sizeof cost, sizeof cost);
    return cost;
  }
  [[nodiscard]] const uint8_t* end() const { return at + kSubtractBytes + kBranchBytes; }
};

// The instruction after a call, unless the callee's frame begins where its caller's does:
//
//   48 83 ED advance      sub rbp, advance     advance: 1 byte, with a sign
//   48 81 ED advance      sub rbp, advance     advance: 4 bytes
struct AfterCall {
  // In slots, from the frame of the caller to that of the callee.
  static uint32_t frame_advance(const void* return_address) {
    uint8_t bytes[7];
    std::memcpy(bytes, return_address, sizeof bytes);
    if (bytes[0] != 0x48 || bytes[2] != 0xED || (bytes[1] != 0x83 && bytes[1] != 0x81)) return 0;
    uint32_t advance = bytes[3];
    if (bytes[1] == 0x81) std::memcpy(&advance, bytes + 3, sizeof advance);
    return advance / sizeof(uint64_t);
  }
};

struct alignas(16) Constant {
  uint64_t low, high = 0;
};

// Vectors that compiled code uses as operands: both halves, or low and high.
#define MEMBRANE_VECTOR_CONSTANTS(X)                                              \
  X(kCanonicalNans32, 0x7FC000007FC00000, 0x7FC000007FC00000)                     \
  X(kCanonicalNans64, 0x7FF8000000000000, 0x7FF8000000000000)                     \
  X(kSigns32, 0x8000000080000000, 0x8000000080000000)                             \
  X(kSigns64, 0x8000000000000000, 0x8000000000000000)                             \
  X(kMagnitudes32, 0x7FFFFFFF7FFFFFFF, 0x7FFFFFFF7FFFFFFF)                        \
  X(kMagnitudes64, 0x7FFFFFFFFFFFFFFF, 0x7FFFFFFFFFFFFFFF)                        \
  X(kOneBytes, 0x0101010101010101, 0x0101010101010101)                            \
  X(kOneWords, 0x0001000100010001, 0x0001000100010001)                            \
  X(kLeastWords, 0x8000800080008000, 0x8000800080008000)                          \
  X(kLowWords, 0x0000FFFF0000FFFF, 0x0000FFFF0000FFFF)                            \
  X(kLowNibbles, 0x0F0F0F0F0F0F0F0F, 0x0F0F0F0F0F0F0F0F)                          \
  X(kBitsOfNibbles, 0x0302020102010100, 0x0403030203020201)                       \
  X(kBeyondLanes, 0x7070707070707070, 0x7070707070707070) /* from 16 on to 128 */ \
  X(kTwoTo31Floats, 0x4F0000004F000000, 0x4F0000004F000000)                       \
  X(kMostInt32Doubles, 0x41DFFFFFFFC00000, 0x41DFFFFFFFC00000)                    \
  X(kMostUint32Doubles, 0x41EFFFFFFFE00000, 0x41EFFFFFFFE00000)                   \
  X(kTwoTo52Doubles, 0x4330000000000000, 0x4330000000000000)                      \
  X(kTwoTo52HighHalves, 0x4330000043300000, 0x4330000043300000)
enum class VectorConstant : uint8_t {
#define X(id, low, high) id,
  MEMBRANE_VECTOR_CONSTANTS(X)
#undef X
};
inline constexpr Constant kVectorConstants[] = {
#define X(id, low, high) {low, high},
    MEMBRANE_VECTOR_CONSTANTS(X)
#undef X
};

// Compiled code reaches it by displacements from r14: the first 128 bytes are the near ones.
struct NativeState {
  uint64_t* stack_end = nullptr;
  uint64_t* depth_end = nullptr;  // rsp at the deepest call allowed
  const FunctionCode* functions = nullptr;
  GlobalInstance* const* globals = nullptr;
  Table* const* tables = nullptr;
  const wasm::FuncType* const* types = nullptr;
  Instance* home = nullptr;  // of the instance: what its functions refer to
  FunctionInstance* const* imports = nullptr;
  const void* exit_fuel = nullptr;
  const void* exit_instance = nullptr;
  const void* exit_helper = nullptr;
  const void* exit_overflow = nullptr;
  void* host_rsp = nullptr;
  uint64_t* rsp = nullptr;
  const uint8_t* pc = nullptr;
  uint64_t exit = 0;  // Exit; the code writes 32 bits
  const void* exit_trap[kTrapKinds] = {};
  Memory* const* memories = nullptr;
  FunctionInstance* own_functions = nullptr;

  Constant canonical_nan[2];  // by Real
  Constant sign_bit[2];
  Constant magnitude[2];
  Constant vector_constants[std::size(kVectorConstants)];

  uint64_t registers[16] = {};
  uint64_t reals[16][2] = {};

  // The return address of a frame at depth d is in top[-d].
  uint64_t* top = nullptr;
};

// The call that leaves by exit_helper: `call [r14 + exit_helper]`, with a near displacement.
inline constexpr uint32_t kExitCallBytes = 4;
static_assert(offsetof(NativeState, exit_helper) < 128);

}  // namespace membrane::engine::native
