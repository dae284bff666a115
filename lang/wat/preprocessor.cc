#include "lang/wat/preprocessor.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/text.h"
#include "lang/wat/code_walker.h"

namespace membrane::lang {
namespace {

using Diagnostics = std::vector<Diagnostic>;

uint64_t pages_of(uint64_t bytes) {
  return std::max<uint64_t>((bytes + wasm::kPageBytes - 1) / wasm::kPageBytes, 1);
}

class Expander {
 public:
  Expander(std::string_view source, const std::vector<wasm::Token>& tokens, const HostTable& host)
      : source_(source),
        tree_(source, tokens),
        environment_(tree_, host),
        writer_(source),
        walker_(tree_, host, environment_, strings_, survey_, writer_) {}

  std::expected<Expansion, Diagnostics> run();

 private:
  void plan_memory();
  void plan_entry();
  void check_strings();
  void check_size();
  void write_fields();
  void add_field(const std::string& field) { fields_ += "\n  " + field; }

  std::string_view source_;
  Tree tree_;
  Environment environment_;
  StringPool strings_;
  Survey survey_;
  Writer writer_;
  CodeWalker walker_;

  std::string fields_;         // to append at the end
  uint64_t memory_pages_ = 0;  // needed by the program's own memory
};

std::expected<Expansion, Diagnostics> Expander::run() {
  if (!environment_.is_module) return Expansion{};
  strings_.set_base(
      static_cast<uint32_t>(std::clamp<uint64_t>(environment_.data_end, kScratchBytes, INT32_MAX)));
  walker_.walk_fields();
  check_size();
  plan_memory();
  plan_entry();
  const bool is_plain =
      !writer_.changed() && fields_.empty() && survey_.imports.empty() && !walker_.has_diagnostics();
  if (is_plain) return Expansion{};

  walker_.begin_writing(memory_pages_);
  walker_.walk_fields();
  check_size();
  check_strings();
  write_fields();
  if (walker_.has_diagnostics()) return std::unexpected(walker_.take_diagnostics());
  Expansion expansion = writer_.finish();
  expansion.untaken = walker_.take_untaken();
  return expansion;
}

// The memory that the code, the host and the literals need, and the exports that the host looks for.
void Expander::plan_memory() {
  const bool is_shared = survey_.uses_host || !strings_.empty();
  const bool is_needed = is_shared || survey_.uses_memory || environment_.has_active_data;
  const bool is_missing = is_needed && environment_.memory_count == 0;
  const uint64_t end =
      strings_.empty() ? std::max<uint64_t>(environment_.data_end, kScratchBytes) : strings_.end();
  memory_pages_ = strings_.empty() ? 0 : pages_of(end);
  const bool is_exported = environment_.memory_is_exported || environment_.exports_memory_name;
  if (is_missing) {
    add_field(std::string("(memory ") + (is_exported ? "" : "(export \"memory\") ") +
              std::to_string(pages_of(end)) + ")");
  } else if (is_shared && !is_exported) {
    add_field("(export \"memory\" (memory 0))");
  }
  if (!strings_.empty()) {
    std::string field = "(data (i32.const " + std::to_string(strings_.base()) + ") ";
    wasm::append_quoted(field, strings_.data());
    add_field(field + ")");
  }
  if (!environment_.exports_heap_base && (is_missing || !strings_.empty()))
    add_field("(global (export \"__heap_base\") i32 (i32.const " + std::to_string((end + 7) & ~uint64_t{7}) +
              "))");
}

void Expander::plan_entry() {
  if (environment_.exports_function || environment_.has_start) return;
  for (const std::string_view name : kEntries) {
    const std::string id = "$" + std::string(name);
    const FunctionInfo* entry = environment_.find_function(id);
    if (entry == nullptr || entry->is_import) continue;
    return add_field("(export \"" + std::string(name) + "\" (func " + id + "))");
  }
}

void Expander::check_size() {
  if (writer_.is_full())
    walker_.stop(
        DiagnosticCode::kTextTooLarge, environment_.fields_begin,
        "the forms expand to more than " + std::to_string(kMaxExpansionBytes >> 20) + " MiB of plain WAT");
}

// Whether there is room for the literals.
void Expander::check_strings() {
  if (strings_.empty()) return;
  if (environment_.unknown_data) {
    Diagnostic& d = walker_.report(
        DiagnosticCode::kStringPlacement, *environment_.unknown_data,
        "string literals are placed after the data segments, and the end of this one is not known");
    d.found = "an offset that is not constant";
    d.expected = "(data (i32.const 1024) …)";
  }
  const auto max = environment_.memory_max_pages;
  if (environment_.memory_count > 0 && !environment_.memory_is_import && max && *max < memory_pages_) {
    const Tree::Node at = environment_.memory_min != 0 ? environment_.memory_min : environment_.fields_begin;
    Diagnostic& d = walker_.report(DiagnosticCode::kStringPlacement, at,
                                   "the memory is too small for the string literals");
    d.found = count_of(*max, "page") + " at most";
    d.expected = count_of(memory_pages_, "page");
    d.hint = "Write (memory " + std::to_string(memory_pages_) + "), or leave the memory out: it is added.";
  }
}

void Expander::write_fields() {
  if (fields_.empty()) return;
  const Tree::Node first = environment_.fields_begin;
  const Tree::Node close = environment_.fields_end;
  const bool in_module = tree_.kind(close) == wasm::TokenKind::kClose;
  // Without a module around them the fields end the text, perhaps with a comment: right after the last one.
  const uint32_t at = in_module ? tree_.begin(close) : close == 0 ? 0 : tree_.end(close - 1);
  writer_.insert(at, fields_, tree_.begin(first), tree_.end(first));
}

}  // namespace

std::expected<Expansion, Diagnostics> expand(std::string_view source, const HostTable& host) {
  thread_local std::vector<wasm::Token> tokens;
  if (auto error = wasm::tokenize(source, tokens)) return std::unexpected(Diagnostics{std::move(*error)});
  return Expander(source, tokens, host).run();
}

}  // namespace membrane::lang
