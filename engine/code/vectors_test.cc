// v128 at the face of the engine: each instruction against the reference, and the places where a value
// of two slots may lose its order, its half or its way.

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "engine/code/numeric_simd.h"
#include "engine/testing/engine_testing.h"
#include "engine/testing/reference_vectors_testing.h"
#include "wasm/body.h"

namespace membrane::engine {
namespace {

using wasm::Opcode;
using wasm::ValType;

constexpr uint64_t kPlenty = 1'000'000;

MEMBRANE_IN_BOTH_TIERS(Vectors);

Value v128(uint64_t low, uint64_t high) { return {ValType::kV128, low, high}; }

struct Ended {
  RunState state{};
  uint64_t fuel = 0;
  std::vector<Value> results;
  Trap trap;
};

Ended call(Instance& instance, std::string_view name, const std::vector<Value>& arguments = {},
           uint64_t step = kPlenty) {
  Execution run;
  EXPECT_TRUE(run.start(instance.find_function(name), arguments));
  do run.add_fuel(step);
  while (run.resume() == RunState::kOutOfFuel && run.fuel_used() < kPlenty);
  return {run.state(), run.fuel_used(), run.results(), run.trap()};
}

// The words of the results, in order; a v128 gives two.
std::vector<uint64_t> words(const Ended& ended) {
  EXPECT_EQ(ended.state, RunState::kFinished) << ended.trap.message;
  std::vector<uint64_t> out;
  for (const Value& v : ended.results) {
    out.push_back(v.bits);
    if (v.type == ValType::kV128) out.push_back(v.high_bits);
  }
  return out;
}
using Words = std::vector<uint64_t>;

// -- each instruction -------------------------------------------------------------------

std::string type_of_letter(char letter) {
  switch (letter) {
    case 'i': return "i32";
    case 'I': return "i64";
    case 'f': return "f32";
    case 'F': return "f64";
    default: return "v128";
  }
}

bool is_computed(const wasm::OpcodeInfo& row) {
  return row.prefix == 0xFD && row.immediate != wasm::Immediate::kMem &&
         row.immediate != wasm::Immediate::kMemLane && row.immediate != wasm::Immediate::kV128;
}

std::string function_of(const wasm::OpcodeInfo& row, const std::string& immediate) {
  const size_t colon = row.signature.find(':');
  std::string text = "(func (export \"" + std::string(row.text) + immediate + "\") (param";
  for (const char c : row.signature.substr(0, colon)) text += " " + type_of_letter(c);
  text += ") (result " + type_of_letter(row.signature[colon + 1]) + ")";
  for (size_t i = 0; i < colon; ++i) text += " local.get " + std::to_string(i);
  return text + " " + std::string(row.text) + immediate + ")\n";
}

// A function for each instruction that computes; three for one with a lane.
std::string module_of_all() {
  std::string text = "(module\n";
  for (size_t i = 0; i < wasm::kOpcodeCount; ++i) {
    const wasm::OpcodeInfo& row = wasm::info(static_cast<Opcode>(i));
    if (!is_computed(row)) continue;
    if (row.immediate == wasm::Immediate::kShuffle)
      text += function_of(row, " 0 31 16 15 1 1 30 2 17 9 8 7 24 23 12 3");
    else if (row.immediate == wasm::Immediate::kLane)
      for (const char* const lane : {" 0", " 1"}) text += function_of(row, lane);
    else text += function_of(row, "");
  }
  return text + ")";
}

constexpr std::array<std::array<uint64_t, 2>, 18> kEdges{{
    {0, 0},
    {~0ull, ~0ull},
    {0x0123456789ABCDEF, 0xFEDCBA9876543210},
    {0x8000000000000000, 0x7FFFFFFFFFFFFFFF},
    {0x800000007FFFFFFF, 0x00000001FFFFFFFF},
    {0x80007FFF0001FFFF, 0x8001FFFE7FFE4000},
    {0x807F01FF81FE7E40, 0x0F101F00FF807F08},
    {0x00000000FF800000, 0x7F8000007FC00000},  // f32: -inf, inf, NaNs
    {0x7FA00001FFC00003, 0x8000000000000001},
    {0x3F8000003F000000, 0xBF000000BFC00000},  // 1, 0.5, -0.5, -1.5
    {0x4F0000004F7FFFFF, 0xCF0000005F000000},  // at the edges of i32 and u32
    {0x4020000040600000, 0xC0200000C0600000},
    {0x7FF0000000000000, 0xFFF0000000000000},  // f64
    {0x7FF4000000000001, 0xFFF8000000000002},
    {0x3FF8000000000000, 0xBFE0000000000000},
    {0x41DFFFFFFFE00000, 0xC1E0000000200000},
    {0x41EFFFFFFFF00000, 0x47EFFFFFF0000000},
    {0x4004000000000000, 0x36A0000000000000},
}};

// What a parameter is given: as many of its bits as its type has.
Value argument(char letter, size_t edge) {
  const auto [low, high] = kEdges[edge];
  switch (letter) {
    case 'i': return {ValType::kI32, low & UINT32_MAX, 0};
    case 'I': return {ValType::kI64, low, 0};
    case 'f': return {ValType::kF32, low & UINT32_MAX, 0};
    case 'F': return {ValType::kF64, low, 0};
    default: return v128(low, high);
  }
}

TEST_P(Vectors, EveryInstructionAgreesWithTheReferenceAtTheEdges) {
  const auto instance = made(module_of_all());
  ASSERT_NE(instance, nullptr);
  const wasm::Module& module = instance->module();
  EXPECT_EQ(module.exports.size(), 236u - 22 + 14 - 1 + 20);  // less accesses and const, and the second lanes
  for (const wasm::Export& exported : module.exports) {
    wasm::BodyReader reader(module.view(module.functions[exported.index].code));
    while (reader.next() && reader.instruction().op == Opcode::kLocalGet) {}
    const wasm::Instruction in = reader.instruction();
    const std::string_view signature = wasm::info(in.op).signature;
    const size_t operands = signature.find(':');
    for (size_t edges = 0; edges < kEdges.size() * (operands == 1 ? 1 : kEdges.size()); ++edges) {
      std::vector<Value> arguments;
      std::vector<Cell> cells;
      for (size_t i = 0, rest = edges; i < operands; ++i, rest /= kEdges.size())
        arguments.push_back(argument(signature[i], rest % kEdges.size()));
      for (const Value& v : arguments) cells.emplace_back(v.bits, v.high_bits);
      const Cell wanted = compute_vector(in, cells);
      const Value got = call(*instance, exported.name, arguments).results[0];
      ASSERT_EQ(Cell(got.bits, got.high_bits), wanted) << exported.name << " of edges " << edges;
    }
  }
}

TEST_P(Vectors, NansAreCanonicalAndSignOperationsAndPseudoMinimumsKeepBits) {
  const auto instance = made(module_of_all());
  const Value nan = v128(0x7FA00001FFC00003, 0x3F8000003F800000), one = v128(0x3F8000003F800000, 0);
  EXPECT_EQ(words(call(*instance, "f32x4.add", {nan, one})), (Words{0x7FC000007FC00000, 0x3F8000003F800000}));
  EXPECT_EQ(words(call(*instance, "f32x4.min", {one, nan}))[0], 0x7FC000007FC00000);
  EXPECT_EQ(words(call(*instance, "f32x4.sqrt", {nan}))[0], 0x7FC000007FC00000);
  EXPECT_EQ(words(call(*instance, "f32x4.neg", {nan}))[0], 0xFFA000017FC00003);
  EXPECT_EQ(words(call(*instance, "f32x4.pmin", {nan, one}))[0], nan.bits);
  EXPECT_EQ(words(call(*instance, "f64x2.promote_low_f32x4", {nan})),
            (Words{0x7FF8000000000000, 0x7FF8000000000000}));
}

// The machine decides which of the two runs.
TEST_P(Vectors, ShufflesAreTheSameByPshufbAndWithoutIt) {
  using simd::V128;
  if (!simd::has_pshufb()) GTEST_SKIP() << "this machine has no pshufb";
  const V128 a{0x0706050403020100, 0x0F0E0D0C0B0A0908};
  for (uint64_t i = 0; i < 256; ++i) {
    const V128 indices{i * 0x0101010101010101, (i * 37 + 11) * 0x0123456789ABCDEF};
    const V128 plain = simd::swizzle(a, indices), fast = simd::swizzle_by_pshufb(a, indices);
    EXPECT_EQ(Cell(plain[0], plain[1]), Cell(fast[0], fast[1])) << i;
    const V128 both = simd::shuffle(a, ~a, indices);
    const V128 wanted =
        simd::choose(simd::lt<uint8_t>(indices & simd::splat(uint8_t{31}), simd::splat(uint8_t{16})),
                     simd::swizzle(a, indices & simd::splat(uint8_t{15})),
                     ~simd::swizzle(a, indices & simd::splat(uint8_t{15})));
    EXPECT_EQ(Cell(both[0], both[1]), Cell(wanted[0], wanted[1])) << i;
  }
}

// -- on its way ------------------------------------------------------------------------------

const Value kA = v128(0xA1, 0xA2), kB = v128(0xB1, 0xB2), kC = v128(0xC1, 0xC2);

TEST_P(Vectors, PassThroughCallsLocalsAndResultsInOrder) {
  const auto instance = made(R"((module
    (type $mixed (func (param i32 v128 i64 v128) (result v128 i64 v128 i32)))
    (table funcref (elem $swap))
    (func $swap (type $mixed) (local.get 3) (local.get 2) (local.get 1) (local.get 0))
    (func (export "direct") (type $mixed)
      (call $swap (local.get 0) (local.get 1) (local.get 2) (local.get 3)))
    (func (export "indirect") (type $mixed)
      (call_indirect (type $mixed) (local.get 0) (local.get 1) (local.get 2) (local.get 3) (i32.const 0)))
    (func (export "pending") (param $a v128) (param $b v128) (result v128 v128 v128) (local $x i32) (local $t v128)
      (local.get $a) (local.set $a (local.get $b))
      (local.get $a) (local.tee $t (i32x4.add (local.get $a) (local.get $b))) (local.set $b)
      (local.get $b))
    (func (export "zero") (result v128) (local i32 v128) (local.get 1))
    (func (export "one") (param v128) (result v128) (local.get 0))))");
  const std::vector<Value> arguments{Value::i32(7), kA, Value::i64(9), kB};
  const Words swapped{0xB1, 0xB2, 9, 0xA1, 0xA2, 7};
  EXPECT_EQ(words(call(*instance, "direct", arguments)), swapped);
  EXPECT_EQ(words(call(*instance, "indirect", arguments)), swapped);
  EXPECT_EQ(words(call(*instance, "indirect", arguments, 1)), swapped);
  EXPECT_EQ(words(call(*instance, "pending", {kA, kB})), (Words{0xA1, 0xA2, 0xB1, 0xB2, 0x162, 0x164}));
  EXPECT_EQ(words(call(*instance, "zero")), (Words{0, 0}));
  EXPECT_EQ(words(call(*instance, "one", {kC})), (Words{0xC1, 0xC2}));
}

TEST_P(Vectors, AreCarriedByBranchesOverWhatLiesBelow) {
  const auto instance = made(R"((module
    (func (export "table") (param $a v128) (param $b v128) (param $case i32) (result v128 i32 v128)
      (block $two (result v128 i32 v128)
        (i64.const 5)
        (block $one (result v128 i32 v128)
          (i32.const 1) (v128.not (local.get $a)) (i32.const 3)
          (local.get $a) (i32.const 4) (v128.not (local.get $b))
          (br_table $one $two $two (local.get $case)))
        (br $two)))
    (func (export "loop") (param $a v128) (param $n i32) (result v128)
      (i32.const 1) (local.get $a) (local.get $n)
      (loop $next (param v128 i32) (result v128)
        (local.set $n)
        (v128.const i32x4 1 2 3 4) (i32x4.add)
        (i32.sub (local.get $n) (i32.const 1))
        (local.tee $n)
        (br_if $next (i32.ne (local.get $n) (i32.const 0)))
        (drop))
      (return))
    (func (export "if") (param $a v128) (param $b v128) (param $c i32) (result v128)
      (local.get $b) (local.get $a)
      (if (param v128 v128) (result v128) (local.get $c) (then (drop)) (else (i32x4.sub))))
    (func (export "many") (param $a v128) (param $b v128) (result v128 i32 v128 i64 v128)
      (block $out (result v128 i32 v128 i64 v128)
        (f32.const 1)
        (local.get $b) (i32.const 1) (i8x16.neg (local.get $a)) (i64.const 2) (local.get $b)
        (br_if $out (i32x4.extract_lane 0 (local.get $a)))
        (br $out)))
    (func (export "select") (param $a v128) (param $b v128) (param $c i32) (result v128 v128)
      (select (local.get $a) (local.get $b) (local.get $c))
      (select (result v128) (v128.not (local.get $a)) (v128.const i64x2 3 4) (i32.eqz (local.get $c)))))
  )");
  const uint64_t not_b1 = ~0xB1ull, not_b2 = ~0xB2ull;
  for (const uint32_t which : {0u, 1u, 2u, 99u})
    EXPECT_EQ(words(call(*instance, "table", {kA, kB, Value::i32(which)})),
              (Words{0xA1, 0xA2, 4, not_b1, not_b2}))
        << which;
  EXPECT_EQ(words(call(*instance, "loop", {kA, Value::i32(3)})),
            (Words{0xA1 + 3 + (6ull << 32), 0xA2 + 9 + (12ull << 32)}));
  EXPECT_EQ(words(call(*instance, "if", {kA, kB, Value::i32(1)})), (Words{0xB1, 0xB2}));
  EXPECT_EQ(words(call(*instance, "if", {kA, kB, Value::i32(0)})), (Words{0x10, 0x10}));
  EXPECT_EQ(words(call(*instance, "many", {kA, kB})), (Words{0xB1, 0xB2, 1, 0x5F, 0x5E, 2, 0xB1, 0xB2}));
  EXPECT_EQ(words(call(*instance, "select", {kA, kB, Value::i32(1)})), (Words{0xA1, 0xA2, 3, 4}));
  EXPECT_EQ(words(call(*instance, "select", {kA, kB, Value::i32(0)})),
            (Words{0xB1, 0xB2, ~0xA1ull, ~0xA2ull}));
}

