// The forms of the preprocessor, each with its expansion. For the reference see docs/wat.md.
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"
#include "lang/wat/code_walker.h"

namespace membrane::lang {

using wasm::TokenKind;
using wasm::ValType;

CodeWalker::Form CodeWalker::find_form(std::string_view word) {
  static constexpr struct {
    std::string_view word;
    Form form;
  } kForms[] = {
      {"alloc", &CodeWalker::alloc_form},       {"break", &CodeWalker::break_form},
      {"char", &CodeWalker::char_form},         {"concat", &CodeWalker::concat_form},
      {"continue", &CodeWalker::continue_form}, {"dec", &CodeWalker::dec_form},
      {"each", &CodeWalker::each_form},         {"for", &CodeWalker::for_form},
      {"inc", &CodeWalker::inc_form},           {"items", &CodeWalker::function_form},
      {"lines", &CodeWalker::function_form},    {"set", &CodeWalker::set_form},
      {"split", &CodeWalker::function_form},    {"string", &CodeWalker::string_form},
      {"while", &CodeWalker::while_form},       {"words", &CodeWalker::function_form},
  };
  for (const auto& entry : kForms)
    if (entry.word == word) return entry.form;
  return nullptr;
}

CodeWalker::Values CodeWalker::values_of_form(std::string_view word, Node) const {
  if (word == "break" || word == "continue") return {};  // control does not continue here
  static constexpr std::string_view kStatements[] = {"dec", "each", "for", "inc", "set", "while"};
  if (std::ranges::find(kStatements, word) != std::end(kStatements)) return {true, 0};
  return {true, 1, ValType::kI32};
}

// Whether the expression leaves exactly one value, as `taker` needs; reports it if not.
bool CodeWalker::check_one_value(Node n, std::string_view taker) {
  const Values values = values_of(n);
  if (!values.known || values.count == 1) return true;
  Diagnostic& d = report(DiagnosticCode::kNotOneValue, n,
                         std::string(taker) + " takes one value, and this leaves " +
                             (values.count == 0 ? "none" : std::to_string(values.count)));
  d.found = count_of(values.count, "value");
  d.expected = "one value";
  d.hint = errno_hint(n);
  return false;
}

// -- literals

// The bytes of the literals in [n, close). False when there is anything else, or nothing.
bool CodeWalker::unquote_into(std::string& out, Node n, Node close) const {
  if (n >= close) return false;
  for (; n < close; n = tree_.next(n)) {
    if (tree_.kind(n) != TokenKind::kString) return false;
    wasm::append_unquoted(out, tree_.word(n));
  }
  return true;
}

// (string "…" …) → (i32.const address)
void CodeWalker::string_form(Node form) {
  std::string bytes;
  if (!unquote_into(bytes, tree_.first(form), tree_.close(form))) {
    Diagnostic& d = report(DiagnosticCode::kBadStringForm, form, "(string …) takes literal text");
    const Node inner = tree_.first(form);
    d.found = inner < tree_.close(form) ? (tree_.is_form(inner) ? "(" + std::string(tree_.head(inner)) + " …)"
                                                                : std::string(tree_.word(inner)))
                                        : "nothing";
    d.expected = "one or more literals in quotes";
    if (inner < tree_.close(form) && tree_.is_id(inner))
      d.hint = "A variable that holds a string's address needs no (string …): write " +
               std::string(tree_.word(inner)) + ".";
    return;
  }
  writer_.replace(tree_.begin(form), tree_.end(form),
                  "(i32.const " + std::to_string(strings_.intern(bytes)) + ")");
}

// (char "a") → (i32.const 97)
void CodeWalker::char_form(Node form) {
  std::string bytes;
  const bool is_text = unquote_into(bytes, tree_.first(form), tree_.close(form));
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])); };
  uint32_t code = 0;
  if (is_text && bytes.size() == 1) {
    code = byte(0);
  } else if (is_text && !bytes.empty() && utf8_length(bytes) == bytes.size()) {
    code = byte(0) & (0x7F >> bytes.size());
    for (size_t i = 1; i < bytes.size(); ++i) code = code << 6 | (byte(i) & 0x3F);
  } else {
    Diagnostic& d = report(DiagnosticCode::kBadCharForm, form, "(char …) takes one character");
    d.found = !is_text ? "no text" : bytes.empty() ? "an empty text" : count_of(bytes.size(), "byte");
    d.expected = "one character in quotes";
    return;
  }
  writer_.replace(tree_.begin(form), tree_.end(form), "(i32.const " + std::to_string(code) + ")");
}

