// Branches that carry values past others which stay, when registers are scarce: each tier moves them alike.

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "base/sanitized_testing.h"
#include "engine/testing/call_testing.h"
#include "engine/testing/engine_testing.h"

namespace membrane::engine {
namespace {

enum Kind : size_t { kI32, kI64, kF32, kF64, kV128, kExternRef, kFuncRef };
constexpr size_t kKinds = 7;

// Writes a module whose "run" branches with a number of values of its own choice, through blocks, and mixes them into one.
class Author {
 public:
  explicit Author(uint64_t seed) : random_(seed) {
    const size_t counts[] = {2, 3, 4, 5, 8, 12, 16, 17, 33};
    const size_t count = pick(counts), kinds = below(2) == 0 ? 2 : kKinds;
    for (size_t i = 0; i < count; ++i) carried_.push_back(Kind{below(kinds)});
    locals_ = {kI32, kI64};  // the parameters
    for (size_t i = below(14); i > 0; --i) locals_.push_back(Kind{below(kKinds)});
  }

  std::string module() {
    const std::string body = nested(2 + below(4), 0);
    std::string locals;
    for (size_t i = 2; i < locals_.size(); ++i) locals += " " + name(locals_[i]);
    return R"((module (global $h (mut i64) (i64.const 0)) (func $zero) (elem declare func $zero)
(func $mix (param i64)
  (global.set $h (i64.add (i64.mul (global.get $h) (i64.const 6364136223846793005)) (local.get 0))))
(func $mix_both (param v128)
  (call $mix (i64x2.extract_lane 0 (local.get 0))) (call $mix (i64x2.extract_lane 1 (local.get 0))))
(func $f (param i32 i64) (result)" +
           types() + ") (local" + locals + ")\n" + body + R"()
(func $call (param i32 i64) local.get 0 local.get 1 call $f)" +
           folded() + R"()
(func (export "run") (param i32) (result i32) (local $i i32)
  (loop $again
    (call $call (i32.mul (local.get $i) (i32.const 40503))
                (i64.mul (i64.extend_i32_u (local.get $i)) (i64.const 0x9e3779b97f4a7c15)))
    (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get 0))))
  (i32.wrap_i64 (i64.xor (global.get $h) (i64.shr_u (global.get $h) (i64.const 32)))))))";
  }

 private:
  size_t below(size_t most) { return random_() % most; }
  template <typename T, size_t n>
  T pick(const T (&from)[n]) {
    return from[below(n)];
  }
  static std::string name(Kind kind) {
    return std::array<std::string, kKinds>{"i32", "i64", "f32", "f64", "v128", "externref", "funcref"}[kind];
  }
  std::string number() { return std::to_string(static_cast<int64_t>(random_())); }
  std::string small_number() { return std::to_string(static_cast<int32_t>(random_())); }

  std::string types() const {
    std::string text;
    for (const Kind kind : carried_) text += " " + name(kind);
    return text;
  }
  std::string constant(Kind kind) {
    switch (kind) {
      case kI32: return " i32.const " + small_number();
      case kI64: return " i64.const " + number();
      case kF32: return " f32.const " + small_number() + ".5";
      case kF64: return " f64.const " + small_number() + ".25";
      case kV128: return " v128.const i64x2 " + number() + " " + number();
      case kExternRef: return " ref.null extern";
      case kFuncRef: return below(2) == 0 ? " ref.null func" : " ref.func $zero";
    }
    return "";
  }
  // One that is worked out now, so that it is in a register.
  std::string computed(Kind kind) {
    switch (kind) {
      case kI32: return " local.get 0" + constant(kI32) + (below(4) == 0 ? " i32.lt_u" : " i32.add");
      case kI64: return " local.get 1" + constant(kI64) + " i64.xor";
      case kF32: return " local.get 0 f32.convert_i32_s" + constant(kF32) + " f32.add";
      case kF64: return " local.get 1 f64.convert_i64_s" + constant(kF64) + " f64.mul";
      case kV128: return " local.get 1 i64x2.splat" + constant(kV128) + " i64x2.add";
      default: return constant(kind);
    }
  }
  std::string value(Kind kind) {
    std::vector<size_t> fitting;
    for (size_t i = 0; i < locals_.size(); ++i)
      if (locals_[i] == kind) fitting.push_back(i);
    if (!fitting.empty() && below(2) == 0)
      return " local.get " + std::to_string(fitting[below(fitting.size())]);
    return below(4) == 0 ? constant(kind) : computed(kind);
  }
  // What was read from the local before is no longer in it.
  std::string assignment() {
    const size_t local = below(locals_.size());
    return value(locals_[local]) + " local.set " + std::to_string(local);
  }
  std::string values(const std::vector<Kind>& kinds) {
    std::string text;
    for (const Kind kind : kinds) {
      text += value(kind);
      if (below(6) == 0) text += assignment();
    }
    return text;
  }
  std::vector<Kind> some() {
    std::vector<Kind> kinds;
    for (size_t i = below(5); i > 0; --i) kinds.push_back(Kind{below(kKinds)});
    return kinds;
  }
  static std::string drops(size_t count) {
    std::string text;
    while (count-- > 0) text += " drop";
    return text;
  }
  std::string condition() {
    const std::string conditions[] = {" local.get 0 i32.const 1 i32.and",
                                      " local.get 0" + constant(kI32) + " i32.lt_s", " local.get 1 i64.eqz",
                                      " local.get 0"};
    return pick(conditions);
  }

  // Leaves the values on the stack, or branches away. `depth` labels are around it, and all take the values.
  std::string branch(size_t depth) {
    const auto label = [&] { return " " + std::to_string(below(depth + 1)); };
    const std::vector<Kind> below_them = some();
    const std::string carried = values(below_them) + values(carried_);
    switch (below(4)) {
      case 0: return carried + " br" + label();
      case 1:
        return carried + assignment() + condition() + " br_if" + label() +
               drops(below_them.size() + carried_.size()) + values(carried_);
      case 2: {
        std::string labels;
        for (size_t i = 1 + below(6); i > 0; --i) labels += label();
        return carried + " local.get 0 i32.const 5 i32.rem_u br_table" + labels + label();
      }
      default: return carried + " return";
    }
  }
  std::string nested(size_t levels, size_t depth) {
    if (levels == 0) return branch(depth);
    const std::vector<Kind> around = some();
    const std::string block = " block (result" + types() + ")" + nested(levels - 1, depth + 1) + " end";
    if (around.empty()) return block;
    return values(around) + block + " br " + std::to_string(below(depth + 1));
  }
  std::string folded() const {
    std::string text;
    for (size_t i = carried_.size(); i-- > 0;) {
      switch (carried_[i]) {
        case kI32: text += " i64.extend_i32_u call $mix"; break;
        case kI64: text += " call $mix"; break;
        case kF32: text += " i32.reinterpret_f32 i64.extend_i32_u call $mix"; break;
        case kF64: text += " i64.reinterpret_f64 call $mix"; break;
        case kV128: text += " call $mix_both"; break;
        default: text += " ref.is_null i64.extend_i32_u call $mix"; break;
      }
    }
    return text;
  }

  std::mt19937_64 random_;
  std::vector<Kind> carried_, locals_;
};

