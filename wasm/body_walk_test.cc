#include "wasm/body_walk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "wasm/text/parser.h"
#include "wasm/validate.h"

namespace membrane::wasm {
namespace {

// Notes what the walk says. It knows the instructions that the tests below use, all of whose values fill one slot.
struct Notes {
  struct Label : BlockLabel {};

  explicit Notes(const Module& m, uint32_t most = UINT32_MAX) : module(m), left(most) {}

  void before(const Instruction&) {}
  bool after(const Instruction&) { return --left != 0; }
  void prepare(const Instruction&) {}
  void instruction(const Instruction& in) {
    seen += std::string(info(in.op).text) + " ";
    switch (in.op) {
      case Opcode::kLocalGet:
      case Opcode::kI32Const: ++values; break;
      case Opcode::kLocalSet:
      case Opcode::kDrop:
      case Opcode::kBrTable:
      case Opcode::kI32Add:
      case Opcode::kI32Sub: --values; break;
      case Opcode::kBr: to = walk.target(in.index).slot_height; break;
      case Opcode::kBrIf:
        --values;
        to = walk.target(in.index).slot_height;
        break;
      case Opcode::kCall: {
        const FuncType& type = module.type_of_function(in.index);
        values += type.results.size() - type.params.size();
        break;
      }
      case Opcode::kMemoryFill: values -= 3; break;
      default: break;
    }
    if (in.op != Opcode::kBrTable) return;
    LabelReader depths(in);
    for (uint32_t i = 0; i <= in.count; ++i) static_cast<void>(walk.target(depths.next()));
  }
  void begin_cost() { ++costs; }
  void end_segment(uint32_t cost) { segments += std::to_string(cost) + " "; }
  void begin_segment(uint32_t offset) { segments += "@" + std::to_string(offset) + ":"; }
  void prepare_own(const Instruction&) { segments += "own "; }
  void enter_segment() {}
  [[nodiscard]] size_t height() const { return values; }
  [[nodiscard]] uint32_t slot_at(size_t i) const { return static_cast<uint32_t>(i) + 10; }
  void settle() {}
  void cut(size_t height) { values = height; }
  void push_types(std::span<const ValType> types) { values += types.size(); }
  void begin_loop(Label& label) { seen += "loop" + std::to_string(label.loop) + " "; }
  int test() { return static_cast<int>(--values); }
  void begin_then(Label& label, int) { seen += "if+" + std::to_string(label.height) + " "; }
  void end_arm(Label&) { seen += "end-arm "; }
  void begin_else(Label&) { seen += "else "; }
  void join(Label& label, bool falls_in) {
    seen += (falls_in ? "join@" : "join-unreached@") + std::to_string(label.slot_height) + " ";
  }
  void finish() { seen += "finish "; }
  void add_clause(const CatchClause& clause, Label&) {
    seen += "clause" + std::to_string(clause.label) + " ";
  }
  void add_region(uint32_t outer, uint32_t first, uint32_t count) {
    seen += "region(" + (outer == kNoRegion ? "-" : std::to_string(outer)) + "," + std::to_string(first) +
            "," + std::to_string(count) + ") ";
  }
  void begin_region(uint32_t region) {
    seen += "in" + (region == kNoRegion ? "-" : std::to_string(region)) + " ";
  }

  const Module& module;
  uint32_t left;
  std::vector<Label> labels;
  BodyWalk<Notes, Label> walk{*this, labels};
  std::string seen, segments;
  size_t values = 0;
  uint32_t to = 0;
  int costs = 0;
};

struct Walked {
  std::string seen, segments;
  bool ended = false;
  uint32_t to = 0;
  int costs = 0;
};

// Of the module's first function.
Walked walked(std::string_view text, uint32_t entry_cost = 0, uint32_t most = UINT32_MAX) {
  const auto module = parse_text(text);
  if (!module || !validate(*module, text)) {
    ADD_FAILURE() << "the module is wrong: " << text;
    return {};
  }
  Notes notes(*module, most);
  const auto function = std::ranges::find(module->functions, kNotImported, &Function::import);
  const bool ended = notes.walk.run(*module, *function, 10, entry_cost);
  return {notes.seen, notes.segments, ended, notes.to, notes.costs};
}

// The example of docs/fuel.md.
TEST(BodyWalk, ALoopIsASegment) {
  const Walked w = walked(R"((module (func (param $n i32) (result i32) (local $sum i32)
    loop $again
      local.get $sum  local.get $n  i32.add  local.set $sum
      local.get $n  i32.const 1  i32.sub  local.tee $n  br_if $again
    end
    local.get $sum)))");
  EXPECT_EQ(w.segments, "@0:0 @2:9 @18:1 ");
  EXPECT_EQ(w.costs, 2) << "a segment without a cost is not charged";
  EXPECT_EQ(w.seen,
            "loop0 local.get local.get i32.add local.set local.get i32.const i32.sub local.tee br_if "
            "local.get finish ");
}

TEST(BodyWalk, EnteringAFunctionCostsInItsFirstSegment) {
  EXPECT_EQ(walked("(module (func))", 7).segments, "@0:7 ");
}

