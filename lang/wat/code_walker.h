// Walks a module's code and rewrites the preprocessor's forms as plain WAT.
//
//   fields.cc        the fields of the module, the locals of a function
//   code_walker.cc   sequences, folded instructions, blocks, bare operands, types of values
//   calls.cc         calls of functions and of host functions, checked calls
//   forms.cc         set, inc, dec, while, for, break, continue, string, char, concat
//   list_forms.cc    each, lines, words, split, items, alloc
//   mistakes.cc      what authors write instead of these, and the repair
//
// It runs twice over the same text. The survey collects what the code needs: imports, locals, the addresses of
// string literals, the loops that (break) leaves. The second run writes. Both make the same decisions in the same
// order, so that the n-th loop of one is the n-th of the other.
//
// The walker is lenient: it copies what it does not understand, for the parser to report.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/findings.h"
#include "lang/wat/environment.h"
#include "lang/wat/expansion.h"
#include "lang/wat/host_table.h"
#include "lang/wat/immediates.h"
#include "lang/wat/string_pool.h"
#include "lang/wat/tree.h"
#include "wasm/opcode.h"

namespace membrane::lang {

// For forms in one function; (for …) and (each …) count twice. The walker recurses for each, within a stack of 256
// KiB.
inline constexpr uint32_t kMaxFormNesting = 256;

// The survey's result for a function.
struct FunctionFacts {
  std::vector<VariableInfo> made_locals;  // by their first (set …), (for …) or (each …), and hidden ones
};
struct LoopFacts {
  bool has_break = false;
  bool has_continue = false;
};

// The survey's result for the module.
struct Survey {
  std::vector<const HostSignature*> imports;  // to add, in the order of first use
  bool uses_memory = false;
  bool uses_host = false;  // calls a host function, imported here or by the author
  std::vector<FunctionFacts> functions;
  std::vector<LoopFacts> loops;
  std::deque<std::string> names;  // generated for locals and labels, owned here
};

class CodeWalker {
 public:
  using Node = Tree::Node;

  CodeWalker(const Tree& tree, const HostTable& host, const Environment& environment, StringPool& strings,
             Survey& survey, Writer& writer)
      : tree_(tree),
        host_(host),
        environment_(environment),
        strings_(strings),
        survey_(survey),
        writer_(writer) {}

  // Walks all fields. The first run is the survey. begin_writing() starts the second, which gives the module's own
  // memory at least `memory_pages`.
  void walk_fields();
  void begin_writing(uint64_t memory_pages);

  [[nodiscard]] std::vector<Diagnostic> take_diagnostics() { return std::move(diagnostics_); }
  [[nodiscard]] std::vector<UntakenErrno> take_untaken() { return std::move(untaken_); }
  // Whether this run found anything. The survey only counts: its findings may disappear once all locals are known.
  [[nodiscard]] bool has_diagnostics() const { return has_findings_; }

  // A finding about a node: an atom, or the head of a form. Findings that are not shown are dropped.
  Diagnostic& report(DiagnosticCode code, Node n, std::string message);
  // A finding that ends this run and the next: it is always shown, whichever run this is.
  void stop(DiagnosticCode code, Node n, std::string message);

 private:
  // How many values an expression leaves, and the type if it is a single one. Unknown after a branch and where the
  // code is malformed.
  struct Values {
    bool known = false;
    size_t count = 0;
    wasm::ValType type = wasm::ValType::kBottom;  // if count is 1 and the type is known
  };
  struct Label {
    SharedType type;  // of the block, or null: no parameters and no results
    bool is_loop = false;

    [[nodiscard]] Types branch_types() const {  // the operands of a branch to it
      return type == nullptr ? Types() : Types(is_loop ? type->params : type->results);
    }
  };
  struct Loop {
    uint32_t number = 0;    // in Survey::loops
    std::string_view kind;  // "while", "for" or "each"
  };
  using Form = void (CodeWalker::*)(Node form);
  static constexpr unsigned kMaxTypeDepth = 6;
  static constexpr Node kNoNode = UINT32_MAX;