TEST_P(Vectors, LiveInGlobalsAndCrossToHostsAndOtherInstances) {
  Store store;
  const wasm::FuncType type{{ValType::kI32, ValType::kV128}, {ValType::kV128, ValType::kI32}};
  FunctionInstance* const host = store.add_host_function(type, [](HostCall& call) {
    EXPECT_EQ(call.arguments.size(), 3u);
    const uint64_t n = call.arguments[0], low = call.arguments[1], high = call.arguments[2];
    call.results[0] = high + 1;
    call.results[1] = low;
    call.results[2] = n + 1;
    return HostAction::kContinue;
  });
  GlobalInstance* const given = store.add_global({ValType::kV128, false}, kC);
  const auto library =
      store.instantiate(compiled(R"((module (import "host" "c" (global $c v128))
    (global $mine (export "mine") (mut v128) (global.get $c))
    (func (export "swap") (param v128) (result v128)
      (global.get $mine) (global.set $mine (local.get 0)))))"),
                        [&](const wasm::Module&, const wasm::Import&) {
                          return Extern{wasm::ExternKind::kGlobal, nullptr, nullptr, nullptr, given};
                        },
                        {});
  ASSERT_TRUE(library);
  const auto user =
      store.instantiate(compiled(R"((module
        (import "lib" "swap" (func $swap (param v128) (result v128)))
        (import "lib" "mine" (global $mine (mut v128)))
        (import "host" "f" (func $f (param i32 v128) (result v128 i32)))
        (func (export "host") (param v128) (result v128 i32) (call $f (i32.const 6) (local.get 0)))
        (func (export "swap") (param v128) (result v128 v128) (call $swap (local.get 0)) (global.get $mine))))"),
                        [&](const wasm::Module&, const wasm::Import& import) -> std::optional<Extern> {
                          if (import.module == "lib") return (*library)->find_export(import.name);
                          return Extern{wasm::ExternKind::kFunc, host, nullptr, nullptr, nullptr};
                        },
                        {});
  ASSERT_TRUE(user);
  EXPECT_EQ(words(call(**user, "host", {kA})), (Words{0xA3, 0xA1, 7}));
  EXPECT_EQ(words(call(**user, "swap", {kA})), (Words{0xC1, 0xC2, 0xA1, 0xA2}));
  EXPECT_EQ(words(call(**user, "swap", {kB}, 1)), (Words{0xA1, 0xA2, 0xB1, 0xB2}));
  EXPECT_EQ((*library)->find_export("mine")->global->high_bits, 0xB2u);
}

