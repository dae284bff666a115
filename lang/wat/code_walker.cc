#include "lang/wat/code_walker.h"

#include <algorithm>
#include <utility>

#include "base/stop_scope.h"
#include "wasm/text/numbers.h"
#include "wasm/text/parser.h"

namespace membrane::lang {

using wasm::Opcode;
using wasm::TokenKind;
using wasm::ValType;

namespace {

constexpr ValType kConditionTypes[] = {ValType::kI32};

bool is_block(Opcode op) {
  return op == Opcode::kBlock || op == Opcode::kLoop || op == Opcode::kIf || op == Opcode::kTryTable;
}

bool is_float_word(std::string_view word) { return word == "inf" || word.starts_with("nan"); }

// Counts the nodes of a sequence after a given one, up to `most`. The last nodes are found once, walking from the
// end to the front, so that a long sequence of values is not counted for each.
class SequenceEnd {
 public:
  SequenceEnd(const Tree& tree, Tree::Node close, size_t most) : tree_(tree), close_(close), most_(most) {}

  // `n` is a node of the sequence, not before that of the previous call.
  size_t nodes_after(Tree::Node n) {
    if (last_.empty() && most_ != 0) find_last(n);
    // last_ descends: last_[k] is the node with k nodes after it.
    while (!last_.empty() && last_.back() < n) last_.pop_back();
    return !last_.empty() && last_.back() == n ? last_.size() - 1 : most_;
  }

 private:
  void find_last(Tree::Node first) {
    for (Tree::Node at = close_; at > first && last_.size() < most_;) {
      --at;
      if (tree_.kind(at) == TokenKind::kClose) at = tree_.open_of(at);
      last_.push_back(at);
    }
  }

