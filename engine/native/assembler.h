// Writes x86-64 machine code: the instructions that the compiler uses, and no more.
//
// Instructions are those of x86-64-v3 (AVX2, FMA, BMI1/2, LZCNT, POPCNT); machine_is_supported()
// in compiler.h tells whether this machine has them. Encodings follow the Intel manual, volume 2; the test
// disassembles every one of them with another tool.
//
//   Assembler a(buffer);
//   a.op(Alu::kAdd, Width::k32, rax, rcx);
//
// The buffer grows as it is written: after every instruction there is room for another of any
// length. ensure() makes room for many at once, so that callers need not count.
//
// Jumps have 32-bit displacements; a Patch names one that waits for its target.
//
// Ownership: the buffer is the caller's. Threads: one at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "engine/memory/access.h"

namespace membrane::engine::native {

// The processor's own names. NOLINTBEGIN(readability-identifier-naming)
enum Reg : uint8_t {
  rax,
  rcx,
  rdx,
  rbx,
  rsp,
  rbp,
  rsi,
  rdi,
  r8,
  r9,
  r10,
  r11,
  r12,
  r13,
  r14,
  r15,
  kNoReg = 255
};
// NOLINTEND(readability-identifier-naming)
using Xmm = uint8_t;  // 0 to 15; kNoReg for none

enum class Width : uint8_t { k32, k64 };
enum class Real : uint8_t { kF32, kF64 };

// The eight operations of one encoding scheme: the number is the one in the opcode.
enum class Alu : uint8_t { kAdd = 0, kOr = 1, kAnd = 4, kSub = 5, kXor = 6, kCmp = 7 };
enum class Shift : uint8_t { kRol = 0, kRor = 1, kShl = 4, kShr = 5, kSar = 7 };
// Condition codes; the lowest bit inverts.
enum class Cond : uint8_t {
  kO = 0,
  kNO,
  kB,
  kAE,
  kE,
  kNE,
  kBE,
  kA,
  kS,
  kNS,
  kP,
  kNP,
  kL,
  kGE,
  kLE,
  kG,
};
constexpr Cond inverse(Cond c) { return static_cast<Cond>(static_cast<uint8_t>(c) ^ 1); }
// The condition with the operands the other way round.
constexpr Cond swapped(Cond c) {
  switch (c) {
    case Cond::kB: return Cond::kA;
    case Cond::kA: return Cond::kB;
    case Cond::kAE: return Cond::kBE;
    case Cond::kBE: return Cond::kAE;
    case Cond::kL: return Cond::kG;
    case Cond::kG: return Cond::kL;
    case Cond::kGE: return Cond::kLE;
    case Cond::kLE: return Cond::kGE;
    default: return c;
  }
}

// base + (index << scale) + offset; or nothing. One number: a structure of four would be written in parts and read as
// a whole, which must wait for the parts.
class Mem {
 public:
  constexpr Mem() = default;
  constexpr Mem(Reg base, int32_t offset, Reg index = kNoReg, uint8_t scale = 0)
      : bits_(static_cast<uint32_t>(offset) | uint64_t{base} << 32 | uint64_t{index} << 40 |
              uint64_t{scale} << 48) {}
  explicit constexpr operator bool() const { return base() != kNoReg; }
  [[nodiscard]] constexpr Reg base() const { return static_cast<Reg>(bits_ >> 32 & 0xFF); }
  [[nodiscard]] constexpr Reg index() const { return static_cast<Reg>(bits_ >> 40 & 0xFF); }
  [[nodiscard]] constexpr uint8_t scale() const { return static_cast<uint8_t>(bits_ >> 48); }
  [[nodiscard]] constexpr int32_t offset() const { return static_cast<int32_t>(bits_); }