// -- memory ---------------------------------------------------------------------------------

struct Access {
  std::string_view text;
  uint32_t bytes;
};
constexpr Access kLoads[] = {{"v128.load", 16},        {"v128.load8x8_s", 8},    {"v128.load16x4_u", 8},
                             {"v128.load32x2_s", 8},   {"v128.load8_splat", 1},  {"v128.load16_splat", 2},
                             {"v128.load32_splat", 4}, {"v128.load64_splat", 8}, {"v128.load32_zero", 4},
                             {"v128.load64_zero", 8}};
constexpr Access kLanes[] = {{"8_lane", 1}, {"16_lane", 2}, {"32_lane", 4}, {"64_lane", 8}};

std::string module_of_accesses() {
  std::string text = "(module (memory (export \"memory\") 1)\n";
  const auto function = [&](const std::string& name, const std::string& body) {
    text += "(func (export \"" + name + "\") (param $at i32) (param $v v128) (drop (i32.const 1)) " + body +
            " (drop (i32.const 1)))\n";
  };
  for (const Access& load : kLoads) {
    const std::string name(load.text);
    function(name, "(drop (" + name + " offset=7 (local.get $at)))");
    function(name + " of a sum", "(drop (" + name + " offset=3 (i32.add (local.get $at) (i32.const 4))))");
    function(name + " of a product",
             "(drop (" + name + " offset=7 (i32.mul (local.get $at) (i32.const 1))))");
  }
  for (const Access& lane : kLanes) {
    const std::string name(lane.text);
    function("load" + name, "(drop (v128.load" + name + " offset=7 1 (local.get $at) (local.get $v)))");
    function("store" + name, "(v128.store" + name + " offset=7 1 (local.get $at) (local.get $v))");
  }
  function("store", "(v128.store offset=7 (local.get $at) (local.get $v))");
  return text + ")";
}

