// Which locals are pinned, and what their places are where ways join.
#include "engine/native/pinned_locals.h"

#include <gtest/gtest.h>

#include <string>

#include "wasm/text/parser.h"

namespace membrane::engine::native {
namespace {

// Of the function of a module: `locals`, then `body`.
class PinnedLocalsTest : public ::testing::Test {
 protected:
  bool start(const std::string& text, bool uses_vectors = false) {
    auto parsed = wasm::parse_text("(module (func " + text + "))");
    EXPECT_TRUE(parsed);
    if (!parsed) return false;
    module_ = std::move(*parsed);
    const wasm::Function& function = module_.functions[0];
    if (!locals_.start(module_, function)) return false;
    wasm::LocalUses uses;
    uses.look_at(module_.view(function.code), locals_.size());
    locals_.choose(uses, uses_vectors);
    return true;
  }
  static std::string get_often(int local, int times) {
    std::string text;
    for (int i = 0; i < times; ++i) text += "(drop (local.get " + std::to_string(local) + "))";
    return text;
  }

  wasm::Module module_;
  PinnedLocals locals_;
};

TEST_F(PinnedLocalsTest, GivesTheFirstRegistersToWhatIsUsedMost) {
  ASSERT_TRUE(start("(param i32 i64) (local v128 f32 i32)" + get_often(0, 2) + get_often(1, 3) +
                    get_often(3, 2) + get_often(4, 1)));
  ASSERT_EQ(locals_.pin_count(), 3u);
  EXPECT_EQ(locals_[1].pin, 0);
  EXPECT_EQ(locals_.pin(0).number, kPinnable[0]);
  EXPECT_EQ(locals_.pin(locals_[0].pin).number, kPinnable[1]);
  EXPECT_EQ(locals_.pin(locals_[3].pin).number, kFirstPinnableReal);
  EXPECT_TRUE(locals_.pin(locals_[3].pin).is_f32);
  EXPECT_EQ(locals_[2].pin, kUnpinned);  // not used
  EXPECT_EQ(locals_[4].pin, kUnpinned);  // a single use
  EXPECT_EQ(locals_[3].slot, 4);         // after the two slots of a vector
  EXPECT_EQ(locals_.slots(), 6u);
  EXPECT_EQ(locals_.registers().integers, set_of(kPinnable[0], kPinnable[1]));
  EXPECT_EQ(locals_.registers().reals, set_of(kFirstPinnableReal));
}

TEST_F(PinnedLocalsTest, LeavesTheScratchRegisterToVectors) {
  std::string text = "(local f64 f64 f64 f64 f64 f64 f64 f64 f64 f64)";
  for (int i = 0; i < 10; ++i) text += get_often(i, 2);
  ASSERT_TRUE(start(text, /*uses_vectors=*/false));
  EXPECT_EQ(locals_.registers().reals, 0xFFC0u);
  ASSERT_TRUE(start(text, /*uses_vectors=*/true));
  EXPECT_EQ(locals_.registers().reals, 0x7FC0u);
}

TEST_F(PinnedLocalsTest, SaysWhatLoopsAndThoseInsideThemDo) {
  ASSERT_TRUE(
      start("(local i32 i32)(loop (loop (local.set 0 (i32.const 1)) (call 0)) (drop (local.get 1)))"));
  const PinSet first = pin_bit(locals_[0].pin), second = pin_bit(locals_[1].pin);
  EXPECT_EQ(locals_.loop(0).used, first | second);
  EXPECT_EQ(locals_.loop(0).assigned, first);
  EXPECT_TRUE(locals_.loop(0).has_call);
  EXPECT_EQ(locals_.loop(1).used, first);
}

TEST_F(PinnedLocalsTest, RefusesMoreThanItsBound) {
  const auto locals = [](size_t count) {
    std::string text = "(local";
    for (size_t i = 0; i < count; ++i) text += " i32";
    return text + ")";
  };
  EXPECT_TRUE(start(locals(PinnedLocals::kMost)));
  EXPECT_FALSE(start(locals(PinnedLocals::kMost + 1)));
}

TEST(PinsTest, FollowsOneLocal) {
  Pins pins;
  pins.assign(3, /*maybe_nan=*/true, /*is_f32=*/true);
  EXPECT_TRUE(pins.is_valid(3) && pins.is_dirty(3) && pins.has_nan(3) && pins.is_f32(3));
  pins.store(3);
  EXPECT_TRUE(pins.is_valid(3) && !pins.is_dirty(3) && !pins.has_nan(3));
  pins.assign(3, false, false);
  EXPECT_TRUE(pins.is_dirty(3) && !pins.has_nan(3) && !pins.is_f32(3));
  pins.load(3);
  EXPECT_TRUE(pins.is_valid(3) && !pins.is_dirty(3));
}

TEST(PinsTest, ConformsWhenNoCodeIsNeeded) {
  Pins label, way;
  label.load(0);
  EXPECT_FALSE(way.satisfies(label));  // lacks one
  way.load(0);
  EXPECT_TRUE(way.satisfies(label));
  way.load(1);
  EXPECT_TRUE(way.satisfies(label));  // one more, which its slot has, too
  way.assign(1, false, false);
  EXPECT_FALSE(way.satisfies(label));  // which the slot lacks
  way.store(1);
  way.assign(0, /*maybe_nan=*/true, false);
  EXPECT_FALSE(way.satisfies(label));
  way.make_canonical(0);
  EXPECT_TRUE(way.satisfies(label));
}

TEST(PinsTest, WhatIsDirtyOnOneWayIsDirtyAfterTheJoin) {
  Pins label, way;
  label.load(0);
  way.assign(0, false, false);
  way.assign(1, false, false);
  label.join(way);
  EXPECT_TRUE(label.is_dirty(0));
  EXPECT_FALSE(label.is_dirty(1));  // is in its slot by then
}

TEST(PinsTest, TheHeadOfALoopHasWhatItUses) {
  Pins way;
  way.load(0);
  const LoopUse loop{.has_call = false, .used = pin_bit(1) | pin_bit(2), .assigned = pin_bit(2)};
  Pins head = way.at_head(loop);
  EXPECT_EQ(head.valid(), pin_bit(0) | pin_bit(1) | pin_bit(2));
  way.load(1);
  way.load(2);
  head.enter(way, loop);
  EXPECT_EQ(head.dirty(), pin_bit(2));
  const LoopUse calling{.has_call = true, .used = pin_bit(1), .assigned = 0};
  EXPECT_EQ(way.at_head(calling).valid(), pin_bit(1));
}

}  // namespace
}  // namespace membrane::engine::native
