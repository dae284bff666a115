#include "engine/code/trap.h"

namespace membrane::engine {

std::string_view name_of(TrapKind kind) {
  static constexpr std::string_view kNames[] = {
#define X(id, name, text, hint) name,
      MEMBRANE_TRAPS(X)
#undef X
  };
  return kNames[static_cast<size_t>(kind)];
}

std::string_view text_of(TrapKind kind) {
  static constexpr std::string_view kTexts[] = {
#define X(id, name, text, hint) text,
      MEMBRANE_TRAPS(X)
#undef X
  };
  return kTexts[static_cast<size_t>(kind)];
}

std::string_view hint_of(TrapKind kind) {
  static constexpr std::string_view kHints[] = {
#define X(id, name, text, hint) hint,
      MEMBRANE_TRAPS(X)
#undef X
  };
  return kHints[static_cast<size_t>(kind)];
}

}  // namespace membrane::engine
