// The formats of programs that the engine runs itself.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string_view>

namespace membrane::lang {

enum class SourceFormat : uint8_t {
  kAuto,  // decided from the source: see detect()
  kWat,   // text, with the preprocessor's forms
  kWasm,  // a binary
};
std::string_view name_of(SourceFormat format);  // "auto", "wat", "wasm"

// kWasm if the source begins with "\0asm", else kWat.
SourceFormat detect(std::string_view source);

}  // namespace membrane::lang
