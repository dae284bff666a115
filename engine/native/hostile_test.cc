// Modules that were made to be hard to compile: they compile in a space that their size bounds and run like
// in the interpreter, or are refused with an error that says why.

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/sanitized_testing.h"
#include "base/stop_scope.h"
#include "engine/execution/execution.h"
#include "engine/execution/module.h"
#include "engine/native/compiler.h"
#include "wasm/assemble_testing.h"
#include "wasm/binary.h"

namespace membrane::engine::native {
namespace {

using wasm::ValType;
using wasm::testing::binary;
using wasm::testing::Bytes;
using wasm::testing::cat;
using wasm::testing::code;
using wasm::testing::func_type;
using wasm::testing::section;
using wasm::testing::sized;
using wasm::testing::u32;
using wasm::testing::vec;

constexpr auto I32 = ValType::kI32;
const std::vector<ValType> kThousand(1'000, I32);

// A sanitizer's shadow, and memory that it holds back, are not counted.
constexpr uint64_t kOverhead = kIsSanitized ? 8 : 1;

void append(Bytes& to, const Bytes& what, size_t times = 1) {
  if (times == 0) return;
  const size_t begin = to.size(), bytes = what.size() * times;
  to.resize(begin + bytes);
  const auto first = to.begin() + static_cast<ptrdiff_t>(begin);
  std::ranges::copy(what, first);
  for (size_t done = what.size(); done < bytes;
       done *= 2)  // twice as much each time: some have millions of bytes
    std::copy_n(first, std::min(done, bytes - done), first + static_cast<ptrdiff_t>(done));
}
Bytes repeat(const Bytes& what, size_t times) {
  Bytes out;
  append(out, what, times);
  return out;
}
Bytes body(const Bytes& locals, const Bytes& instructions) {
  return sized(cat({locals, instructions, {0x0B}}));
}
Bytes i32_locals(uint32_t count) { return cat({u32(1), u32(count), {0x7F}}); }
const Bytes kNoLocals = {0};

// Functions of the given types, all in one list; function 0 is exported as "run".
Bytes module_of(const std::vector<Bytes>& types, const std::vector<uint32_t>& functions,
                const std::vector<Bytes>& bodies, const Bytes& more = {}) {
  std::vector<Bytes> indices;
  for (const uint32_t f : functions) indices.push_back(u32(f));
  return binary({section(1, vec(types)), section(3, vec(indices)), more,
                 section(7, vec({cat({wasm::testing::name("run"), {0, 0}})})), section(10, vec(bodies))});
}
// One function from i32 to i32.
Bytes one(const Bytes& locals, const Bytes& instructions) {
  return module_of({func_type({I32}, {I32})}, {0}, {body(locals, instructions)});
}

// Kibibytes of the line of /proc/self/status.
uint64_t status(std::string_view line) {
  std::ifstream file("/proc/self/status");
  for (std::string text; std::getline(file, text);)
    if (text.starts_with(line)) return std::stoull(text.substr(line.size()));
  return 0;
}

struct Ran {
  RunState state{};
  uint64_t result = 0;
  uint64_t fuel = 0;
  friend bool operator==(const Ran&, const Ran&) = default;
};

class Hostile : public ::testing::Test {
 protected:
  // Compiles, and checks that the peak of memory stays below `peak_mib`. Null when it was refused: see `refusal`.
  std::shared_ptr<CompiledModule> compile(const Bytes& wasm, Tier tier, uint64_t peak_mib) {
    malloc_trim(0);
    const uint64_t before = status("VmRSS:");
    { std::ofstream("/proc/self/clear_refs") << "5"; }  // the peak starts again
    std::shared_ptr<CompiledModule> compiled;
    auto module = wasm::decode(wasm);
    if (!module) {
      refusal = module.error().message;
    } else {
      auto made = compile_module(std::move(*module), {}, tier);
      if (made) compiled = *made;
      else refusal = made.error().message;
    }
    const uint64_t peak = status("VmHWM:");
    const uint64_t growth = peak < before ? 0 : (peak - before) >> 10;
    EXPECT_LE(growth, peak_mib * kOverhead) << "MiB, for " << wasm.size() << " bytes, " << name_of(tier);
    RecordProperty("peak_mib_" + std::string(name_of(tier)), std::to_string(growth));
    return compiled;
  }

  static Ran run(const std::shared_ptr<CompiledModule>& module, uint32_t argument) {
    auto instance = Instance::create(module, {}, {});
    if (!instance) {
      ADD_FAILURE() << instance.error().error.to_string();
      return {};
    }
    Execution execution;
    const Value value = Value::i32(argument);
    EXPECT_TRUE(execution.start((*instance)->find_function("run"), {&value, 1}));
    execution.add_fuel(1'000'000'000);
    Ran ran{execution.resume(), 0, execution.fuel_used()};
    if (!execution.results().empty()) ran.result = execution.results()[0].bits;
    return ran;
  }

  // Compiled within `peak_mib`, and run with each argument as in the interpreter.
  void expect_same(const Bytes& wasm, uint64_t peak_mib, std::initializer_list<uint32_t> arguments) {
    const auto compiled = compile(wasm, Tier::kCompiler, peak_mib);
    ASSERT_NE(compiled, nullptr) << refusal;
    const auto interpreted = compile(wasm, Tier::kInterpreter, peak_mib);
    ASSERT_NE(interpreted, nullptr) << refusal;
    EXPECT_EQ(compiled->native_code_bytes() != 0, machine_is_supported());
    RecordProperty("code_bytes", std::to_string(compiled->native_code_bytes()));
    for (const uint32_t argument : arguments) {
      const Ran expected = run(interpreted, argument), ran = run(compiled, argument);
      EXPECT_EQ(ran.state, expected.state) << argument;
      EXPECT_EQ(ran.result, expected.result) << argument;
      EXPECT_EQ(ran.fuel, expected.fuel) << argument;
    }
  }

  void expect_refused(const Bytes& wasm, uint64_t peak_mib, std::string_view why) {
    EXPECT_EQ(compile(wasm, Tier::kCompiler, peak_mib), nullptr);
    EXPECT_NE(refusal.find(why), std::string::npos) << refusal;
  }

  std::string refusal;
};

// -- nesting -----------------------------------------------------------------------------------

// `open` so often within itself, a branch from the inside over all when the argument is 1.
Bytes nested(const Bytes& open, uint32_t depth, const Bytes& inside) {
  Bytes text = repeat(open, depth);
  append(text, cat({code("local.get 0; br_if " + std::to_string(depth - 1)), inside}));
  append(text, {0x0B}, depth);
  append(text, code("local.get 0"));
  return one(kNoLocals, text);
}
const Bytes kAddOne = code("local.get 0; i32.const 1; i32.add; local.set 0");

TEST_F(Hostile, SixtyThousandBlocks) { expect_same(nested({0x02, 0x40}, 60'000, kAddOne), 64, {0, 1}); }
TEST_F(Hostile, SixtyThousandLoops) {
  // Leaves through the ends: to branch would be to repeat.
  expect_same(nested({0x03, 0x40}, 60'000, kAddOne), 128, {0});
}
TEST_F(Hostile, SixtyThousandIfs) {
  expect_same(nested(code("local.get 0; i32.eqz; if"), 60'000, kAddOne), 128, {0, 1});
}
TEST_F(Hostile, SixtyThousandBlocksWithResults) {
  Bytes text = repeat({0x02, 0x7F}, 60'000);
  append(text, code("i32.const 7; local.get 0; br_if 59999; i32.const 1; i32.add"));
  append(text, {0x0B}, 60'000);
  expect_same(one(kNoLocals, text), 64, {0, 1});
}
TEST_F(Hostile, DeeperNestingIsRefused) { expect_refused(nested({0x02, 0x40}, 65'600, {}), 64, "nest"); }

// Try blocks that all catch, each for the one around it; what is thrown inside goes out through all by branches.
TEST_F(Hostile, SixtyThousandTryTables) {
  Bytes text = repeat({0x02, 0x40, 0x1F, 0x40, 0x01, 0x02, 0x00}, 30'000);
  append(text, kAddOne);
  append(text, {0x0B}, 60'000);
  append(text, code("local.get 0"));
  expect_same(one(kNoLocals, text), 128, {0, 77});
}
TEST_F(Hostile, ATryTableOfSixtyThousandClauses) {
  const Bytes clauses = cat({u32(60'000), repeat({0x02, 0x00, 0x02, 0x01}, 30'000)});
  Bytes text = cat({repeat({0x02, 0x40}, 2), {0x1F, 0x40}, clauses});
  for (uint32_t i = 0; i < 20; ++i) append(text, cat({{0x20}, u32(i), {0x41, 1, 0x6A, 0x21}, u32(i)}));
  append(text, {0x0B}, 3);
  append(text, code("local.get 0"));
  expect_same(one(i32_locals(20), text), 128, {0, 77});
}

// A clause is two bytes; where it lands, seventeen locals are loaded. No two neighbours land in the same place.
TEST_F(Hostile, MillionsOfClausesThatLandInLoops) {
  constexpr uint32_t kLocals = 17;
  Bytes uses;
  for (uint32_t i = 1; i <= kLocals; ++i) append(uses, cat({{0x20}, u32(i), {0x21}, u32(i)}), 2);
  Bytes handlers = cat({{0x1F, 0x40}, u32(60'000), repeat({0x02, 0x00, 0x02, 0x01}, 30'000), {0x01, 0x0B}});
  const Bytes loops = cat({{0x03, 0x40}, uses, {0x03, 0x40}, uses, repeat(handlers, 40), uses, {0x0B, 0x0B}});
  const Bytes locals = cat({u32(2), u32(7), {0x7F}, u32(10), {0x7C}});
  const Bytes text = cat({loops, code("local.get 0")});
  const auto compiled = compile(one(locals, text), Tier::kCompiler, 512);
  ASSERT_NE(compiled, nullptr) << refusal;
  EXPECT_EQ(run(compiled, 77).result, 77u);
}

// -- vectors -----------------------------------------------------------------------------------

Bytes of_vector(const Bytes& instructions, size_t times) {
  Bytes text = code("local.get 0; i8x16.splat");
  append(text, instructions, times);
  append(text, code("i8x16.extract_lane_u 3"));
  return one(kNoLocals, text);
}
TEST_F(Hostile, AHundredThousandLongVectorInstructions) {
  expect_same(of_vector(code("i8x16.popcnt"), 100'000), 128, {0, 77});
  expect_same(of_vector(code("i32x4.trunc_sat_f32x4_u; f32x4.sqrt"), 50'000), 128, {0, 77});
  expect_same(of_vector(code("local.get 0; i8x16.shr_s"), 50'000), 128, {0, 77});
}
TEST_F(Hostile, AHundredThousandConstantsOfVectors) {
  Bytes text = code("local.get 0; i8x16.splat");
  const Bytes add = code("i8x16.add");
  for (uint32_t i = 0; i < 100'000; ++i) {
    text.insert(text.end(), {0xFD, 0x0C});
    for (uint32_t n = 0; n < 16; ++n) text.push_back(static_cast<uint8_t>(i >> (n % 4 * 5)));
    text.insert(text.end(), add.begin(), add.end());
  }
  append(text, code("i8x16.extract_lane_u 3"));
  expect_same(one(kNoLocals, text), 128, {0, 77});
}

// -- tail calls --------------------------------------------------------------------------------

TEST_F(Hostile, TailCallsWithAThousandArguments) {
  const Bytes call = cat({repeat({0x20, 0}, 1'000), {0x12, 1}});
  Bytes often = repeat(cat({code("local.get 0; if"), call, {0x0B}}), 100);
  append(often, call);
  expect_same(module_of({func_type({I32}, {I32}), func_type(kThousand, {I32})}, {0, 1},
                        {body(kNoLocals, often), body(kNoLocals, code("local.get 999"))}),
              64, {0, 77});
}

// -- locals ------------------------------------------------------------------------------------

TEST_F(Hostile, FiftyThousandLocals) {
  expect_same(one(i32_locals(49'999), code("local.get 0; local.tee 49999; local.get 49998; i32.sub")), 32,
              {0, 77});
}
TEST_F(Hostile, MoreLocalsAreRefused) {
  expect_refused(one(i32_locals(50'000), code("local.get 0")), 32, "locals");
  expect_refused(one(i32_locals(UINT32_MAX), code("local.get 0")), 32, "locals");
}
TEST_F(Hostile, ManyFunctionsWithManyLocals) {
  const Bytes small = body(i32_locals(49'000), code("local.get 0; local.tee 49000"));
  expect_same(
      module_of({func_type({I32}, {I32})}, std::vector<uint32_t>(2'000, 0), std::vector<Bytes>(2'000, small)),
      128, {5});
}
TEST_F(Hostile, FiftyThousandLocalsAllUsedInLoopsWithinLoops) {
  Bytes text = repeat({0x03, 0x40}, 1'000);
  for (uint32_t i = 1; i < 50'000; ++i)
    append(text, cat({{0x20}, u32(i - 1), {0x41, 1, 0x6A, 0x21}, u32(i)}));
  append(text, {0x0B}, 1'000);
  append(text, code("local.get 49999"));
  expect_same(one(i32_locals(49'999), text), 128, {0, 77});
}
TEST_F(Hostile, EveryLocalIsPendingOnTheStack) {
  Bytes text;
  for (uint32_t i = 0; i < 10'000; ++i) append(text, cat({{0x20}, u32(i)}));
  for (uint32_t i = 0; i < 10'000; ++i) append(text, cat({{0x41, 1, 0x21}, u32(i)}));
  append(text, {0x6A}, 9'999);
  expect_same(one(i32_locals(9'999), text), 64, {0, 77});
}

// -- branch tables -----------------------------------------------------------------------------

Bytes branch_table(uint32_t targets, uint32_t blocks, const Bytes& inside = {}, const Bytes& after = {}) {
  Bytes text = repeat({0x02, 0x40}, blocks);
  append(text, inside);
  append(text, cat({{0x20, 0, 0x0E}, u32(targets)}));
  for (uint32_t i = 0; i <= targets; ++i) append(text, u32(i % blocks));
  for (uint32_t i = 0; i < blocks; ++i) {
    append(text, {0x0B});
    append(text, kAddOne);
    append(text, after);
  }
  append(text, code("local.get 0"));
  return one(i32_locals(20), text);
}
TEST_F(Hostile, ABranchTableOfSixtyFiveThousandTargets) {
  expect_same(branch_table(65'520, 1'000), 64, {0, 1, 999, 65'519, 65'520, 65'521, UINT32_MAX});
}
TEST_F(Hostile, ABranchTableOfAHundredThousandTargetsIsRefused) {
  expect_refused(branch_table(100'000, 1'000), 64, "br_table");
}
// Every way to a label has to bring the locals where the label wants them.
TEST_F(Hostile, ABranchTableOfManyTargetsWithEveryRegisterInUse) {
  Bytes change;
  for (uint32_t i = 0; i < 20; ++i) append(change, cat({{0x20}, u32(i), {0x41, 1, 0x6A, 0x21}, u32(i)}));
  expect_same(branch_table(65'520, 2'000, change, change), 128, {0, 1, 1999, 65'519, 65'520, 65'521});
}
TEST_F(Hostile, ManyBranchTables) {
  Bytes table = cat({{0x02, 0x40, 0x02, 0x40, 0x20, 0, 0x0E}, u32(100)});
  for (uint32_t i = 0; i <= 100; ++i) append(table, u32(i % 2));
  append(table, {0x0B, 0x0B});
  append(table, kAddOne);
  expect_same(one(kNoLocals, cat({repeat(table, 20'000), code("local.get 0")})), 512, {0, 1, 200});
}

// -- parameters and results --------------------------------------------------------------------

TEST_F(Hostile, AThousandParametersAndResults) {
  Bytes swap;
  for (uint32_t i = 1'000; i-- > 0;) append(swap, cat({{0x20}, u32(i)}));
  Bytes text = code("local.get 0; i32.const 1; i32.add");
  for (uint32_t i = 1; i < 1'000; ++i) append(text, cat({{0x41}, u32(i % 60)}));
  append(text, {0x10, 1}, 1'001);
  append(text, {0x1A}, 999);
  expect_same(module_of({func_type({I32}, {I32}), func_type(kThousand, kThousand)}, {0, 1},
                        {body(kNoLocals, text), body(kNoLocals, swap)}),
              64, {0, 77});
}
TEST_F(Hostile, MoreParametersOrResultsAreRefused) {
  const std::vector<ValType> more(1'001, I32);
  const Bytes bodies = body(kNoLocals, {0x00});
  expect_refused(module_of({func_type(more, {})}, {0}, {bodies}), 32, "param");
  expect_refused(module_of({func_type({}, more)}, {0}, {bodies}), 32, "result");
}
// A branch moves a thousand values by one slot: two bytes of the body ask for much code.
Bytes branches_with_values(uint32_t branches) {
  Bytes text = code("i32.const 5; block 1; i32.const 6");
  for (uint32_t i = 0; i < 1'000; ++i) append(text, {0x20, 0});
  append(text, code("local.get 0; br_if 0"), branches);
  append(text, code("br 0; end"));
  append(text, {0x6A}, 1'000);
  return module_of({func_type({I32}, {I32}), func_type({}, kThousand)}, {0}, {body(kNoLocals, text)});
}
TEST_F(Hostile, BranchesWithAThousandValues) { expect_same(branches_with_values(1'000), 128, {0, 1}); }

// Blocks in blocks, each with a table of all labels around it, and a thousand values that each way moves elsewhere.
Bytes tables_with_values(uint32_t depth, uint32_t targets) {
  Bytes text = cat(
      {code("i32.const 5"), repeat(code("block 1; i32.const 6"), depth), repeat(code("local.get 0"), 1'000)});
  for (uint32_t level = depth; level > 0; --level) {
    append(text, cat({{0x20, 0, 0x0E}, u32(targets)}));
    for (uint32_t i = 0; i <= targets; ++i) append(text, u32((targets - i) % level));
    append(text, {0x0B});
    if (level > 1) append(text, code("local.get 0; i32.const 1; i32.add; local.set 0"));
  }
  append(text, {0x6A}, 1'000);
  return module_of({func_type({I32}, {I32}), func_type({}, kThousand)}, {0}, {body(kNoLocals, text)});
}
TEST_F(Hostile, BranchTablesWithAThousandValues) {
  expect_same(tables_with_values(200, 1'000), 64, {0, 1, 77, 199, 999, 1'000, 1'001});
}
TEST_F(Hostile, ABranchTableOfSixtyFiveThousandTargetsWithAThousandValues) {
  expect_same(tables_with_values(2, 65'520), 64, {0, 1, 65'519, 65'520});
}
// Values of each kind, carried by each kind of branch, beside some that stay.
TEST_F(Hostile, ManyValuesOfAllKindsAreMoved) {
  const std::vector<ValType> kinds = {I32, ValType::kF64, ValType::kV128, ValType::kI64, ValType::kF32};
  std::vector<ValType> results;
  Bytes values, folded;
  for (uint32_t i = 0; i < 20; ++i) {
    results.push_back(kinds[i % kinds.size()]);
    append(values, cat({{0x20, 0, 0x41}, u32(i), {0x6A}}));  // the argument and its number
    append(values, std::vector<Bytes>{{}, {0xB7}, {0xFD, 0x11}, {0xAD}, {0xB2}}[i % kinds.size()]);
  }
  const std::vector<Bytes> to_integers = {{}, {0xAA}, {0xFD, 0x1B, 3}, {0xA7}, {0xA8}};
  for (uint32_t i = 20; i-- > 0;)  // sum = 31 * sum + value
    append(folded, cat({to_integers[i % kinds.size()], {0x20, 1, 0x41, 31, 0x6C, 0x6A, 0x21, 1}}));
  const std::vector<Bytes> branches = {{0x0C, 0},
                                       {0x20, 0, 0x0D, 0, 0x0C, 0},
                                       {0x20, 0, 0x45, 0x0D, 0, 0x0C, 0},
                                       {0x20, 0, 0x0E, 1, 0, 0},
                                       {0x20, 0, 0x0E, 2, 0, 1, 0}};
  for (const Bytes& branch : branches) {
    const Bytes text = cat({code("block 1; i32.const 1; block 1; i32.const 2; local.get 0"),
                            values,
                            branch,
                            {0x0B},
                            {0x0C, 0, 0x0B},
                            folded,
                            code("local.get 1")});
    expect_same(
        module_of({func_type({I32}, {I32}), func_type({}, results)}, {0}, {body(i32_locals(1), text)}), 16,
        {0, 1, 2, 1'000});
    const Bytes returned = cat({code("i32.const 1; local.get 0"), values, {0x0F}});
    expect_same(
        module_of({func_type({I32}, {I32}), func_type({I32}, results)}, {0, 1},
                  {body(i32_locals(1), cat({code("local.get 0; call 1"), folded, code("local.get 1")})),
                   body(i32_locals(1), returned)}),
        16, {0, 1, 2, 1'000});
  }
}

// -- size --------------------------------------------------------------------------------------

TEST_F(Hostile, ABodyOfFiveMegabytes) {
  const Bytes step =
      code("local.get 0; i32.const 3; i32.mul; local.get 1; i32.xor; local.tee 0; local.set 1");
  const Bytes text = cat({repeat(step, (5u << 20) / step.size()), code("local.get 0")});
  expect_same(one(i32_locals(1), text), 256, {0, 77});
}
TEST_F(Hostile, ABodyOfFiveMegabytesOfNothing) {
  expect_same(one(kNoLocals, cat({repeat({0x01}, 5u << 20), code("local.get 0")})), 64, {0, 77});
}
TEST_F(Hostile, ABodyOfFiveMegabytesOfTraps) {
  const Bytes step = code("i32.const 1; local.get 0; i32.div_u; drop");
  expect_same(one(kNoLocals, cat({repeat(step, (5u << 20) / step.size()), code("local.get 0")})), 768,
              {0, 1});
}
TEST_F(Hostile, ABodyOfFiveMegabytesOfSegments) {
  const Bytes step = code("block; local.get 0; br_if 0; end");
  expect_same(one(kNoLocals, cat({repeat(step, (5u << 20) / step.size()), code("local.get 0")})), 768,
              {0, 1});
}
// Of plain instructions, with no end of a segment among them.
TEST_F(Hostile, ABodyOfOneSegmentCanBeStopped) {
  if (!machine_is_supported()) GTEST_SKIP() << "nothing is compiled on this processor";
  const Bytes step = code("local.get 0; i32.const 3; i32.div_u; local.set 0");
  const Bytes wasm = one(kNoLocals, cat({repeat(step, (1u << 20) / step.size()), code("local.get 0")}));
  auto module = wasm::decode(wasm);
  ASSERT_TRUE(module);
  uint32_t asked = 0;
  const StopScope scope([&] {
    ++asked;
    return false;
  });
  ASSERT_TRUE(compile_module(std::move(*module), {}, Tier::kCompiler));
  EXPECT_GT(asked, 20u);
}
TEST_F(Hostile, ABodyThatIsTooLargeIsRefused) {
  expect_refused(one(kNoLocals, cat({repeat({0x01}, 8u << 20), code("local.get 0")})), 64, "body");
}
TEST_F(Hostile, SixtyThousandOperands) {
  Bytes text = repeat({0x20, 0}, 60'000);
  append(text, {0x6A}, 59'999);
  expect_same(one(kNoLocals, text), 64, {0, 77});
}
TEST_F(Hostile, MoreOperandsThanAFrameHoldsAreRefused) {
  Bytes text = repeat({0x20, 0}, 100'000);
  append(text, {0x6A}, 99'999);
  expect_refused(one(kNoLocals, text), 64, "slots");
}

// -- many --------------------------------------------------------------------------------------

TEST_F(Hostile, AHugeTypeSection) {
  std::vector<Bytes> types = {func_type({I32}, {I32})};
  while (types.size() < 300'000) types.push_back(func_type({}, {}));
  types.push_back(func_type({I32}, {I32}));  // equal to the first, which a call must see
  const Bytes indirect = cat({code("local.get 0; i32.const 0"), {0x11}, u32(300'000), {0}});
  const Bytes table = section(4, vec({{0x70, 0, 1}}));
  const Bytes elements = section(9, vec({cat({{0}, code("i32.const 0"), {0x0B}, vec({u32(1)})})}));
  const Bytes run = cat({wasm::testing::name("run"), {0, 0}}), callee = cat({kAddOne, code("local.get 0")});
  const Bytes wasm =
      binary({section(1, vec(types)), section(3, vec({u32(0), u32(0)})), table, section(7, vec({run})),
              elements, section(10, vec({body(kNoLocals, indirect), body(kNoLocals, callee)}))});
  expect_same(wasm, 256, {0, 77});
}
TEST_F(Hostile, AHundredThousandFunctions) {
  const Bytes small = body(kNoLocals, cat({kAddOne, code("local.get 0")}));
  expect_same(module_of({func_type({I32}, {I32})}, std::vector<uint32_t>(100'000, 0),
                        std::vector<Bytes>(100'000, small)),
              256, {0, 77});
}
TEST_F(Hostile, AChainOfTenThousandFunctions) {
  std::vector<Bytes> bodies;
  for (uint32_t i = 1; i < 9'000; ++i)
    bodies.push_back(body(kNoLocals, cat({code("local.get 0; i32.const 1; i32.add"), {0x10}, u32(i)})));
  bodies.push_back(body(kNoLocals, code("local.get 0")));
  expect_same(module_of({func_type({I32}, {I32})}, std::vector<uint32_t>(bodies.size(), 0), bodies), 64,
              {0, 77});
}
// Functions that are not compiled, called from all over.
TEST_F(Hostile, ThousandsOfFunctionsThatCannotBeCompiled) {
  constexpr uint32_t kFunctions = 100'000;
  Bytes calls = code("local.get 0");
  for (uint32_t i = 1; i < kFunctions; ++i) append(calls, cat({{0x10}, u32(i)}));
  std::vector<Bytes> bodies = {body(kNoLocals, calls)};
  const Bytes large = body(i32_locals(4'001), code("local.get 0"));  // more locals than the compiler takes
  while (bodies.size() < kFunctions) bodies.push_back(large);
  const auto compiled =
      compile(module_of({func_type({I32}, {I32})}, std::vector<uint32_t>(kFunctions, 0), bodies),
              Tier::kCompiler, 128);
  ASSERT_NE(compiled, nullptr) << refusal;
  EXPECT_EQ(compiled->native_code_bytes() != 0, machine_is_supported());
}

}  // namespace
}  // namespace membrane::engine::native