// (concat a b c) → (call $str.concat (call $str.concat a b) c), checked if it can fail
void CodeWalker::concat_form(Node form) {
  const Node n = tree_.first(form);
  const Node close = tree_.close(form);
  size_t parts = 0;
  for (Node at = n; at < close; at = tree_.next(at)) ++parts;
  Callee callee = resolve_id("$str.concat!");
  if (callee.type != nullptr && callee.type->results.size() < 2)
    callee.is_checked = false;  // the author's own
  if (parts == 0 || callee.type == nullptr) {
    Diagnostic& d = report(
        DiagnosticCode::kBadConcat, form,
        parts == 0 ? "(concat …) joins no strings" : "this host has no str.concat, which (concat …) needs");
    d.expected = "(concat a b …)";
    d.found = "(concat)";
    return;
  }
  std::string suffix = ")";
  if (parts > 1) {
    use(callee);
    if (callee.is_checked) need_check(callee.name);
    if (callee.is_checked) suffix += check_suffix(callee.name, form);
  }
  const std::string call =
      (callee.is_checked ? check_prefix(*callee.type, false) : "") + "(call $str.concat ";
  if ((call.size() + suffix.size()) * parts > kMaxExpansionBytes)
    return stop(DiagnosticCode::kTextTooLarge, form, "(concat …) expands to too much text");
  std::string prefix;
  for (size_t i = 1; i < parts; ++i) prefix += call;
  writer_.replace(tree_.begin(form), tree_.end(form + 1), prefix, tree_.end(form + 1));
  size_t index = 0;
  for (Node at = n; at < close; at = tree_.next(at), ++index) {
    if (tree_.is_integer(at) || tree_.kind(at) == TokenKind::kFloat)
      report_number_as_string(at, "(concat …)");
    check_one_value(at, "(concat …)");
    operand(at, ValType::kI32);
    if (index > 0) writer_.insert(tree_.end(at), suffix, tree_.begin(form), tree_.end(form + 1));
  }
  writer_.replace(tree_.begin(close), tree_.end(close), "");
}

// -- variables

// (set $x value) → (local.set $x value); (set $a $b value) → (local.set $a (local.set $b value))
void CodeWalker::set_form(Node form) {
  const Node n = tree_.first(form);
  const Node close = tree_.close(form);
  Node value = n;
  size_t targets = 0;
  while (value < close && tree_.is_id(value)) ++value, ++targets;
  if (targets > 1 && value == close) --value, --targets;  // (set $x $y)
  const auto bad = [&](std::string message, std::string found, std::string hint) {
    Diagnostic& d = report(DiagnosticCode::kBadSet, form, std::move(message));
    d.found = std::move(found);
    d.expected = "(set $name value)";
    d.hint = std::move(hint);
  };
  if (targets == 0)
    return bad("(set …) does not say which variable",
               value < close ? std::string(tree_.is_form(value) ? "a form" : tree_.word(value)) : "nothing",
               "");
  const std::string name(tree_.word(n));
  if (value == close)
    return bad("(set " + name + ") has no value", "no value",
               "Write (set " + name + " 0), or the value that it should get.");
  if (tree_.next(value) != close)
    return bad("(set …) takes one expression", "more than one",
               "Close (set " + name + " …) after its first value, or put the rest into it.");
  const Values values = values_of(value);
  if (values.known && values.count != targets) {
    const std::string leaves = values.count == 0
                                   ? "no value"
                                   : std::to_string(values.count) + " value" + (values.count == 1 ? "" : "s");
    Diagnostic& d = report(DiagnosticCode::kNotOneValue, value,
                           "(set …) names " + std::to_string(targets) + " variable" +
                               (targets == 1 ? "" : "s") + ", and this leaves " + leaves);
    d.found = leaves;
    d.expected = std::to_string(targets) + " value" + (targets == 1 ? "" : "s");
    if (targets == 1) d.hint = errno_hint(value);
    return;
  }
  write_set(form, targets, value);
}