  const Tree& tree_;
  const Tree::Node close_;
  const size_t most_;
  std::vector<Tree::Node> last_;
};

}  // namespace

// -- sequences

void CodeWalker::sequence(Node n, Node close, Types results) {
  const size_t outer_labels = labels_.size();
  const Node outer_form = std::exchange(form_, kNoNode);
  bool after_instruction = false;  // a flat instruction: atoms after it are its immediates, not values
  SequenceEnd end(tree_, close, results.size());
  while (n < close && !is_over()) {
    if (tree_.is_form(n)) {
      form(n);
      after_instruction = false;
      n = tree_.next(n);
    } else if (tree_.is_word(n)) {
      n = flat_instruction(n, close, outer_labels);
      after_instruction = true;
    } else {
      sequence_atom(n, results, end.nodes_after(n), after_instruction);
      ++n;
    }
  }
  form_ = outer_form;
  leave_labels(labels_.size() - outer_labels);
}

// A bare value among instructions, as in `(then 1)`. It has the type of the corresponding result, if only single
// values are between it and the end.
void CodeWalker::sequence_atom(Node n, Types results, size_t from_end, bool after_instruction) {
  if (!is_bare(n)) {
    report_mistaken_atom(n);
    return;
  }
  if (after_instruction) {
    const std::string word(tree_.word(n));
    Diagnostic& d = report(DiagnosticCode::kBareOperand, n,
                           "`" + word + "` follows an instruction that is not in parentheses");
    d.found = word;
    d.expected = "a folded instruction";
    d.hint = "Put the instruction and its operands in parentheses: (i32.add $x 1).";
    return;
  }
  bare(n, from_end < results.size() ? results[results.size() - 1 - from_end] : ValType::kBottom);
}

// Skips one flat instruction with its immediates.
CodeWalker::Node CodeWalker::flat_instruction(Node n, Node close, size_t outer_labels) {
  if (StopScope::stop_wanted()) {
    stop(DiagnosticCode::kImplementationLimit, n, "the preprocessor was stopped before its end");
    return close;
  }
  const std::string_view word = tree_.word(n);
  const auto op = wasm::find_mnemonic(word);
  if (!op) {
    if (!report_mistaken_atom(n)) {
      // The parser reports it; the nodes after it may belong to it.
      for (++n; n < close && !tree_.is_form(n) && !tree_.is_word(n);) ++n;
      return n;
    }
    for (++n; n < close && !tree_.is_word(n);) n = tree_.next(n);
    return n;
  }
  note(*op);
  if (*op == Opcode::kEnd || *op == Opcode::kElse) {
    if (*op == Opcode::kEnd && labels_.size() > outer_labels) leave_labels(1);
    return n + 1 < close && tree_.is_id(n + 1) ? n + 2 : n + 1;
  }
  if (is_block(*op)) {
    if (labels_.size() + kMaxFormNesting >= wasm::kMaxTextNesting) {
      stop(DiagnosticCode::kNestingTooDeep, n, "blocks nest too deep here");
      return close;
    }
    const bool has_name = n + 1 < close && tree_.is_id(n + 1);
    Node after = n + 1 + (has_name ? 1 : 0);
    SharedType type = environment_.read_type_use(after, close);
    if (*op == Opcode::kTryTable) after = after_clauses(tree_, after, close);
    push_label(has_name ? tree_.word(n + 1) : std::string_view(), std::move(type), *op == Opcode::kLoop);
    return after;
  }
  if (*op == Opcode::kCall && n + 1 < close) flat_call(n + 1);
  if (*op == Opcode::kReturnCall && n + 1 < close) tail_call(n + 1);
  if (*op == Opcode::kRefFunc && n + 1 < close) shift_function(n + 1);
  return after_immediates(tree_, environment_, *op, n + 1, close);
}

void CodeWalker::push_label(std::string_view name, SharedType type, bool is_loop) {
  labels_.push_back({std::move(type), is_loop});
  label_names_.push(name);
}

void CodeWalker::leave_labels(size_t count) {
  for (; count > 0; --count) {
    labels_.pop_back();
    label_names_.pop();
  }
}

const CodeWalker::Label* CodeWalker::find_label(Node index) const {
  if (tree_.is_id(index)) {
    const uint32_t found = label_names_.depth_of(tree_.word(index));
    return found == wasm::kNoIndex ? nullptr : &labels_[labels_.size() - 1 - found];
  }
  const auto depth = wasm::parse_unsigned(tree_.word(index), 32);
  if (!tree_.is_integer(index) || !depth.ok || depth.value >= labels_.size()) return nullptr;
  return &labels_[labels_.size() - 1 - depth.value];
}

// -- folded instructions

void CodeWalker::form(Node form) {
  if (is_over()) return;
  if (StopScope::stop_wanted())
    return stop(DiagnosticCode::kImplementationLimit, form, "the preprocessor was stopped before its end");
  const std::string_view head = tree_.head(form);
  const uint32_t weight = head == "for" || head == "each" ? 2 : 1;
  if (nesting_ + weight > kMaxFormNesting) {
    report(DiagnosticCode::kNestingTooDeep, form,
           "forms nest more than " + std::to_string(kMaxFormNesting) + " deep here");
    return;
  }
  nesting_ += weight;
  const Node outer_taker = std::exchange(taker_, form_);
  form_ = form;
  if (const Form sugar = find_form(head)) {
    if (in_function_ || head == "string" || head == "char") {
      (this->*sugar)(form);
    } else {
      report_outside(form);
    }
  } else if (const auto op = wasm::find_mnemonic(head); op && !head.empty()) {
    folded(form, *op);
  } else {
    report_mistaken_form(form);
  }
  form_ = taker_;
  taker_ = outer_taker;
  nesting_ -= weight;
}

void CodeWalker::folded(Node form, Opcode op) {
  note(op);
  if (op == Opcode::kIf) return if_form(form);
  if (is_block(op)) return block_form(form, op);
  if (op == Opcode::kCall) return call_form(form);
  const Node close = tree_.close(form);
  const Node immediate = tree_.first(form);
  Node n = after_immediates(tree_, environment_, op, immediate, close);
  if (op == Opcode::kReturnCall && immediate < n) tail_call(immediate);
  if (op == Opcode::kRefFunc) shift_function(immediate);
  if (op == Opcode::kBrTable)  // names after the labels are operands
    while (n > immediate + 1 && tree_.is_id(n - 1) && find_label(n - 1) == nullptr &&
           find_variable(tree_.word(n - 1)) != nullptr)
      --n;
  if (has_fixed_signature(op)) return operands(n, close, operands_of(op));
  operands(n, close, operand_types(op, immediate, n, close));
}

void CodeWalker::block_form(Node form, Opcode op) {
  Node n = tree_.first(form);
  const Node close = tree_.close(form);
  const bool has_name = tree_.is_id(n);
  if (has_name) ++n;
  const SharedType type = environment_.read_type_use(n, close);
  if (op == Opcode::kTryTable) n = after_clauses(tree_, n, close);
  push_label(has_name ? tree_.word(tree_.first(form)) : std::string_view(), type, op == Opcode::kLoop);
  sequence(n, close, type->results);
  leave_labels(1);
}

// `(if $label? (param …)* (result …)* condition (then …) (else …)?)`. A lone name is a label when a condition
// follows it, else it is the variable used as the condition.
void CodeWalker::if_form(Node form) {
  Node n = tree_.first(form);
  const Node close = tree_.close(form);
  const auto at_condition = [&](Node at) {
    return at < close && !tree_.is_form(at, "then") && !tree_.is_form(at, "else");
  };
  const Node name = n;
  bool has_name = tree_.is_id(n);
  if (has_name) ++n;
  const SharedType type = environment_.read_type_use(n, close);
  if (has_name && !at_condition(n) && find_variable(tree_.word(name)) != nullptr) {
    has_name = false;
    if (n == name + 1) {
      bare(name, ValType::kI32);
    } else {  // (if $x (result i32) …): the condition belongs after the type
      writer_.replace(tree_.begin(name), tree_.end(name), "");
      writer_.insert(tree_.end(n - 1), " " + get(tree_.word(name)), tree_.begin(name), tree_.end(name));
    }
  }
  Node after = n;
  while (at_condition(after)) after = tree_.next(after);
  if (type->params.empty()) {
    operands(n, after, kConditionTypes);
  } else {
    std::vector<ValType> taken = type->params;
    taken.push_back(ValType::kI32);
    operands(n, after, taken);
  }
  push_label(has_name ? tree_.word(name) : std::string_view(), type);
  for (; after < close; after = tree_.next(after)) {
    if (tree_.is_form(after, "then") || tree_.is_form(after, "else"))
      sequence(tree_.first(after), tree_.close(after), type->results);
  }
  leave_labels(1);
}

// The operands of a folded instruction: the last operand is the last value that it takes.
void CodeWalker::operands(Node n, Node close, Types expected) {
  size_t given = 0;
  bool any_bare = false;
  for (Node at = n; at < close; at = tree_.next(at)) any_bare |= !tree_.is_form(at);
  if (any_bare) {
    for (Node at = n; at < close; at = tree_.next(at)) {
      const Values values = values_of(at);
      given += values.known ? values.count : 1;
    }
  }
  size_t position = given < expected.size() ? expected.size() - given : 0;
  for (Node at = n; at < close; at = tree_.next(at)) {
    if (any_bare) {
      const Values values = values_of(at);
      operand(at, position < expected.size() ? expected[position] : ValType::kBottom);
      position += values.known ? values.count : 1;
    } else {
      form(at);
    }
  }
}

void CodeWalker::operand(Node n, ValType expected) {
  if (tree_.is_form(n)) return form(n);
  if (is_bare(n) || (tree_.is_word(n) && is_float_word(tree_.word(n)))) return bare(n, expected);
  report_mistaken_atom(n);
}

bool CodeWalker::is_bare(Node n) const {
  switch (tree_.kind(n)) {
    case TokenKind::kId:
    case TokenKind::kInteger:
    case TokenKind::kFloat:
    case TokenKind::kString: return true;
    default: return false;
  }
}

// `$x`, `42`, `1.5`, `"text"` in place of an operand.
void CodeWalker::bare(Node n, ValType expected) {
  const std::string_view word = tree_.word(n);
  const auto put = [&](const std::string& made) { writer_.replace(tree_.begin(n), tree_.end(n), made); };
  if (tree_.is_id(n)) {
    if (find_variable(word) != nullptr) return put(get(word));
    return report_unknown_variable(n);
  }
  if (tree_.kind(n) == TokenKind::kString)
    return put("(i32.const " + std::to_string(strings_.intern(wasm::unquote(word))) + ")");
  ValType type = wasm::is_num(expected) ? expected : tree_.is_integer(n) ? ValType::kI32 : ValType::kF64;
  put("(" + std::string(wasm::name_of(type)) + ".const " + std::string(word) + ")");
}

// -- types

std::vector<ValType> CodeWalker::operand_types(Opcode op, Node immediate, Node n, Node close) const {
  const auto label_types = [&] {
    const Label* label = n > immediate ? find_label(immediate) : nullptr;
    const Types taken = label == nullptr ? Types() : label->branch_types();
    return std::vector<ValType>(taken.begin(), taken.end());
  };
  std::vector<ValType> types;
  switch (op) {
    case Opcode::kSelect: {
      const ValType type = select_type(immediate, close, kMaxTypeDepth);
      return {type, type, ValType::kI32};
    }
    case Opcode::kLocalSet:
    case Opcode::kLocalTee: return {local_type(immediate).value_or(ValType::kBottom)};
    case Opcode::kGlobalSet: return {global_type(immediate).value_or(ValType::kBottom)};
    case Opcode::kReturn: return function_type_ == nullptr ? types : function_type_->results;
    case Opcode::kThrow: {
      const wasm::FuncType* const tag = n > immediate ? environment_.find_tag(immediate) : nullptr;
      return tag == nullptr ? types : tag->params;
    }
    case Opcode::kBr: return label_types();
    case Opcode::kBrIf:
    case Opcode::kBrTable:
      types = label_types();
      types.push_back(ValType::kI32);
      return types;
    case Opcode::kReturnCall: {
      const Callee callee = n > immediate ? resolve(immediate) : Callee{};
      return callee.type == nullptr ? types : callee.type->params;
    }
    case Opcode::kCallIndirect:
    case Opcode::kReturnCallIndirect: {
      Node at = immediate;
      while (at < n && !tree_.is_form(at)) ++at;
      types = environment_.read_type_use(at, n)->params;
      types.push_back(ValType::kI32);
      return types;
    }
    case Opcode::kTableGet: return {ValType::kI32};
    case Opcode::kTableSet: return {ValType::kI32, ValType::kBottom};
    case Opcode::kTableGrow: return {ValType::kBottom, ValType::kI32};
    case Opcode::kTableFill: return {ValType::kI32, ValType::kBottom, ValType::kI32};
    default: return {};
  }
}

// The operand type of a select: declared, or that of its first operands.
ValType CodeWalker::select_type(Node n, Node close, unsigned depth) const {
  if (n < close && tree_.is_form(n, "result"))
    return environment_.val_type_at(tree_.first(n)).value_or(ValType::kBottom);
  ValType literal = ValType::kBottom;
  if (depth == 0) return literal;
  for (int i = 0; i < 2 && n < close; ++i, n = tree_.next(n)) {
    const bool is_literal = !tree_.is_form(n) && !tree_.is_id(n);
    const ValType type = values_of(n, depth - 1).type;
    if (!is_literal && type != ValType::kBottom) return type;
    if (is_literal && literal != ValType::kF64) literal = type;
  }
  return literal;
}

CodeWalker::Values CodeWalker::values_of(Node n, unsigned depth) const {
  const std::string_view word = tree_.is_form(n) ? tree_.head(n) : tree_.word(n);
  switch (tree_.kind(n)) {
    case TokenKind::kOpen: break;
    case TokenKind::kId: {
      const VariableInfo* variable = find_variable(word);
      return {true, 1, variable == nullptr ? ValType::kBottom : variable->type};
    }
    case TokenKind::kInteger:
    case TokenKind::kString: return {true, 1, ValType::kI32};
    case TokenKind::kFloat: return {true, 1, ValType::kF64};
    case TokenKind::kKeyword: return is_float_word(word) ? Values{true, 1, ValType::kF64} : Values{};
    default: return {};
  }
  if (find_form(word) != nullptr) return values_of_form(word, n);
  const auto op = wasm::find_mnemonic(word);
  return op ? values_of_opcode(*op, n, depth) : Values{};
}

CodeWalker::Values CodeWalker::values_of_opcode(Opcode op, Node form, unsigned depth) const {
  const Node close = tree_.close(form);
  Node n = tree_.first(form);
  const auto one = [](ValType type) { return Values{true, 1, type}; };
  const auto results = [](Types types) {
    return Values{true, types.size(), types.size() == 1 ? types[0] : ValType::kBottom};
  };
  if (has_fixed_signature(op)) return results(results_of(op));
  switch (op) {
    case Opcode::kBlock:
    case Opcode::kLoop:
    case Opcode::kIf:
    case Opcode::kTryTable:
    case Opcode::kCallIndirect:
      if (tree_.is_id(n) || tree_.is_integer(n)) ++n;
      return results(environment_.read_type_use(n, close)->results);
    case Opcode::kCall: {
      const Callee callee = n < close ? resolve(n) : Callee{};
      if (callee.type == nullptr) return {};
      return results(Types(callee.type->results).first(result_count(callee)));
    }
    case Opcode::kLocalGet:
    case Opcode::kLocalTee: return one(local_type(n).value_or(ValType::kBottom));
    case Opcode::kGlobalGet: return one(global_type(n).value_or(ValType::kBottom));
    case Opcode::kSelect: return one(select_type(n, close, depth));
    case Opcode::kBrIf: {
      const Label* label = find_label(n);
      return label == nullptr ? Values{} : results(label->branch_types());
    }
    case Opcode::kLocalSet:
    case Opcode::kGlobalSet:
    case Opcode::kDrop:
    case Opcode::kTableSet:
    case Opcode::kTableFill: return {true, 0};
    case Opcode::kTableGrow:
    case Opcode::kRefIsNull: return one(ValType::kI32);
    case Opcode::kTableGet:
    case Opcode::kRefNull:
    case Opcode::kRefFunc: return one(ValType::kBottom);
    default: return {};  // control does not continue here
  }
}

}  // namespace membrane::lang
