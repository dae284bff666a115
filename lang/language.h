// Loads programs in the languages that the engine runs into modules.
//
//   source ─detect─▶ WAT ─expand, parse──┐
//                └─▶ Wasm ─decode────────┴─▶ Loaded::module ─▶ (engine: validate, compile)
//
// The preprocessor's host functions are the registry of capabilities (host/registry.h).
//
// Threads: Loaded is a value; the functions are pure.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "lang/wat/expansion.h"
#include "lang/wat/host_table.h"
#include "wasm/module.h"

namespace membrane::lang {

enum class Language : uint8_t {
  kAuto,  // decided from the source: see detect()
  kWat,   // with the preprocessor's forms
  kWasm,  // a binary
};
std::string_view name_of(Language language);  // "auto", "wat", "wasm"

// kWasm if the source begins with "\0asm", else kWat.
Language detect(std::string_view source);

// A module that is not validated yet, with the mapping from its places to the author's text.
class Loaded {
 public:
  Loaded() = default;
  Loaded(wasm::Module made, Language language_of_source, std::string_view source, Expansion expansion = {})
      : module(std::move(made)),
        language(language_of_source),
        source_(source),
        expansion_(std::move(expansion)) {}

  wasm::Module module;  // may be moved out; nothing else here needs it
  Language language = Language::kWat;

  // The text that the module was parsed from: the author's, or its expansion. Empty for a binary.
  [[nodiscard]] std::string_view text() const {
    return language == Language::kWasm ? std::string_view() : expansion_.text_or(source_);
  }
  // Converts a finding about `text()` to one about the author's text.
  [[nodiscard]] Diagnostic to_author(Diagnostic diagnostic) const;
  // The author's place of a byte of `text()`, as used in a module's source map.
  [[nodiscard]] Place author_place(uint32_t text_offset) const;

 private:
  std::string_view source_;  // borrowed from the caller of load_program()
  Expansion expansion_;
};

// `source` must outlive the result. `name` is the program's, for messages; its extension may indicate a language
// ("job.py"). Fails with the decoder's, the preprocessor's or the parser's findings, at places in `source`, bounded
// (base/findings.h); a source in another language gives kUnsupportedLanguage.
std::expected<Loaded, std::vector<Diagnostic>> load_program(std::string_view source,
                                                            Language language = Language::kAuto,
                                                            std::string_view name = {});

// The registry in the form that the preprocessor uses.
const HostTable& host_functions();

}  // namespace membrane::lang
