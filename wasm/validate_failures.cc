// The diagnostics of the validator of code.
#include <algorithm>
#include <string>
#include <vector>

#include "base/text.h"
#include "wasm/explain.h"
#include "wasm/validate_code.h"

namespace membrane::wasm {

using enum DiagnosticCode;

bool CodeValidator::fail(const Instruction& in, Diagnostic d) {
  if (function_ != UINT32_MAX) d.function = place_of_function(module_, function_);
  return report_.fail_at(code_offset_ + in.offset, std::move(d));
}

std::string CodeValidator::describe_block(const Frame& at) const {
  if (&at == frames_.data()) {
    if (function_ == UINT32_MAX) return std::string(constant_noun_) + " " + std::to_string(constant_index_);
    return "the function";
  }
  switch (at.op) {
    case Opcode::kLoop: return "the loop";
    case Opcode::kIf: return "the if";
    case Opcode::kElse: return "the else";
    case Opcode::kTryTable: return "the try_table";
    default: return "the block";
  }
}

namespace {

std::string name_of_instruction(const Module& module, uint32_t function, const Instruction& in) {
  std::string name(info(in.op).text);
  switch (info(in.op).immediate) {
    case Immediate::kFunc: return name + " " + label_of_function(module, in.index);
    case Immediate::kLocal: return name + " " + label_of_local(module, function, in.index);
    case Immediate::kGlobal: return name + " " + label_of_global(module, in.index);
    case Immediate::kTag: return name + " " + label_of_tag(module, in.index);
    case Immediate::kLabel:
    case Immediate::kType:
    case Immediate::kTable: return name + " " + std::to_string(in.index);
    default: return name;
  }
}

// How to turn the operand `found` of `taker` into `expected`, given how many operands are above it.
std::string repair_of(ValType found, ValType expected, size_t above, Opcode taker) {
  const std::string instruction(conversion(found, expected));
  if (instruction.empty()) return {};
  const std::string wrapped = "(" + instruction + " …)";
  if (taker == Opcode::kEnd || taker == Opcode::kElse) return "convert the value: " + wrapped + ".";
  if (above != 0) return "convert the operand: " + wrapped + ".";
  return "convert the operand: " + wrapped + ", or " + instruction + " right before " +
         std::string(info(taker).text) + ".";
}

std::string sentence(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

}  // namespace

// Whether two operands of different types are on the stack in the wrong order.
bool CodeValidator::are_swapped(Types expected, Types stack) {
  if (expected.size() != 2 || stack.size() < 2) return false;
  const ValType first = stack[stack.size() - 2], second = stack[stack.size() - 1];
  return fits(first, expected[1]) && fits(second, expected[0]) && !fits(first, expected[0]);
}

// Says what is missing or wrong on the stack for a taker ("i32.add takes", "the block must end
// with") of `expected`. kBottom in `expected` stands for any type.
bool CodeValidator::fail_stack(const Instruction& in, Types expected, DiagnosticCode mismatch,
                               std::string_view taker) {
  const Types stack(floor_, static_cast<size_t>(before_ - floor_));
  const std::string takes = std::string(taker) + " " + list_of(expected) + ", ";
  Diagnostic d{.code = kMissingValue, .expected = list_of(expected)};
  for (size_t above = 0; above < expected.size(); ++above) {
    const ValType wanted = expected[expected.size() - 1 - above];
    if (above == stack.size()) break;
    const ValType actual = stack[stack.size() - 1 - above];
    if (wanted == ValType::kBottom || fits(actual, wanted)) continue;
    d.code = mismatch;
    d.message = takes + "but the stack holds " + list_of(stack, 8) + ": " +
                (expected.size() == 1 ? "the value"
                                      : "operand " + std::to_string(expected.size() - above) + " of " +
                                            std::to_string(expected.size())) +
                " is " + name_of(actual);
    d.found = list_of(stack.last(std::min(stack.size(), expected.size())));
    d.hint = repair_of(actual, wanted, above, in.op);
    if (are_swapped(expected, stack))
      d.hint = "swap the two operands" + (d.hint.empty() ? "." : ", or " + d.hint);
    else if (stack.size() >= expected.size())
      if (const auto other = sibling(in.op, stack.last(expected.size())); !other.empty())
        d.hint = "use " + std::string(other) + " instead" + (d.hint.empty() ? "." : ", or " + d.hint);
    d.hint = sentence(std::move(d.hint));
    if (function_ == UINT32_MAX) d.hint = "Write a constant of type " + name_of(wanted) + ".";
    return fail(in, std::move(d));
  }
  d.message = takes + "but the stack holds " + (stack.empty() ? "nothing" : "only " + list_of(stack, 8));
  d.found = list_of(stack);
  if (in.op == Opcode::kEnd || in.op == Opcode::kElse)
    d.hint = "Leave " + d.expected + " on the stack as the last thing before the end.";
  if (floor_ != base_)
    d.hint = "Push " + count_of(expected.size() - std::min(stack.size(), expected.size()), "more value") +
             " inside this block: what was pushed before a block is out of its reach, so keep it in a local.";
  return fail(in, std::move(d));
}

bool CodeValidator::fail_operands(const Instruction& in, Types expected) {
  return fail_stack(in, expected, kTypeMismatch, name_of_instruction(module_, function_, in) + " takes");
}

bool CodeValidator::fail_operands(const Instruction& in, Types expected, ValType last) {
  std::vector<ValType> all(expected.begin(), expected.end());
  all.push_back(last);
  return fail_operands(in, all);
}

bool CodeValidator::fail_branch(const Instruction& in, const Frame& at, bool has_condition) {
  std::vector<ValType> all(at.label_types().begin(), at.label_types().end());
  if (has_condition) all.push_back(ValType::kI32);
  return fail_stack(in, all, kBranchTypeMismatch,
                    std::string(info(in.op).text) + " to " + describe_block(at) + " takes");
}

bool CodeValidator::fail_results(const Instruction& in, const Frame& at) {
  const Types stack(floor_, static_cast<size_t>(before_ - floor_));
  // Leftover values are reported as leftover when what is on top of them is right or nothing is wanted.
  top_ = before_;
  if (!holds(at.results))
    return fail_stack(in, at.results, kResultTypeMismatch, describe_block(at) + " must end with");
  const size_t extra = stack.size() - at.results.size();
  return fail(
      in,
      {.code = kLeftoverValues,
       .message = count_of(extra, "value") + " left over on the stack at the end of " + describe_block(at),
       .found = list_of(stack),
       .expected = list_of(at.results),
       .hint = "Add `drop` " + std::string(extra == 1 ? "once" : std::to_string(extra) + " times") +
               " where the value is not needed" +
               (at.results.empty() ? ", or declare (result " + name_of(stack.back()) + ")." : ".")});
}

bool CodeValidator::fail_unknown(const Instruction& in, DiagnosticCode code, std::string_view noun,
                                 uint32_t index, size_t count) {
  return fail(in, {.code = code,
                   .message = "there is no " + std::string(noun) + " " + std::to_string(index) + ": " +
                              (count == 0 ? "there are none"
                                          : "there " + std::string(count == 1 ? "is " : "are ") +
                                                std::to_string(count)),
                   .found = std::to_string(index),
                   .expected = count == 0   ? ""
                               : count == 1 ? "0"
                                            : "0 to " + std::to_string(count - 1)});
}

}  // namespace membrane::wasm