TEST(BodyWalk, AnIfHasASegmentForEachArmAndOneAfterIt) {
  const Walked w = walked(R"((module (func (param i32)
    local.get 0  if  nop  else  i32.const 1  drop  end)))");
  EXPECT_EQ(w.segments, "@0:2 @4:0 @6:2 @10:0 ");
  EXPECT_EQ(w.seen, "local.get if+0 nop end-arm else i32.const drop join@10 finish ");
}

TEST(BodyWalk, AnIfWithoutElseJoins) {
  const Walked w = walked("(module (func (param i32) local.get 0  if  return  end))");
  EXPECT_EQ(w.segments, "@0:2 @4:1 @6:0 ");
  EXPECT_EQ(w.seen, "local.get if+0 return join-unreached@10 finish ");
}

TEST(BodyWalk, ABlockJoinsIfABranchLeadsToItsEnd) {
  EXPECT_EQ(walked("(module (func block nop end))").segments, "@0:0 ");
  const Walked branched = walked("(module (func (param i32) block local.get 0 br_if 0 end))");
  EXPECT_EQ(branched.segments, "@0:2 @6:0 @7:0 ");
  EXPECT_EQ(branched.seen, "local.get br_if join@10 finish ");
}

TEST(BodyWalk, ABranchThatIsNotReachedJoinsNothing) {
  const Walked w = walked("(module (func block return br 0 end i32.const 1 drop))");
  EXPECT_EQ(w.segments, "@0:1 ");
  EXPECT_EQ(w.seen, "return ");
}

TEST(BodyWalk, ATableOfBranchesJoinsEachOfItsLabels) {
  const Walked w = walked("(module (func (param i32) block block local.get 0 br_table 0 1 end nop end))");
  EXPECT_EQ(w.seen, "local.get br_table join-unreached@10 nop join@10 finish ");
}

TEST(BodyWalk, BlocksThatAreNotReachedAreCountedButNotSeen) {
  const Walked w = walked(R"((module (func
    block  br 0  loop  i32.const 0  if (result i32) i32.const 1 else i32.const 2 end drop end  end
    loop  end)))");
  EXPECT_EQ(w.seen, "br join-unreached@10 loop1 finish ");
}

TEST(BodyWalk, ABulkInstructionHasASegmentOfItsOwn) {
  const Walked w = walked(R"((module (memory 1) (func
    i32.const 0 i32.const 0 i32.const 0 memory.fill nop)))");
  EXPECT_EQ(w.segments, "@0:own 3 @6:1 @9:0 ");
}

TEST(BodyWalk, AThrowSharesTheSegmentThatBeginsWithIt) {
  const Walked shared = walked("(module (tag $t) (func loop throw $t end))");
  EXPECT_EQ(shared.segments, "@0:0 @2:own 1 ");
  const Walked own = walked("(module (tag $t) (func loop nop throw $t end))");
  EXPECT_EQ(own.segments, "@0:0 @2:own 0 @3:1 ");
}

TEST(BodyWalk, RegionsNestAndEndWithTheirTryTable) {
  const Walked w = walked(R"((module (tag $t) (func
    block $b
      try_table (catch_all $b)
        try_table (catch $t $b) (catch_all $b) end
        try_table end
      end
    end)))");
  EXPECT_EQ(w.seen, "clause0 region(-,0,1) in0 clause1 clause1 region(0,1,2) in1 in0 in- join@10 finish ");
}

TEST(BodyWalk, ALabelKnowsWhereItsValuesBegin) {
  const Walked w = walked(R"((module (func (param i32)
    i32.const 1  block (result i32)  i32.const 2  i32.const 3  local.get 0  br_if 0  drop  end  drop  drop)))");
  EXPECT_EQ(w.to, 11u);
}

TEST(BodyWalk, TheVisitorCanEndIt) {
  EXPECT_TRUE(walked("(module (func nop nop nop))", 0, 5).ended);
  const Walked w = walked("(module (func nop nop nop))", 0, 2);
  EXPECT_FALSE(w.ended);
  EXPECT_EQ(w.seen, "nop nop ");
}

// Adding an instruction includes deciding what it does to control.
TEST(BodyWalk, TheFlowColumnSaysWhatIsControl) {
  for (size_t i = 0; i < kOpcodeCount; ++i) {
    const OpcodeInfo& row = info(static_cast<Opcode>(i));
    const bool has_label = row.immediate == Immediate::kLabel || row.immediate == Immediate::kLabelTable ||
                           row.immediate == Immediate::kLabelCast;
    if (has_label) {
      EXPECT_TRUE(row.flow == Flow::kForks || row.flow == Flow::kLeaves) << row.text;
    }
    const bool opens = row.immediate == Immediate::kBlock || row.immediate == Immediate::kTryTable;
    EXPECT_EQ(opens, row.flow == Flow::kOpens || row.flow == Flow::kLoops || row.flow == Flow::kTests)
        << row.text;
    if (row.text.find("call") != std::string_view::npos) {
      EXPECT_EQ(row.flow, row.text.starts_with("return") ? Flow::kLeaves : Flow::kForks) << row.text;
    }
    if (row.signature != "*" && row.flow != Flow::kBulk) {
      EXPECT_EQ(row.flow, Flow::kStraight) << row.text;
    }
  }
}

}  // namespace
}  // namespace membrane::wasm
