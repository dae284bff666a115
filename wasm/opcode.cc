#include "wasm/opcode.h"

namespace membrane::wasm {
namespace {

// FNV-1a over the few bytes of a mnemonic, into an open-addressed table that is
// four times as large as its contents: most look-ups compare one string.
class MnemonicTable {
 public:
  MnemonicTable() {
    slots_.fill(Opcode::kCount);
    for (size_t i = 0; i < kOpcodeCount; ++i) {
      const auto op = static_cast<Opcode>(i);
      // These share their mnemonics.
      if (op == Opcode::kSelectTyped || op == Opcode::kRefTestNull || op == Opcode::kRefCastNull) continue;
      size_t at = hash(info(op).text);
      while (slots_[at % kSlots] != Opcode::kCount) ++at;
      slots_[at % kSlots] = op;
    }
  }

  std::optional<Opcode> find(std::string_view text) const {
    for (size_t at = hash(text); slots_[at % kSlots] != Opcode::kCount; ++at)
      if (info(slots_[at % kSlots]).text == text) return slots_[at % kSlots];
    return std::nullopt;
  }

 private:
  static constexpr size_t kSlots = 2048;
  static_assert(kSlots > 2 * kOpcodeCount);

  static size_t hash(std::string_view text) {
    uint32_t h = 2166136261u;
    for (const char c : text) h = (h ^ static_cast<uint8_t>(c)) * 16777619u;
    return h ^ (h >> 15);
  }

  std::array<Opcode, kSlots> slots_{};
};

}  // namespace

std::optional<Opcode> find_mnemonic(std::string_view text) {
  static const MnemonicTable table;
  return table.find(text);
}

}  // namespace membrane::wasm