 private:
  uint64_t bits_ = uint64_t{kNoReg} << 32;
};

// A displacement that waits for its target: the offset after its four bytes.
using Patch = uint32_t;

// The vector instructions, one row each of vector_encodings.def. Those of a shift by a constant have names of
// their own.
enum class Avx : uint8_t {
#define AVX_THREE(id, ...) id,
#define AVX_THREE_I(id, ...) id,
#define AVX_COMPARE(id, ...) id,
#define AVX_BLEND(id, ...) id,
#define AVX_TWO(id, ...) id,
#define AVX_TWO_I(id, ...) id,
#define AVX_SHIFT(id, ...) id,
#define AVX_INSERT(id, ...) id,
#define AVX_EXTRACT(id, ...) id,
#define AVX_MASK(id, ...) id,
#include "engine/native/vector_encodings.def"
};
struct AvxEncoding {
  uint8_t map, pp, opcode;
  bool wide;
  uint8_t digit = 0;  // of a shift
};
inline constexpr AvxEncoding kAvxEncodings[] = {
#define AVX_THREE(id, text, map, pp, opcode, wide) {map, pp, opcode, wide},
#define AVX_THREE_I(id, text, map, pp, opcode, wide, memory) {map, pp, opcode, wide},
#define AVX_COMPARE(id, suffix, map, pp, opcode, wide) {map, pp, opcode, wide},
#define AVX_BLEND(id, text, map, pp, opcode, wide) {map, pp, opcode, wide},
#define AVX_TWO(id, text, map, pp, opcode, wide, memory) {map, pp, opcode, wide},
#define AVX_TWO_I(id, text, map, pp, opcode, wide, memory) {map, pp, opcode, wide},
#define AVX_SHIFT(id, text, digit, opcode) {1, 1, opcode, false, digit},
#define AVX_INSERT(id, text, map, pp, opcode, wide, memory) {map, pp, opcode, wide},
#define AVX_EXTRACT(id, text, map, pp, opcode, wide, memory) {map, pp, opcode, wide},
#define AVX_MASK(id, text, map, pp, opcode, wide) {map, pp, opcode, wide},
#include "engine/native/vector_encodings.def"
};

class Assembler {
 public:
  static constexpr size_t kRoom = 512;
  // has_room() is false after each window of code, even when the buffer is larger, so that its caller can check for a stop.
  static constexpr size_t kWindow = 16384;
  static constexpr size_t kSlack = 64;  // always there: two instructions of the greatest length, and more

  explicit Assembler(std::vector<uint8_t>& buffer) : buffer_(buffer) { start_over(); }
  void start_over() {
    if (buffer_.size() < 4096) buffer_.resize(4096);
    at_ = buffer_.data();
    open_window(0);
  }

  MEMBRANE_INLINE void ensure(size_t bytes) {
    if (!has_room(bytes)) [[unlikely]]
      grow(bytes);
  }
  [[nodiscard]] MEMBRANE_INLINE bool has_room(size_t bytes) const {
    return end_ - at_ >= static_cast<ptrdiff_t>(bytes);
  }
  [[nodiscard]] uint32_t here() const { return static_cast<uint32_t>(at_ - buffer_.data()); }
  [[nodiscard]] uint8_t* data() { return buffer_.data(); }
  void rewind(uint32_t to) { at_ = buffer_.data() + to; }

