#include "engine/native/vector_constants.h"

#include <cstddef>
#include <cstring>

namespace membrane::engine::native {

uint32_t VectorConstants::number_of(const Constant& wanted) {
  constexpr size_t kLookedAt = 16;
  const size_t first = constants_.size() < kLookedAt ? 0 : constants_.size() - kLookedAt;
  for (size_t i = first; i < constants_.size(); ++i)
    if (constants_[i].low == wanted.low && constants_[i].high == wanted.high) return static_cast<uint32_t>(i);
  constants_.push_back(wanted);
  return static_cast<uint32_t>(constants_.size() - 1);
}

uint32_t VectorConstants::number_of_bytes(const uint8_t* bytes) {
  Constant c{};
  static_assert(sizeof c == 16);
  std::memcpy(&c, bytes, sizeof c);
  return number_of(c);
}

void VectorConstants::load(Assembler& a, Xmm to, uint64_t number) {
  const Constant& c = constants_[number];
  if (c.low == 0 && c.high == 0) return a.fbits(Assembler::Bits::kXor, to, to, to);
  if (c.low == UINT64_MAX && c.high == UINT64_MAX) return a.avx(Avx::kVpcmpeqd, to, to, to);
  loads_.emplace_back(a.vload16_rip(to), static_cast<uint32_t>(number));
}

void VectorConstants::write(Assembler& a) {
  if (loads_.empty()) return;
  const uint32_t first = a.here();
  for (const Constant& c : constants_) a.bytes(reinterpret_cast<const uint8_t*>(&c), sizeof c);
  for (const Load& load : loads_)
    a.patch(load.at, first + load.number * static_cast<uint32_t>(sizeof(Constant)));
}

}  // namespace membrane::engine::native
