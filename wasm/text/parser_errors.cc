// Findings, and the repairs that they suggest. The reader is often a language model, so each says
// what to write instead where that can be known.
#include <algorithm>

#include "base/findings.h"
#include "base/stop_scope.h"
#include "wasm/text/numbers.h"
#include "wasm/text/parser_impl.h"

namespace membrane::wasm::text {
namespace {

constexpr std::string_view kFields[] = {"type",   "rec",    "import", "func", "table", "memory",
                                        "global", "export", "start",  "elem", "data",  "tag"};

std::string quote(std::string_view word) {
  return "`" + std::string(word.substr(0, kShownBytes)) + (word.size() > kShownBytes ? "…`" : "`");
}

DiagnosticCode unknown_code(Space space) {
  switch (space) {
    case Space::kFunc: return DiagnosticCode::kUnknownFunction;
    case Space::kTable: return DiagnosticCode::kUnknownTable;
    case Space::kMemory: return DiagnosticCode::kUnknownMemory;
    case Space::kGlobal: return DiagnosticCode::kUnknownGlobal;
    case Space::kTag: return DiagnosticCode::kUnknownTag;
    case Space::kType: return DiagnosticCode::kUnknownType;
    case Space::kElem: return DiagnosticCode::kUnknownElement;
    case Space::kData: return DiagnosticCode::kUnknownData;
    case Space::kLocal: return DiagnosticCode::kUnknownLocal;
  }
  return DiagnosticCode::kUnknownFunction;
}

// The mnemonic that an older one became: get_local → local.get, f32.convert_u/i64 →
// f32.convert_i64_u. Empty when there is none.
std::string modern_mnemonic(std::string_view old) {
  if (const size_t slash = old.find('/'); slash != std::string_view::npos) {
    const size_t under = old.substr(0, slash).rfind('_');
    const std::string from(old.substr(slash + 1));
    if (under != std::string_view::npos) {
      std::string with_sign =
          std::string(old.substr(0, under)) + "_" + from + std::string(old.substr(under, slash - under));
      if (find_mnemonic(with_sign)) return with_sign;
    }
    std::string plain = std::string(old.substr(0, slash)) + "_" + from;
    if (find_mnemonic(plain)) return plain;
  }
  if (const size_t under = old.find('_'); under != std::string_view::npos) {
    std::string turned = std::string(old.substr(under + 1)) + "." + std::string(old.substr(0, under));
    if (find_mnemonic(turned)) return turned;
  }
  return old == "current_memory" ? "memory.size" : "";
}

std::string suggest(std::string_view word, const NameScope& scope) {
  std::vector<std::string_view> names;
  for (const auto& name : scope.names()) names.push_back(name.text);
  const auto near = nearest(word, names);
  return near.empty() ? std::string() : "Did you mean " + std::string(near) + "?";
}

}  // namespace

Diagnostic& Parser::report(DiagnosticCode code, Token at, std::string message) {
  if (full()) return s_.spare;
  Diagnostic d;
  d.code = code;
  d.place = locate(text_, at.begin, at.end);
  d.message = std::move(message);
  if (function_ != kNoIndex) {
    d.function = "#" + std::to_string(function_);
    for (const auto& name : scope(Space::kFunc).names())
      if (name.index == function_) d.function = name.text;
  }
  return errors_.emplace_back(std::move(d));
}

// When the owner of the work wants it to end; reports that once.
bool Parser::must_stop() {
  if (!stopped_ && StopScope::stop_wanted()) {
    stopped_ = true;
    errors_.push_back(stopped_finding("the parser"));
  }
  return stopped_;
}

bool Parser::unexpected(std::string_view expected) {
  const Token t = peek();
  const std::string found = t.kind == TokenKind::kEnd ? "the end of the text" : quote(word(t));
  Diagnostic& d = report(
      t.kind == TokenKind::kReserved ? DiagnosticCode::kMalformedToken : DiagnosticCode::kUnexpectedToken, t,
      found + " does not fit here");
  d.found = found;
  d.expected = expected;
  return false;
}

void Parser::report_unknown_name(Space space, Token at) {
  if (full()) return;
  const std::string_view id = word(at).substr(0, kShownBytes);
  Diagnostic& d =
      report(unknown_code(space), at, "no " + std::string(name_of(space)) + " is called " + std::string(id));
  d.found = id;
  d.hint = suggest(id, scope(space));
  if (space == Space::kLocal && scope(Space::kGlobal).find(id) != kNoIndex)
    d.hint = std::string(id) + " is a global: use global.get and global.set.";
  if (space == Space::kGlobal && scope(Space::kLocal).find(id) != kNoIndex)
    d.hint = std::string(id) + " is a local: use local.get and local.set.";
}

void Parser::report_unknown_label(Token at) {
  if (full()) return;
  const std::string_view id = word(at).substr(0, kShownBytes);
  Diagnostic& d =
      report(DiagnosticCode::kUnknownLabel, at, "no block around this is labelled " + std::string(id));
  d.found = id;
  if (const auto near = nearest(id, s_.labels.names()); !near.empty())
    d.hint = "Did you mean " + std::string(near) + "?";
}

void Parser::report_unknown_instruction(Token at) {
  if (full()) return;
  const std::string_view w = word(at);
  if (at.kind == TokenKind::kReserved) {
    report(DiagnosticCode::kMalformedToken, at, quote(w) + " is not a word of the text format").found =
        quote(w);
    return;
  }
  Diagnostic& d = report(DiagnosticCode::kUnknownInstruction, at, quote(w) + " is not an instruction");
  d.found = w.substr(0, kShownBytes);
  if (w.contains("atomic.")) {
    d.message = quote(w) + " is an instruction of the threads proposal, which is not supported";
    d.hint = "A program has one thread here: use the instruction without atomic, such as i32.load.";
    return;
  }
  std::string better = modern_mnemonic(w);
  if (better.empty()) {
    std::vector<std::string_view> names;
    for (const OpcodeInfo& i : detail::kOpcodes) names.push_back(i.text);
    better = nearest(w, names);
  }
  if (!better.empty()) d.hint = "Did you mean " + better + "?";
}

void Parser::report_unknown_field(Token at) {
  if (full()) return;
  const std::string_view w = word(at);
  Diagnostic& d = report(DiagnosticCode::kUnknownField, at, quote(w) + " is not a module field");
  d.found = w.substr(0, kShownBytes);
  d.expected = "type, rec, import, func, table, memory, global, tag, export, start, elem or data";
  if (find_mnemonic(w)) {
    d.hint = "Instructions belong inside (func …): was the function closed too early?";
  } else if (w == "module") {
    d.hint = "A text holds one module: remove the inner (module …).";
  } else if (w == "param" || w == "result" || w == "local") {
    d.hint = "(" + std::string(w) + " …) belongs inside (func …): was the function closed too early?";
  } else if (const auto near = nearest(w, {std::begin(kFields), std::end(kFields)}); !near.empty()) {
    d.hint = "Did you mean " + std::string(near) + "?";
  }
}

void Parser::report_number(Token at, bool out_of_range, std::string_view type, std::string_view range) {
  const std::string w = quote(word(at));
  Diagnostic& d =
      out_of_range
          ? report(DiagnosticCode::kNumberOutOfRange, at, w + " is out of range for " + std::string(type))
          : report(DiagnosticCode::kMalformedNumber, at, w + " is not a literal of " + std::string(type));
  d.found = word(at).substr(0, kShownBytes);
  d.expected = range;
}

void Parser::report_missing_operand(Token at, std::string_view what) {
  Diagnostic& d = report(DiagnosticCode::kMissingOperand, at, quote(word(at)) + " lacks an immediate");
  d.expected = what;
  const Token& next = peek();
  d.found = next.kind == TokenKind::kEnd ? "the end of the text" : quote(word(next));
}

void Parser::report_duplicate(Space space, Token at) {
  const std::string_view id = word(at).substr(0, kShownBytes);
  Diagnostic& d = report(DiagnosticCode::kDuplicateName, at,
                         "a second " + std::string(name_of(space)) + " is called " + std::string(id));
  d.found = id;
}

// The words of the exception handling that came before try_table.
bool Parser::report_legacy_exceptions(Token at) {
  static constexpr std::string_view kWords[] = {"try", "do", "catch", "catch_all", "rethrow", "delegate"};
  const std::string_view w = word(at);
  if (std::find(std::begin(kWords), std::end(kWords), w) == std::end(kWords)) return false;
  const bool is_clause = w.starts_with("catch");
  Diagnostic& d =
      report(DiagnosticCode::kLegacyExceptions, at,
             is_clause ? quote(w) + " is outside of the head of a try_table"
                       : quote(w) + " is of the exception handling that came before WebAssembly 3.0");
  d.found = w;
  d.hint = "Write (block $h (result …) (try_table (catch $tag $h) …) …): what is caught branches to $h.";
  return true;
}

// Reports a word that means something elsewhere, but not where an instruction is expected. False when `at` is no
// such word.
bool Parser::report_misplaced(Token at) {
  if (report_legacy_exceptions(at)) return true;
  const std::string_view w = word(at);
  const auto misplaced = [&](std::string message, std::string hint) {
    Diagnostic& d = report(DiagnosticCode::kMisplacedDeclaration, at, std::move(message));
    d.expected = "an instruction";
    d.hint = std::move(hint);
    return true;
  };
  const std::string name = "(" + std::string(w) + " …)";
  if (w == "local")
    return misplaced(name + " comes after an instruction", "Move all (local …) to the top of the function.");
  if (w == "param" || w == "result" || w == "type" || w == "export" || w == "import")
    return misplaced(
        name + " comes too late",
        "The order is (export …) (import …) (type …) (param …) (result …) (local …), then instructions.");
  if (w == "then" || w == "else") {
    Diagnostic& d = report(DiagnosticCode::kStrayElse, at, name + " belongs to no `if`");
    d.hint = "Write (if (condition) (then …) (else …)); check that the `if` was not closed before it.";
    return true;
  }
  if (std::find(std::begin(kFields), std::end(kFields), w) != std::end(kFields) || w == "module")
    return misplaced(name + " is among instructions", "Close the function before it: a ) is missing above.");
  return false;
}

// A literal or a name where an instruction is expected, as in (i32.add $x 1).
bool Parser::report_bare_operand(Token at) {
  if (at.kind == TokenKind::kReserved || at.kind == TokenKind::kEnd || at.kind == TokenKind::kString)
    return unexpected("an instruction");
  const std::string w(word(at).substr(0, kShownBytes));
  Diagnostic& d =
      report(DiagnosticCode::kBareOperand, at, quote(w) + " is where an operand should be computed");
  d.found = w;
  d.expected = "a folded instruction, or )";
  if (at.kind == TokenKind::kId) {
    const bool is_global =
        scope(Space::kLocal).find(w) == kNoIndex && scope(Space::kGlobal).find(w) != kNoIndex;
    d.hint = std::string("Write (") + (is_global ? "global" : "local") + ".get " + w + ").";
  } else if (at.kind == TokenKind::kInteger) {
    d.hint = "Write (i32.const " + w + ").";
  } else if (at.kind == TokenKind::kFloat) {
    d.hint = "Write (f64.const " + w + ").";
  } else {
    d.hint = "Put the operand in parentheses: (" + w + " …).";
  }
  return false;
}

}  // namespace membrane::wasm::text