  // -- moves
  void mov(Width w, Reg to, Reg from) { rr(w, 0x8B, to, from); }
  void mov(Width w, Reg to, Mem from) { rm(w, 0x8B, to, from); }
  void mov(Width w, Mem to, Reg from) { rm(w, 0x89, from, to); }
  // The same for a place with base rbp and a positive offset, such as a frame's slot.
  void mov_from_slot(Reg to, uint32_t offset) { slot(0x8B, to, offset); }
  void mov_to_slot(uint32_t offset, Reg from) { slot(0x89, from, offset); }
  void mov_imm(Reg to, uint64_t value) {
    if (value == 0) return op(Alu::kXor, Width::k32, to, to);
    mov_imm_keeping_flags(to, value);
  }
  void mov_imm_keeping_flags(Reg to, uint64_t value) {
    Out out(*this);
    if (value <= UINT32_MAX) {
      if (to >= r8) out.u8(0x41);
      out.u8(static_cast<uint8_t>(0xB8 | (to & 7)));
      return out.u32(static_cast<uint32_t>(value));
    }
    out.rex(1, 0, to);
    if (static_cast<int64_t>(value) == static_cast<int32_t>(value)) {
      out.u8(0xC7);
      out.modrm(3, 0, to);
      return out.u32(static_cast<uint32_t>(value));
    }
    out.u8(static_cast<uint8_t>(0xB8 | (to & 7)));
    out.u64(value);
  }
  // To memory, sign-extended to 64 bits when that is the width.
  void mov_imm(Width w, Mem to, int32_t value) {
    Out out(*this);
    out.rm(w, 0xC7, 0, to);
    out.u32(static_cast<uint32_t>(value));
  }
  void store8(Mem to, Reg from) { rm(Width::k32, 0x88, from, to, /*force_rex=*/from >= rsp); }
  void store16(Mem to, Reg from) {
    Out out(*this);
    out.u8(0x66);
    out.rm(Width::k32, 0x89, from, to);
  }
  void store_imm8(Mem to, uint8_t value) {
    Out out(*this);
    out.rm(Width::k32, 0xC6, 0, to);
    out.u8(value);
  }
  void store_imm16(Mem to, uint16_t value) {
    Out out(*this);
    out.u8(0x66);
    out.rm(Width::k32, 0xC7, 0, to);
    out.u8(static_cast<uint8_t>(value));
    out.u8(static_cast<uint8_t>(value >> 8));
  }
  void movzx8(Reg to, Mem from) { rm0f(Width::k32, 0xB6, to, from); }
  void movzx16(Reg to, Mem from) { rm0f(Width::k32, 0xB7, to, from); }
  void movzx8(Reg to, Reg from) { rr0f(Width::k32, 0xB6, to, from, from >= rsp); }
  void movsx8(Width w, Reg to, Mem from) { rm0f(w, 0xBE, to, from); }
  void movsx16(Width w, Reg to, Mem from) { rm0f(w, 0xBF, to, from); }
  void movsx8(Width w, Reg to, Reg from) { rr0f(w, 0xBE, to, from, from >= rsp); }
  void movsx16(Width w, Reg to, Reg from) { rr0f(w, 0xBF, to, from); }
  void movsxd(Reg to, Reg from) { rr(Width::k64, 0x63, to, from); }
  void movsxd(Reg to, Mem from) { rm(Width::k64, 0x63, to, from); }
  void lea(Width w, Reg to, Mem from) { rm(w, 0x8D, to, from); }
  void cmov(Cond c, Width w, Reg to, Reg from) { rr0f(w, static_cast<uint8_t>(0x40 | code(c)), to, from); }
  void setcc(Cond c, Reg to) { rr0f(Width::k32, static_cast<uint8_t>(0x90 | code(c)), rax, to, to >= rsp); }