// The value has another type than the variable: often a sum that started as 0 but has fractions.
void CodeWalker::check_set_type(Node target, Node value) {
  const VariableInfo* const variable = find_variable(tree_.word(target));
  const ValType type = values_of(value).type;
  if (variable == nullptr || !tree_.is_form(value) || !wasm::is_num(type) || !wasm::is_num(variable->type) ||
      type == variable->type)
    return;
  const std::string id(variable->id), wanted(wasm::name_of(variable->type)), found(wasm::name_of(type));
  const auto& made = survey_.functions[function_number_].made_locals;
  const bool is_made = std::ranges::any_of(made, [&](const VariableInfo& local) { return local.id == id; });
  Diagnostic& d =
      report(DiagnosticCode::kTypeMismatch, target, id + " is " + wanted + ", and this value is " + found);
  d.found = found;
  d.expected = wanted;
  d.hint = is_made ? "Convert the value, or, since the first (set " + id + " …) gives " + id +
                         " its type: write (set " + id + " (" + found + ".const 0)) there."
                   : "Convert the value, or take another variable.";
}

void CodeWalker::write_set(Node form, size_t targets, Node value) {
  const Node n = tree_.first(form);
  std::vector<ValType> types;
  if (targets > 1 && tree_.is_form(value, "call")) {
    if (const Callee callee = resolve(tree_.first(value)); callee.type != nullptr)
      types = callee.type->results;
  }
  types.resize(targets, ValType::kBottom);
  if (targets == 1) {
    types[0] = values_of(value).type;
    check_set_type(n, value);
  }
  for (size_t i = 0; i < targets; ++i) {
    const Node target = n + static_cast<Node>(i);
    declare(tree_.word(target), types[i] == ValType::kBottom ? ValType::kI32 : types[i]);
    if (i == 0) {
      writer_.replace(tree_.begin(form), tree_.end(form + 1), setter(tree_.word(target)));
    } else {
      writer_.insert(tree_.begin(target), std::string(setter(tree_.word(target))) + " ", tree_.begin(form),
                     tree_.end(target));
    }
  }
  operand(value, find_variable(tree_.word(n))->type);
  if (targets > 1)
    writer_.insert(tree_.end(value), std::string(targets - 1, ')'), tree_.begin(form), tree_.end(form + 1));
}

// (inc $x) → (local.set $x (i32.add (local.get $x) (i32.const 1))); (inc $x n) adds n
void CodeWalker::step_form(Node form, std::string_view operation) {
  const std::string_view word = tree_.head(form);
  const Node n = tree_.first(form);
  const Node close = tree_.close(form);
  const std::string head = "(" + std::string(word) + " ";
  if (n >= close || !tree_.is_id(n) || (n + 1 < close && tree_.next(n + 1) != close)) {
    Diagnostic& d =
        report(DiagnosticCode::kBadStep, form, head + "…) takes a variable, and at most one amount");
    d.found = n < close && !tree_.is_form(n) ? std::string(tree_.word(n)) : "something else";
    d.expected = head + "$x) or " + head + "$x 5)";
    return;
  }
  const std::string id(tree_.word(n));
  const VariableInfo* variable = find_variable(id);
  if (variable == nullptr)
    return report_unknown_variable(n);  // in the survey, a later (set …) may declare it
  if (!wasm::is_num(variable->type)) {
    Diagnostic& d = report(DiagnosticCode::kBadStep, form, id + " is not a number");
    d.found = wasm::name_of(variable->type);
    d.expected = "i32, i64, f32 or f64";
    return;
  }
  const std::string type(wasm::name_of(variable->type));
  writer_.replace(
      tree_.begin(form), tree_.end(n),
      std::string(setter(id)) + " " + id + " (" + type + "." + std::string(operation) + " " + get(id));
  if (n + 1 < close) {
    check_one_value(n + 1, head + "…)");
    operand(n + 1, variable->type);
    writer_.insert(tree_.end(n + 1), ")", tree_.begin(form), tree_.end(n));
  } else {
    writer_.insert(tree_.begin(close), " (" + type + ".const 1))", tree_.begin(form), tree_.end(n));
  }
}

