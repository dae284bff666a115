#include "engine/code/trap.h"

namespace membrane::engine {
namespace {

struct Words {
  std::string_view name, text, hint;
};
constexpr Words kWords[] = {
#define X(id, name, text, hint) {name, text, hint},
    MEMBRANE_TRAPS(X)
#undef X
};

const Words& words_of(TrapKind kind) { return kWords[static_cast<size_t>(kind)]; }

}  // namespace

std::string_view name_of(TrapKind kind) { return words_of(kind).name; }
std::string_view text_of(TrapKind kind) { return words_of(kind).text; }
std::string_view hint_of(TrapKind kind) { return words_of(kind).hint; }

}  // namespace membrane::engine