  // -- integers
  void op(Alu o, Width w, Reg to, Reg from) { rr(w, static_cast<uint8_t>(number(o) << 3 | 3), to, from); }
  void op(Alu o, Width w, Reg to, Mem from) { rm(w, static_cast<uint8_t>(number(o) << 3 | 3), to, from); }
  void op(Alu o, Width w, Mem to, Reg from) { rm(w, static_cast<uint8_t>(number(o) << 3 | 1), from, to); }
  void op(Alu o, Width w, Reg to, int32_t value) {
    const bool is_short = value == static_cast<int8_t>(value);
    Out out(*this);
    out.rex_if(w == Width::k64, 0, to);
    out.u8(is_short ? 0x83 : 0x81);
    out.modrm(3, number(o), to);
    if (is_short) out.u8(static_cast<uint8_t>(value));
    else out.u32(static_cast<uint32_t>(value));
  }
  void op(Alu o, Width w, Mem to, int32_t value) {
    const bool is_short = value == static_cast<int8_t>(value);
    Out out(*this);
    out.rm(w, is_short ? 0x83 : 0x81, number(o), to);
    if (is_short) out.u8(static_cast<uint8_t>(value));
    else out.u32(static_cast<uint32_t>(value));
  }
  // sub with four bytes of constant, and jl: the charge of a segment. Both are patched later.
  struct ChargePatches {
    Patch constant, branch;
  };
  MEMBRANE_INLINE ChargePatches charge(Reg from) {
    constexpr uint64_t kSubtract = 0x81 << 8 | 0xC0 << 16 | static_cast<uint64_t>(Alu::kSub) << 19,
                       kBranch = 0x8C0F;
    Out out(*this);
    out.put(0x48u | from >> 3 | kSubtract | uint64_t{from & 7u} << 16, 7);
    const Patch constant = out.here();
    out.put(kBranch, 6);
    return {constant, out.here()};
  }
  void test(Width w, Reg a, Reg b) { rr(w, 0x85, b, a); }
  void imul(Width w, Reg to, Reg from) { rr0f(w, 0xAF, to, from); }
  void imul(Width w, Reg to, Mem from) { rm0f(w, 0xAF, to, from); }
  void imul(Width w, Reg to, Reg from, int32_t value) {
    Out out(*this);
    out.rr(w, 0x69, to, from);
    out.u32(static_cast<uint32_t>(value));
  }
  void shift(Shift s, Width w, Reg to, uint8_t count) {
    Out out(*this);
    out.rex_if(w == Width::k64, 0, to);
    out.u8(0xC1);
    out.modrm(3, static_cast<uint8_t>(s), to);
    out.u8(count);
  }
  void shift_cl(Shift s, Width w, Reg to) {
    Out out(*this);
    out.rex_if(w == Width::k64, 0, to);
    out.u8(0xD3);
    out.modrm(3, static_cast<uint8_t>(s), to);
  }
  // shlx, shrx, sarx: no flags, any registers.
  void shiftx(Shift s, Width w, Reg to, Reg from, Reg count) {
    const uint8_t pp = s == Shift::kShl ? 1 : s == Shift::kShr ? 3 : 2;
    Out out(*this);
    out.vex(to, count, from, /*map=*/2, pp, w == Width::k64);
    out.u8(0xF7);
    out.modrm(3, to, from);
  }
  void rorx(Width w, Reg to, Reg from, uint8_t count) {
    Out out(*this);
    out.vex(to, 0, from, /*map=*/3, /*pp=*/3, w == Width::k64);
    out.u8(0xF0);
    out.modrm(3, to, from);
    out.u8(count);
  }
  void lzcnt(Width w, Reg to, Reg from) { f3_0f(w, 0xBD, to, from); }
  void tzcnt(Width w, Reg to, Reg from) { f3_0f(w, 0xBC, to, from); }
  void popcnt(Width w, Reg to, Reg from) { f3_0f(w, 0xB8, to, from); }
  void div(Width w, Reg by) { f7(w, 6, by); }
  void idiv(Width w, Reg by) { f7(w, 7, by); }
  void neg(Width w, Reg r) { f7(w, 3, r); }
  void sign_extend_rax(Width w) {  // cdq, cqo
    Out out(*this);
    if (w == Width::k64) out.u8(0x48);
    out.u8(0x99);
  }

  // -- control
  Patch jmp() {
    Out out(*this);
    out.u8(0xE9);
    return out.displacement();
  }
  Patch jcc(Cond c) {
    Out out(*this);
    out.put(0x0Fu | (0x80u | code(c)) << 8, 2);
    return out.displacement();
  }
  void jmp(uint32_t target) { patch(jmp(), target); }
  void jmp(Reg to) {
    Out out(*this);
    out.rex_if(false, 0, to);
    out.u8(0xFF);
    out.modrm(3, 4, to);
  }
  void jmp(Mem to) { rm(Width::k32, 0xFF, 4, to); }
  Patch call() {
    Out out(*this);
    out.u8(0xE8);
    return out.displacement();
  }
  void call(Mem to) { rm(Width::k32, 0xFF, 2, to); }
  void call_register(Reg to) {
    Out out(*this);
    out.rex_if(false, 0, to);
    out.u8(0xFF);
    out.modrm(3, 2, to);
  }
  void ret() { Out(*this).u8(0xC3); }
  void push(Reg r) {
    Out out(*this);
    out.rex_if(false, 0, r);
    out.u8(static_cast<uint8_t>(0x50 | (r & 7)));
  }
  void pop(Reg r) {
    Out out(*this);
    out.rex_if(false, 0, r);
    out.u8(static_cast<uint8_t>(0x58 | (r & 7)));
  }
  Patch lea_rip(Reg to) {  // the address of what the patch will name
    Out out(*this);
    out.rex(1, to, 0);
    out.u8(0x8D);
    out.modrm(0, to, 5);
    return out.displacement();
  }
  void pop(Mem to) { rm(Width::k32, 0x8F, 0, to); }
  void push(Mem from) { rm(Width::k32, 0xFF, 6, from); }
  void int3() { Out(*this).u8(0xCC); }
  // Data between instructions.
  void word(uint32_t value) { Out(*this).u32(value); }
  void bytes(const uint8_t* from, size_t count) {
    ensure(count + kSlack);
    std::memcpy(at_, from, count);
    at_ += count;
  }
  void patch(Patch at, uint32_t target) { put32(at - 4, target - at); }
  void patch_here(Patch at) { patch(at, here()); }
  void put32(uint32_t at, uint32_t value) { std::memcpy(buffer_.data() + at, &value, 4); }
  [[nodiscard]] uint32_t get32(uint32_t at) const {
    uint32_t value = 0;
    std::memcpy(&value, buffer_.data() + at, 4);
    return value;
  }