// -- loops

uint32_t CodeWalker::enter_loop(std::string_view kind) {
  const uint32_t number = loop_count_++;
  if (survey_.loops.size() <= number) survey_.loops.emplace_back();
  loops_.push_back({number, kind});
  return number;
}

// "$while.1.break"; distinct from the author's names.
std::string CodeWalker::loop_label(uint32_t loop, std::string_view kind, std::string_view part) {
  if (!loop_suffix_) loop_suffix_ = find_loop_suffix();
  return "$" + std::string(kind) + "." + std::to_string(loop + 1) + std::string(part) + *loop_suffix_;
}

// Underscores that no name with our prefix ends in; none when there is no such name.
std::string CodeWalker::find_loop_suffix() const {
  size_t most = 0;
  for (Node n = 0; n < tree_.size(); ++n) {
    if (!tree_.is_id(n)) continue;
    const std::string name = wasm::id_of(tree_.word(n));
    if (!name.starts_with("$while.") && !name.starts_with("$for.") && !name.starts_with("$each.")) continue;
    const size_t end = name.find_last_not_of('_') + 1;
    most = std::max(most, name.size() - end + 1);
  }
  return std::string(most, '_');
}

// (while c body…) → (loop $l (if c (then body… (br $l)))), in a (block $l.break …) if (break) leaves it
void CodeWalker::while_form(Node form) {
  const Node condition = tree_.first(form);
  const Node close = tree_.close(form);
  if (condition >= close || !(tree_.is_form(condition) || is_bare(condition)) ||
      tree_.kind(condition) == TokenKind::kString) {
    Diagnostic& d = report(DiagnosticCode::kBadWhile, form, "(while …) has no condition");
    d.found = condition < close ? std::string(tree_.word(condition)) : "nothing";
    d.expected = "(while condition body…)";
    return;
  }
  if (!check_one_value(condition, "the condition of (while …)")) return;
  const uint32_t number = enter_loop("while");
  const std::string label = loop_label(number, "while");
  const bool has_break = survey_.loops[number].has_break;
  writer_.replace(
      tree_.begin(form), tree_.end(form + 1),
      (has_break ? "(block " + loop_label(number, "while", ".break") + " " : "") + "(loop " + label + " (if");
  if (has_break) push_label({});
  push_label({});
  operand(condition, ValType::kI32);
  push_label({});
  writer_.insert(tree_.end(condition), " (then", tree_.begin(form), tree_.end(form + 1));
  sequence(tree_.next(condition), close, {});
  leave_labels(has_break ? 3 : 2);
  loops_.pop_back();
  writer_.insert(tree_.begin(close), " (br " + label + (has_break ? "))))" : ")))"), tree_.begin(form),
                 tree_.end(form + 1));
}

