// Calls: adding imports, checking errnos, typing arguments.
#include <algorithm>
#include <utility>

#include "base/text.h"
#include "lang/wat/code_walker.h"
#include "wasm/text/numbers.h"

namespace membrane::lang {

using wasm::ValType;

namespace {

std::string types_text(std::string_view keyword, Types types) {
  if (types.empty()) return {};
  std::string text = "(" + std::string(keyword);
  for (const ValType type : types) text += " " + std::string(wasm::name_of(type));
  return text + ") ";
}

std::string_view without_bang(std::string_view id) {
  return id.ends_with('!') ? id.substr(0, id.size() - 1) : id;
}

std::string_view member_of(std::string_view dotted) {
  const size_t dot = dotted.rfind('.');
  return dot == std::string_view::npos ? dotted : dotted.substr(dot + 1);
}

}  // namespace

CodeWalker::Callee CodeWalker::resolve(Node name) const {
  if (tree_.is_id(name)) return resolve_id(tree_.word(name));
  const auto number = wasm::parse_unsigned(tree_.word(name), 32);
  if (!tree_.is_integer(name) || !number.ok || number.value >= environment_.functions.size()) return {};
  const FunctionInfo& f = environment_.functions[number.value];
  return {.type = f.type.get(), .host = f.host, .name = f.id.substr(f.id.empty() ? 0 : 1)};
}

// The author's declarations take precedence over the host's functions; `$f!` as a name over `!` as a mark.
CodeWalker::Callee CodeWalker::resolve_id(std::string_view id) const {
  Callee callee;
  const FunctionInfo* declared = environment_.find_function(id);
  callee.has_bang = declared == nullptr && id.ends_with('!');
  const std::string_view plain = callee.has_bang ? without_bang(id) : id;
  callee.name = plain.substr(1);
  if (callee.has_bang) declared = environment_.find_function(plain);
  bool has_errno = false;
  if (declared != nullptr) {
    callee.type = declared->type.get();
    callee.host = declared->host;
    const bool ends_in_i32 =
        !declared->type->results.empty() && declared->type->results.back() == ValType::kI32;
    has_errno = ends_in_i32 && (callee.host == nullptr || callee.host->has_errno);
  } else if (const HostSignature* const offered = host_.find(callee.name); offered != nullptr) {
    callee.host = offered;
    callee.type = &offered->type;
    callee.is_implicit = true;
    has_errno = offered->has_errno;
  }
  callee.is_checked = callee.has_bang && has_errno;
  return callee;
}

size_t CodeWalker::result_count(const Callee& callee) {
  return callee.type->results.size() - (callee.is_checked ? 1 : 0);
}

void CodeWalker::add_import(const HostSignature& function) {
  if (writing_) return;
  if (std::find(survey_.imports.begin(), survey_.imports.end(), &function) == survey_.imports.end())
    survey_.imports.push_back(&function);
}

void CodeWalker::use(const Callee& callee) {
  if (callee.host != nullptr) survey_.uses_host = true;
  if (callee.is_implicit) add_import(*callee.host);
}

void CodeWalker::call_form(Node form) {
  const Node close = tree_.close(form);
  const Node name = tree_.first(form);
  if (name >= close || !(tree_.is_id(name) || tree_.is_integer(name))) return operands(name, close, {});
  const Callee callee = resolve(name);
  if (callee.type == nullptr) {
    report_unknown_function(name);
    return operands(name + 1, close, {});
  }
  use(callee);
  if (!check_callee(callee, name)) return;
  note_untaken(form, callee);
  check_arguments(callee, name, name + 1, close);
  shift_function(name);
  if (!callee.has_bang) return operands(name + 1, close, callee.type->params);
  if (!callee.is_checked) {
    writer_.replace(tree_.begin(name), tree_.end(name), "$" + std::string(callee.name));
    return operands(name + 1, close, callee.type->params);
  }
  checked_call(form, name, callee);
}

// The operands follow `name`.
void CodeWalker::checked_call(Node form, Node name, const Callee& callee) {
  need_check(callee.name);
  const std::string suffix = check_suffix(callee.name, form);
  writer_.replace(tree_.begin(form), tree_.end(name),
                  check_prefix(*callee.type, false) + "(call $" + std::string(callee.name));
  operands(name + 1, tree_.close(form), callee.type->params);
  writer_.insert(tree_.end(form), suffix, tree_.begin(form), tree_.end(name));
}

// The name after `return_call`. No errno can be checked after the call.
void CodeWalker::tail_call(Node name) {
  if (!tree_.is_id(name)) return shift_function(name);
  if (const Callee callee = resolve(name); callee.type != nullptr && !callee.has_bang) use(callee);
}

// `call $f` without parentheses; the arguments are on the stack.
void CodeWalker::flat_call(Node name) {
  if (!tree_.is_id(name)) return shift_function(name);
  const Callee callee = resolve(name);
  if (callee.type == nullptr) return report_unknown_function(name);
  use(callee);
  if (!check_callee(callee, name) || !callee.has_bang) return;
  std::string made = "$" + std::string(callee.name);
  if (callee.is_checked) {
    need_check(callee.name);
    made += " " + check_prefix(*callee.type, true) + check_suffix(callee.name, name);
  }
  writer_.replace(tree_.begin(name), tree_.end(name), made);
}

// -- checked calls
//
// The call leaves its value and the errno. An `if` takes the errno as its condition and the value as its parameter,
// and leaves the value when the errno is 0:
//
//   (if (param i32) (result i32) (local.tee $errno (call $http.get …))
//     (then (call $membrane.fail (local.get $errno) (i32.const <"http.get">) (i32.const <line>)) (unreachable)))
//
// That is a single folded instruction, so it is valid wherever an operand is, and the arguments are evaluated
// outside of the `if`, so that labels keep their meaning there.

void CodeWalker::need_check(std::string_view name) {
  strings_.intern(name);
  if (errno_id_.empty()) {
    constexpr std::string_view kErrno = "$membrane.errno";
    const VariableInfo* mine = find_local(kErrno);
    errno_id_ = mine != nullptr && mine->type == ValType::kI32
                    ? kErrno
                    : hidden_local(std::string(kErrno), ValType::kI32);
  }
  if (!fail_id_.empty()) return;
  constexpr std::string_view kFail = "$membrane.fail";
  const FunctionInfo* declared = environment_.find_function(kFail);
  if (declared != nullptr && *declared->type == fail_function().type) {
    fail_id_ = kFail;
    return;
  }
  fail_id_ = made_up(std::string(kFail));
  add_import(fail_function());
}

std::string CodeWalker::check_prefix(const wasm::FuncType& type, bool is_flat) const {
  const Types kept = Types(type.results).first(type.results.size() - 1);
  std::string text = "(if " + types_text("param", kept) + types_text("result", kept);
  return text + "(local.tee " + std::string(errno_id_) + (is_flat ? "" : " ");
}

std::string CodeWalker::check_suffix(std::string_view name, Node at) {
  return ") (then (call " + std::string(fail_id_) + " (local.get " + std::string(errno_id_) +
         ") (i32.const " + std::to_string(strings_.intern(name)) + ") (i32.const " +
         std::to_string(line_of(tree_.begin(at))) + ")) (unreachable)))";
}

uint32_t CodeWalker::line_of(uint32_t offset) {
  if (line_begins_.empty()) {
    line_begins_.push_back(0);
    for (size_t i = 0; i < tree_.text().size(); ++i)
      if (tree_.text()[i] == '\n') line_begins_.push_back(static_cast<uint32_t>(i + 1));
  }
  return static_cast<uint32_t>(std::upper_bound(line_begins_.begin(), line_begins_.end(), offset) -
                               line_begins_.begin());
}

// -- findings

// Whether `!` is valid here.
bool CodeWalker::check_callee(const Callee& callee, Node name) {
  if (!callee.has_bang || callee.is_checked || callee.host != nullptr) return true;
  Diagnostic& d = report(DiagnosticCode::kCheckWithoutErrno, name,
                         "$" + std::string(callee.name) + " returns no errno that ! could check");
  d.found = callee.type->results.empty()
                ? "no result"
                : "the last result " + std::string(wasm::name_of(callee.type->results.back()));
  d.expected = "a function whose last result is an i32 errno";
  d.hint = "Write (call $" + std::string(callee.name) + " …) without the !.";
  return false;
}

void CodeWalker::check_arguments(const Callee& callee, Node name, Node n, Node close) {
  const bool is_form = !tree_.is_id(name) && !tree_.is_integer(name);  // (lines …)
  if (callee.host == nullptr || (!callee.is_implicit && !callee.has_bang)) return;
  const size_t wanted = callee.type->params.size();
  size_t given = 0;
  size_t index = 0;
  Node guilty = n;
  for (Node at = n; at < close; at = tree_.next(at), ++index) {
    const Values values = values_of(at);
    if (!values.known) return;
    given += values.count;
    if (values.count != 1 && guilty == n) guilty = at;
    const bool is_number = tree_.is_integer(at) || tree_.kind(at) == wasm::TokenKind::kFloat;
    if (is_number && index < wanted && (callee.host->string_params >> index & 1) != 0)
      report_number_as_string(at, "$" + std::string(callee.name));
  }
  if (given == wanted || (given == 0 && !is_form)) return;  // without arguments they may be on the stack
  const std::string taker =
      is_form ? "(" + std::string(tree_.word(name)) + " …)" : "$" + std::string(callee.name);
  Diagnostic& d = report(DiagnosticCode::kArgumentCount, name,
                         taker + " takes " + count_of(wanted, "argument") + ", and " + std::to_string(given) +
                             (given == 1 ? " is" : " are") + " given");
  d.found = count_of(given, "value");
  d.expected = callee.host->usage;
  if (given > wanted) d.hint = errno_hint(guilty);
}

// A hint for an expression that leaves its value and an errno where only the value is needed.
std::string CodeWalker::errno_hint(Node value) const {
  if (!tree_.is_form(value, "call")) return {};
  const Node name = tree_.first(value);
  if (!tree_.is_id(name)) return {};
  const Callee callee = resolve(name);
  if (callee.type == nullptr || callee.has_bang || callee.type->results.size() != 2) return {};
  const std::string plain(callee.name);
  return "(call $" + plain + " …) leaves a value and an errno: write (call $" + plain +
         "! …) to keep the value, or (set $value $errno (call $" + plain + " …)) to have both.";
}

// An errno alone is consumed by anything that takes a value; an errno after a value only by (set $value $errno …). A
// flat instruction after the call may consume either.
void CodeWalker::note_untaken(Node form, const Callee& callee) {
  if (!writing_ || callee.host == nullptr || !callee.host->has_errno || callee.has_bang) return;
  const bool is_statement = taker_ == kNoNode;
  const bool has_value = callee.type->results.size() > 1;
  if (!is_statement && (!has_value || tree_.is_form(taker_, "set"))) return;
  const Node next = tree_.next(form);
  if (is_statement &&
      (tree_.is_word(next) || tree_.is_form(next, "drop") || tree_.is_form(next, "local.set")))
    return;
  if (untaken_.size() >= kMaxUntakenErrnos) return;
  untaken_.push_back({std::string(callee.name), has_value, is_statement, tree_.begin(form),
                      line_of(tree_.begin(form)), function_end_});
}

void CodeWalker::report_number_as_string(Node n, std::string_view taker) {
  const std::string word(tree_.word(n));
  Diagnostic& d = report(DiagnosticCode::kNumberAsString, n,
                         std::string(taker) + " takes a string here, and " + word + " is a number");
  d.found = word;
  d.expected = "the address of a string";
  d.hint = "Write (string \"" + word + "\") for this text, (i32.const " + word + ") for an address.";
}

void CodeWalker::report_unknown_function(Node name) {
  const std::string_view id = tree_.word(name);
  if (!tree_.is_id(name)) return;
  if (!shows_findings()) return note_finding();
  const std::string_view plain = without_bang(id).substr(1);
  const size_t dot = plain.find('.');
  const bool of_host = dot != std::string_view::npos && host_.has_module(plain.substr(0, dot));
  std::vector<std::string_view> names(host_.names().begin(), host_.names().end());
  std::string near(nearest(plain, names));
  if (near.empty() && !of_host) {  // the right function of another capability: $web.get, $print
    for (const std::string_view candidate : names)
      if (member_of(candidate) == member_of(plain) && near.empty()) near = candidate;
  }
  std::vector<std::string_view> declared;
  for (const FunctionInfo& f : environment_.functions)
    if (!f.id.empty()) declared.push_back(f.id);
  if (const auto mine = nearest(without_bang(id), declared); !mine.empty()) near = mine.substr(1);
  const bool is_capability = of_host || (!near.empty() && host_.find(near) != nullptr);
  Diagnostic& d =
      report(is_capability ? DiagnosticCode::kUnknownCapability : DiagnosticCode::kUnknownFunction, name,
             "no function is called " + std::string(id));
  d.found = id;
  if (!near.empty()) {
    const std::string meant = "$" + near + (id.ends_with('!') && host_.find(near) != nullptr ? "!" : "");
    d.expected = meant;
    d.hint = "Did you mean " + meant + "?";
    if (const HostSignature* f = host_.find(near)) d.hint += " It is " + f->usage + ".";
  } else if (of_host) {
    const std::string module(plain.substr(0, dot));
    d.hint = module + " has";
    for (const HostSignature& f : host_.functions())
      if (f.module == module) d.hint += (d.hint.ends_with("has") ? " $" : ", $") + module + "." + f.name;
    d.hint += ".";
  }
}

}  // namespace membrane::lang
