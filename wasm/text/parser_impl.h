// The text parser's internals, for its own files only.
//
//   parser.cc               the two passes, names, diagnostics
//   parser_fields.cc        module fields
//   parser_types.cc         value types, function types, type uses, limits
//   parser_body.cc          instruction sequences: flat, folded, blocks
//   parser_immediates.cc    what follows a mnemonic
//   parser_errors.cc        findings and their repairs
//
// The text is lexed once into tokens with matched parentheses. The first pass reads only the
// head of each field, to give every name its index and to read the explicit types; the
// second pass reads the fields in full. A field's close is known from its open, so that the
// parser continues with the next field after an error.
//
// Functions that return bool return false when the rest of the field (or of the form that
// they name) cannot be read; the finding has then been reported. What can be mended without
// losing the place (an unknown name, a literal out of range) is reported and true returned.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/diagnostic.h"
#include "wasm/module.h"
#include "wasm/opcode.h"
#include "wasm/text/lexer.h"
#include "wasm/text/parser.h"
#include "wasm/text/scope.h"

namespace membrane::wasm::text {

inline constexpr size_t kShownBytes = 60;  // of a word in a message

enum class Space : uint8_t { kFunc, kTable, kMemory, kGlobal, kTag, kType, kElem, kData, kLocal };
inline constexpr size_t kSpaceCount = 9;

// An open block, loop, if, then or else, or a folded instruction whose operands are being read.
struct Frame {
  enum class Kind : uint8_t {
    kFlat,         // block … end, loop … end, try_table … end
    kFlatIf,       // if … (else may follow)
    kFlatElse,     // else … end
    kPlain,        // (i32.add …
    kFoldedBlock,  // (block …, (loop …, (try_table …
    kFoldedIf,     // (if … its condition; then and else are frames of their own
    kThen,         // (then …
    kElse,         // (else …
  };
  Kind kind;
  Token at;                // the mnemonic, and what belongs to it
  uint32_t open = 0;       // index of the token that opened it
  uint32_t pending = 0;    // kPlain, kFoldedIf: where its code starts in `pending`
  std::string_view label;  // with its $, or empty
  bool has_then = false;   // kFoldedIf
  bool has_else = false;
};

// Buffers that a thread keeps from one parse to the next.
struct Scratch {
  std::vector<Token> tokens;
  std::vector<Frame> frames;
  LabelScope labels;
  std::vector<uint8_t> pending;  // code of folded instructions that waits for their operands
  std::vector<ValType> params, results;
  NameScope scopes[kSpaceCount];
  HashIndex types;
  HashIndex fields;  // of structs, by type and name, into Names::fields
  Diagnostic spare;  // what report() returns when there are too many
  void clear();
};

struct TypeUse {
  uint32_t index = kNoIndex;  // into Module::types; kNoIndex when none was written or it is unknown
  bool is_explicit = false;   // it has `(type x)`
};

class Parser {
 public:
  // `module` is empty; it is unusable when run() fails.
  Parser(std::string_view text, Scratch& scratch, Module& module)
      : text_(text), s_(scratch), module_(module) {}

  bool run();
  std::vector<Diagnostic> take_errors() { return std::move(errors_); }

 private:
  // -- parser.cc: passes
  bool find_module();
  void declare_types();
  void declare_fields();
  void declare_field(uint32_t open);
  void declare_import(uint32_t open);
  uint32_t declare(Space space, uint32_t id_token);
  void note_definition(Token at, bool is_import);
  void define_fields();
  void keep_names();
  void check_forward_types();

  // -- tokens
  [[nodiscard]] const Token& peek(size_t ahead = 0) const { return s_.tokens[at_ + ahead]; }
  // Its text; of a name in quotes, the name without.
  [[nodiscard]] std::string_view word(const Token& t) const {
    const std::string_view text = t.in(text_);
    return t.kind == TokenKind::kId && is_quoted_id(text) ? unquoted_id(t) : text;
  }
  std::string_view unquoted_id(const Token& t) const;
  [[nodiscard]] bool at_keyword(std::string_view w) const {
    return peek().kind == TokenKind::kKeyword && word(peek()) == w;
  }
  // At `(w`.
  [[nodiscard]] bool at_form(std::string_view w) const {
    return peek().kind == TokenKind::kOpen && peek(1).kind == TokenKind::kKeyword && word(peek(1)) == w;
  }
  [[nodiscard]] bool at_index() const {
    return peek().kind == TokenKind::kInteger || peek().kind == TokenKind::kId;
  }
  std::string_view take_id();  // with its $; empty when there is none
  bool take_close(std::string_view form);
  bool take_string(std::string& out, std::string_view what);
  bool take_name(std::string& out, std::string_view what);  // a string that is UTF-8

  // -- parser_fields.cc
  bool define_field(uint32_t open);
  bool define_import();
  bool define_export();
  bool define_start(Token at);
  bool define_function(uint32_t close);
  bool define_table(uint32_t close);
  bool define_memory();
  bool define_global(uint32_t close);
  bool define_tag();
  bool define_elem(uint32_t close);
  bool define_data();
  bool read_inline_exports(ExternKind kind, uint32_t index);
  bool read_inline_import(ExternKind kind, uint32_t index);  // at `(import`
  void add_import(std::string module, std::string name, ExternKind kind, uint32_t index);
  bool read_locals(uint32_t& local_count, Function& function);
  bool read_offset(ByteRange& out);
  bool read_item(ElementSegment& segment);
  bool read_elem_items(ElementSegment& segment, uint32_t close);
  bool read_inline_elem(ElementSegment& segment, uint32_t close);
  bool read_elem_indices(ElementSegment& segment);
  bool read_strings(ByteRange& out);
  ByteRange zero_offset(const Limits& limits);
  ByteRange ref_func(uint32_t function);

