// What the stack counts about its values stays true.
#include "engine/native/operand_stack.h"

#include <gtest/gtest.h>

namespace membrane::engine::native {
namespace {

TEST(ValueStackTest, ValuesFillSlotsOneAfterTheOther) {
  OperandStack stack;
  stack.start(5);
  stack.push_register(rcx);
  stack.push_real(3, false, true, Bank::kVector);
  stack.push_constant(7);
  EXPECT_EQ(stack[0].slot, 5);
  EXPECT_EQ(stack[1].slot, 6);
  EXPECT_EQ(stack[2].slot, 8);
  EXPECT_EQ(stack.next_slot(), 9u);
  EXPECT_EQ(stack[0].number, rcx);
  EXPECT_TRUE(stack[1].maybe_nan && stack[1].bank == Bank::kVector);
  EXPECT_EQ(stack[2].constant, 7u);
  const Operand moved = stack.pop();
  stack.pop();
  stack.push(moved);
  EXPECT_EQ(stack.back().slot, 6);
}

TEST(ValueStackTest, CountsTheNamesOfLocals) {
  OperandStack stack;
  stack.start(0);
  stack.push_local(4, Bank::kInteger, false);
  stack.push_local(9, Bank::kReal, true);
  EXPECT_EQ(stack.pending_locals(), 2u);
  EXPECT_TRUE(stack.names(4) && stack.names(9) && !stack.names(5));
  stack.put_in_slot(stack[0], /*was_local=*/true);
  EXPECT_FALSE(stack.names(4));
  EXPECT_EQ(stack[0].kind, Operand::Kind::kSlot);
  stack.push(stack.pop());
  EXPECT_TRUE(stack.names(9));
  EXPECT_EQ(stack.pending_locals(), 1u);
  stack.forget_name(stack[1]);
  EXPECT_EQ(stack.pending_locals(), 0u);
  stack.start(0);
  EXPECT_TRUE(stack.empty());
}

TEST(ValueStackTest, WhatIsPushedIsNotSettled) {
  OperandStack stack;
  stack.start(0);
  stack.push_slot(wasm::ValType::kI32);
  stack.push_slot(wasm::ValType::kI32);
  stack.note_settled();
  EXPECT_EQ(stack.unsettled_count(), 0u);
  stack.pop();
  stack.push_register(rax);
  EXPECT_EQ(stack.settled(), 1u);
  ASSERT_EQ(stack.unsettled().size(), 1u);
  EXPECT_EQ(stack.unsettled()[0].number, rax);
}

TEST(ValueStackTest, FlagsAreTheTop) {
  OperandStack stack;
  stack.start(0);
  EXPECT_FALSE(stack.has_flags());
  stack.push_flags(Cond::kE);
  EXPECT_TRUE(stack.has_flags());
  stack.invert_flags();
  EXPECT_EQ(static_cast<Cond>(stack.pop().number), Cond::kNE);
  EXPECT_FALSE(stack.has_flags());
}

}  // namespace
}  // namespace membrane::engine::native