  // Whether another finding would be shown; check this before searching for a repair.
  [[nodiscard]] bool shows_findings() const { return writing_ && diagnostics_.size() < kMaxFindings; }
  void note_finding() { has_findings_ = true; }
  // Whether the rest of the text no longer matters.
  [[nodiscard]] bool is_over() const {
    return stopped_ || writer_.is_full() || (writing_ && diagnostics_.size() >= kMaxFindings);
  }
  Diagnostic& add_finding(DiagnosticCode code, Node n, std::string message);

  // -- fields.cc
  void write_imports();
  void walk_field(Node field);
  void walk_function(Node field);
  void walk_elem(Node field);
  void walk_global(Node field);
  void walk_memory(Node field);
  void report_outside(Node form);
  void walk_offset(Node n, Node close);
  // Added imports shift the indices of later functions: adjusts an index that names one.
  void shift_function(Node index);

  // -- code_walker.cc
  void sequence(Node n, Node close, Types results);
  Node flat_instruction(Node n, Node close, size_t outer_labels);
  void form(Node form);
  void folded(Node form, wasm::Opcode op);
  void block_form(Node form, wasm::Opcode op);
  void if_form(Node form);
  void operands(Node n, Node close, Types expected);
  void operand(Node n, wasm::ValType expected);
  void bare(Node n, wasm::ValType expected);
  [[nodiscard]] bool is_bare(Node n) const;
  void sequence_atom(Node n, Types results, size_t from_end, bool after_instruction);
  [[nodiscard]] std::vector<wasm::ValType> operand_types(wasm::Opcode op, Node immediate, Node n,
                                                         Node close) const;
  // `depth`: how many nested expressions may be examined for the type.
  [[nodiscard]] Values values_of(Node n, unsigned depth = kMaxTypeDepth) const;
  [[nodiscard]] Values values_of_opcode(wasm::Opcode op, Node form, unsigned depth) const;
  [[nodiscard]] wasm::ValType select_type(Node n, Node close, unsigned depth) const;
  [[nodiscard]] const Label* find_label(Node index) const;
  void push_label(std::string_view name, SharedType type = nullptr, bool is_loop = false);
  void note(wasm::Opcode op) { survey_.uses_memory |= uses_memory(op); }

  // -- variables
  [[nodiscard]] const VariableInfo* find_local(std::string_view id) const;
  [[nodiscard]] const VariableInfo* find_variable(std::string_view id) const;  // a local, else a global
  [[nodiscard]] std::optional<wasm::ValType> local_type(Node index) const;
  [[nodiscard]] std::optional<wasm::ValType> global_type(Node index) const;
  // "(local.get $x)" and "(local.set $x", or the same for a global.
  [[nodiscard]] std::string get(std::string_view id) const;
  [[nodiscard]] std::string_view setter(std::string_view id) const;
  void add_local(std::string_view id, wasm::ValType type);
  // Declares a local of this function, unless a variable of this name exists.
  void declare(std::string_view id, wasm::ValType type);
  // A name similar to this one that does not occur in the text; deterministic.
  std::string_view made_up(std::string name);
  std::string_view hidden_local(std::string name, wasm::ValType type);
  void report_unknown_variable(Node n);

