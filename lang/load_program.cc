#include "lang/load_program.h"

#include <cctype>
#include <span>
#include <utility>

#include "base/findings.h"
#include "host/calls/registry.h"
#include "lang/foreign_source.h"
#include "lang/wat/load.h"
#include "wasm/binary.h"

namespace membrane::lang {
namespace {

HostSignature signature_for(const host::FunctionSpec& f) {
  HostSignature signature{
      std::string(f.module), std::string(f.name), host::wasm_signature_of(f), f.can_fail, 0,
      host::signature_of(f)};
  for (size_t i = 0; i < f.params.size(); ++i)
    if (host::is_string(f.params[i].type)) signature.string_params |= 1u << i;
  return signature;
}

}  // namespace

const HostTable& host_functions() {
  static const HostTable kTable = [] {
    std::vector<HostSignature> functions;
    for (const host::Capability& capability : host::capabilities())
      for (const host::FunctionSpec& f : capability.functions) functions.push_back(signature_for(f));
    return HostTable(std::move(functions));
  }();
  return kTable;
}

Diagnostic Loaded::to_author(Diagnostic diagnostic) const {
  if (!expansion_.changed || !diagnostic.place.in_text()) return diagnostic;
  diagnostic.place = expansion_.original_place(diagnostic.place, source_);
  if (diagnostic.code != DiagnosticCode::kLeftoverValues) return diagnostic;
  if (std::string hint = expansion_.hint_of_untaken(diagnostic.place); !hint.empty())
    diagnostic.hint = std::move(hint);
  return diagnostic;
}

Place Loaded::author_place(uint32_t text_offset) const {
  const auto range = expansion_.original_range(text_offset, text_offset + 1);
  return locate(source_, range.begin, range.end);
}

std::expected<Loaded, std::vector<Diagnostic>> load_program(std::string_view source, SourceFormat format,
                                                            std::string_view name) {
  if (format == SourceFormat::kAuto) format = detect(source);
  if (format == SourceFormat::kWasm) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(source.data());
    auto module = wasm::decode(std::span(bytes, source.size()));
    if (!module) return std::unexpected(bounded({std::move(module).error()}));
    return Loaded(std::move(*module), format, source);
  }
  if (auto foreign = foreign_source(source, name)) return std::unexpected(bounded({std::move(*foreign)}));
  auto loaded = load_wat(source, host_functions());
  if (!loaded) return std::unexpected(bounded(std::move(loaded).error()));
  return Loaded(std::move(loaded->module), format, source, std::move(loaded->expansion));
}

}  // namespace membrane::lang