  // -- floats: VEX forms throughout
  void fmov(Xmm to, Xmm from) { vex_rr(0x28, to, 0, from, /*pp=*/0); }  // vmovaps
  void fload(Real r, Xmm to, Mem from) { vex_rm(0x10, to, 0, from, scalar(r)); }
  void fstore(Real r, Mem to, Xmm from) { vex_rm(0x11, from, 0, to, scalar(r)); }
  void fmov_from(Width w, Xmm to, Reg from) {  // vmovd, vmovq
    Out out(*this);
    out.vex(to, 0, from, 1, 1, w == Width::k64);
    out.u8(0x6E);
    out.modrm(3, to, from);
  }
  void fmov_to(Width w, Reg to, Xmm from) {
    Out out(*this);
    out.vex(from, 0, to, 1, 1, w == Width::k64);
    out.u8(0x7E);
    out.modrm(3, from, to);
  }
  enum class Float : uint8_t {
    kAdd = 0x58,
    kMul = 0x59,
    kSub = 0x5C,
    kMin = 0x5D,
    kDiv = 0x5E,
    kMax = 0x5F,
    kSqrt = 0x51
  };
  void fop(Float o, Real r, Xmm to, Xmm a, Xmm b) { vex_rr(static_cast<uint8_t>(o), to, a, b, scalar(r)); }
  void fop(Float o, Real r, Xmm to, Xmm a, Mem b) { vex_rm(static_cast<uint8_t>(o), to, a, b, scalar(r)); }
  enum class Bits : uint8_t { kAnd = 0x54, kAndNot = 0x55, kOr = 0x56, kXor = 0x57 };
  void fbits(Bits o, Xmm to, Xmm a, Xmm b) { vex_rr(static_cast<uint8_t>(o), to, a, b, 0); }
  void fbits(Bits o, Xmm to, Xmm a, Mem b) { vex_rm(static_cast<uint8_t>(o), to, a, b, 0); }
  void fcompare(Real r, Xmm a, Xmm b) { vex_rr(0x2E, a, 0, b, packed(r)); }  // vucomis
  void fcompare(Real r, Xmm a, Mem b) { vex_rm(0x2E, a, 0, b, packed(r)); }
  // vcmps: an all-ones or all-zeros mask. Predicates: 0 equal (false for NaN), 4 not equal (true).
  void fcompare_mask(Real r, Xmm to, Xmm a, Xmm b, uint8_t predicate) {
    Out out(*this);
    out.vex_rr(0xC2, to, a, b, scalar(r));
    out.u8(predicate);
  }
  void fround(Real r, Xmm to, Xmm from, uint8_t mode) {
    Out out(*this);
    out.vex(to, from, from, 3, 1, false);
    out.u8(r == Real::kF64 ? 0x0B : 0x0A);
    out.modrm(3, to, from);
    out.u8(mode);
  }
  void int_to_float(Real r, Width w, Xmm to, Reg from) {
    fbits(Bits::kXor, to, to, to);  // the upper part is taken from it: no wait for its old value
    Out out(*this);
    out.vex(to, to, from, 1, scalar(r), w == Width::k64);
    out.u8(0x2A);
    out.modrm(3, to, from);
  }
  void float_to_int(Real r, Width w, Reg to, Xmm from) {  // truncates
    Out out(*this);
    out.vex(to, 0, from, 1, scalar(r), w == Width::k64);
    out.u8(0x2C);
    out.modrm(3, to, from);
  }
  void float_to_float(Real from_type, Xmm to, Xmm from) { vex_rr(0x5A, to, from, from, scalar(from_type)); }
  // The same, with the bits above the result from `upper`.
  void convert_real(Real from_type, Xmm to, Xmm upper, Xmm from) {
    vex_rr(0x5A, to, upper, from, scalar(from_type));
  }
  // 16 bytes.
  void vstore16(Mem to, Xmm from) { vex_rm(0x11, from, 0, to, 0); }
  void vload16(Xmm to, Mem from) { vex_rm(0x10, to, 0, from, 0); }
  Patch vload16_rip(Xmm to) {  // from where the patch will name
    Out out(*this);
    out.vex(to, 0, 0, 1, 0, false);
    out.u8(0x10);
    out.modrm(0, to, 5);
    return out.displacement();
  }

