// The validator takes short instructions by a way of its own, unless a vector is on the stack. So a body must be judged as it is
// above a vector that nobody touches.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "wasm/text/parser.h"
#include "wasm/validate.h"

namespace membrane::wasm {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr std::string_view kModule = R"((module
  (memory 1)
  (global $g i32 (i32.const 0)) (global (mut i64) (i64.const 0)) (global (mut v128) (v128.const i64x2 0 0))
  (func $callee (param i32) (result i32) local.get 0)
  (func $vector (result v128) v128.const i64x2 0 0)
  (func $judged (param i32 i64) (local f32 f64 v128 i32))))";
constexpr uint32_t kJudged = 2;

// Instructions of which many follow each other rightly by chance: nearly all values are i32.
class Bodies {
 public:
  explicit Bodies(uint32_t seed) : random_(seed) {}
  Bytes next() {
    Bytes body;
    uint32_t open = 0;
    for (uint32_t left = up_to(20); left != 0; --left) add(body, open);
    for (; open != 0; --open) body.push_back(op(Opcode::kEnd));
    body.push_back(op(Opcode::kEnd));
    return body;
  }

 private:
  static uint8_t op(Opcode opcode) { return static_cast<uint8_t>(info(opcode).code); }
  uint32_t up_to(uint32_t most) { return std::uniform_int_distribution<uint32_t>(0, most)(random_); }
  Opcode one_of(std::initializer_list<Opcode> opcodes) {
    return *(opcodes.begin() + up_to(static_cast<uint32_t>(opcodes.size()) - 1));
  }
  void add(Bytes& body, uint32_t& open) {
    const auto put = [&](Opcode opcode, std::initializer_list<uint8_t> immediates) {
      body.push_back(op(opcode));
      body.insert(body.end(), immediates);
    };
    const auto index = [&](uint32_t most) {
      return static_cast<uint8_t>(up_to(40) == 0 ? 0x70 : up_to(most));
    };
    const auto number = [&](Opcode opcode) {
      body.push_back(op(opcode));
      for (uint32_t more = up_to(5); more != 0; --more)
        body.push_back(static_cast<uint8_t>(0x80 | up_to(0x7F)));
      body.push_back(static_cast<uint8_t>(up_to(0x7F)));
    };
    using enum Opcode;
    switch (up_to(19)) {
      case 0:
      case 1:
      case 2: return put(kLocalGet, {static_cast<uint8_t>(up_to(1) == 0 ? 0 : index(6))});
      case 3:
        return put(one_of({kLocalSet, kLocalTee}), {static_cast<uint8_t>(up_to(1) == 0 ? 5 : index(6))});
      case 4: return number(kI32Const);
      case 5: return up_to(3) == 0 ? number(kI64Const) : put(kI32Const, {5});
      case 6: return put(one_of({kI32Add, kI32Sub, kI32LtU, kI64Add, kF32Mul}), {});
      case 7: return put(one_of({kI32Eqz, kI32Clz, kI64ExtendI32S, kI32WrapI64, kF64Neg}), {});
      case 8:
        put(one_of({kI32Load, kI64Load, kI32Load8U, kF64Load}), {static_cast<uint8_t>(up_to(3))});
        return number_at(body);
      case 9:
        put(one_of({kI32Store, kI64Store, kI32Store16}),
            {static_cast<uint8_t>(up_to(20) == 0 ? 9 : up_to(2))});
        return number_at(body);
      case 10: return put(kDrop, {});
      case 11: return put(kSelect, {});
      case 12: return put(one_of({kGlobalGet, kGlobalSet}), {index(3)});
      case 13: return put(kCall, {index(1)});
      case 14: return put(one_of({kBr, kBrIf, kBrIf, kBrIf}), {static_cast<uint8_t>(up_to(open))});
      case 15:
        ++open;
        return put(one_of({kBlock, kLoop, kIf}), {static_cast<uint8_t>(up_to(3) == 0 ? 0x7F : 0x40)});
      case 16:
      case 17:
        if (open == 0) return put(kNop, {});
        --open;
        return put(kEnd, {});
      case 18: return put(up_to(2) == 0 ? kReturn : kNop, {});
      default: return put(open != 0 && up_to(3) == 0 ? kElse : kDrop, {});
    }
  }
  void number_at(Bytes& body) {
    for (uint32_t more = up_to(3); more != 0; --more)
      body.push_back(static_cast<uint8_t>(0x80 | up_to(0x7F)));
    body.push_back(static_cast<uint8_t>(up_to(0x3F)));
  }

