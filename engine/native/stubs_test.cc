// Code that is written after a function.
#include "engine/native/stubs.h"

#include <gtest/gtest.h>

namespace membrane::engine::native {
namespace {

// Where the branch leads that ends at `from`.
uint32_t target_of(const Assembler& a, Patch from) { return from + a.get32(from - 4); }

TEST(StubsTest, ChargesComeFirstAndEachBranchReachesItsOwn) {
  std::vector<uint8_t> buffer;
  Assembler a(buffer);
  Stubs stubs;
  stubs.start();
  const Patch trap = a.jcc(Cond::kE);
  stubs.add_trap(TrapKind::kIntegerOverflow, trap, {11, 12, 13});
  const Patch charge = a.jcc(Cond::kL);
  stubs.add_charge(charge);
  const Patch overflow = a.jcc(Cond::kA);
  stubs.add_overflow(overflow);
  const uint32_t end = a.here();

  uint32_t traps = 0, return_address = 0;
  stubs.write(a, [&](InstructionPlace place) {
    ++traps;
    return_address = a.here();
    EXPECT_EQ(place.offset, 11u);
    EXPECT_EQ(place.cost_to_here, 12u);
    EXPECT_EQ(place.segment, 13u);
  });
  EXPECT_EQ(traps, 1u);
  EXPECT_EQ(target_of(a, charge), end);
  EXPECT_GT(target_of(a, trap), target_of(a, charge));
  EXPECT_EQ(target_of(a, overflow), return_address);
  const uint32_t after_call = target_of(a, trap) - 4;  // the charge's stub ends with the way back
  EXPECT_EQ(after_call + a.get32(after_call), charge);
}

TEST(StubsTest, ACanonicalNanComesBack) {
  std::vector<uint8_t> buffer;
  Assembler a(buffer);
  Stubs stubs;
  stubs.start();
  const Patch from = a.jcc(Cond::kP);
  const uint32_t back = a.here();
  stubs.add_canonical(3, /*is_f32=*/true, /*is_vector=*/false, from, back);
  stubs.write(a, [](InstructionPlace) { ADD_FAILURE() << "not a trap"; });
  EXPECT_EQ(target_of(a, from), back);  // the stub is all that follows
  EXPECT_EQ(target_of(a, a.here()), back);
  stubs.start();
  const uint32_t end = a.here();
  stubs.write(a, [](InstructionPlace) {});
  EXPECT_EQ(a.here(), end);
}

}  // namespace
}  // namespace membrane::engine::native