  // -- vectors. AVX_THREE; of AVX_TWO, `a` is 0.
  void avx(Avx o, Xmm to, Xmm a, Xmm b) { Out(*this).avx(o, to, a, b); }
  void avx(Avx o, Xmm to, Xmm a, Mem b) { Out(*this).avx(o, to, a, b); }
  // AVX_THREE_I and AVX_COMPARE; AVX_TWO_I where `a` is 0; AVX_INSERT where `b` is a general register.
  void avx(Avx o, Xmm to, Xmm a, uint8_t b, uint8_t constant) {
    Out out(*this);
    out.avx(o, to, a, b);
    out.u8(constant);
  }
  void avx(Avx o, Xmm to, Xmm a, Mem b, uint8_t constant) {
    Out out(*this);
    out.avx(o, to, a, b);
    out.u8(constant);
  }
  // AVX_BLEND: of `b` where the mask's lane has its sign, else of `a`.
  void avx_blend(Avx o, Xmm to, Xmm a, Xmm b, Xmm mask) { avx(o, to, a, b, static_cast<uint8_t>(mask << 4)); }
  void avx_blend(Avx o, Xmm to, Xmm a, Mem b, Xmm mask) { avx(o, to, a, b, static_cast<uint8_t>(mask << 4)); }
  void avx_shift(Avx o, Xmm to, Xmm from, uint8_t count) {  // AVX_SHIFT
    avx(o, kAvxEncodings[static_cast<size_t>(o)].digit, to, from, count);
  }
  void avx_extract(Avx o, Reg to, Xmm from, uint8_t lane) { avx(o, from, 0, uint8_t{to}, lane); }
  void avx_extract(Avx o, Mem to, Xmm from, uint8_t lane) { avx(o, from, 0, to, lane); }
  void avx_mask(Avx o, Reg to, Xmm from) { avx(o, uint8_t{to}, 0, from); }
  // vmovsd between registers: the low half of `low`, the high half of `high`.
  void fmove_low(Xmm to, Xmm high, Xmm low) { vex_rr(0x10, to, high, low, scalar(Real::kF64)); }

 private:
  static uint8_t number(Alu o) { return static_cast<uint8_t>(o); }
  static uint8_t code(Cond c) { return static_cast<uint8_t>(c); }
  static uint8_t scalar(Real r) { return r == Real::kF64 ? 3 : 2; }
  static uint8_t packed(Real r) { return r == Real::kF64 ? 1 : 0; }

  void grow(size_t bytes) {
    const size_t used = static_cast<size_t>(at_ - buffer_.data());
    if (buffer_.size() < used + bytes + kSlack) {
      buffer_.resize(std::max(buffer_.size() * 2, used + bytes + kSlack));
      at_ = buffer_.data() + used;
    }
    open_window(bytes);
  }
  void open_window(size_t least) {
    const size_t left = buffer_.size() - static_cast<size_t>(at_ - buffer_.data()) - kSlack;
    end_ = at_ + std::min(left, std::max(least, kWindow));
  }

  // Writes one instruction. The position is in a local variable: for all that a compiler knows, the written
  // bytes could be those of at_ itself, so that each write would wait for the one before.
  class Out {
   public:
    MEMBRANE_INLINE explicit Out(Assembler& a) : assembler_(a) {
      a.ensure(kSlack);
      at_ = a.at_;
    }
    MEMBRANE_INLINE ~Out() { assembler_.at_ = at_; }
    Out(const Out&) = delete;
    Out& operator=(const Out&) = delete;