Ended run(const std::string& text, Tier tier) {
  const auto instance = instantiate(text, {}, {}, tier);
  return call(*instance, "run", {Value::i32(40)}, 10'000'000);
}

TEST(BranchValues, AreMovedAlikeInEveryTier) {
  for (uint64_t seed = 0; seed < (kIsSanitized ? 300 : 20'000); ++seed) {
    const std::string text = Author(seed).module();
    const Ended expected = run(text, Tier::kInterpreter), ended = run(text, Tier::kCompiler);
    ASSERT_EQ(ended.state, expected.state) << seed << "\n" << text;
    ASSERT_EQ(ended.results, expected.results) << seed << "\n" << text;
    ASSERT_EQ(ended.fuel, expected.fuel) << seed << "\n" << text;
  }
}

// An i64 in a register below the values gave way to a constant among them, onto a reference that had been moved already.
TEST(BranchValues, KeepTheirTypes) {
  const std::string text =
      R"((module (type $ft (func (result i64))) (global $g (mut (ref null $ft)) (ref.null $ft))
 (func $one (type $ft) i64.const 1) (elem declare func $one)
 (func $f (param i32 i64) (result i32 i64 (ref null $ft) i64 i64 f64 i32) (local i64 i64 i64) (local i64)
  i64.const 222 local.set 2 i64.const 333 local.set 3 i64.const 444 local.set 4
  block (result i32 i64 (ref null $ft) i64 i64 f64 i32)
   local.get 2 local.get 2 local.get 4 local.get 1
   local.get 0 i32.const -460412123 i32.add local.get 3 local.get 4 local.set 1 global.get $g
   local.get 1 i64.const 360358993836056991 i64.xor local.get 3 f64.const -52765919.5
   i64.const -4346310577583609604 local.set 4 local.get 0 i32.const 527903078 i32.add br 0
  end)
 (func (export "run") (param i32) (result i32) (local $x (ref null $ft))
  ref.func $one global.set $g i32.const 7 i64.const 9 call $f
  drop drop drop drop local.set $x drop drop (i32.wrap_i64 (call_ref $ft (local.get $x))))))";
  for (const Tier tier : {Tier::kInterpreter, Tier::kCompiler, Tier::kAuto}) {
    const Ended ended = run(text, tier);
    ASSERT_EQ(ended.state, RunState::kFinished);
    EXPECT_EQ(ended.results[0], 1u) << name_of(tier);
  }
}

}  // namespace
}  // namespace membrane::engine
