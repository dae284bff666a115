#include "lang/wat/preprocessor.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "lang/wat/code_walker.h"
#include "wasm/text/parser.h"

namespace membrane::lang {
namespace {

using Diagnostics = std::vector<Diagnostic>;

// Exported when no function is, in this order.
constexpr std::string_view kEntries[] = {"$_start", "$run", "$main"};

uint64_t pages_of(uint64_t bytes) { return std::max<uint64_t>((bytes + wasm::kPageBytes - 1) / wasm::kPageBytes, 1); }

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
  void write_fields();
  void add_field(const std::string& field) { fields_ += "\n  " + field; }

  std::string_view source_;
  Tree tree_;
  Environment environment_;
  StringPool strings_;
  Survey survey_;
  Writer writer_;
  CodeWalker walker_;

  std::string fields_;          // to be added at the end
  uint64_t memory_pages_ = 0;   // that the program's own memory needs
};

std::expected<Expansion, Diagnostics> Expander::run() {
  if (!environment_.is_module) return Expansion{};
  strings_.set_base(static_cast<uint32_t>(std::clamp<uint64_t>(environment_.data_end, kScratchBytes, INT32_MAX)));
  walker_.walk_fields();
  plan_memory();
  plan_entry();
  const bool is_plain =
      !writer_.changed() && fields_.empty() && survey_.imports.empty() && !walker_.has_diagnostics();
  if (is_plain) return Expansion{};

  walker_.begin_writing(memory_pages_);
  walker_.walk_fields();
  check_strings();
  write_fields();
  if (walker_.has_diagnostics()) return std::unexpected(walker_.take_diagnostics());
  return writer_.finish();
}

// The memory that the code, the host and the literals need, and what the host has to find.
void Expander::plan_memory() {
  const bool is_shared = survey_.uses_host || !strings_.empty();
  const bool is_needed = is_shared || survey_.uses_memory || environment_.has_active_data;
  const bool is_missing = is_needed && environment_.memory_count == 0;
  const uint64_t end = strings_.empty() ? std::max<uint64_t>(environment_.data_end, kScratchBytes) : strings_.end();
  memory_pages_ = strings_.empty() ? 0 : pages_of(end);
  const bool is_exported = environment_.memory_is_exported || environment_.exports_memory_name;
  if (is_missing) {
    add_field(std::string("(memory ") + (is_exported ? "" : "(export \"memory\") ") + std::to_string(pages_of(end)) + ")");
  } else if (is_shared && !is_exported) {
    add_field("(export \"memory\" (memory 0))");
  }
  if (!strings_.empty()) {
    std::string field = "(data (i32.const " + std::to_string(strings_.base()) + ") ";
    wasm::append_quoted(field, strings_.data());
    add_field(field + ")");
  }
  if (!environment_.exports_heap_base && (is_missing || !strings_.empty()))
    add_field("(global (export \"__heap_base\") i32 (i32.const " + std::to_string((end + 7) & ~uint64_t{7}) + "))");
}

void Expander::plan_entry() {
  if (environment_.exports_function || environment_.has_start) return;
  for (const std::string_view id : kEntries) {
    const FunctionInfo* entry = environment_.find_function(id);
    if (entry == nullptr || entry->is_import) continue;
    return add_field("(export \"" + std::string(id.substr(1)) + "\" (func " + std::string(id) + "))");
  }
}

// Whether the literals have a place.
void Expander::check_strings() {
  if (strings_.empty()) return;
  if (environment_.unknown_data) {
    Diagnostic& d = walker_.report(DiagnosticCode::kStringPlacement, *environment_.unknown_data,
                                   "string literals go behind the data segments, and this one's end is not known");
    d.found = "an offset that is no constant";
    d.expected = "(data (i32.const 1024) …)";
  }
  const auto max = environment_.memory_max_pages;
  if (environment_.memory_count > 0 && !environment_.memory_is_import && max && *max < memory_pages_) {
    const Tree::Node at = environment_.memory_min != 0 ? environment_.memory_min : environment_.fields_begin;
    Diagnostic& d = walker_.report(DiagnosticCode::kStringPlacement, at, "the memory is too small for the string literals");
    d.found = std::to_string(*max) + " pages at most";
    d.expected = std::to_string(memory_pages_) + " pages";
    d.hint = "Write (memory " + std::to_string(memory_pages_) + "), or leave the memory out: it is added.";
  }
}

void Expander::write_fields() {
  if (fields_.empty()) return;
  const Tree::Node first = environment_.fields_begin;
  const Tree::Node close = environment_.fields_end;
  const bool in_module = tree_.kind(close) == wasm::TokenKind::kClose;
  // Without a module around them the fields end the text, maybe in a comment: right behind the last.
  const uint32_t at = in_module ? tree_.begin(close) : close == 0 ? 0 : tree_.end(close - 1);
  writer_.insert(at, fields_, tree_.begin(first), tree_.end(first));
}

bool has_exported_memory(const wasm::Module& module) {
  const wasm::Export* e = module.find_export("memory");
  return e != nullptr && e->kind == wasm::ExternKind::kMemory;
}

// Whether a valid module lacks what its host looks for: the memory's export, an entry.
bool lacks_exports(const wasm::Module& module, const HostTable& host) {
  for (const wasm::Import& i : module.imports)
    if (i.kind == wasm::ExternKind::kFunc && host.find(i.module, i.name) != nullptr) return !has_exported_memory(module);
  if (module.start != UINT32_MAX) return false;
  for (const wasm::Export& e : module.exports)
    if (e.kind == wasm::ExternKind::kFunc) return false;
  for (const wasm::NameEntry& name : module.names.functions)
    for (const std::string_view entry : kEntries)
      if (name.name == entry.substr(1)) return true;
  return false;
}

// Whether a form stands in the text, as far as the first letters behind its parentheses tell. A
// guess: it only decides whether to try the text as plain WAT first.
bool looks_sugared(std::string_view source) {
  static constexpr std::string_view kSigns[] = {"string", "set ", "while", "for ", "inc ", "dec ", "concat", "char", "break", "continue"};
  for (size_t at = source.find('('); at != std::string_view::npos; at = source.find('(', at + 1)) {
    const std::string_view behind = source.substr(at + 1, 8);
    if (behind.empty() || std::string_view("swfidcb").find(behind[0]) == std::string_view::npos) continue;
    for (const std::string_view sign : kSigns)
      if (behind.starts_with(sign)) return true;
  }
  return false;
}

std::expected<CompiledWat, Diagnostics> compile_plain(std::string_view text) {
  auto module = wasm::parse_text(text);
  if (!module) return std::unexpected(std::move(module).error());
  auto checked = wasm::validate(*module, text);
  if (!checked) return std::unexpected(Diagnostics{std::move(checked).error()});
  return CompiledWat{std::move(*module), std::move(*checked)};
}

}  // namespace

