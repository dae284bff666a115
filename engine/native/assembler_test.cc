// Every instruction that the assembler can write, disassembled by another tool.
//
// What is expected follows from the arguments of each call, in the tool's Intel syntax. All cases go through
// one process; `ud2` follows each, so that a wrong length cannot spoil the next.

#include "engine/native/assembler.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace membrane::engine::native {
namespace {

constexpr std::array<std::array<std::string_view, 16>, 4> kNames = {{
    {"al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil", "r8b", "r9b", "r10b", "r11b", "r12b", "r13b", "r14b",
     "r15b"},
    {"ax", "cx", "dx", "bx", "sp", "bp", "si", "di", "r8w", "r9w", "r10w", "r11w", "r12w", "r13w", "r14w",
     "r15w"},
    {"eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "r8d", "r9d", "r10d", "r11d", "r12d", "r13d",
     "r14d", "r15d"},
    {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
     "r15"},
}};
constexpr std::array<std::string_view, 5> kPointers = {"byte", "word", "dword", "qword",
                                                       "xmmword"};  // by the log2 of bytes
constexpr std::array<std::string_view, 16> kConditions = {"o", "no", "b", "ae", "e", "ne", "be", "a",
                                                          "s", "ns", "p", "np", "l", "ge", "le", "g"};
constexpr std::array kWidths = {Width::k32, Width::k64};
constexpr std::array kReals = {Real::kF32, Real::kF64};

std::string str(std::string_view text) { return std::string(text); }
size_t log2_of(Width w) { return w == Width::k64 ? 3 : 2; }
size_t log2_of(Real r) { return r == Real::kF64 ? 3 : 2; }
std::string name(Width w, uint8_t r) { return str(kNames[log2_of(w)][r]); }
std::string name8(uint8_t r) { return str(kNames[0][r]); }
std::string name16(uint8_t r) { return str(kNames[1][r]); }
std::string name64(uint8_t r) { return str(kNames[3][r]); }
std::string xmm(Xmm x) { return "xmm" + std::to_string(x); }
std::string suffix(Real r) { return r == Real::kF64 ? "sd" : "ss"; }

std::string address(size_t log2_bytes, const Mem& m) {
  std::string text = str(kPointers[log2_bytes]) + " ptr [" + name64(m.base());
  if (m.index() != kNoReg) {
    text += " + ";
    if (m.scale() != 0) text += std::to_string(1 << m.scale()) + "*";
    text += name64(m.index());
  }
  if (m.offset() > 0) text += " + " + std::to_string(m.offset());
  if (m.offset() < 0) text += " - " + std::to_string(-int64_t{m.offset()});
  return text + "]";
}
// As the tool prints a constant of the operation's width: 32 bits without a sign.
std::string constant(Width w, int32_t value) {
  return w == Width::k64 ? std::to_string(value) : std::to_string(static_cast<uint32_t>(value));
}
// The same where eight bits that are extended say it: with a sign.
std::string short_constant(Width w, int32_t value) {
  return value >= -128 && value < 128 ? std::to_string(value) : constant(w, value);
}

// -- the operands that are tried ---------------------------------------------------------------

template <typename F>
void each_register(F&& f) {
  for (uint8_t r = 0; r < 16; ++r) f(static_cast<Reg>(r));
}
template <typename F>
void each_pair(F&& f) {
  each_register([&](Reg a) { each_register([&](Reg b) { f(a, b); }); });
}
// Third registers: both halves, and the numbers that are special as a base.
template <typename F>
void each_third(F&& f) {
  for (const Reg r : {rax, rbp, rdi, r8, r12, r13, r15}) f(r);
}
// Every base, without an index and with each kind of one, and displacements of all lengths. The second
// argument goes through the registers as the addresses do.
template <typename F>
void each_address(F&& f) {
  uint8_t other = 0;
  const auto next = [&](Mem m) {
    f(m, static_cast<Reg>(other % 16));
    other = static_cast<uint8_t>(other + 5);  // comes by all sixteen
  };
  each_register([&](Reg base) {
    for (const int32_t offset : {0, 1, 127, -128, 128, -129, 0x12345678, INT32_MIN}) {
      next({base, offset});
      uint8_t scale = 0;
      for (const Reg index : {rax, rbp, rdi, r8, r12, r13, r15})
        next({base, offset, index, static_cast<uint8_t>(scale++ % 4)});
    }
  });
}

// -- the cases ---------------------------------------------------------------------------------

struct Case {
  std::string expected;  // lines
  std::string bytes;     // as hexadecimal
};

class Cases {
 public:
  void add(std::string expected, const std::function<void(Assembler&)>& write) {
    assembler_.rewind(0);
    assembler_.ensure(Assembler::kRoom);
    write(assembler_);
    Case made{std::move(expected), {}};
    for (uint32_t i = 0; i < assembler_.here(); ++i) {
      char text[8];
      std::snprintf(text, sizeof text, "0x%02x ", assembler_.data()[i]);
      made.bytes += text;
    }
    all.push_back(std::move(made));
  }