    MEMBRANE_INLINE void u8(uint8_t byte) { *at_++ = byte; }
    MEMBRANE_INLINE void u32(uint32_t value) {
      std::memcpy(at_, &value, 4);
      at_ += 4;
    }
    MEMBRANE_INLINE void u64(uint64_t value) {
      std::memcpy(at_, &value, 8);
      at_ += 8;
    }
    // Four bytes that are patched later; they end the instruction.
    MEMBRANE_INLINE Patch displacement() {
      u32(0);
      return here();
    }
    [[nodiscard]] MEMBRANE_INLINE Patch here() const {
      return static_cast<Patch>(at_ - assembler_.buffer_.data());
    }
    MEMBRANE_INLINE void modrm(uint8_t mod, uint8_t reg, uint8_t rm) {
      u8(static_cast<uint8_t>(mod << 6 | (reg & 7) << 3 | (rm & 7)));
    }
    MEMBRANE_INLINE void rex(bool wide, uint8_t reg, uint8_t rm, uint8_t index = 0) {
      u8(static_cast<uint8_t>(0x40 | wide << 3 | (reg >> 3) << 2 | (index >> 3) << 1 | rm >> 3));
    }
    MEMBRANE_INLINE void rex_if(bool wide, uint8_t reg, uint8_t rm, uint8_t index = 0, bool force = false) {
      if (wide || force || reg >= 8 || rm >= 8 || index >= 8) rex(wide, reg, rm, index);
    }
    // Writes the first bytes of `code`, the lowest first.
    MEMBRANE_INLINE void put(uint64_t code, uint32_t size) {
      std::memcpy(at_, &code, 8);
      at_ += size;
    }
    // The same after a REX prefix, if one is needed. Neither is written byte by byte, or decided by a branch
    // that the processor could not predict.
    MEMBRANE_INLINE void put_behind_rex(uint64_t code, uint32_t size, bool wide, uint8_t reg, uint8_t rm,
                                        uint8_t index = 0, bool force = false) {
      const uint32_t bits = uint32_t{wide} << 3 | (reg >> 3) << 2 | (index >> 3) << 1 | rm >> 3;
      const uint32_t has = bits != 0 || force;
      put(code << 8 * has | ((0x40 | bits) & -has), size + has);
    }
    MEMBRANE_INLINE void rr(Width w, uint8_t opcode, uint8_t reg, uint8_t rm) {
      put_behind_rex(opcode | (0xC0u | (reg & 7) << 3 | (rm & 7)) << 8, 2, w == Width::k64, reg, rm);
    }
    MEMBRANE_INLINE void rr0f(Width w, uint8_t opcode, uint8_t reg, uint8_t rm, bool force_rex = false) {
      put_behind_rex(0x0Fu | opcode << 8 | (0xC0u | (reg & 7) << 3 | (rm & 7)) << 16, 3, w == Width::k64, reg,
                     rm, 0, force_rex);
    }
    MEMBRANE_INLINE void rm(Width w, uint8_t opcode, uint8_t reg, Mem m, bool force_rex = false) {
      const Address place = address_of(reg, m);
      put_behind_rex(opcode | place.code << 8, place.size + 1, w == Width::k64, reg, m.base(), index_of(m),
                     force_rex);
    }
    struct Address {
      uint64_t code;
      uint32_t size;
    };
    // ModRM, SIB and displacement. rsp and r12 as a base need a SIB; rbp and r13 a displacement.
    static MEMBRANE_INLINE Address address_of(uint8_t reg, Mem m) {
      const bool has_index = m.index() != kNoReg, has_sib = has_index || (m.base() & 7) == rsp;
      const uint32_t mod =
          m.offset() != static_cast<int8_t>(m.offset()) ? 2 : m.offset() != 0 || (m.base() & 7) == rbp;
      const uint32_t index = has_index ? uint32_t{m.index()} & 7 : uint32_t{rsp};
      const uint32_t sib = uint32_t{m.scale()} << 6 | index << 3 | (m.base() & 7);
      const uint32_t modrm = mod << 6 | (reg & 7) << 3 | (has_sib ? uint32_t{rsp} : m.base() & 7u);
      const uint64_t offset = static_cast<uint32_t>(m.offset());
      const uint32_t size = 1 + has_sib;
      const uint64_t head = modrm | (has_sib ? sib << 8 : 0);
      return {head | offset << 8 * size, size + mod * mod};  // of the displacement 0, 1 or 4 bytes
    }
    MEMBRANE_INLINE void address(uint8_t reg, Mem m) {
      const Address place = address_of(reg, m);
      put(place.code, place.size);
    }
    MEMBRANE_INLINE void vex(uint8_t reg, uint8_t second, uint8_t rm, uint8_t map, uint8_t pp, bool wide,
                             uint8_t index = 0) {
      const uint8_t last = static_cast<uint8_t>(wide << 7 | (~second & 15) << 3 | pp);
      if (map == 1 && !wide && rm < 8 && index < 8) {
        u8(0xC5);
        u8(static_cast<uint8_t>((reg < 8) << 7 | (last & 0x7F)));
        return;
      }
      u8(0xC4);
      u8(static_cast<uint8_t>((reg < 8) << 7 | (index < 8) << 6 | (rm < 8) << 5 | map));
      u8(last);
    }
    MEMBRANE_INLINE void vex_rr(uint8_t opcode, uint8_t reg, uint8_t second, uint8_t rm, uint8_t pp) {
      vex(reg, second, rm, 1, pp, false);
      u8(opcode);
      modrm(3, reg, rm);
    }
    MEMBRANE_INLINE void vex_rm(uint8_t opcode, uint8_t reg, uint8_t second, Mem m, uint8_t pp) {
      vex(reg, second, m.base(), 1, pp, false, index_of(m));
      u8(opcode);
      address(reg, m);
    }
    MEMBRANE_INLINE void avx(Avx o, uint8_t reg, uint8_t second, uint8_t rm) {
      const AvxEncoding& e = kAvxEncodings[static_cast<size_t>(o)];
      vex(reg, second, rm, e.map, e.pp, e.wide);
      u8(e.opcode);
      modrm(3, reg, rm);
    }
    MEMBRANE_INLINE void avx(Avx o, uint8_t reg, uint8_t second, Mem m) {
      const AvxEncoding& e = kAvxEncodings[static_cast<size_t>(o)];
      vex(reg, second, m.base(), e.map, e.pp, e.wide, index_of(m));
      u8(e.opcode);
      address(reg, m);
    }
    static uint8_t index_of(Mem m) { return m.index() == kNoReg ? uint8_t{0} : uint8_t{m.index()}; }

