// What authors, above all language models, write in place of a form or an instruction: words of other languages,
// calls without `call`, literals of other syntaxes. Each finding says what to write instead. Unknown mistakes are
// left to the parser.
#include <algorithm>
#include <string>

#include "lang/wat/code_walker.h"

namespace membrane::lang {
namespace {

struct ForeignWord {
  std::string_view word;
  std::string_view instead;
};

constexpr ForeignWord kForeignWords[] = {
    {"+", "(i32.add a b)"},
    {"-", "(i32.sub a b)"},
    {"*", "(i32.mul a b)"},
    {"/", "(i32.div_s a b)"},
    {"%", "(i32.rem_s a b)"},
    {"=", "(i32.eq a b) to compare, (set $x value) to assign"},
    {"==", "(i32.eq a b)"},
    {"!=", "(i32.ne a b)"},
    {"<", "(i32.lt_s a b)"},
    {">", "(i32.gt_s a b)"},
    {"<=", "(i32.le_s a b)"},
    {">=", "(i32.ge_s a b)"},
    {"&", "(i32.and a b)"},
    {"|", "(i32.or a b)"},
    {"^", "(i32.xor a b)"},
    {"<<", "(i32.shl a b)"},
    {">>", "(i32.shr_s a b)"},
    {"!", "(i32.eqz a)"},
    {"&&", "(i32.and a b)"},
    {"||", "(i32.or a b)"},
    {"and", "(i32.and a b)"},
    {"or", "(i32.or a b)"},
    {"not", "(i32.eqz a)"},
    {"let", "(set $x value)"},
    {"var", "(set $x value)"},
    {"const", "(set $x value)"},
    {"define", "(set $x value), or (func $name …) for a function"},
    {"defun", "(func $name (param $a i32) (result i32) …) beside the other functions"},
    {"begin", "(block …), or the instructions one after the other"},
    {"do", "(block …), or the instructions one after the other"},
    {"progn", "(block …), or the instructions one after the other"},
    {"cond", "(if condition (then …) (else …)), one in the (else …) of the other"},
    {"switch", "(if condition (then …) (else …)), or br_table"},
    {"when", "(if condition (then …))"},
    {"unless", "(if (i32.eqz condition) (then …))"},
    {"elif", "(else (if condition (then …)))"},
    {"until", "(while (i32.eqz condition) …)"},
    {"foreach", "(each $line (lines $text) …), or (for $i from to …)"},
    {"malloc", "(alloc bytes)"},
    {"print", "(call $io.print (string \"…\"))"},
    {"println", "(call $io.println (string \"…\"))"},
    {"printf", "(call $io.print (concat …))"},
    {"str", "(string \"…\") for a literal, (concat a b) to join strings"},
    {"try", "(call $f! …), which ends the run when f fails, or (set $value $errno (call $f …))"},
    {"true", "1"},
    {"false", "0"},
    {"null", "0"},
    {"nil", "0"},
};

}  // namespace

bool CodeWalker::report_foreign_word(Node n) {
  const std::string_view word = tree_.word(n);
  const auto* found = std::find_if(std::begin(kForeignWords), std::end(kForeignWords),
                                   [&](const ForeignWord& f) { return f.word == word; });
  if (found == std::end(kForeignWords)) return false;
  if (environment_.has_tags() && (word == "try" || word == "do"))
    return false;  // legacy exceptions are reported by the parser
  Diagnostic& d =
      report(DiagnosticCode::kForeignWord, n, "`" + std::string(word) + "` is not a word of this language");
  d.found = word;
  d.expected = found->instead;
  d.hint = "Write " + std::string(found->instead) + ".";
  return true;
}

// A form whose head is neither an instruction nor one of the preprocessor's.
bool CodeWalker::report_mistaken_form(Node form) {
  const Node head = form + 1;
  if (head >= tree_.close(form)) return false;
  std::string_view word = tree_.word(head);
  if (tree_.is_id(head) && find_variable(word) != nullptr && head + 1 == tree_.close(form)) {
    Diagnostic& d =
        report(DiagnosticCode::kMissingCall, form, "(" + std::string(word) + ") is not an instruction");
    d.found = "(" + std::string(word) + ")";
    d.expected = word;
    d.hint =
        "The value of a variable is " + std::string(word) + ", or (local.get " + std::string(word) + ").";
    return true;
  }
  std::string callee(word.substr(tree_.is_id(head) ? 1 : 0));
  const std::string plain = callee.ends_with('!') ? callee.substr(0, callee.size() - 1) : callee;
  const bool is_function = tree_.is_id(head) || (tree_.is_word(head) && host_.find(plain) != nullptr);
  if (!is_function) return report_foreign_word(head);
  Diagnostic& d = report(DiagnosticCode::kMissingCall, form, "(" + std::string(word) + " …) calls nothing");
  d.found = "(" + std::string(word) + " …)";
  d.expected = "(call $" + callee + " …)";
  d.hint = "Write (call $" + callee + " …).";
  return true;
}

// An atom in place of an instruction or an operand.
bool CodeWalker::report_mistaken_atom(Node n) {
  const std::string_view word = tree_.word(n);
  if (tree_.is_word(n) && find_form(word) != nullptr) {
    Diagnostic& d =
        report(DiagnosticCode::kUnfoldedForm, n, "`" + std::string(word) + "` is not in parentheses");
    d.found = word;
    d.expected = "(" + std::string(word) + " …)";
    d.hint = "Write (" + std::string(word) + " …).";
    return true;
  }
  if (word.starts_with('\'')) {
    Diagnostic& d =
        report(DiagnosticCode::kCharacterLiteral, n, "characters are not written in single quotes");
    const std::string inner(word.size() >= 3 && word.ends_with('\'') ? word.substr(1, word.size() - 2) : "a");
    d.found = word;
    d.expected = "(char \"" + inner + "\")";
    d.hint = "Write (char \"" + inner + "\"), or the character's number.";
    return true;
  }
  return report_foreign_word(n);
}

}  // namespace membrane::lang