  std::vector<Case> all;

 private:
  std::vector<uint8_t> buffer_;
  Assembler assembler_{buffer_};
};

void add_moves(Cases& cases) {
  const auto add = [&](std::string text, auto write) { cases.add(std::move(text), write); };
  for (const Width w : kWidths) {
    each_pair([&](Reg to, Reg from) {
      add("mov " + name(w, to) + ", " + name(w, from), [=](Assembler& a) { a.mov(w, to, from); });
      add("movsx " + name(w, to) + ", " + name8(from), [=](Assembler& a) { a.movsx8(w, to, from); });
      add("movsx " + name(w, to) + ", " + name16(from), [=](Assembler& a) { a.movsx16(w, to, from); });
    });
    each_address([&](Mem m, Reg r) {
      const std::string plain = address(log2_of(w), m);
      add("mov " + name(w, r) + ", " + plain, [=](Assembler& a) { a.mov(w, r, m); });
      add("mov " + plain + ", " + name(w, r), [=](Assembler& a) { a.mov(w, m, r); });
      add("lea " + name(w, r) + ", " + plain.substr(plain.find('[')), [=](Assembler& a) { a.lea(w, r, m); });
      add("movsx " + name(w, r) + ", " + address(0, m), [=](Assembler& a) { a.movsx8(w, r, m); });
      add("movsx " + name(w, r) + ", " + address(1, m), [=](Assembler& a) { a.movsx16(w, r, m); });
      for (const int32_t value : {0, 1, -1, 0x12345678, INT32_MIN})
        add("mov " + plain + ", " + constant(w, value), [=](Assembler& a) { a.mov_imm(w, m, value); });
    });
  }
  each_pair([&](Reg to, Reg from) {
    add("movzx " + name(Width::k32, to) + ", " + name8(from), [=](Assembler& a) { a.movzx8(to, from); });
    add("movsxd " + name64(to) + ", " + name(Width::k32, from), [=](Assembler& a) { a.movsxd(to, from); });
  });
  each_address([&](Mem m, Reg r) {
    add("mov " + address(0, m) + ", " + name8(r), [=](Assembler& a) { a.store8(m, r); });
    add("mov " + address(1, m) + ", " + name16(r), [=](Assembler& a) { a.store16(m, r); });
    add("mov " + address(0, m) + ", 90", [=](Assembler& a) { a.store_imm8(m, 90); });
    add("mov " + address(0, m) + ", -1", [=](Assembler& a) { a.store_imm8(m, 255); });
    add("mov " + address(1, m) + ", 65279", [=](Assembler& a) { a.store_imm16(m, 0xFEFF); });
    add("movzx " + name(Width::k32, r) + ", " + address(0, m), [=](Assembler& a) { a.movzx8(r, m); });
    add("movzx " + name(Width::k32, r) + ", " + address(1, m), [=](Assembler& a) { a.movzx16(r, m); });
    add("movsxd " + name64(r) + ", " + address(2, m), [=](Assembler& a) { a.movsxd(r, m); });
  });
  each_register([&](Reg r) {
    const std::string low = name(Width::k32, r), whole = name64(r);
    add("xor " + low + ", " + low, [=](Assembler& a) { a.mov_imm(r, 0); });
    add("mov " + low + ", 0", [=](Assembler& a) { a.mov_imm_keeping_flags(r, 0); });
    for (const uint64_t value : {uint64_t{1}, uint64_t{0x80000000}, uint64_t{UINT32_MAX}})
      add("mov " + low + ", " + std::to_string(value), [=](Assembler& a) { a.mov_imm(r, value); });
    for (const int64_t value : {int64_t{-1}, int64_t{INT32_MIN}})
      add("mov " + whole + ", " + std::to_string(value),
          [=](Assembler& a) { a.mov_imm(r, static_cast<uint64_t>(value)); });
    for (const int64_t value : {int64_t{UINT32_MAX} + 1, int64_t{INT32_MIN} - 1, INT64_MIN, INT64_MAX})
      add("movabs " + whole + ", " + std::to_string(value),
          [=](Assembler& a) { a.mov_imm(r, static_cast<uint64_t>(value)); });
  });
}

void add_conditional(Cases& cases) {
  for (uint8_t i = 0; i < 16; ++i) {
    const auto c = static_cast<Cond>(i);
    const std::string condition = str(kConditions[i]);
    for (const Width w : kWidths)
      each_pair([&](Reg to, Reg from) {
        cases.add("cmov" + condition + " " + name(w, to) + ", " + name(w, from),
                  [=](Assembler& a) { a.cmov(c, w, to, from); });
      });
    each_register(
        [&](Reg r) { cases.add("set" + condition + " " + name8(r), [=](Assembler& a) { a.setcc(c, r); }); });
    cases.add("j" + condition + " 20", [=](Assembler& a) { a.patch(a.jcc(c), 26); });
    cases.add("j" + condition + " -6", [=](Assembler& a) { a.patch(a.jcc(c), 0); });
  }
}

void add_arithmetic(Cases& cases) {
  const auto add = [&](std::string text, auto write) { cases.add(std::move(text), write); };
  constexpr std::pair<Alu, std::string_view> kAlu[] = {{Alu::kAdd, "add "}, {Alu::kOr, "or "},
                                                       {Alu::kAnd, "and "}, {Alu::kSub, "sub "},
                                                       {Alu::kXor, "xor "}, {Alu::kCmp, "cmp "}};
  constexpr int32_t kValues[] = {0, 1, 127, 128, -128, -129, 0x12345678, INT32_MIN};
  for (const auto& [o, mnemonic] : kAlu) {
    for (const Width w : kWidths) {
      const auto text = [&, m = mnemonic](const std::string& a, const std::string& b) {
        return str(m) + a + ", " + b;
      };
      const Alu op = o;
      each_pair([&](Reg to, Reg from) {
        add(text(name(w, to), name(w, from)), [=](Assembler& a) { a.op(op, w, to, from); });
      });
      each_register([&](Reg to) {
        for (const int32_t v : kValues)
          add(text(name(w, to), short_constant(w, v)), [=](Assembler& a) { a.op(op, w, to, v); });
      });
      size_t turn = 0;
      each_address([&](Mem m, Reg r) {
        const std::string there = address(log2_of(w), m);
        const int32_t v = kValues[turn++ % std::size(kValues)];
        add(text(name(w, r), there), [=](Assembler& a) { a.op(op, w, r, m); });
        add(text(there, name(w, r)), [=](Assembler& a) { a.op(op, w, m, r); });
        add(text(there, short_constant(w, v)), [=](Assembler& a) { a.op(op, w, m, v); });
      });
    }
  }
  each_register([&](Reg r) {
    add("sub " + name64(r) + ", 305419896\njl 20", [=](Assembler& a) {
      const Assembler::ChargePatches patches = a.charge(r);
      a.put32(patches.constant - 4, 0x12345678);
      a.patch(patches.branch, patches.branch + 20);
    });
  });
  for (const Width w : kWidths) {
    each_pair([&](Reg to, Reg from) {
      const std::string both = name(w, to) + ", " + name(w, from);
      add("test " + both, [=](Assembler& a) { a.test(w, to, from); });
      add("imul " + both, [=](Assembler& a) { a.imul(w, to, from); });
      add("lzcnt " + both, [=](Assembler& a) { a.lzcnt(w, to, from); });
      add("tzcnt " + both, [=](Assembler& a) { a.tzcnt(w, to, from); });
      add("popcnt " + both, [=](Assembler& a) { a.popcnt(w, to, from); });
      for (const int32_t v : {1, -1, 0x12345678})
        add("imul " + both + ", " + constant(w, v), [=](Assembler& a) { a.imul(w, to, from, v); });
      for (const uint8_t count : {uint8_t{1}, uint8_t{63}})
        add("rorx " + both + ", " + std::to_string(count), [=](Assembler& a) { a.rorx(w, to, from, count); });
      each_third([&](Reg count) {
        const std::string all = both + ", " + name(w, count);
        add("shlx " + all, [=](Assembler& a) { a.shiftx(Shift::kShl, w, to, from, count); });
        add("shrx " + all, [=](Assembler& a) { a.shiftx(Shift::kShr, w, to, from, count); });
        add("sarx " + all, [=](Assembler& a) { a.shiftx(Shift::kSar, w, to, from, count); });
      });
    });
    each_address([&](Mem m, Reg r) {
      add("imul " + name(w, r) + ", " + address(log2_of(w), m), [=](Assembler& a) { a.imul(w, r, m); });
    });
    constexpr std::pair<Shift, std::string_view> kShifts[] = {{Shift::kRol, "rol "},
                                                              {Shift::kRor, "ror "},
                                                              {Shift::kShl, "shl "},
                                                              {Shift::kShr, "shr "},
                                                              {Shift::kSar, "sar "}};
    each_register([&](Reg r) {
      for (const auto& [shift, mnemonic] : kShifts) {
        const Shift s = shift;
        for (const uint8_t count : {uint8_t{1}, uint8_t{31}, uint8_t{63}})
          add(str(mnemonic) + name(w, r) + ", " + std::to_string(count),
              [=](Assembler& a) { a.shift(s, w, r, count); });
        add(str(mnemonic) + name(w, r) + ", cl", [=](Assembler& a) { a.shift_cl(s, w, r); });
      }
      add("div " + name(w, r), [=](Assembler& a) { a.div(w, r); });
      add("idiv " + name(w, r), [=](Assembler& a) { a.idiv(w, r); });
      add("neg " + name(w, r), [=](Assembler& a) { a.neg(w, r); });
    });
    add(w == Width::k64 ? "cqo" : "cdq", [=](Assembler& a) { a.sign_extend_rax(w); });
  }
}

void add_control(Cases& cases) {
  const auto add = [&](std::string text, auto write) { cases.add(std::move(text), write); };
  add("jmp 300", [](Assembler& a) { a.patch(a.jmp(), 305); });
  add("jmp -5", [](Assembler& a) { a.jmp(0); });
  add("jmp 0", [](Assembler& a) { a.patch_here(a.jmp()); });
  add("call 300", [](Assembler& a) { a.patch(a.call(), 305); });
  add("call -5", [](Assembler& a) { a.patch(a.call(), 0); });
  add("ret", [](Assembler& a) { a.ret(); });
  add("int3", [](Assembler& a) { a.int3(); });
  each_register([&](Reg r) {
    add("jmp " + name64(r), [=](Assembler& a) { a.jmp(r); });
    add("call " + name64(r), [=](Assembler& a) { a.call_register(r); });
    add("push " + name64(r), [=](Assembler& a) { a.push(r); });
    add("pop " + name64(r), [=](Assembler& a) { a.pop(r); });
    add("lea " + name64(r) + ", [rip + 93]", [=](Assembler& a) { a.patch(a.lea_rip(r), 100); });
    add("lea " + name64(r) + ", [rip - 7]", [=](Assembler& a) { a.patch(a.lea_rip(r), 0); });
  });
  each_address([&](Mem m, Reg) {
    const std::string there = address(3, m);
    add("jmp " + there, [=](Assembler& a) { a.jmp(m); });
    add("call " + there, [=](Assembler& a) { a.call(m); });
    add("push " + there, [=](Assembler& a) { a.push(m); });
    add("pop " + there, [=](Assembler& a) { a.pop(m); });
  });
}

void add_floats(Cases& cases) {
  const auto add = [&](std::string text, auto write) { cases.add(std::move(text), write); };
  using Float = Assembler::Float;
  using Bits = Assembler::Bits;
  constexpr std::pair<Float, std::string_view> kFloats[] = {
      {Float::kAdd, "vadd"}, {Float::kMul, "vmul"}, {Float::kSub, "vsub"},  {Float::kMin, "vmin"},
      {Float::kDiv, "vdiv"}, {Float::kMax, "vmax"}, {Float::kSqrt, "vsqrt"}};
  constexpr std::pair<Bits, std::string_view> kBits[] = {
      {Bits::kAnd, "vandps "}, {Bits::kAndNot, "vandnps "}, {Bits::kOr, "vorps "}, {Bits::kXor, "vxorps "}};
  constexpr std::pair<uint8_t, std::string_view> kPredicates[] = {{0, "eq"},    {1, "lt"},  {2, "le"},
                                                                  {3, "unord"}, {4, "neq"}, {7, "ord"}};

  each_pair([&](Reg x, Reg y) {
    const Xmm to = x, from = y;
    const std::string both = xmm(to) + ", " + xmm(from);
    add("vmovaps " + both, [=](Assembler& a) { a.fmov(to, from); });
    for (const Real r : kReals) {
      const Real other = r == Real::kF64 ? Real::kF32 : Real::kF64;
      const std::string from_to = "vcvt" + suffix(r) + "2" + suffix(other) + " ";
      add("vucomi" + suffix(r) + " " + both, [=](Assembler& a) { a.fcompare(r, to, from); });
      add("vround" + suffix(r) + " " + both + ", " + xmm(from) + ", 11",
          [=](Assembler& a) { a.fround(r, to, from, 11); });
      add(from_to + both + ", " + xmm(from), [=](Assembler& a) { a.float_to_float(r, to, from); });
      each_third([&](Reg z) {
        const Xmm last = z;
        const std::string all = both + ", " + xmm(last);
        for (const auto& [op, mnemonic] : kFloats)
          add(str(mnemonic) + suffix(r) + " " + all,
              [=, o = op](Assembler& a) { a.fop(o, r, to, from, last); });
        add(from_to + all, [=](Assembler& a) { a.convert_real(r, to, from, last); });
        for (const auto& [predicate, condition] : kPredicates)
          add("vcmp" + str(condition) + suffix(r) + " " + all,
              [=, p = predicate](Assembler& a) { a.fcompare_mask(r, to, from, last, p); });
      });
      for (const Width w : kWidths) {
        const std::string cleared = "vxorps " + xmm(to) + ", " + xmm(to) + ", " + xmm(to) + "\n";
        add(cleared + "vcvtsi2" + suffix(r) + " " + xmm(to) + ", " + xmm(to) + ", " + name(w, y),
            [=](Assembler& a) { a.int_to_float(r, w, to, y); });
        add("vcvtt" + suffix(r) + "2si " + name(w, x) + ", " + xmm(from),
            [=](Assembler& a) { a.float_to_int(r, w, x, from); });
      }
    }
    for (const Width w : kWidths) {
      const std::string mnemonic = w == Width::k64 ? "vmovq " : "vmovd ";
      add(mnemonic + xmm(to) + ", " + name(w, y), [=](Assembler& a) { a.fmov_from(w, to, y); });
      add(mnemonic + name(w, x) + ", " + xmm(from), [=](Assembler& a) { a.fmov_to(w, x, from); });
    }
    each_third([&](Reg z) {
      const Xmm last = z;
      for (const auto& [op, mnemonic] : kBits)
        add(str(mnemonic) + both + ", " + xmm(last),
            [=, o = op](Assembler& a) { a.fbits(o, to, from, last); });
    });
  });
  each_address([&](Mem m, Reg register_number) {
    const Xmm x = register_number, y = static_cast<Xmm>(15 - x);
    const std::string both = xmm(x) + ", " + xmm(y) + ", ", sixteen = address(4, m);
    for (const Real r : kReals) {
      const std::string there = address(log2_of(r), m);
      add("vmov" + suffix(r) + " " + xmm(x) + ", " + there, [=](Assembler& a) { a.fload(r, x, m); });
      add("vmov" + suffix(r) + " " + there + ", " + xmm(x), [=](Assembler& a) { a.fstore(r, m, x); });
      add("vucomi" + suffix(r) + " " + xmm(x) + ", " + there, [=](Assembler& a) { a.fcompare(r, x, m); });
      for (const auto& [op, mnemonic] : kFloats)
        add(str(mnemonic) + suffix(r) + " " + both + there,
            [=, o = op](Assembler& a) { a.fop(o, r, x, y, m); });
    }
    for (const auto& [op, mnemonic] : kBits)
      add(str(mnemonic) + both + sixteen, [=, o = op](Assembler& a) { a.fbits(o, x, y, m); });
    add("vmovups " + sixteen + ", " + xmm(x), [=](Assembler& a) { a.vstore16(m, x); });
    add("vmovups " + xmm(x) + ", " + sixteen, [=](Assembler& a) { a.vload16(x, m); });
  });
}

// -- vectors: the rows of vector_encodings.def -------------------------------------------------

// Pairs of vector registers, a third and a fourth one.
template <typename F>
void each_four(F&& f) {
  each_pair([&](Reg x, Reg y) {
    each_third([&](Reg z) { f(Xmm{x}, Xmm{y}, Xmm{z}, static_cast<Xmm>((x * 5 + y * 3 + z) % 16)); });
  });
}
void add_three(Cases& cases, Avx o, const std::string& text) {
  each_four([&](Xmm x, Xmm y, Xmm z, Xmm) {
    cases.add(text + " " + xmm(x) + ", " + xmm(y) + ", " + xmm(z), [=](Assembler& a) { a.avx(o, x, y, z); });
  });
  each_address([&](Mem m, Reg r) {
    const Xmm x = r, y = static_cast<Xmm>(15 - r);
    cases.add(text + " " + xmm(x) + ", " + xmm(y) + ", " + address(4, m),
              [=](Assembler& a) { a.avx(o, x, y, m); });
  });
}
void add_three_and_constant(Cases& cases, Avx o, const std::string& text, const std::string& constant,
                            uint8_t value, size_t memory) {
  each_four([&](Xmm x, Xmm y, Xmm z, Xmm) {
    cases.add(text + " " + xmm(x) + ", " + xmm(y) + ", " + xmm(z) + constant,
              [=](Assembler& a) { a.avx(o, x, y, z, value); });
  });
  each_address([&](Mem m, Reg r) {
    const Xmm x = r, y = static_cast<Xmm>(15 - r);
    cases.add(text + " " + xmm(x) + ", " + xmm(y) + ", " + address(memory, m) + constant,
              [=](Assembler& a) { a.avx(o, x, y, m, value); });
  });
}
void add_compare(Cases& cases, Avx o, const std::string& suffix) {
  constexpr std::pair<uint8_t, std::string_view> kPredicates[] = {
      {0, "eq"}, {1, "lt"}, {2, "le"}, {3, "unord"}, {4, "neq"}, {13, "ge"}, {14, "gt"}};
  for (const auto& [predicate, condition] : kPredicates)
    add_three_and_constant(cases, o, "vcmp" + str(condition) + suffix, "", predicate, 4);
}
void add_blend(Cases& cases, Avx o, const std::string& text) {
  each_four([&](Xmm x, Xmm y, Xmm z, Xmm mask) {
    cases.add(text + " " + xmm(x) + ", " + xmm(y) + ", " + xmm(z) + ", " + xmm(mask),
              [=](Assembler& a) { a.avx_blend(o, x, y, z, mask); });
  });
  each_address([&](Mem m, Reg r) {
    const Xmm x = r, y = static_cast<Xmm>(15 - r), mask = static_cast<Xmm>((r + 3) % 16);
    cases.add(text + " " + xmm(x) + ", " + xmm(y) + ", " + address(4, m) + ", " + xmm(mask),
              [=](Assembler& a) { a.avx_blend(o, x, y, m, mask); });
  });
}
void add_two(Cases& cases, Avx o, const std::string& text, size_t memory) {
  each_pair([&](Reg x, Reg y) {
    cases.add(text + " " + xmm(x) + ", " + xmm(y), [=](Assembler& a) { a.avx(o, x, 0, Xmm{y}); });
  });
  each_address([&](Mem m, Reg r) {
    cases.add(text + " " + xmm(r) + ", " + address(memory, m), [=](Assembler& a) { a.avx(o, r, 0, m); });
  });
}
void add_two_and_constant(Cases& cases, Avx o, const std::string& text, size_t memory) {
  each_pair([&](Reg x, Reg y) {
    cases.add(text + " " + xmm(x) + ", " + xmm(y) + ", 78",
              [=](Assembler& a) { a.avx(o, x, 0, Xmm{y}, uint8_t{78}); });
  });
  each_address([&](Mem m, Reg r) {
    cases.add(text + " " + xmm(r) + ", " + address(memory, m) + ", 78",
              [=](Assembler& a) { a.avx(o, r, 0, m, uint8_t{78}); });
  });
}
void add_shift(Cases& cases, Avx o, const std::string& text) {
  each_pair([&](Reg x, Reg y) {
    cases.add(text + " " + xmm(x) + ", " + xmm(y) + ", 13", [=](Assembler& a) { a.avx_shift(o, x, y, 13); });
  });
}
void add_insert(Cases& cases, Avx o, const std::string& text, size_t memory) {
  const Width w = memory == 3 ? Width::k64 : Width::k32;
  each_four([&](Xmm x, Xmm y, Xmm z, Xmm) {
    cases.add(text + " " + xmm(x) + ", " + xmm(y) + ", " + name(w, z) + ", 1",
              [=](Assembler& a) { a.avx(o, x, y, z, uint8_t{1}); });
  });
  each_address([&](Mem m, Reg r) {
    const Xmm x = r, y = static_cast<Xmm>(15 - r);
    cases.add(text + " " + xmm(x) + ", " + xmm(y) + ", " + address(memory, m) + ", 1",
              [=](Assembler& a) { a.avx(o, x, y, m, uint8_t{1}); });
  });
}
void add_extract(Cases& cases, Avx o, const std::string& text, size_t memory) {
  const Width w = memory == 3 ? Width::k64 : Width::k32;
  each_pair([&](Reg x, Reg y) {
    cases.add(text + " " + name(w, x) + ", " + xmm(y) + ", 1",
              [=](Assembler& a) { a.avx_extract(o, x, y, 1); });
  });
  each_address([&](Mem m, Reg r) {
    cases.add(text + " " + address(memory, m) + ", " + xmm(r) + ", 1",
              [=](Assembler& a) { a.avx_extract(o, m, r, 1); });
  });
}
void add_mask(Cases& cases, Avx o, const std::string& text) {
  each_pair([&](Reg x, Reg y) {
    cases.add(text + " " + name(Width::k32, x) + ", " + xmm(y), [=](Assembler& a) { a.avx_mask(o, x, y); });
  });
}

void add_vectors(Cases& cases) {
#define AVX_THREE(id, text, ...) add_three(cases, Avx::id, text);
#define AVX_THREE_I(id, text, map, pp, opcode, wide, memory)        \
  add_three_and_constant(cases, Avx::id, text, ", 78", 78, memory);
#define AVX_COMPARE(id, suffix, ...) add_compare(cases, Avx::id, suffix);
#define AVX_BLEND(id, text, ...) add_blend(cases, Avx::id, text);
#define AVX_TWO(id, text, map, pp, opcode, wide, memory) add_two(cases, Avx::id, text, memory);
#define AVX_TWO_I(id, text, map, pp, opcode, wide, memory) add_two_and_constant(cases, Avx::id, text, memory);
#define AVX_SHIFT(id, text, ...) add_shift(cases, Avx::id, text);
#define AVX_INSERT(id, text, map, pp, opcode, wide, memory) add_insert(cases, Avx::id, text, memory);
#define AVX_EXTRACT(id, text, map, pp, opcode, wide, memory) add_extract(cases, Avx::id, text, memory);
#define AVX_MASK(id, text, ...) add_mask(cases, Avx::id, text);
#include "engine/native/vector_encodings.def"
  each_four([&](Xmm x, Xmm y, Xmm z, Xmm) {
    cases.add("vmovsd " + xmm(x) + ", " + xmm(y) + ", " + xmm(z),
              [=](Assembler& a) { a.fmove_low(x, y, z); });
  });
  each_register([&](Reg r) {
    cases.add("vmovups " + xmm(r) + ", xmmword ptr [rip + 92]",
              [=](Assembler& a) { a.patch(a.vload16_rip(r), 100); });
  });
}

// -- the other tool ----------------------------------------------------------------------------

std::optional<std::string> find_disassembler() {
  const char* const path = std::getenv("PATH");
  for (const std::string_view tool : {"llvm-mc-19", "llvm-mc-20", "llvm-mc-21", "llvm-mc-22"}) {
    std::istringstream folders(path == nullptr ? "" : path);
    for (std::string folder; std::getline(folders, folder, ':');)
      if (const std::string file = folder + "/" + str(tool); access(file.c_str(), X_OK) == 0) return file;
  }
  return std::nullopt;
}

// Text between two `ud2` for each case; single spaces, no leading ones.
std::vector<std::string> disassemble(const std::string& tool, const std::vector<Case>& cases) {
  std::string path = ::testing::TempDir() + "assembler_test_XXXXXX";
  const int file = mkstemp(path.data());
  if (file < 0) return {};
  close(file);
  {
    std::ofstream out(path);
    for (const Case& c : cases) out << c.bytes << "0x0f 0x0b\n";
  }
  std::vector<std::string> found(1);
  FILE* const pipe = popen(
      (tool + " --disassemble --triple=x86_64 --output-asm-variant=1 '" + path + "' 2>&1").c_str(), "r");
  char line[512];
  while (pipe != nullptr && std::fgets(line, sizeof line, pipe) != nullptr) {
    std::string text(line);
    text.erase(std::min(text.find('#'), text.size()));  // what a shuffle does, in other words
    std::replace(text.begin(), text.end(), '\t', ' ');
    text.erase(text.find_last_not_of(" \n") + 1);
    text.erase(0, text.find_first_not_of(' '));
    if (text.empty() || text == ".text") continue;
    if (text == "ud2") {
      found.emplace_back();
      continue;
    }
    found.back() += (found.back().empty() ? "" : "\n") + text;
  }
  if (pipe != nullptr) pclose(pipe);
  std::remove(path.c_str());
  return found;
}

TEST(Assembler, WritesWhatItsCallsMean) {
  const std::optional<std::string> tool = find_disassembler();
  if (!tool) GTEST_SKIP() << "llvm-mc-19 is not installed (package llvm-19): nothing was disassembled";
  Cases cases;
  add_moves(cases);
  add_conditional(cases);
  add_arithmetic(cases);
  add_control(cases);
  add_floats(cases);
  add_vectors(cases);
  const std::vector<std::string> found = disassemble(*tool, cases.all);
  EXPECT_EQ(found.size(), cases.all.size() + 1);
  int shown = 0;
  for (size_t i = 0; i < std::min(found.size(), cases.all.size()) && shown < 20; ++i) {
    if (found[i] == cases.all[i].expected) continue;
    ++shown;
    ADD_FAILURE() << cases.all[i].bytes << "\nis      " << found[i] << "\nand not " << cases.all[i].expected;
  }
  RecordProperty("cases", std::to_string(cases.all.size()));
}

TEST(Assembler, KeepsWhatIsWrittenWhenItsBufferGrows) {
  std::vector<uint8_t> buffer;
  Assembler a(buffer);
  const Patch first = [&] {
    a.ensure(Assembler::kRoom);
    return a.jmp();
  }();
  for (int i = 0; i < 100'000; ++i) {
    a.ensure(Assembler::kRoom);
    a.mov_imm(r9, 0x1122334455667788u + static_cast<uint64_t>(i));
  }
  a.patch_here(first);
  ASSERT_EQ(a.here(), 5u + 100'000u * 10);
  EXPECT_EQ(a.get32(first - 4), a.here() - first);
  EXPECT_EQ(a.data()[0], 0xE9);
  for (uint32_t i = 0; i < 100'000; ++i) {
    ASSERT_EQ(a.data()[5 + i * 10], 0x49);
    ASSERT_EQ(a.get32(7 + i * 10), 0x55667788u + i);
  }
}

TEST(Assembler, ConditionsInvertAndSwap) {
  const auto holds = [](Cond c, int64_t a, int64_t b) {
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    switch (c) {
      case Cond::kB: return x < y;
      case Cond::kAE: return x >= y;
      case Cond::kE: return a == b;
      case Cond::kNE: return a != b;
      case Cond::kBE: return x <= y;
      case Cond::kA: return x > y;
      case Cond::kL: return a < b;
      case Cond::kGE: return a >= b;
      case Cond::kLE: return a <= b;
      case Cond::kG: return a > b;
      default: return false;
    }
  };
  for (const Cond c : {Cond::kB, Cond::kAE, Cond::kE, Cond::kNE, Cond::kBE, Cond::kA, Cond::kL, Cond::kGE,
                       Cond::kLE, Cond::kG})
    for (const int64_t a : {-2, -1, 0, 1, 2})
      for (const int64_t b : {-2, -1, 0, 1, 2}) {
        EXPECT_NE(holds(c, a, b), holds(inverse(c), a, b));
        EXPECT_EQ(holds(c, a, b), holds(swapped(c), b, a));
      }
}

}  // namespace
}  // namespace membrane::engine::native