   private:
    Assembler& assembler_;
    uint8_t* at_;
  };

  MEMBRANE_INLINE void slot(uint8_t opcode, uint8_t reg, uint32_t offset) {
    const bool is_short = offset < 0x80;
    const uint32_t head =
        0x48u | (reg >> 3) << 2 | opcode << 8 | ((is_short ? 0x45u : 0x85u) | (reg & 7) << 3) << 16;
    Out(*this).put(head | uint64_t{offset} << 24, is_short ? 4 : 7);
  }
  void rr(Width w, uint8_t opcode, uint8_t reg, uint8_t rm) { Out(*this).rr(w, opcode, reg, rm); }
  void rr0f(Width w, uint8_t opcode, uint8_t reg, uint8_t rm, bool force_rex = false) {
    Out(*this).rr0f(w, opcode, reg, rm, force_rex);
  }
  void f3_0f(Width w, uint8_t opcode, uint8_t reg, uint8_t rm) {
    Out out(*this);
    out.u8(0xF3);
    out.rr0f(w, opcode, reg, rm);
  }
  void f7(Width w, uint8_t which, uint8_t rm) { rr(w, 0xF7, which, rm); }
  void rm(Width w, uint8_t opcode, uint8_t reg, Mem m, bool force_rex = false) {
    Out(*this).rm(w, opcode, reg, m, force_rex);
  }
  void rm0f(Width w, uint8_t opcode, uint8_t reg, Mem m) {
    Out out(*this);
    out.put_behind_rex(0x0Fu | opcode << 8, 2, w == Width::k64, reg, m.base(), Out::index_of(m));
    out.address(reg, m);
  }
  void vex_rr(uint8_t opcode, uint8_t reg, uint8_t second, uint8_t rm, uint8_t pp) {
    Out(*this).vex_rr(opcode, reg, second, rm, pp);
  }
  void vex_rm(uint8_t opcode, uint8_t reg, uint8_t second, Mem m, uint8_t pp) {
    Out(*this).vex_rm(opcode, reg, second, m, pp);
  }

  std::vector<uint8_t>& buffer_;
  uint8_t* at_ = nullptr;
  uint8_t* end_ = nullptr;
};

}  // namespace membrane::engine::native
