// Which operand registers a function has, and who owns them.
#include "engine/native/registers.h"

#include <gtest/gtest.h>

namespace membrane::engine::native {
namespace {

Operand in_register(uint8_t number, Bank bank) {
  Operand v;
  v.kind = Operand::Kind::kRegister;
  v.number = number;
  v.bank = bank;
  return v;
}

TEST(RegistersTest, GivesAllThatAreNotPinnedOnce) {
  Registers registers;
  registers.start({set_of(rdi, r8), set_of(6, 7)}, /*uses_vectors=*/false);
  RegisterSet integers = 0, reals = 0;
  while (registers.has_integer()) integers |= set_of(registers.take_integer());
  while (registers.has_real()) reals |= set_of(registers.take_real());
  EXPECT_EQ(integers, set_of(rax, rcx, rdx, rsi, r9, r10, r11, r12, r13));
  EXPECT_EQ(reals, 0xFFFFu & ~set_of(6, 7));
}

TEST(RegistersTest, KeepsTheScratchRegisterOfVectors) {
  Registers registers;
  registers.start({}, /*uses_vectors=*/true);
  registers.release(kScratch);
  EXPECT_TRUE(registers.has_real(0xFFFFu & ~set_of(14)));
  EXPECT_FALSE(registers.has_real(0xFFFFu & ~set_of(kScratch)));
}

TEST(RegistersTest, TakesTheLowestButTheExceptions) {
  Registers registers;
  registers.start({}, false);
  EXPECT_EQ(registers.take_integer(set_of(rax)), rcx);
  EXPECT_EQ(registers.take_integer(), rax);
  EXPECT_TRUE(registers.is_free(rdx));
  registers.take(rdx);
  EXPECT_FALSE(registers.is_free(rdx));
  EXPECT_EQ(registers.take_real(set_of(0, 1)), 2);
}

TEST(RegistersTest, DoesNotFreeWhatIsPinned) {
  Registers registers;
  registers.start({set_of(rdi), set_of(6)}, false);
  registers.release(in_register(rdi, Bank::kInteger));
  registers.release(in_register(6, Bank::kReal));
  EXPECT_FALSE(registers.is_free(rdi));
  EXPECT_FALSE(registers.has_real(~set_of(6)));
  EXPECT_FALSE(registers.is_operand(in_register(rdi, Bank::kInteger)));
  EXPECT_TRUE(registers.is_operand(in_register(rdi, Bank::kVector)));  // xmm7
}

TEST(RegistersTest, ReleasesTheRegisterOfTheValuesKind) {
  Registers registers;
  registers.start({}, false);
  registers.take(rcx);
  registers.take(Xmm{1});
  registers.release(in_register(1, Bank::kVector));
  EXPECT_FALSE(registers.is_free(rcx));
  EXPECT_TRUE(registers.has_real(~set_of(1)));
  Operand slot = in_register(rcx, Bank::kInteger);
  slot.kind = Operand::Kind::kSlot;
  registers.release(slot);
  EXPECT_FALSE(registers.is_free(rcx));
}

TEST(RegistersTest, RestoresWhatWasFreeBeforeAWay) {
  Registers registers;
  registers.start({}, false);
  registers.take(rax);
  const Registers::Sets before = registers.free();
  registers.release(rax);
  registers.take(Xmm{3});
  registers.restore(before);
  EXPECT_FALSE(registers.is_free(rax));
  EXPECT_TRUE(registers.has_real(~set_of(3)));
}

}  // namespace
}  // namespace membrane::engine::native