  // -- calls.cc
  struct Callee {
    const wasm::FuncType* type = nullptr;  // null when unknown
    const HostSignature* host = nullptr;
    std::string_view name;     // without "$" and "!"
    bool has_bang = false;     // written with "!"
    bool is_checked = false;   // and there is an errno to check
    bool is_implicit = false;  // a host function that the author did not import
  };
  [[nodiscard]] Callee resolve(Node name) const;
  [[nodiscard]] Callee resolve_id(std::string_view id) const;
  [[nodiscard]] static size_t result_count(const Callee& callee);
  void use(const Callee& callee);
  void add_import(const HostSignature& function);
  void call_form(Node form);
  void checked_call(Node form, Node name, const Callee& callee);
  void flat_call(Node name);
  void tail_call(Node name);
  bool check_callee(const Callee& callee, Node name);
  void check_arguments(const Callee& callee, Node name, Node n, Node close);
  void report_unknown_function(Node name);
  void note_untaken(Node form, const Callee& callee);
  void report_number_as_string(Node n, std::string_view taker);
  [[nodiscard]] std::string errno_hint(Node value) const;
  // Writes the text before and after a call that checks its errno.
  void need_check(std::string_view name);
  [[nodiscard]] std::string check_prefix(const wasm::FuncType& type, bool is_flat) const;
  [[nodiscard]] std::string check_suffix(std::string_view name, Node at);
  [[nodiscard]] uint32_t line_of(uint32_t offset);

  // -- forms.cc
  static Form find_form(std::string_view word);
  [[nodiscard]] Values values_of_form(std::string_view word, Node form) const;
  void string_form(Node form);
  void char_form(Node form);
  void set_form(Node form);
  void write_set(Node form, size_t targets, Node value);
  void check_set_type(Node target, Node value);
  void inc_form(Node form) { step_form(form, "add"); }
  void dec_form(Node form) { step_form(form, "sub"); }
  void step_form(Node form, std::string_view operation);
  void while_form(Node form);
  void for_form(Node form);
  void break_form(Node form) { leave_loop(form, true); }
  void continue_form(Node form) { leave_loop(form, false); }
  void leave_loop(Node form, bool is_break);
  void concat_form(Node form);
  void function_form(Node form);
  void alloc_form(Node form);
  void each_form(Node form);
  void write_each(Node form, Node list, bool has_index);
  uint32_t enter_loop(std::string_view kind);
  void leave_labels(size_t count);
  [[nodiscard]] std::string loop_label(uint32_t loop, std::string_view kind, std::string_view part = {});
  [[nodiscard]] std::string find_loop_suffix() const;
  bool check_one_value(Node n, std::string_view taker);
  bool unquote_into(std::string& out, Node n, Node close) const;

  // -- mistakes.cc
  bool report_mistaken_form(Node form);
  bool report_mistaken_atom(Node n);
  bool report_foreign_word(Node n);

  const Tree& tree_;
  const HostTable& host_;
  const Environment& environment_;
  StringPool& strings_;
  Survey& survey_;
  Writer& writer_;
  bool writing_ = false;
  uint64_t memory_pages_ = 0;
  std::vector<Diagnostic> diagnostics_;
  std::vector<UntakenErrno> untaken_;
  Diagnostic spare_;                                           // takes findings beyond the limit
  bool has_findings_ = false;                                  // in this run
  bool stopped_ = false;                                       // continuing is pointless
  std::unordered_map<std::string, std::string_view> made_up_;  // by the original name
  std::optional<std::string> loop_suffix_;                     // created on first use
  std::vector<uint32_t> line_begins_;                          // created on first use
  std::string_view fail_id_;                                   // of the import membrane.fail

  // For the run
  size_t function_number_ = 0;  // of the defined functions
  uint32_t loop_count_ = 0;
  uint32_t nesting_ = 0;

  // For the current function
  std::string_view function_id_;
  SharedType function_type_;
  LocalList locals_;
  wasm::NameScope local_ids_;
  std::vector<Label> labels_;
  wasm::LabelScope label_names_;  // for the same labels
  std::vector<Loop> loops_;
  std::string_view errno_id_;
  bool in_function_ = false;
  uint32_t function_end_ = 0;
  Node form_ = kNoNode;   // the current form; kNoNode between the forms of a sequence
  Node taker_ = kNoNode;  // the enclosing form that takes its values; kNoNode when there is none
};

}  // namespace membrane::lang