// (for $i from to body…) → (local.set $i from) (local.set $to to)
//   (loop $l (if (i32.lt_s $i $to) (then body… (local.set $i (i32.add $i 1)) (br $l))))
// in a (block $l.break …) when it is left; the body in a (block $l.continue …) when it is continued.
void CodeWalker::for_form(Node form) {
  const Node id_node = tree_.first(form);
  const Node close = tree_.close(form);
  const Node from = id_node + 1;
  const Node to = from < close ? tree_.next(from) : close;
  const auto is_value = [&](Node n) {
    if (n >= close || !(tree_.is_form(n) || is_bare(n))) return false;
    const Values values = values_of(n);
    return !values.known || values.count > 0;  // a (nop) belongs to the body
  };
  if (id_node >= close || !tree_.is_id(id_node) || !is_value(from) || !is_value(to)) {
    Diagnostic& d =
        report(DiagnosticCode::kBadFor, form, "(for …) takes a variable, where it starts, and where it ends");
    const Node wrong = id_node >= close || !tree_.is_id(id_node) ? id_node : !is_value(from) ? from : to;
    d.found = wrong < close ? (tree_.is_form(wrong) ? "a form" : std::string(tree_.word(wrong))) : "too few";
    d.expected = "(for $i from to body…)";
    return;
  }
  if (!check_one_value(from, "the start of (for …)") || !check_one_value(to, "the end of (for …)")) return;
  const std::string_view id = tree_.word(id_node);
  declare(id, ValType::kI32);
  const ValType val_type = find_variable(id)->type;
  const std::string type(wasm::name_of(val_type));
  const uint32_t blame = tree_.end(id_node);
  const uint32_t begin = tree_.begin(form);

  const uint32_t number = enter_loop("for");
  const LoopFacts facts = survey_.loops[number];
  const std::string label = loop_label(number, "for");
  writer_.replace(begin, tree_.end(form + 1), setter(id));
  operand(from, val_type);
  writer_.insert(tree_.end(from), ")", begin, blame);
  std::string limit;
  if (tree_.is_integer(to)) {
    limit = "(" + type + ".const " + std::string(tree_.word(to)) + ")";
    writer_.replace(tree_.begin(to), tree_.end(to), "");
  } else {
    const std::string hidden = loop_label(number, "for", ".to");
    if (!writing_) declare(survey_.names.emplace_back(hidden), val_type);  // the second run finds it declared
    writer_.insert(tree_.begin(to), "(local.set " + hidden + " ", begin, blame);
    operand(to, val_type);
    writer_.insert(tree_.end(to), ")", begin, blame);
    limit = "(local.get " + hidden + ")";
  }
  const bool is_float = val_type == ValType::kF32 || val_type == ValType::kF64;
  std::string head = facts.has_break ? " (block " + loop_label(number, "for", ".break") : "";
  head += " (loop " + label + " (if (" + type + (is_float ? ".lt " : ".lt_s ") + get(id) + " " + limit +
          ") (then";
  if (facts.has_continue) head += " (block " + loop_label(number, "for", ".continue");
  writer_.insert(tree_.end(to), head, begin, blame);
  const size_t labels = 2 + (facts.has_break ? 1 : 0) + (facts.has_continue ? 1 : 0);
  for (size_t i = 0; i < labels; ++i) push_label({});
  sequence(tree_.next(to), close, {});
  leave_labels(labels);
  loops_.pop_back();
  std::string tail = facts.has_continue ? ")" : "";
  tail += " " + std::string(setter(id)) + " " + std::string(id) + " (" + type + ".add " + get(id) + " (" +
          type + ".const 1))) (br " + label;
  writer_.insert(tree_.begin(close), tail + (facts.has_break ? "))))" : ")))"), begin, blame);
}

// (break) → (br $l.break); (continue) → (br $l), or (br $l.continue) in a for
void CodeWalker::leave_loop(Node form, bool is_break) {
  const std::string word = is_break ? "break" : "continue";
  if (loops_.empty() || tree_.first(form) != tree_.close(form)) {
    Diagnostic& d = report(DiagnosticCode::kBadLoopExit, form,
                           loops_.empty() ? "(" + word + ") is outside of (while …), (for …) and (each …)"
                                          : "(" + word + ") takes nothing");
    d.found = loops_.empty() ? "no loop around it" : "an operand";
    d.expected = loops_.empty() ? "(while …), (for …) or (each …) around it" : "(" + word + ")";
    if (!loops_.empty()) d.hint = "Put it into an if: (if condition (then (" + word + "))).";
    return;
  }
  const Loop& loop = loops_.back();
  LoopFacts& facts = survey_.loops[loop.number];
  (is_break ? facts.has_break : facts.has_continue) = true;
  const std::string_view part = is_break ? ".break" : loop.kind == "for" ? ".continue" : "";
  writer_.replace(tree_.begin(form), tree_.end(form),
                  "(br " + loop_label(loop.number, loop.kind, part) + ")");
}

}  // namespace membrane::lang
