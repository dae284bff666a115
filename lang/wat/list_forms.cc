// The forms that iterate over lists and make them, and the one that allocates memory, each with its expansion. For
// the reference see docs/wat.md.
#include <algorithm>

#include "lang/wat/code_walker.h"

namespace membrane::lang {

using wasm::TokenKind;
using wasm::ValType;

namespace {

// The function that a form calls, marked as checked.
constexpr std::string_view kFunctions[] = {"$list.items!", "$list.lines!", "$list.split!", "$list.words!"};

std::string_view function_of(std::string_view word) {
  for (const std::string_view function : kFunctions)
    if (function.substr(6, function.size() - 7) == word) return function;
  return {};
}

}  // namespace

// (lines text) → (call $list.lines text), and likewise for each form that is a call of list.*; checked if it can
// fail
void CodeWalker::function_form(Node form) {
  const Node name = form + 1;
  const Callee callee = resolve_id(function_of(tree_.word(name)));
  const std::string function(callee.name);
  if (callee.type == nullptr) {
    report(DiagnosticCode::kUnknownCapability, form,
           "this host has no " + function + ", which (" + std::string(tree_.word(name)) + " …) needs");
    return;
  }
  use(callee);
  check_arguments(callee, name, name + 1, tree_.close(form));
  if (callee.is_checked) return checked_call(form, name, callee);
  writer_.replace(tree_.begin(form), tree_.end(name), "(call $" + function);
  operands(name + 1, tree_.close(form), callee.type->params);
}

// (alloc n) → (i32.add (call $str.zeros n) (i32.const 4))
void CodeWalker::alloc_form(Node form) {
  const Node size = tree_.first(form);
  const Node close = tree_.close(form);
  const Callee callee = resolve_id("$str.zeros");
  const bool is_one = size < close && tree_.next(size) == close && tree_.kind(size) != TokenKind::kString;
  if (!is_one || callee.type == nullptr) {
    Diagnostic& d = report(DiagnosticCode::kBadAlloc, form,
                           callee.type == nullptr ? "this host has no str.zeros, which (alloc …) needs"
                                                  : "(alloc …) takes the number of bytes");
    d.found = size >= close                            ? "nothing"
              : tree_.kind(size) == TokenKind::kString ? "a text"
                                                       : "more than one value";
    d.expected = "(alloc bytes)";
    return;
  }
  use(callee);
  if (!check_one_value(size, "(alloc …)")) return;
  writer_.replace(tree_.begin(form), tree_.end(form + 1), "(i32.add (call $str.zeros");
  operand(size, ValType::kI32);
  writer_.insert(tree_.begin(close), ") (i32.const 4)", tree_.begin(form), tree_.end(form + 1));
}

// (each $item list body…), (each $item $index list body…). A second name is the index if an expression that leaves a
// value follows it, since the body leaves none.
void CodeWalker::each_form(Node form) {
  const Node item = tree_.first(form);
  const Node close = tree_.close(form);
  const Node second = item + 1;
  const auto is_value = [&](Node n) {
    if (n >= close || !(tree_.is_form(n) || is_bare(n))) return false;
    const Values values = values_of(n);
    return values.known && values.count > 0;
  };
  const bool has_item = item < close && tree_.is_id(item);
  const bool has_index = has_item && second < close && tree_.is_id(second) && is_value(second + 1);
  const Node list = has_index ? second + 1 : second;
  const TokenKind kind = list < close ? tree_.kind(list) : TokenKind::kClose;
  const auto leaves_nothing = [&](Node n) {  // a (call …) without a result belongs to the body
    const Values values = values_of(n);
    return values.known && values.count == 0;
  };
  const bool is_list = kind == TokenKind::kId || (list < close && tree_.is_form(list) &&
                                                  !tree_.is_form(list, "string") && !leaves_nothing(list));
  if (!has_item || list >= close || !is_list) {
    Diagnostic& d = report(DiagnosticCode::kBadEach, form,
                           "(each …) takes a variable, and a list to take its values from");
    const Node wrong = has_item ? list : item;
    d.found = wrong < close ? (tree_.is_form(wrong) ? "a form" : std::string(tree_.word(wrong))) : "too few";
    d.expected = "(each $line (lines $text) body…)";
    return;
  }
  const Callee count = resolve_id("$list.count");
  if (count.type == nullptr) {
    report(DiagnosticCode::kUnknownCapability, form, "this host has no list.count, which (each …) needs");
    return;
  }
  if (!check_one_value(list, "the list of (each …)")) return;
  use(count);
  note(wasm::Opcode::kI32Load);
  write_each(form, list, has_index);
}

// (local.set $at list) (drop (call $list.count $at)) (local.set $end …) (local.set $at (i32.add $at 4))
//   (loop $l (if (i32.lt_u $at $end) (then (local.set $item $at) (local.set $at …) body… (br $l))))
// in a (block $l.break …) when it is left. Counting is what finds that a text is not a list.
void CodeWalker::write_each(Node form, Node list, bool has_index) {
  const Node item_node = tree_.first(form);
  const Node close = tree_.close(form);
  const std::string item(tree_.word(item_node));
  const std::string index(has_index ? tree_.word(item_node + 1) : "");
  declare(tree_.word(item_node), ValType::kI32);
  if (has_index) declare(tree_.word(item_node + 1), ValType::kI32);
  const uint32_t number = enter_loop("each");
  const bool has_break = survey_.loops[number].has_break;
  const std::string label = loop_label(number, "each");
  const std::string at = loop_label(number, "each", ".at");
  const std::string end = loop_label(number, "each", ".end");
  if (!writing_) {
    declare(survey_.names.emplace_back(at), ValType::kI32);
    declare(survey_.names.emplace_back(end), ValType::kI32);
  }
  const uint32_t begin = tree_.begin(form);
  const uint32_t blame = tree_.end(item_node);
  const std::string get_at = "(local.get " + at + ")";
  const std::string after =  // the address after the string at $at
      "(i32.add (i32.add " + get_at + " (i32.const 4)) (i32.load " + get_at + "))";

  writer_.replace(begin, tree_.begin(list), "(local.set " + at + " ");
  operand(list, ValType::kI32);
  std::string head = ") (drop (call $list.count " + get_at + ")) (local.set " + end + " " + after +
                     ") (local.set " + at + " (i32.add " + get_at + " (i32.const 4)))";
  if (has_index) head += " " + std::string(setter(index)) + " " + index + " (i32.const -1))";
  if (has_break) head += " (block " + loop_label(number, "each", ".break");
  head += " (loop " + label + " (if (i32.lt_u " + get_at + " (local.get " + end + ")) (then " +
          std::string(setter(item)) + " " + item + " " + get_at + ") (local.set " + at + " " + after + ")";
  if (has_index)
    head += " " + std::string(setter(index)) + " " + index + " (i32.add " + get(index) + " (i32.const 1)))";
  writer_.insert(tree_.end(list), head, begin, blame);
  const size_t labels = has_break ? 3 : 2;
  for (size_t i = 0; i < labels; ++i) push_label({});
  sequence(tree_.next(list), close, {});
  leave_labels(labels);
  loops_.pop_back();
  writer_.insert(tree_.begin(close), " (br " + label + (has_break ? "))))" : ")))"), begin, blame);
}

}  // namespace membrane::lang