TEST_P(Vectors, EveryAccessStopsAtTheEndOfTheMemoryAndChangesNothingBeyond) {
  const auto instance = made(module_of_accesses());
  const auto check = [&](const std::string& name, uint32_t bytes, uint64_t cost) {
    const uint32_t last = wasm::kPageBytes - 7 - bytes;
    const Ended inside = call(*instance, name, {Value::i32(last), kA});
    EXPECT_EQ(inside.state, RunState::kFinished) << name;
    std::ranges::fill(instance->memory()->bytes().last(32), uint8_t{0x55});
    for (const uint32_t at : {last + 1, last + bytes, UINT32_MAX - 4, UINT32_MAX}) {
      const Ended ended = call(*instance, name, {Value::i32(at), kA});
      ASSERT_EQ(ended.state, RunState::kTrapped) << name << " at " << at;
      EXPECT_EQ(ended.trap.kind, TrapKind::kMemoryOutOfBounds);
      EXPECT_EQ(ended.fuel, 2 + cost) << name << ": to the access, which is counted";
      EXPECT_EQ(inside.fuel - ended.fuel, name.starts_with("store") ? 2u : 3u) << name;
      for (const uint8_t byte : instance->memory()->bytes().last(32)) ASSERT_EQ(byte, 0x55) << name;
    }
  };
  for (const Access& load : kLoads) {
    check(std::string(load.text), load.bytes, 2);
    check(std::string(load.text) + " of a product", load.bytes, 4);
  }
  for (const Access& lane : kLanes) {
    check("load" + std::string(lane.text), lane.bytes, 3);
    check("store" + std::string(lane.text), lane.bytes, 3);
  }
  check("store", 16, 3);
}

