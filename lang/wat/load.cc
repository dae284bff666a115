#include "lang/wat/load.h"

#include <utility>

#include "lang/wat/immediates.h"
#include "lang/wat/preprocessor.h"
#include "wasm/body.h"
#include "wasm/text/parser.h"

namespace membrane::lang {
namespace {

using Diagnostics = std::vector<Diagnostic>;

bool has_exported_memory(const wasm::Module& module) {
  const wasm::Export* e = module.find_export("memory");
  return e != nullptr && e->kind == wasm::ExternKind::kMemory;
}

// Whether code uses a memory that the module does not have.
bool lacks_memory(const wasm::Module& module) {
  if (!module.memories.empty()) return false;
  if (!module.datas.empty()) return true;
  for (const wasm::Function& f : module.functions) {
    wasm::BodyReader reader(module.view(f.code));
    while (reader.next())
      if (uses_memory(reader.instruction().op)) return true;
  }
  return false;
}

// Whether a parsed module lacks what its host looks for: the memory's export, an entry.
bool lacks_exports(const wasm::Module& module, const HostTable& host) {
  for (const wasm::Import& i : module.imports)
    if (i.kind == wasm::ExternKind::kFunc && host.find(i.module, i.name) != nullptr)
      return !has_exported_memory(module);
  if (module.start != UINT32_MAX) return false;
  for (const wasm::Export& e : module.exports)
    if (e.kind == wasm::ExternKind::kFunc) return false;
  for (const wasm::NameEntry& name : module.names.functions)
    for (const std::string_view entry : kEntries)
      if (name.name == entry) return true;
  return false;
}

// Whether the text seems to contain a form, judging by the letters after its parentheses. A guess that decides
// whether to try the text as plain WAT first. It must recognise forms that would parse as plain WAT with another
// meaning: (if $x (then …)), where $x is not a label.
bool looks_sugared(std::string_view source) {
  static constexpr std::string_view kSigns[] = {"string", "set ", "while", "for ", "inc ",    "dec ",
                                                "concat", "char", "break", "if $", "continue"};
  for (size_t at = source.find('('); at != std::string_view::npos; at = source.find('(', at + 1)) {
    const std::string_view after = source.substr(at + 1, 8);
    if (after.empty() || std::string_view("swfidcb").find(after[0]) == std::string_view::npos) continue;
    for (const std::string_view sign : kSigns)
      if (after.starts_with(sign)) return true;
  }
  return false;
}

}  // namespace

std::expected<LoadedWat, Diagnostics> load_wat(std::string_view source, const HostTable& host) {
  std::expected<wasm::Module, Diagnostics> plain = std::unexpected(Diagnostics{});
  const bool is_sugared = looks_sugared(source);
  if (!is_sugared) {
    plain = wasm::parse_text(source);
    if (plain && !lacks_exports(*plain, host) && !lacks_memory(*plain))
      return LoadedWat{std::move(*plain), {}};
  }
  auto expansion = expand(source, host);
  if (expansion && !expansion->changed) {
    if (is_sugared) plain = wasm::parse_text(source);
    if (!plain) return std::unexpected(std::move(plain).error());
    return LoadedWat{std::move(*plain), {}};
  }
  if (!expansion) {  // a text that parses unchanged is left to the validator
    if (plain) return LoadedWat{std::move(*plain), {}};
    return std::unexpected(std::move(expansion).error());
  }
  auto module = wasm::parse_text(expansion->text);
  if (!module) {
    for (Diagnostic& d : module.error()) d.place = expansion->original_place(d.place, source);
    return std::unexpected(std::move(module).error());
  }
  return LoadedWat{std::move(*module), std::move(*expansion)};
}

}  // namespace membrane::lang
