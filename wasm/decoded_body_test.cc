#include "wasm/decoded_body.h"

#include <gtest/gtest.h>

#include <string>

#include "wasm/text/parser.h"
#include "wasm/validate.h"

namespace membrane::wasm {
namespace {

// What the instructions of a body are, but for the alignment of accesses, which DecodedReader does not give.
template <typename Reader>
std::string listed(Reader reader) {
  std::string out;
  while (reader.next()) {
    const Instruction& in = reader.instruction();
    out += std::string(info(in.op).text) + "@" + std::to_string(in.offset) + "+" + std::to_string(in.size);
    switch (info(in.op).immediate) {
      case Immediate::kNone: break;
      case Immediate::kI32:
      case Immediate::kI64:
      case Immediate::kF32:
      case Immediate::kF64: out += " " + std::to_string(in.value); break;
      case Immediate::kMem:
        out += " " + std::to_string(in.index) + "," + std::to_string(in.mem_offset);
        break;
      case Immediate::kBlock:
        out += " " + std::to_string(static_cast<int>(in.block.kind)) + "," +
               std::to_string(static_cast<uint32_t>(in.block.value)) + "," + std::to_string(in.block.index);
        break;
      case Immediate::kLabelTable: {
        LabelReader labels(in);
        for (uint32_t i = 0; i <= in.count; ++i) out += " " + std::to_string(labels.next());
        break;
      }
      case Immediate::kV128: out += " " + std::to_string(in.raw[0]); break;
      default: out += " " + std::to_string(in.index) + "," + std::to_string(in.index2);
    }
    out += "\n";
  }
  return out;
}

struct Listed {
  std::string decoded, read;
  bool is_whole = false;
};

// Of the module's functions, one after the other.
Listed listed_twice(std::string_view text) {
  const auto module = parse_text(text);
  if (!module) return {};
  Listed result;
  const auto list = [&](uint32_t index, const FunctionInfo&, const BodyNotes& notes) {
    const auto code = module->view(module->functions[index].code);
    result.is_whole = notes.body.is_whole();
    result.decoded += result.is_whole ? listed(DecodedReader(notes.body, code)) : "left";
    result.read += listed(BodyReader(code));
  };
  EXPECT_TRUE(validate(*module, text, list));
  return result;
}

TEST(DecodedBody, HasTheInstructionsOfTheBody) {
  const Listed both =
      listed_twice(R"((module (memory 1) (table 1 funcref) (type $t (func (param i32) (result i32)))
    (func $f (param i32) (result i32) (local i64 f64 v128)
      i64.const -5000000000  local.set 1
      f64.const 1.5  local.set 2
      v128.const i32x4 7 0 0 0  local.set 3
      i32.const -1  i32.load offset=70000  drop
      block (result i32)  local.get 0  end  drop
      block
        loop  local.get 0  br_table 0 1 0  end
      end
      local.get 0  local.get 0  if (type $t)  call $f  else  i32.const 300  i32.add  end
      local.get 0  call_indirect (type $t)
      i32.const 0  i32.const 0  i32.const 0  memory.fill)
    (func (result i32) i32.const 1)))");
  EXPECT_EQ(both.decoded, both.read);
  EXPECT_TRUE(both.is_whole);
}

std::string body_of(size_t instructions) {
  std::string text = "(module (func";
  for (size_t i = 1; i < instructions; ++i) text += " nop";  // and `end`
  return text + ")";
}

TEST(DecodedBody, KeepsNoMoreThanItsMost) {
  const Listed most = listed_twice(body_of(DecodedBody::kMostInstructions) + ")");
  EXPECT_TRUE(most.is_whole);
  EXPECT_EQ(most.decoded, most.read);
  const Listed more = listed_twice(body_of(DecodedBody::kMostInstructions + 1) + ")");
  EXPECT_EQ(more.decoded, "left");
  const Listed next = listed_twice(body_of(DecodedBody::kMostInstructions + 1) + " (func nop))");
  EXPECT_TRUE(next.is_whole) << "a long body leaves nothing behind";
  EXPECT_EQ(next.decoded, "leftnop@0+1\nend@1+1\n");
}

}  // namespace
}  // namespace membrane::wasm