TEST_P(Vectors, AnAddressWrapsInItsSumAndNotInItsOffset) {
  const auto instance = made(module_of_accesses());
  EXPECT_EQ(call(*instance, "v128.load of a sum", {Value::i32(UINT32_MAX), kA}).state, RunState::kFinished);
  EXPECT_EQ(call(*instance, "v128.load of a sum", {Value::i32(65536 - 22), kA}).state, RunState::kTrapped);
  EXPECT_EQ(call(*instance, "v128.load of a sum", {Value::i32(65536 - 23), kA}).state, RunState::kFinished);
}

TEST_P(Vectors, ATrapHasThePlaceOfTheAccess) {
  constexpr std::string_view kText = R"((module (memory 1)
  (func (export "run") (param i32) (result v128)
    (v128.load (i32.const 0))
    (v128.load8_lane offset=65535 3
      (local.get 0) (i32x4.splat (local.get 0)))
    (i8x16.add))))";
  const auto instance = made(kText);
  const Ended ended = call(*instance, "run", {Value::i32(1)});
  ASSERT_EQ(ended.state, RunState::kTrapped);
  EXPECT_EQ(locate(kText, ended.trap.backtrace[0].text_offset).line, 4u);
  EXPECT_EQ(ended.fuel, 6u);
  EXPECT_EQ(call(*instance, "run", {Value::i32(0)}).fuel, 7u);
}

