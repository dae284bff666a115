#include "lang/source_format.h"

namespace membrane::lang {

std::string_view name_of(SourceFormat format) {
  switch (format) {
    case SourceFormat::kAuto: return "auto";
    case SourceFormat::kWat: return "wat";
    case SourceFormat::kWasm: return "wasm";
  }
  return "auto";
}

SourceFormat detect(std::string_view source) {
  return source.starts_with(std::string_view("\0asm", 4)) ? SourceFormat::kWasm : SourceFormat::kWat;
}

}  // namespace membrane::lang
