#include "engine/testing/generator_parts_testing.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace membrane::engine::generator {

uint64_t Choices::number() {
  static constexpr uint64_t kEdges[] = {0,
                                        1,
                                        2,
                                        7,
                                        31,
                                        32,
                                        63,
                                        64,
                                        255,
                                        0x7FFF,
                                        0x8000,
                                        0xFFFF,
                                        0x7FFFFFFF,
                                        0x80000000,
                                        0xFFFFFFFF,
                                        0xFFFFFFFE,
                                        0x100000000,
                                        0x7FFFFFFFFFFFFFFF,
                                        0x8000000000000000,
                                        0xFFFFFFFFFFFFFFFF,
                                        0xFFFFFFFF80000000,
                                        0xFFFFFFFF7FFFFFFF};
  if (const uint32_t kind = below(4); kind < 2) return below(40);
  else if (kind == 2) return kEdges[below(std::size(kEdges))];
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | byte();
  return value;
}

double double_of(Choices& choices) {
  static constexpr double kEdges[] = {0.0,
                                      -0.0,
                                      1.0,
                                      -1.0,
                                      0.5,
                                      1.5,
                                      2.5,
                                      -2.5,
                                      3e9,
                                      -3e9,
                                      1e19,
                                      1e-310,
                                      1e300,
                                      16777217.0,
                                      std::numeric_limits<double>::infinity(),
                                      -std::numeric_limits<double>::infinity()};
  return choices.one_in(4) ? static_cast<double>(static_cast<int64_t>(choices.number())) / 8.0
                           : kEdges[choices.below(std::size(kEdges))];
}

TypeSection::TypeSection(bool has_references) {
  if (!has_references) return;
  const Bytes pair = {0x7F, 1, 0x63, kPairType, 1};
  const auto with = [](Bytes head, const Bytes& fields) {
    head.insert(head.end(), fields.begin(), fields.end());
    return head;
  };
  Bytes large = with({0x50, 1, kPairType, 0x5F, 4}, pair);
  large.insert(large.end(), {0x78, 1, 0x7C, 1});
  first_ = {with({0x50, 0, 0x5F, 2}, pair), large, {0x5E, 0x77, 1}, {0x5E, 0x63, kPairType, 1}};
}

uint32_t TypeSection::index_of(const Types& params, const Types& results) {
  const wasm::FuncType wanted{params, results};
  const auto found = std::ranges::find(all_, wanted);
  const auto first = static_cast<uint32_t>(first_.size());
  if (found != all_.end()) return first + static_cast<uint32_t>(found - all_.begin());
  all_.push_back(wanted);
  return first + static_cast<uint32_t>(all_.size() - 1);
}

Bytes TypeSection::bytes() const {
  std::vector<Bytes> list = first_;
  for (const wasm::FuncType& t : all_) list.push_back(wasm::testing::func_type(t.params, t.results));
  return wasm::testing::section(1, wasm::testing::vec(list));
}

namespace {

ValType type_of_letter(char letter) {
  switch (letter) {
    case 'i': return kI32;
    case 'I': return kI64;
    case 'f': return kF32;
    case 'F': return kF64;
    default: return kV128;
  }
}

bool is_plain(const wasm::OpcodeInfo& row) {
  switch (row.immediate) {
    case Immediate::kNone:
    case Immediate::kMem:
    case Immediate::kMemLane:
    case Immediate::kLane:
    case Immediate::kShuffle: return row.signature != ":" && row.signature != "*";
    default: return false;
  }
}

std::vector<Plain> instructions_of(bool vectors) {
  std::vector<Plain> list;
  for (size_t i = 0; i < wasm::kOpcodeCount; ++i) {
    const auto op = static_cast<Opcode>(i);
    const wasm::OpcodeInfo& row = wasm::info(op);
    if (!is_plain(row) || (row.prefix == 0xFD) != vectors) continue;
    const size_t colon = row.signature.find(':');
    Plain entry{op, {}, {}};
    for (const char c : row.signature.substr(0, colon)) entry.operands.push_back(type_of_letter(c));
    for (const char c : row.signature.substr(colon + 1)) entry.results.push_back(type_of_letter(c));
    list.push_back(std::move(entry));
  }
  return list;
}

constexpr Opcode kFavourites[] = {Opcode::kI32Add,
                                  Opcode::kI32Add,
                                  Opcode::kI32Sub,
                                  Opcode::kI32Xor,
                                  Opcode::kI32Rotl,
                                  Opcode::kI32And,
                                  Opcode::kI32Shl,
                                  Opcode::kI32Eqz,
                                  Opcode::kI64Eqz,
                                  Opcode::kI32LtS,
                                  Opcode::kI32GeU,
                                  Opcode::kI64LtU,
                                  Opcode::kI64Eq,
                                  Opcode::kI64Add,
                                  Opcode::kI64Mul,
                                  Opcode::kF64Mul,
                                  Opcode::kF64Mul,
                                  Opcode::kF64Add,
                                  Opcode::kF64Sub,
                                  Opcode::kF32Mul,
                                  Opcode::kF32Add,
                                  Opcode::kI32Load,
                                  Opcode::kI32Load8U,
                                  Opcode::kF64Load,
                                  Opcode::kI64Load,
                                  Opcode::kI32Store,
                                  Opcode::kF64Store,
                                  Opcode::kI32WrapI64,
                                  Opcode::kI64ExtendI32S,
                                  Opcode::kI32ReinterpretF32,
                                  Opcode::kF64ReinterpretI64,
                                  Opcode::kF64Lt};

}  // namespace

const std::vector<Plain>& plain_instructions() {
  static const std::vector<Plain> all = instructions_of(false);
  return all;
}

const std::vector<Plain>& vector_instructions() {
  static const std::vector<Plain> all = instructions_of(true);
  return all;
}

uint32_t lanes_of(std::string_view mnemonic) {
  uint32_t lanes = 0;
  for (size_t i = mnemonic.find('x') + 1; mnemonic[i] != '.'; ++i)
    lanes = 10 * lanes + static_cast<uint32_t>(mnemonic[i] - '0');
  return lanes;
}

bool makes_nans(std::string_view text) {
  const bool has_floats = text.starts_with("f32") || text.starts_with("f64");
  const std::string_view name = text.substr(text.find('.') + 1);
  static constexpr std::string_view kComputing[] = {"add", "sub",  "mul",   "div",     "sqrt", "min",
                                                    "max", "ceil", "floor", "nearest", "trunc"};
  return has_floats && (std::ranges::find(kComputing, name) != std::end(kComputing) ||
                        name.starts_with("demote") || name.starts_with("promote"));
}

const Plain& plain(Opcode op) { return *std::ranges::find(plain_instructions(), op, &Plain::op); }

const Plain& favourite(Choices& choices) { return plain(kFavourites[choices.below(std::size(kFavourites))]); }

void append_opcode(Bytes& out, Opcode op) {
  const wasm::OpcodeInfo& row = wasm::info(op);
  if (row.prefix == 0) return out.push_back(static_cast<uint8_t>(row.code));
  out.push_back(row.prefix);
  write_leb128(out, uint32_t{row.code});
}

}  // namespace membrane::engine::generator