// -- fuel and frames -----------------------------------------------------------------------------

TEST_P(Vectors, CostOneEachAndTheirLocalsTwoSlots) {
  std::string locals = "(module (func (export \"five\") (local";
  for (int i = 0; i < 20; ++i) locals += " v128";
  const auto instance = made(locals + R"()) (func (export "run") (result v128)
        (i8x16.shuffle 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
          (v128.const i32x4 1 2 3 4) (f32x4.sqrt (f32x4.splat (f32.const 4)))))
      (func $deep (export "deep") (param v128) (local v128 v128) (call $deep (local.get 0)))))");
  EXPECT_EQ(call(*instance, "five").fuel, 5u);
  EXPECT_EQ(call(*instance, "run").fuel, 5u);
  EXPECT_EQ(words(call(*instance, "run")), (Words{0x0101010101010101, 0x0101010101010101}));
  EXPECT_EQ(call(*instance, "deep", {kA}).trap.kind, TrapKind::kStackOverflow);
}

TEST_P(Vectors, ALoopThatPausesAfterEveryUnitEndsLikeOneThatNeverDoes) {
  constexpr std::string_view kText = R"((module (memory (export "memory") 1)
    (func (export "run") (param $n i32) (result v128 i32) (local $i i32) (local $sum v128)
      (local.set $sum (v128.const f32x4 0.5 1 2 4))
      (loop $next
        (v128.store (local.get $i) (local.get $sum))
        (local.set $sum (f32x4.add (f32x4.mul (local.get $sum) (v128.load32_splat (local.get $i)))
                                   (v128.load offset=4 align=1 (i32.add (local.get $i) (i32.const 4)))))
        (v128.store8_lane 9 (i32.shl (local.get $i) (i32.const 1)) (local.get $sum))
        (local.set $i (i32.add (local.get $i) (i32.const 12)))
        (br_if $next (i32.and (v128.any_true (local.get $sum)) (i32.lt_u (local.get $i) (local.get $n)))))
      (local.get $sum) (i8x16.bitmask (local.get $sum)))))";
  const auto whole = made(kText), stepped = made(kText);
  const Ended at_once = call(*whole, "run", {Value::i32(1200)});
  const Ended in_steps = call(*stepped, "run", {Value::i32(1200)}, 1);
  EXPECT_EQ(words(in_steps), words(at_once));
  EXPECT_EQ(in_steps.fuel, at_once.fuel);
  EXPECT_TRUE(std::ranges::equal(whole->memory()->bytes(), stepped->memory()->bytes()));
}

}  // namespace
}  // namespace membrane::engine
