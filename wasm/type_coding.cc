#include "wasm/type_coding.h"

#include <algorithm>

#include "base/leb128.h"

namespace membrane::wasm {
namespace {

constexpr uint8_t kRefNull = kIndexedByte, kRef = 0x64;

constexpr bool is_abstract_heap_byte(uint8_t byte) {
  return byte >= byte_of(ValType::kExnRef) && byte <= byte_of(ValType::kNullExnRef);
}
constexpr bool is_simple_byte(uint8_t byte) { return byte >= byte_of(ValType::kV128) && byte <= 0x7F; }

}  // namespace

const uint8_t* read_heap_type(const uint8_t* at, const uint8_t* end, ValType& out) {
  if (at == end) return nullptr;
  if (is_abstract_heap_byte(*at)) {
    out = static_cast<ValType>(*at);
    return at + 1;
  }
  int64_t index = 0;
  const uint8_t* const next = read_leb128<int64_t, 33>(at, end, index);
  if (next == nullptr || index < 0) return nullptr;
  out = ref_null_to(static_cast<uint32_t>(std::min<int64_t>(index, kUnknownTypeIndex)));
  return next;
}

const uint8_t* read_val_type(const uint8_t* at, const uint8_t* end, ValType& out) {
  if (at == end) return nullptr;
  const uint8_t byte = *at;
  if (is_simple_byte(byte) || is_abstract_heap_byte(byte)) {
    out = static_cast<ValType>(byte);
    return at + 1;
  }
  if (byte != kRefNull && byte != kRef) return nullptr;
  const uint8_t* const next = read_heap_type(at + 1, end, out);
  if (next != nullptr && byte == kRef) out = non_null(out);
  return next;
}

void append_heap_type(std::vector<uint8_t>& out, ValType type) {
  if (is_indexed(type)) write_leb128(out, static_cast<int64_t>(type_index_of(type)));
  else out.push_back(byte_of(type));
}

void append_val_type(std::vector<uint8_t>& out, ValType type) {
  if (!is_ref(type) || (is_nullable(type) && !is_indexed(type))) return out.push_back(byte_of(type));
  out.push_back(is_nullable(type) ? kRefNull : kRef);
  append_heap_type(out, type);
}

}  // namespace membrane::wasm
