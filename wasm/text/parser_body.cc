// Instruction sequences. Three rules keep this linear and off the native stack:
//   1. what is open — blocks and folded instructions alike — is a Frame on one stack;
//   2. a folded instruction's code is made when its head is read and waits in `pending`, at
//      the top, until its operands have been emitted;
//   3. a sequence ends at a token whose index is known beforehand.
#include "base/leb128.h"
#include "wasm/text/parser_impl.h"

namespace membrane::wasm::text {
namespace {

bool is_flat(Frame::Kind kind) {
  return kind == Frame::Kind::kFlat || kind == Frame::Kind::kFlatIf || kind == Frame::Kind::kFlatElse;
}

bool has_label(Frame::Kind kind) { return kind != Frame::Kind::kPlain && kind != Frame::Kind::kFoldedIf; }

bool is_block(Opcode op) {
  return op == Opcode::kBlock || op == Opcode::kLoop || op == Opcode::kIf || op == Opcode::kTryTable;
}

}  // namespace

void write_opcode(std::vector<uint8_t>& out, Opcode op) {
  const OpcodeInfo& i = info(op);
  if (i.prefix == 0) {
    out.push_back(static_cast<uint8_t>(i.code));
  } else {
    out.push_back(i.prefix);
    write_leb128<uint32_t>(out, i.code);
  }
}

// The instructions up to the token `stop`, and an `end` after them.
bool Parser::read_expression(uint32_t stop, ByteRange& out) {
  out.offset = static_cast<uint32_t>(module_.bytes.size());
  s_.frames.clear();
  s_.labels.clear();
  s_.pending.clear();
  while (at_ != stop || !s_.frames.empty())
    if (!read_instruction() || full() || must_stop()) return false;
  module_.source_map.push_back({static_cast<uint32_t>(module_.bytes.size()), peek().begin, peek().end});
  write_opcode(module_.bytes, Opcode::kEnd);
  out.size = static_cast<uint32_t>(module_.bytes.size()) - out.offset;
  return true;
}

// One step: an instruction, or one end of a structure.
bool Parser::read_instruction() {
  const Token at = peek();
  switch (at.kind) {
    case TokenKind::kOpen: return read_folded();
    case TokenKind::kClose: return close_folded();
    case TokenKind::kKeyword:
      if (!s_.frames.empty()) {
        const Frame& top = s_.frames.back();
        if (top.kind == Frame::Kind::kPlain) return report_bare_operand(at);
        if (top.kind == Frame::Kind::kFoldedIf)
          return unexpected("a folded condition, (then …), or (else …)");
      }
      ++at_;
      return read_flat(at);
    default: return report_bare_operand(at);
  }
}

bool Parser::push(const Frame& frame) {
  if (s_.frames.size() >= kMaxTextNesting) {
    report(DiagnosticCode::kNestingTooDeep, frame.at, "instructions nest deeper than 10000 levels");
    return false;
  }
  s_.frames.push_back(frame);
  return true;
}

void Parser::open_label(std::string_view name) {
  s_.labels.push(name);
  if (!name.empty() && function_ != kNoIndex)
    module_.names.labels.push_back({function_, label_count_, std::string(name.substr(1))});
  ++label_count_;
}

void Parser::note_source(Token from) {
  module_.source_map.push_back({static_cast<uint32_t>(module_.bytes.size()), from.begin, from.end});
}

// The label, the type and the clauses of a block; `frame.at` grows to hold them.
bool Parser::read_block_head(Frame& frame, Opcode op, std::vector<uint8_t>& out) {
  frame.label = take_id();
  write_opcode(out, op);
  if (!read_block_type(out) || (op == Opcode::kTryTable && !read_clauses(out))) return false;
  frame.at.end = s_.tokens[at_ - 1].end;
  return true;
}

bool Parser::read_flat(Token at) {
  const std::string_view w = word(at);
  const auto op = find_mnemonic(w);
  if (!op) {
    if (report_misplaced(at)) return false;
    report_unknown_instruction(at);
    while (at_index() || peek().kind == TokenKind::kFloat || peek().kind == TokenKind::kString) ++at_;
    return true;
  }
  if (*op == Opcode::kEnd) return read_end();
  if (*op == Opcode::kElse) return read_flat_else();
  if (!is_block(*op)) {
    const size_t point = module_.source_map.size();
    note_source(at);
    read_plain(*op, at, module_.bytes);
    module_.source_map[point].text_end = s_.tokens[at_ - 1].end;
    return true;
  }
  Frame frame{*op == Opcode::kIf ? Frame::Kind::kFlatIf : Frame::Kind::kFlat, at, at_ - 1, 0, {}};
  const size_t point = module_.source_map.size();
  note_source(at);
  if (!read_block_head(frame, *op, module_.bytes)) return false;
  module_.source_map[point].text_end = frame.at.end;
  open_label(frame.label);
  return push(frame);
}

// `end $label?`, of which the keyword has been read.
bool Parser::read_end() {
  const Token at = s_.tokens[at_ - 1];
  if (s_.frames.empty() || !is_flat(s_.frames.back().kind)) {
    Diagnostic& d = report(DiagnosticCode::kStrayEnd, at, "this `end` closes no block");
    if (!s_.frames.empty()) d.hint = "A folded block ends with its ), without `end`.";
    return false;
  }
  if (!check_end_label(s_.frames.back())) return false;
  note_source(at);
  write_opcode(module_.bytes, Opcode::kEnd);
  s_.frames.pop_back();
  s_.labels.pop();
  return true;
}

bool Parser::read_flat_else() {
  const Token at = s_.tokens[at_ - 1];
  if (s_.frames.empty() || s_.frames.back().kind != Frame::Kind::kFlatIf) {
    report(DiagnosticCode::kStrayElse, at, "this `else` belongs to no `if`");
    return false;
  }
  if (!check_end_label(s_.frames.back())) return false;
  s_.frames.back().kind = Frame::Kind::kFlatElse;
  note_source(at);
  write_opcode(module_.bytes, Opcode::kElse);
  return true;
}

// The label after `end` and `else` repeats that of the block, or is not there.
bool Parser::check_end_label(const Frame& frame) {
  const Token at = peek();
  const std::string_view id = take_id();
  if (id.empty() || id == frame.label) return true;
  Diagnostic& d = report(DiagnosticCode::kLabelMismatch, at,
                         frame.label.empty() ? "the block has no label, its end has one"
                                             : "the label of this end is not that of its block");
  d.found = id;
  d.expected = frame.label.empty() ? "no label" : std::string(frame.label);
  return true;
}

// At `(`: the head of a folded instruction, or `(then`, `(else`.
bool Parser::read_folded() {
  const uint32_t open = at_;
  const Token at = peek(1);
  if (at.kind != TokenKind::kKeyword) {
    ++at_;
    return unexpected("an instruction");
  }
  const std::string_view w = word(at);
  if (!s_.frames.empty() && s_.frames.back().kind == Frame::Kind::kFoldedIf) {
    if (w == "then" || w == "else") return read_branch(w == "then");
    if (s_.frames.back().has_then) return unexpected("(else …), or ) to close the `if`");
  }
  const auto op = find_mnemonic(w);
  if (!op || *op == Opcode::kEnd || *op == Opcode::kElse) {
    if (report_misplaced(at)) return false;
    report_unknown_instruction(at);
    at_ = s_.tokens[open].partner + 1;
    return true;
  }
  at_ += 2;
  Frame frame{Frame::Kind::kPlain, at, open, static_cast<uint32_t>(s_.pending.size()), {}};
  if (*op != Opcode::kIf && is_block(*op)) {
    frame.kind = Frame::Kind::kFoldedBlock;
    const size_t point = module_.source_map.size();
    note_source(at);
    if (!read_block_head(frame, *op, module_.bytes)) return false;
    module_.source_map[point].text_end = frame.at.end;
    open_label(frame.label);
    return push(frame);
  }
  if (*op == Opcode::kIf) {
    frame.kind = Frame::Kind::kFoldedIf;
    return read_block_head(frame, *op, s_.pending) && push(frame);
  }
  const size_t errors = errors_.size();
  read_plain(*op, at, s_.pending);
  frame.at.end = s_.tokens[at_ - 1].end;
  if (errors_.size() != errors && peek().kind != TokenKind::kOpen && peek().kind != TokenKind::kClose) {
    at_ = s_.tokens[open].partner + 1;  // its head is wrong: what follows would only be noise
    s_.pending.resize(frame.pending);
    return true;
  }
  return push(frame);
}

// `(then …` and `(else …` of the folded if on top.
bool Parser::read_branch(bool is_then) {
  Frame& parent = s_.frames.back();
  const Token at = peek(1);
  if (is_then == parent.has_then || (!is_then && parent.has_else)) {
    report(DiagnosticCode::kStrayElse, at,
           is_then ? "this `if` has a (then …) already" : "an `if` has one (else …), after its (then …)");
    return false;
  }
  Frame frame{is_then ? Frame::Kind::kThen : Frame::Kind::kElse, at, at_, 0, parent.label};
  if (is_then) {
    parent.has_then = true;
    emit_pending(parent);
    open_label(parent.label);
  } else {
    parent.has_else = true;
    note_source(at);
    write_opcode(module_.bytes, Opcode::kElse);
    s_.labels.push(parent.label);
  }
  at_ += 2;
  return push(frame);
}

void Parser::emit_pending(const Frame& frame) {
  note_source(frame.at);
  module_.bytes.insert(module_.bytes.end(), s_.pending.begin() + frame.pending, s_.pending.end());
  s_.pending.resize(frame.pending);
}

// At `)`.
bool Parser::close_folded() {
  if (s_.frames.empty()) return unexpected("an instruction");
  const Frame frame = s_.frames.back();
  const Token close = peek();
  if (is_flat(frame.kind)) {
    Diagnostic& d = report(DiagnosticCode::kUnclosedBlock, close,
                           "the `" + std::string(word(s_.tokens[frame.open])) + "` in line " +
                               std::to_string(locate(text_, frame.at.begin).line) + " has no `end`");
    d.expected = "end";
    return false;
  }
  ++at_;
  s_.frames.pop_back();
  switch (frame.kind) {
    case Frame::Kind::kPlain: emit_pending(frame); return true;
    case Frame::Kind::kFoldedIf:
      if (!frame.has_then) {
        report(DiagnosticCode::kMissingThen, frame.at, "this `if` has no (then …)");
        return false;
      }
      note_source(close);
      write_opcode(module_.bytes, Opcode::kEnd);
      return true;
    case Frame::Kind::kFoldedBlock:
      note_source(close);
      write_opcode(module_.bytes, Opcode::kEnd);
      break;
    default: break;
  }
  if (has_label(frame.kind)) s_.labels.pop();
  return true;
}

}  // namespace membrane::wasm::text
