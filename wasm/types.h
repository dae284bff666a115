// Types of WebAssembly 3.0 but for typed references and garbage collection (specification, chapter 2.3).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace membrane::wasm {

// The enumerators are the bytes of the binary format. kBottom is the validator's
// "any type" in unreachable code and never stands in a module.
enum class ValType : uint8_t {
  kI32 = 0x7F,
  kI64 = 0x7E,
  kF32 = 0x7D,
  kF64 = 0x7C,
  kV128 = 0x7B,
  kFuncRef = 0x70,
  kExternRef = 0x6F,
  kExnRef = 0x69,
  kBottom = 0x00,
};

constexpr bool is_ref(ValType t) {
  return t == ValType::kFuncRef || t == ValType::kExternRef || t == ValType::kExnRef;
}
constexpr bool is_num(ValType t) { return t >= ValType::kF64 && t <= ValType::kI32; }
constexpr bool is_valtype_byte(uint8_t b) {
  return (b >= 0x7B && b <= 0x7F) || is_ref(static_cast<ValType>(b));
}
// In 64-bit slots of a frame.
constexpr uint32_t slots_of(ValType t) { return t == ValType::kV128 ? 2 : 1; }
// A list of the one type, of static storage.
namespace detail {
inline constexpr std::array<ValType, 256> kEachType = [] {
  std::array<ValType, 256> types{};
  for (size_t i = 0; i < types.size(); ++i) types[i] = static_cast<ValType>(i);
  return types;
}();
}  // namespace detail
constexpr std::span<const ValType> only(ValType t) {
  return {&detail::kEachType[static_cast<uint8_t>(t)], 1};
}
std::string_view name_of(ValType type);  // "i32", "funcref"; "any" for kBottom

struct FuncType {
  std::vector<ValType> params;
  std::vector<ValType> results;
  friend bool operator==(const FuncType&, const FuncType&) = default;
};
constexpr uint32_t slots_of(std::span<const ValType> types) {
  uint32_t slots = 0;
  for (const ValType type : types) slots += slots_of(type);
  return slots;
}

// In pages of 64 KiB for memories, in elements for tables.
struct Limits {
  uint64_t min = 0;
  std::optional<uint64_t> max;
  bool is_64 = false;  // addresses and sizes are i64
  friend bool operator==(const Limits&, const Limits&) = default;
};

struct TableType {
  ValType element = ValType::kFuncRef;
  Limits limits;
};
struct MemoryType {
  Limits limits;
};
struct GlobalType {
  ValType type = ValType::kI32;
  bool is_mutable = false;
  friend bool operator==(const GlobalType&, const GlobalType&) = default;
};

inline constexpr uint32_t kPageBytes = 65536;
inline constexpr uint32_t kMaxPages = 65536;
inline constexpr uint64_t kMaxPages64 = uint64_t{1} << 48;  // of a memory with 64-bit addresses
constexpr ValType address_type(const Limits& limits) { return limits.is_64 ? ValType::kI64 : ValType::kI32; }

enum class ExternKind : uint8_t { kFunc = 0, kTable = 1, kMemory = 2, kGlobal = 3, kTag = 4 };
std::string_view name_of(ExternKind kind);  // "func", "table", "memory", "global", "tag"

}  // namespace membrane::wasm