std::expected<Expansion, Diagnostics> expand(std::string_view source, const HostTable& host) {
  thread_local std::vector<wasm::Token> tokens;
  if (auto error = wasm::tokenize(source, tokens)) return std::unexpected(Diagnostics{std::move(*error)});
  return Expander(source, tokens, host).run();
}

std::expected<CompiledWat, Diagnostics> compile_wat(std::string_view source, const HostTable& host) {
  std::expected<CompiledWat, Diagnostics> plain = std::unexpected(Diagnostics{});
  const bool is_sugared = looks_sugared(source);
  if (!is_sugared) {
    plain = compile_plain(source);
    if (plain && !lacks_exports(plain->module, host)) return plain;
  }
  const auto expansion = expand(source, host);
  if (!expansion) return plain ? std::move(plain) : std::unexpected(expansion.error());
  if (!expansion->changed) return is_sugared ? compile_plain(source) : std::move(plain);

  auto compiled = compile_plain(expansion->text);
  if (!compiled) {
    for (Diagnostic& d : compiled.error())
      if (d.place.in_text()) d.place = expansion->original_place(d.place, source);
    return compiled;
  }
  for (wasm::SourcePoint& point : compiled->module.source_map) {
    const auto range = expansion->original_range(point.text_offset, point.text_end);
    point.text_offset = range.begin;
    point.text_end = range.end;
  }
  return compiled;
}

}  // namespace membrane::lang