  std::mt19937 random_;
};

Bytes above_vector(const Bytes& body) {
  Bytes whole = {0xFD, 0x0C, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x40};
  whole.insert(whole.end(), body.begin(), body.end());
  whole.insert(whole.end(), {0x1A, 0x0B});  // drop end
  return whole;
}

struct Judgement {
  std::string text;  // what is wrong, or what was noted of it
  bool is_valid = false;
};

// What is said of the body. Of its instructions only those count that are between so many first and last ones.
Judgement judge(Module module, const Bytes& body, size_t first, size_t last) {
  ByteRange& code = module.functions.own()[kJudged].code;
  code = {static_cast<uint32_t>(module.bytes.size()), static_cast<uint32_t>(body.size())};
  module.bytes.insert(module.bytes.end(), body.begin(), body.end());
  Judgement result;
  const auto note = [&](uint32_t index, const FunctionInfo& info, const BodyNotes& notes) {
    if (index != kJudged) return;
    std::vector<std::string> seen;
    DecodedReader reader(notes.body, module.view(code));
    while (reader.next()) {
      const Instruction& in = reader.instruction();
      const Immediate immediate = wasm::info(in.op).immediate;
      const bool has_value = immediate == Immediate::kI32 || immediate == Immediate::kI64;
      const uint64_t said = immediate == Immediate::kMem ? in.mem_offset : has_value ? in.value : in.index;
      const bool says = immediate != Immediate::kNone && immediate != Immediate::kBlock;
      seen.push_back(std::string(wasm::info(in.op).text) + " " + (says ? std::to_string(said) : "") + "; ");
    }
    for (size_t i = first; i + last < seen.size(); ++i) result.text += seen[i];
    for (const uint32_t local : notes.uses.used())
      result.text += "local " + std::to_string(local) + " " + std::to_string(notes.uses.weight(local)) + " ";
    for (const LocalUses::Use& use : notes.uses.uses())
      result.text += "use " + std::to_string(use.loop) + " " + std::to_string(use.local) + " ";
    result.text += std::to_string(info.max_stack_values - first / 2) + (info.has_calls ? " calls" : "");
  };
  const auto valid = validate(module, {}, note);
  result.is_valid = valid.has_value();
  if (!valid)
    result.text = std::string(name_of(valid.error().code)) + " " + valid.error().found + " " +
                  valid.error().expected + " at " +
                  std::to_string(valid.error().place.offset - code.offset - (first == 0 ? 0 : 20));
  return result;
}

TEST(ValidateShort, JudgesAsTheOthersDo) {
  const auto module = parse_text(kModule);
  ASSERT_TRUE(module.has_value());
  Bodies bodies(1);
  int valid = 0;
  for (int i = 0; i < 20'000; ++i) {
    const Bytes body = bodies.next();
    const Judgement plain = judge(*module, body, 0, 0), above = judge(*module, above_vector(body), 2, 2);
    ASSERT_EQ(plain.is_valid, above.is_valid) << i << ": " << plain.text << "; " << above.text;
    ASSERT_EQ(plain.text, above.text) << i;
    valid += plain.is_valid;
  }
  EXPECT_GT(valid, 1000);
}

}  // namespace
}  // namespace membrane::wasm
