// References: structs, arrays, casts, calls through references.
#include <iterator>

#include "engine/testing/body_generator_testing.h"

namespace membrane::engine::generator {

void BodyGenerator::put(Opcode op, uint32_t index, uint32_t index2) {
  put(op, index);
  write_leb128(out_, index2);
}

void BodyGenerator::null(ValType type) {
  put(Opcode::kRefNull);
  wasm::append_heap_type(out_, type);
}

void BodyGenerator::number(uint32_t value) {
  put(Opcode::kI32Const);
  write_leb128(out_, static_cast<int32_t>(value));
}

void BodyGenerator::open_plain(const Types& params, const Types& results) {
  put(Opcode::kBlock);
  write_leb128(out_, static_cast<int64_t>(types_.index_of(params, results)));
}

void BodyGenerator::new_pair() {
  number(5);
  null(kPair);
  put(Opcode::kStructNew, kPairType);
}

void BodyGenerator::non_null(ValType type) {
  demand({type});
  if (choices_.one_in(24)) return;
  open_plain({type}, {wasm::non_null(type)});
  put(Opcode::kBrOnNonNull, 0);
  if (type == kPair) {
    new_pair();
  } else if (type == kShorts) {
    number(77777);
    number(4);
    put(Opcode::kArrayNew, kShortsType);
  } else {
    null(kPair);
    new_pair();
    put(Opcode::kArrayNewFixed, kPairsType, 2);
  }
  put(Opcode::kEnd);
}

void BodyGenerator::reference_instruction() {
  switch (choices_.below(12)) {
    case 0: return make_object();
    case 1: return make_object();
    case 2: return pair_instruction();
    case 3: return pair_instruction();
    case 4: return shorts_instruction();
    case 5: return pairs_instruction();
    case 6: return any_instruction();
    case 7: return test();
    case 8: return cast();
    case 9: return call_reference();
    case 10:
      demand({kPair, kPair});
      put(Opcode::kRefEq);
      drop_types(1);
      stack_.back() = kI32;
      return;
    default: return branch_on_null();
  }
}

void BodyGenerator::make_object() {
  Types operands;
  ValType made = kPair;
  switch (choices_.below(6)) {
    case 0:
    case 1: operands = {kI32, kPair}; break;
    case 2: operands = {kI32, kPair, kI32, kF64}; break;
    case 3:
      put(Opcode::kStructNewDefault, choices_.below(2) == 0 ? kPairType : kLargeType);
      return push(kPair);
    case 4:
      made = kShorts;
      operands = {kI32};
      break;
    default: made = kPairs; operands = {kPair};
  }
  demand(operands);
  if (made == kPair) {
    put(Opcode::kStructNew, operands.size() == 2 ? kPairType : kLargeType);
  } else {
    number(4 + choices_.below(8));
    put(Opcode::kArrayNew, wasm::type_index_of(made));
  }
  drop_types(operands.size());
  push(made);
}

void BodyGenerator::pair_instruction() {
  non_null(kPair);
  switch (choices_.below(4)) {
    case 0:
      put(Opcode::kStructGet, kPairType, 0);
      stack_.back() = kI32;
      return;
    case 1: return put(Opcode::kStructGet, kPairType, 1);
    case 2:
      leaf(kI32);
      put(Opcode::kStructSet, kPairType, 0);
      break;
    default: leaf(kPair); put(Opcode::kStructSet, kPairType, 1);
  }
  drop_types(2);
}

void BodyGenerator::shorts_instruction() {
  if (choices_.one_in(6)) {
    number(choices_.below(12));
    number(choices_.below(8));
    put(Opcode::kArrayNewData, kShortsType, 0);
    return push(kShorts);
  }
  non_null(kShorts);
  stack_.back() = kI32;
  switch (choices_.below(7)) {
    case 0: return put(Opcode::kArrayLen);
    case 1:
    case 2:
      number(short_index());
      return put(choices_.one_in(2) ? Opcode::kArrayGetS : Opcode::kArrayGetU, kShortsType);
    case 3:
    case 4:
      number(short_index());
      leaf(kI32);
      put(Opcode::kArraySet, kShortsType);
      return drop_types(2);
    case 5:
      number(short_index());
      leaf(kI32);
      number(choices_.below(3));
      put(Opcode::kArrayFill, kShortsType);
      return drop_types(2);
    default:
      number(short_index());
      leaf(kShorts);
      number(short_index());
      number(choices_.below(3));
      put(Opcode::kArrayCopy, kShortsType, kShortsType);
      return drop_types(2);
  }
}

void BodyGenerator::pairs_instruction() {
  non_null(kPairs);
  number(choices_.below(choices_.one_in(8) ? 9 : 2));
  if (choices_.one_in(2)) {
    put(Opcode::kArrayGet, kPairsType);
    stack_.back() = kPair;
    return;
  }
  leaf(kPair);
  put(Opcode::kArraySet, kPairsType);
  drop_types(2);
}

void BodyGenerator::any_instruction() {
  const uint32_t kind = choices_.below(4);
  if (kind == 0) {
    demand({kI32});
    put(Opcode::kRefI31);
  } else if (kind == 1) {
    demand({kPair});
  } else if (kind == 2) {
    demand({kShorts});
  } else {
    demand({kAnyRef});
    put(Opcode::kExternConvertAny);
    put(Opcode::kAnyConvertExtern);
  }
  stack_.back() = kAnyRef;
}

void BodyGenerator::test() {
  static constexpr ValType kTargets[] = {
      kPair, wasm::ref_null_to(kLargeType), kShorts, kI31Ref, kEqRef, kStructRef, kNullRef, kAnyRef};
  demand({kAnyRef});
  put(choices_.one_in(2) ? Opcode::kRefTest : Opcode::kRefTestNull);
  wasm::append_heap_type(out_, kTargets[choices_.below(std::size(kTargets))]);
  stack_.back() = kI32;
}

void BodyGenerator::cast() {
  demand({kAnyRef});
  const bool to_i31 = choices_.one_in(3);
  const ValType target = to_i31 ? wasm::non_null(kI31Ref) : kPair;
  if (choices_.one_in(8)) {
    put(to_i31 ? Opcode::kRefCast : Opcode::kRefCastNull);
    wasm::append_heap_type(out_, target);
  } else {
    open_plain({kAnyRef}, {target});
    put(Opcode::kBrOnCast);
    out_.push_back(to_i31 ? 1 : 3);
    out_.push_back(0);
    wasm::append_heap_type(out_, kAnyRef);
    wasm::append_heap_type(out_, target);
    put(Opcode::kDrop);
    if (to_i31) number(9), put(Opcode::kRefI31);
    else null(kPair);
    put(Opcode::kEnd);
  }
  stack_.back() = kPair;
  if (!to_i31) return;
  put(choices_.one_in(2) ? Opcode::kI31GetS : Opcode::kI31GetU);
  stack_.back() = kI32;
}

void BodyGenerator::call_reference() {
  const uint32_t later = kFunctionCount - self_ - 1;
  if (later == 0) return leaf(kI32);
  const uint32_t callee = self_ + 1 + choices_.below(later);
  const wasm::FuncType& type = functions_[callee];
  demand(type.params);
  if (choices_.one_in(16)) null(wasm::ref_null_to(types_.index_of(type.params, type.results)));
  else put(Opcode::kRefFunc, callee);
  if (choices_.one_in(4)) put(Opcode::kRefAsNonNull);
  put(Opcode::kCallRef, types_.index_of(type.params, type.results));
  drop_types(type.params.size());
  push(type.results);
}

void BodyGenerator::branch_on_null() {
  const uint32_t depth = some_label();
  Types wanted = label(depth).branch;
  wanted.push_back(kPair);
  demand(wanted);
  put(Opcode::kBrOnNull, depth);
}

}  // namespace membrane::engine::generator
