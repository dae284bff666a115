// The engine against the reference interpreter, on modules that nobody wrote.

#include <gtest/gtest.h>

#include <algorithm>

#include "base/sanitized_testing.h"
#include "engine/execution/module.h"
#include "engine/native/compiler.h"
#include "engine/native/runtime.h"
#include "engine/testing/differential_testing.h"
#include "engine/testing/module_generator_testing.h"
#include "wasm/binary.h"
#include "wasm/validate.h"

namespace membrane::engine {
namespace {

#if MEMBRANE_IS_SANITIZED || !defined(__OPTIMIZE__)
constexpr uint64_t kModules = 1'000;
#else
constexpr uint64_t kModules = 20'000;
#endif

class Differential : public ::testing::TestWithParam<Tier> {};
INSTANTIATE_TEST_SUITE_P(Tiers, Differential,
                         ::testing::Values(Tier::kInterpreter, Tier::kCompiler, Tier::kAuto),
                         [](const auto& tier) { return std::string(name_of(tier.param)); });

TEST_P(Differential, GeneratedModulesAgreeWithTheReference) {
  DifferentialCount count;
  int disagreements = 0;
  for (uint64_t seed = 0; seed < kModules && disagreements < 10; ++seed) {
    const std::string differs =
        compare_with_reference(choices_of_seed(seed, 200 + seed % 1800), count, GetParam());
    if (differs.empty()) continue;
    ++disagreements;
    ADD_FAILURE() << "seed " << seed << ": " << differs;
  }
  // That they agree would say little if most did nothing.
  EXPECT_GT(count.finished, kModules / 4);
  EXPECT_GT(count.trapped, kModules / 50);
  EXPECT_GT(count.fuel / kModules, 20u);
  RecordProperty("finished", std::to_string(count.finished));
  RecordProperty("trapped", std::to_string(count.trapped));
  RecordProperty("too_long", std::to_string(count.too_long));
  RecordProperty("fuel", std::to_string(count.fuel));
}

// Each was a defect once.
TEST_P(Differential, SeedsThatOnceDiffered) {
  DifferentialCount count;
  for (const uint64_t seed :
       {uint64_t{624'312},              // a call wrote past the room that was looked for
        uint64_t{357}, uint64_t{7350},  // a function that begins with a throw was frozen
        uint64_t{10'003'674},           // the reference took a vector's 64-bit address for one of 32 bits
        uint64_t{13'935}})              // and one that begins with an allocation
    EXPECT_EQ(compare_with_reference(choices_of_seed(seed, 200 + seed % 1800), count, GetParam()), "")
        << seed;
}

TEST_P(Differential, AModuleOfNoChoicesIsValidAndAgrees) {
  DifferentialCount count;
  EXPECT_EQ(compare_with_reference({}, count, GetParam()), "");
  EXPECT_EQ(count.finished, 1u);
}

// A function is compiled with what the validator noted, and again, to find a place in it, with what a look at it finds.
TEST(LocalUses, AreTheSameFromTheValidatorAndFromALook) {
  size_t functions = 0, loops = 0;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const auto module = wasm::decode(generate_module(choices_of_seed(seed, 200 + seed % 1800)).binary);
    ASSERT_TRUE(module);
    wasm::LocalUses found;
    const auto compare = [&](uint32_t index, const wasm::FunctionInfo& info, const wasm::BodyNotes& notes) {
      const wasm::LocalUses& told = notes.uses;
      found.look_at(module->view(module->functions[index].code), info.local_count);
      EXPECT_EQ(told.used(), found.used()) << seed;
      EXPECT_EQ(told.loops(), found.loops()) << seed;
      EXPECT_EQ(told.uses(), found.uses()) << seed;
      for (const uint32_t local : told.used()) EXPECT_EQ(told.weight(local), found.weight(local)) << seed;
      ++functions;
      loops += told.loops().size();
    };
    ASSERT_TRUE(wasm::validate(*module, {}, compare)) << seed;
  }
  EXPECT_GT(functions, 500u);
  EXPECT_GT(loops, 500u);
}

// A module that is compiled whole is compiled from the validator's notes, and a function that is compiled again, or by
// itself, from its bytes.
TEST(Compiler, MakesTheSameCodeFromNotesAndFromBytes) {
  if (!native::machine_is_supported()) GTEST_SKIP() << "nothing is compiled here";
  size_t functions = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    auto decoded = wasm::decode(generate_module(choices_of_seed(seed, 200 + seed % 1800)).binary);
    ASSERT_TRUE(decoded);
    const auto module = compile_module(std::move(*decoded), {}, Tier::kCompiler);
    ASSERT_TRUE(module);
    const native::ModuleImage* const whole = (*module)->native_code().whole();
    if (whole == nullptr) continue;
    native::Compiler compiler(**module);
    for (size_t i = 0; i < whole->starts.size(); ++i, ++functions) {
      std::vector<native::BatchCall> calls;
      const auto code = compiler.compile(whole->indices[i], &calls);
      std::vector<uint8_t> again(code.begin(), code.end());
      const uint8_t* const made = whole->block.code() + whole->starts[i];
      std::vector<uint8_t> first(made, made + again.size());
      for (const native::BatchCall& call : calls) {  // filled in when all functions were there
        std::fill_n(again.data() + call.displacement_end - 4, 4, uint8_t{0});
        std::fill_n(first.data() + call.displacement_end - 4, 4, uint8_t{0});
      }
      ASSERT_EQ(first, again) << "seed " << seed << ", function " << whole->indices[i];
    }
  }
  EXPECT_GT(functions, 300u);
}

TEST(Generator, TheSameChoicesMakeTheSameModule) {
  const auto choices = choices_of_seed(7, 500);
  EXPECT_EQ(generate_module(choices).binary, generate_module(choices).binary);
}

// So that what the compiler makes of vectors, tail calls, memories and exceptions is compared, too. Only what works
// on structs, arrays and references of a type is left, in every second module.
TEST(Generator, MakesNothingElseThatIsLeftToTheInterpreter) {
  if (!native::machine_is_supported()) GTEST_SKIP() << "nothing is compiled here";
  for (uint64_t seed = 0; seed < 600; ++seed) {
    auto decoded = wasm::decode(generate_module(choices_of_seed(seed, 200 + seed % 1800)).binary);
    ASSERT_TRUE(decoded);
    if (!decoded->type_details.empty()) continue;
    const auto compiled = compile_module(std::move(*decoded), {}, Tier::kCompiler);
    ASSERT_TRUE(compiled);
    for (size_t i = 0; i < (*compiled)->module().functions.size(); ++i)
      EXPECT_NE((*compiled)->functions()[i].native_code.load(), nullptr) << seed << ", function " << i;
  }
}

}  // namespace
}  // namespace membrane::engine