  // -- parser_types.cc
  bool read_val_type(ValType& out);
  bool read_ref_type(ValType& out);
  bool read_ref_form(ValType& out);
  bool read_heap_type(ValType& out);
  [[nodiscard]] bool at_ref_type() const;
  bool read_limits(Limits& out);  // after the address type
  bool read_table_type(TableType& out);
  bool read_global_type(GlobalType& out);
  bool read_u64(uint64_t& out, std::string_view what);
  bool take_address_type();  // `i32`, `i64` or nothing; true for 64 bits
  bool read_params(bool binds_names, bool names_allowed);
  bool read_results();
  bool read_type_use(TypeUse& out, bool binds_names);
  bool define_types(uint32_t open);
  bool define_type(uint32_t open, uint32_t group_begin, uint32_t group_size);
  bool read_sub_type(TypeDetail& detail, uint32_t index);
  bool read_composite_type(TypeDetail& detail, uint32_t index);
  bool read_fields(TypeDetail& detail, uint32_t index);
  bool read_field_type(FieldType& out);
  void name_field(uint32_t type, uint32_t field, Token id);
  [[nodiscard]] uint32_t find_field(uint32_t type, std::string_view name) const;
  // For the scratch's params and results: the first equal type, which intern_type() appends when
  // there is none.
  [[nodiscard]] uint32_t find_type(uint32_t hash) const;
  uint32_t intern_type();

  // -- parser_body.cc
  bool read_expression(uint32_t stop, ByteRange& out);
  bool read_instruction();
  bool read_flat(Token at);
  bool read_folded();
  bool read_branch(bool is_then);
  bool close_folded();
  bool read_block_head(Frame& frame, Opcode op, std::vector<uint8_t>& out);
  bool read_end();
  bool read_flat_else();
  bool check_end_label(const Frame& frame);
  bool push(const Frame& frame);
  void open_label(std::string_view name);
  void emit_pending(const Frame& frame);
  void note_source(Token from);

  // -- parser_immediates.cc
  void read_plain(Opcode op, Token at, std::vector<uint8_t>& out);
  void read_select(std::vector<uint8_t>& out);
  void skip_type_use(uint32_t begin);
  void read_memarg(Opcode op, std::vector<uint8_t>& out);
  [[nodiscard]] bool at_memory_of_access(Opcode op) const;
  void read_call_indirect(std::vector<uint8_t>& out);
  void read_label_table(Token at, std::vector<uint8_t>& out);
  void read_v128(Token at, std::vector<uint8_t>& out);
  void read_ref_null(Token at, std::vector<uint8_t>& out);
  void read_cast(Opcode op, Token at, std::vector<uint8_t>& out);
  void read_label_cast(Token at, std::vector<uint8_t>& out);
  void read_field(Token at, std::vector<uint8_t>& out);
  bool read_block_type(std::vector<uint8_t>& out);
  bool read_clauses(std::vector<uint8_t>& out);
  uint32_t read_label(Token at);
  uint32_t read_index(Space space, Token at);  // 0 after a finding
  bool read_index_token(Space space, uint32_t& out);
  bool read_index_here(Space space, uint32_t& out);
  bool operand_follows(Token at, std::string_view what);
  uint64_t take_integer(unsigned bits, Token at, std::string_view what);
  uint64_t take_float(unsigned bits, Token at);
  uint8_t take_lane(Token at);

  // -- parser_errors.cc
  Diagnostic& report(DiagnosticCode code, Token at, std::string message);
  bool unexpected(std::string_view expected);  // at peek(); returns false
  void report_unknown_name(Space space, Token at);
  void report_unknown_label(Token at);
  void report_unknown_instruction(Token at);
  void report_unknown_field(Token at);
  void report_number(Token at, bool out_of_range, std::string_view type, std::string_view range);
  void report_missing_operand(Token at, std::string_view what);
  void report_duplicate(Space space, Token at);
  bool report_misplaced(Token at);
  bool report_legacy_exceptions(Token at);
  bool report_bare_operand(Token at);
  // No more findings are shown, so nothing more need be read.
  [[nodiscard]] bool full() const { return stopped_ || errors_.size() >= kMaxParseErrors; }
  bool must_stop();

  NameScope& scope(Space space) { return s_.scopes[static_cast<size_t>(space)]; }
  [[nodiscard]] uint32_t& count(Space space) { return counts_[static_cast<size_t>(space)]; }

  std::string_view text_;
  Scratch& s_;
  Module& module_;
  uint32_t at_ = 0;            // index of the next token
  uint32_t fields_begin_ = 0;  // token indices
  uint32_t fields_end_ = 0;
  uint32_t counts_[kSpaceCount] = {};  // declared so far, in the first pass
  Token first_definition_;             // kEnd until there is one
  Token start_;                        // kEnd until there is one
  uint32_t function_ = kNoIndex;       // whose body is read
  uint32_t label_count_ = 0;           // blocks begun in it so far
  struct ForwardType {
    uint32_t index;
    Token at;
  };
  std::vector<ForwardType> forward_types_;
  std::vector<Diagnostic> errors_;
  bool stopped_ = false;                                            // by the owner, through StopScope
  mutable std::unordered_map<uint32_t, std::string> unquoted_ids_;  // by where they begin
};

std::string_view name_of(Space space);  // "function", "local", …
void write_opcode(std::vector<uint8_t>& out, Opcode op);

}  // namespace membrane::wasm::text
