#include "wasm/binary.h"

#include <gtest/gtest.h>

#include "wasm/assemble_testing.h"

namespace membrane::wasm {
namespace {

using namespace testing;
using enum ValType;
using enum DiagnosticCode;

// A binary that is refused, why, and where.
struct Refused {
  std::string_view what;
  Bytes bytes;
  DiagnosticCode code;
  uint32_t offset;
};

const Bytes kVoidType = section(1, vec({func_type({}, {})}));
const Bytes kMagic = {0x00, 'a', 's', 'm', 1, 0, 0, 0};

Bytes after_magic(const Bytes& rest) { return cat({kMagic, rest}); }

std::vector<Refused> refused() {
  return {
      {"nothing", {}, kUnexpectedEnd, 0},
      {"half a header", {0, 'a', 's', 'm', 1}, kUnexpectedEnd, 5},
      {"text", {'(', 'm', 'o', 'd', 'u', 'l', 'e', ')'}, kBadMagic, 0},
      {"a component", {0, 'a', 's', 'm', 0x0D, 0, 1, 0}, kBadVersion, 4},
      {"section id 14", after_magic({14, 0}), kMalformedSectionId, 8},
      {"a section longer than the file", after_magic({1, 9, 0}), kLengthOutOfBounds, 9},
      {"bytes left in a section", after_magic({1, 2, 0, 0}), kSectionSizeMismatch, 11},
      {"a section twice", after_magic(cat({kVoidType, kVoidType})), kSectionOutOfOrder, 14},
      {"data count after code", binary({section(10, vec({})), section(12, u32(0))}), kSectionOutOfOrder, 11},
      {"a count of 2^32-1", after_magic({1, 5, 0xFF, 0xFF, 0xFF, 0xFF, 0x0F}), kLengthOutOfBounds, 10},
      {"an integer of 6 bytes", after_magic({3, 7, 1, 0x82, 0x80, 0x80, 0x80, 0x80, 0}), kMalformedInteger,
       11},
      {"an integer of 33 bits", after_magic({3, 6, 1, 0x82, 0x80, 0x80, 0x80, 0x70}), kMalformedInteger, 11},
      {"a size of 65 bits",
       after_magic({5, 12, 1, 4, 0x82, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7E}),
       kMalformedInteger, 12},
      {"a size cut off", after_magic({1, 0x80}), kUnexpectedEnd, 9},
      {"a type that is no function", after_magic({1, 4, 1, 0x5D, 0, 0}), kMalformedType, 11},
      {"a value type of nothing", after_magic({1, 5, 1, 0x60, 1, 0x68, 0}), kMalformedType, 13},
      {"limits with flags 2", after_magic({5, 3, 1, 2, 0}), kMalformedType, 11},
      {"a table of i32", after_magic({4, 4, 1, 0x7F, 0, 0}), kMalformedType, 11},
      {"mutability 2", after_magic({6, 6, 1, 0x7F, 2, 0x41, 0, 0x0B}), kMalformedType, 12},
      {"import of kind 5", binary({section(2, vec({{0, 0, 5, 0}}))}), kMalformedKind, 13},
      {"export of kind 5", binary({section(7, vec({{0, 5, 0}}))}), kMalformedKind, 12},
      {"element flags 8", binary({section(9, vec({{8, 0, 0}}))}), kMalformedKind, 11},
      {"element kind 1", binary({section(9, vec({{1, 1, 0}}))}), kMalformedKind, 12},
      {"data flags 3", binary({section(11, vec({{3, 0}}))}), kMalformedKind, 11},
      {"a name cut within a character", binary({section(7, vec({{1, 0xC3, 0, 0}}))}), kMalformedUtf8, 12},
      {"a custom section with a bad name", after_magic({0, 2, 1, 0xFF}), kMalformedUtf8, 11},
      {"a custom section without a name", after_magic({0, 0}), kUnexpectedEnd, 10},
      {"functions without code", binary({kVoidType, section(3, vec({{0}}))}), kFunctionCodeMismatch, 18},
      {"code without functions", binary({section(10, vec({body("end")}))}), kFunctionCodeMismatch, 10},
      {"data count 2, one segment", binary({section(12, u32(2)), section(11, vec({{1, 0}}))}),
       kDataCountMismatch, 13},
      {"data count 1, no section", binary({section(12, u32(1))}), kDataCountMismatch, 10},
      {"2^32 locals",
       binary({kVoidType, section(3, vec({{0}})),
               section(10, vec({body("end", {{UINT32_MAX, kI32}, {1, kI64}})}))}),
       kTooManyLocals, 22},
      {"an initial value without end", binary({section(6, vec({{0x7F, 0, 0x41, 0}}))}), kMissingEnd, 15},
      {"an initial value with an illegal opcode", binary({section(6, vec({{0x7F, 0, 0xFF, 0x0B}}))}),
       kIllegalOpcode, 13},
  };
}

TEST(Decode, RefusesMalformedBinariesWithCodeAndPlace) {
  for (const Refused& r : refused()) {
    const auto module = decode(std::span<const uint8_t>(r.bytes));
    ASSERT_FALSE(module) << r.what;
    EXPECT_EQ(name_of(module.error().code), name_of(r.code)) << r.what;
    EXPECT_EQ(module.error().place.offset, r.offset) << r.what;
    EXPECT_FALSE(module.error().place.in_text()) << r.what;
    EXPECT_FALSE(module.error().message.empty()) << r.what;
    EXPECT_FALSE(hint_of(module.error()).empty()) << r.what;
    EXPECT_TRUE(is_malformed(module.error().code)) << r.what;
  }
}

TEST(Decode, SaysWhatWasFoundAndWhatWouldDo) {
  const Bytes bytes = after_magic({4, 4, 1, 0x7F, 0, 0});
  EXPECT_EQ(
      render(decode(std::span(bytes)).error(), "", "x.wasm"),
      "x.wasm: offset 11: error[malformed-type]: this is no reference type\n"
      "  expected: 0x74 to 0x69, 0x64 or 0x63\n"
      "  found: 0x7f\n"
      "  hint: Types are i32 7F, i64 7E, f32 7D, f64 7C, v128 7B, funcref 70, externref 6F, exnref 69.\n");
}

// A module that has something in every section.
Bytes rich() {
  return binary({
      custom("first", {1, 2, 3}),
      section(1, vec({func_type({kI32, kI32}, {kI32}), func_type({}, {})})),
      section(2,
              vec({cat({name("env"), name("print"), {0, 1}}), cat({name("env"), name("base"), {3, 0x7F, 0}}),
                   cat({name("env"), name("error"), {4, 0, 1}})})),
      section(3, vec({{0}, {1}})),
      section(4, vec({{0x70, 1, 1, 9}, {0x6F, 0, 2}})),
      section(5, vec({{1, 1, 4}})),
      section(13, vec({{0, 1}})),
      section(6, vec({cat({{0x7E, 1}, code("i64.const -5; end")})})),
      section(
          7, vec({cat({name("add"), {0, 1}}), cat({name("memory"), {2, 0}}), cat({name("thrown"), {4, 1}})})),
      section(8, u32(2)),
      section(9, vec({cat({{0}, code("global.get 0; end"), vec({{1}, {2}})})})),
      section(12, u32(2)),
      section(10, vec({body("local.get 0; local.get 1; i32.add; end", {{2, kI32}, {1, kV128}}),
                       body("data.drop 1; end")})),
      custom("between", {9}),
      section(11, vec({cat({{0}, code("i32.const 8; end"), sized({'h', 'i'})}), cat({{1}, sized({'x'})})})),
      custom("last", {}),
  });
}

TEST(Decode, FillsTheModule) {
  const Bytes bytes = rich();
  const auto module = decode(std::span(bytes));
  ASSERT_TRUE(module) << module.error().message;
  EXPECT_EQ(module->types[0], (FuncType{{kI32, kI32}, {kI32}}));
  EXPECT_EQ(module->imports[1].name, "base");
  EXPECT_EQ(module->imports[1].kind, ExternKind::kGlobal);
  ASSERT_EQ(module->functions.size(), 3u);
  EXPECT_EQ(module->functions[0].import, 0u);
  EXPECT_EQ(module->functions[1].import, kNotImported);
  EXPECT_EQ(module->functions[1].local_run_count, 2u);
  EXPECT_EQ(module->local_runs[module->functions[1].first_local_run].count, 2u);
  const auto body_bytes = module->view(module->functions[1].code);
  EXPECT_EQ(Bytes(body_bytes.begin(), body_bytes.end()), code("local.get 0; local.get 1; i32.add; end"));
  EXPECT_EQ(module->tables[0].type.limits, (Limits{1, 9}));
  EXPECT_EQ(module->tables[1].type.element, kExternRef);
  EXPECT_EQ(module->memories[0].type.limits, (Limits{1, 4}));
  EXPECT_EQ(module->globals[1].type, (GlobalType{kI64, true}));
  EXPECT_EQ(module->find_export("memory")->kind, ExternKind::kMemory);
  ASSERT_EQ(module->tags.size(), 2u);
  EXPECT_EQ(module->tags[0].import, 2u);
  EXPECT_EQ(module->tags[1].type, 1u);
  EXPECT_EQ(module->find_export("thrown")->kind, ExternKind::kTag);
  EXPECT_EQ(module->start, 2u);
  EXPECT_EQ(module->elements[0].functions, (std::vector<uint32_t>{1, 2}));
  EXPECT_TRUE(module->has_data_count);
  EXPECT_EQ(module->datas[0].mode, SegmentMode::kActive);
  EXPECT_EQ(module->view(module->datas[0].data)[1], 'i');
  EXPECT_EQ(module->datas[1].mode, SegmentMode::kPassive);
  ASSERT_EQ(module->customs.size(), 3u);
  EXPECT_EQ(module->customs[0].after_section, 0);
  EXPECT_EQ(module->customs[1].name, "between");
  EXPECT_EQ(module->customs[1].after_section, 10);
  EXPECT_EQ(module->customs[2].after_section, 11);
}

TEST(Decode, EveryPrefixOfABinaryIsRefusedOrWhole) {
  const Bytes bytes = rich();
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto module = decode(std::span(bytes).first(size));
    if (!module) continue;
    EXPECT_LE(encode(*module).size(), size);  // cut at a section's end, and nothing was owed
  }
}

TEST(Decode, TakesABinaryThatIsGivenAway) {
  const auto module = decode(rich());
  ASSERT_TRUE(module);
  EXPECT_EQ(module->bytes, rich());
}

// -- encode

Bytes recoded(const Bytes& bytes) {
  const auto module = decode(std::span(bytes));
  EXPECT_TRUE(module) << module.error().message;
  return module ? encode(*module) : Bytes{};
}

TEST(Encode, GivesCanonicalBinariesBackUnchanged) {
  EXPECT_EQ(recoded(rich()), rich());
  EXPECT_EQ(recoded(kMagic), kMagic);
}

TEST(Encode, ShortensIntegersAndLeavesOutEmptySections) {
  // Type section with padded size and count, an empty import section, a padded i32.const.
  const Bytes loose = after_magic({1, 0x85, 0,  0x81, 0, 0x60, 0,    0,    2,    1, 0,    3,    2,   1,
                                   0, 10,   10, 1,    8, 0,    0x41, 0x80, 0x80, 0, 0x1A, 0x01, 0x0B});
  EXPECT_EQ(recoded(loose), binary({kVoidType, section(3, vec({{0}})),
                                    section(10, vec({body("i32.const 0; drop; nop; end")}))}));
}

TEST(Encode, MergesRunsOfLocals) {
  const auto with = [](const std::vector<std::pair<uint32_t, ValType>>& runs) {
    return binary({kVoidType, section(3, vec({{0}})), section(10, vec({body("end", runs)}))});
  };
  EXPECT_EQ(recoded(with({{1, kI32}, {0, kF32}, {2, kI32}, {1, kI64}})), with({{3, kI32}, {1, kI64}}));
}

TEST(Encode, WritesADataCountOnlyWhereCodeNeedsOne) {
  const Bytes data = section(11, vec({{1, 0}}));
  EXPECT_EQ(recoded(binary({section(12, u32(1)), data})), binary({data}));
}

TEST(Encode, ChoosesTheLeastElementFlags) {
  const Bytes head =
      cat({kVoidType, section(3, vec({{0}})), section(4, vec({{0x70, 0, 1}, {0x70, 0, 1}, {0x6F, 0, 1}}))});
  const Bytes tail = section(10, vec({body("end")}));
  const Bytes offset = code("i32.const 0; end"), function = code("ref.func 0; end"),
              null = code("ref.null externref; end");
  const auto with = [&](const Bytes& segment) { return binary({head, section(9, vec({segment})), tail}); };
  const std::vector<Bytes> canonical = {
      cat({{0}, offset, vec({{0}})}),
      cat({{1, 0}, vec({{0}})}),
      cat({{2, 1}, offset, {0}, vec({{0}})}),
      cat({{3, 0}, vec({{0}})}),
      cat({{4}, offset, vec({function})}),
      cat({{5, 0x70}, vec({function})}),
      cat({{5, 0x6F}, vec({null})}),
      cat({{6, 1}, offset, {0x70}, vec({function})}),
      cat({{6, 2}, offset, {0x6F}, vec({null})}),
      cat({{7, 0x70}, vec({function})}),
  };
  for (const Bytes& segment : canonical) EXPECT_EQ(recoded(with(segment)), with(segment)) << int{segment[0]};
  EXPECT_EQ(recoded(with(cat({{2, 0}, offset, {0}, vec({{0}})}))), with(canonical[0]));
  EXPECT_EQ(recoded(with(cat({{6, 0}, offset, {0x70}, vec({function})}))), with(canonical[4]));
}

TEST(Encode, KeepsABodyThatCannotBeDecoded) {
  const Bytes bytes =
      binary({kVoidType, section(3, vec({{0}})), section(10, vec({sized({0, 0x01, 0xFF, 0x0B})}))});
  EXPECT_EQ(recoded(bytes), bytes);
}

TEST(Encode, EveryInstructionComesBack) {
  for (size_t i = 0; i < kOpcodeCount; ++i) {
    const OpcodeInfo& row = info(static_cast<Opcode>(i));
    Bytes instruction =
        row.prefix == 0 ? Bytes{static_cast<uint8_t>(row.code)} : cat({{row.prefix}, u32(row.code)});
    switch (row.immediate) {
      case Immediate::kNone: break;
      case Immediate::kBlock: instruction.push_back(0x7F); break;
      case Immediate::kTryTable:
        instruction = cat({instruction, {0x7F, 4, 0, 7, 1, 1, 8, 2, 2, 3, 3, 4}});  // a clause of each kind
        break;
      case Immediate::kRefType: instruction.push_back(0x70); break;
      case Immediate::kLabelTable: instruction = cat({instruction, {2, 1, 0, 3}}); break;
      case Immediate::kSelectTypes: instruction = cat({instruction, {1, 0x7B}}); break;
      case Immediate::kMemLane: instruction = cat({instruction, {0, 0x80, 0x01, 1}}); break;
      case Immediate::kMem: instruction = cat({instruction, {0x42, 3, 5}}); break;  // memory 3
      case Immediate::kCallIndirect:
      case Immediate::kTableInit:
      case Immediate::kTableCopy: instruction = cat({instruction, {1, 5}}); break;
      case Immediate::kMemoryCopy: instruction = cat({instruction, {1, 2}}); break;
      case Immediate::kMemoryInit: instruction = cat({instruction, {7, 1}}); break;
      case Immediate::kF32: instruction = cat({instruction, {1, 2, 3, 0xFF}}); break;
      case Immediate::kF64: instruction = cat({instruction, {1, 2, 3, 4, 5, 6, 7, 0xFF}}); break;
      case Immediate::kV128:
      case Immediate::kShuffle:
        for (uint8_t lane = 0; lane < 16; ++lane) instruction.push_back(lane);
        break;
      case Immediate::kI32:
      case Immediate::kI64: instruction.push_back(0x7D); break;  // -3
      default: instruction.push_back(9); break;
    }
    const Bytes head = binary({kVoidType, section(3, vec({{0}}))});
    const Bytes tail = section(10, vec({sized(cat({{0}, instruction, {0x0B}}))}));
    const bool needs_count = row.text == "memory.init" || row.text == "data.drop" ||
                             row.text == "array.new_data" || row.text == "array.init_data";
    EXPECT_EQ(recoded(cat({head, tail})), cat({head, needs_count ? section(12, u32(0)) : Bytes{}, tail}))
        << row.text;
  }
}

// -- names

Bytes names_section() {
  return custom("name",
                cat({{0},
                     sized(name("m")),
                     {1},
                     sized(vec({cat({u32(0), name("print")}), cat({u32(1), name("add")})})),
                     {2},
                     sized(vec({cat({u32(1), vec({cat({u32(0), name("a")}), cat({u32(1), name("b")})})})})),
                     {9},
                     sized(vec({cat({u32(1), name("text")})})),
                     {11},
                     sized(vec({cat({u32(0), name("error")})}))}));
}

TEST(Names, AreReadAndWritten) {
  const Bytes bytes = binary({section(11, vec({{1, 0}, {1, 0}})), custom("producers", {0}), names_section()});
  const auto module = decode(std::span(bytes));
  ASSERT_TRUE(module);
  EXPECT_EQ(module->names.module, "m");
  EXPECT_EQ(module->names.function(1), "add");
  EXPECT_EQ(module->names.local(1, 1), "b");
  EXPECT_EQ(module->names.local(0, 1), "");
  EXPECT_EQ(module->names.datas[0].name, "text");
  EXPECT_EQ(module->names.tags[0].name, "error");
  ASSERT_EQ(module->customs.size(), 1u);
  EXPECT_EQ(encode(*module), bytes);
}

TEST(Names, StandLastWhereverTheyStood) {
  // The empty section goes away, and "producers" then follows another one: its place must not
  // depend on that of the names.
  const Bytes bytes = binary({kVoidType, section(11, vec({})), names_section(), custom("producers", {0})});
  const Bytes canonical = binary({kVoidType, custom("producers", {0}), names_section()});
  EXPECT_EQ(recoded(bytes), canonical);
  EXPECT_EQ(recoded(canonical), canonical);
}

TEST(Names, MalformedOnesAreDroppedAndTheModuleStands) {
  const std::vector<std::pair<std::string_view, Bytes>> bad = {
      {"a subsection longer than the section", {1, 9, 0}},
      {"a name that is no UTF-8", cat({{1}, sized(vec({{0, 1, 0xFF}}))})},
      {"indices that descend", cat({{1}, sized(vec({cat({u32(1), name("a")}), cat({u32(0), name("b")})}))})},
      {"an index twice", cat({{1}, sized(vec({cat({u32(1), name("a")}), cat({u32(1), name("b")})}))})},
      {"subsections out of order", cat({{1}, sized(vec({})), {0}, sized(name("m"))})},
      {"bytes left in a subsection", cat({{0}, sized(cat({name("m"), {0}}))})},
      {"a count that is too large", {1, 2, 0xFF, 0x01}},
  };
  for (const auto& [what, contents] : bad) {
    const Bytes bytes = binary({custom("name", contents)});
    const auto module = decode(std::span(bytes));
    ASSERT_TRUE(module) << what;
    EXPECT_TRUE(module->names.functions.empty() && module->names.module.empty()) << what;
    EXPECT_TRUE(module->customs.empty()) << what;
  }
}

TEST(Names, UnknownSubsectionsArePassedOver) {
  const Bytes bytes =
      binary({custom("name", cat({{1}, sized(vec({cat({u32(0), name("f")})})), {12}, sized({1, 2, 3})}))});
  EXPECT_EQ(decode(std::span(bytes))->names.function(0), "f");
}

}  // namespace
}  // namespace membrane::wasm
