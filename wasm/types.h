// Types of WebAssembly 3.0 (specification, chapter 2.3).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace membrane::wasm {

// A number type, a vector type or a reference type. The low byte is the byte of the binary format, so that a
// switch over the enumerators is one over all but references to defined types:
//
//   31              12 11     9     8      7              0
//   | index of a type |        | no null | byte           |
//
// Of a reference, the byte is that of its heap type's nullable form; a reference to a type of the module has
// kIndexedByte and the type's index. Equal types have equal bits, but for types that are defined twice
// (type_relations.h). The enumerators of references are the nullable ones: kFuncRef is (ref null func).
//
// kBottom is the validator's "any type" in unreachable code, kBottomRef its "any reference": neither is
// ever in a module. kI8 and kI16 are of fields only.
enum class ValType : uint32_t {
  kI32 = 0x7F,
  kI64 = 0x7E,
  kF32 = 0x7D,
  kF64 = 0x7C,
  kV128 = 0x7B,
  kI8 = 0x78,
  kI16 = 0x77,
  kNullExnRef = 0x74,
  kNullFuncRef = 0x73,
  kNullExternRef = 0x72,
  kNullRef = 0x71,
  kFuncRef = 0x70,
  kExternRef = 0x6F,
  kAnyRef = 0x6E,
  kEqRef = 0x6D,
  kI31Ref = 0x6C,
  kStructRef = 0x6B,
  kArrayRef = 0x6A,
  kExnRef = 0x69,
  kBottomRef = 0x101,
  kBottom = 0x00,
};

inline constexpr uint32_t kNonNullBit = 0x100;
inline constexpr uint8_t kIndexedByte = 0x63;  // in the binary format, of any (ref null ht)
inline constexpr uint32_t kTypeIndexShift = 12;
inline constexpr uint32_t kUnknownTypeIndex = (1u << (32 - kTypeIndexShift)) - 1;  // beyond every limit

constexpr uint8_t byte_of(ValType t) { return static_cast<uint8_t>(t); }
constexpr bool is_ref(ValType t) {
  const uint8_t byte = byte_of(t);
  return (byte >= byte_of(ValType::kExnRef) && byte <= byte_of(ValType::kNullExnRef)) ||
         byte == kIndexedByte || byte == byte_of(ValType::kBottomRef);
}
constexpr bool is_num(ValType t) { return t >= ValType::kF64 && t <= ValType::kI32; }
constexpr bool is_packed(ValType t) { return t == ValType::kI8 || t == ValType::kI16; }
// Of references.
constexpr bool is_nullable(ValType t) { return (static_cast<uint32_t>(t) & kNonNullBit) == 0; }
constexpr ValType nullable(ValType t) {
  return static_cast<ValType>(static_cast<uint32_t>(t) & ~kNonNullBit);
}
constexpr ValType non_null(ValType t) { return static_cast<ValType>(static_cast<uint32_t>(t) | kNonNullBit); }
constexpr ValType with_nullability_of(ValType t, ValType other) {
  return is_nullable(other) ? nullable(t) : non_null(t);
}
// Of references to types of the module.
constexpr bool is_indexed(ValType t) { return byte_of(t) == kIndexedByte; }
constexpr uint32_t type_index_of(ValType t) { return static_cast<uint32_t>(t) >> kTypeIndexShift; }
constexpr ValType ref_null_to(uint32_t type_index) {
  return static_cast<ValType>(kIndexedByte | type_index << kTypeIndexShift);
}
constexpr ValType ref_to(uint32_t type_index) { return non_null(ref_null_to(type_index)); }
// Whether a local of it begins with a value: zero or null.
constexpr bool is_defaultable(ValType t) { return !is_ref(t) || is_nullable(t); }
// The type on the stack of a value in a field.
constexpr ValType unpacked(ValType t) { return is_packed(t) ? ValType::kI32 : t; }
// In 64-bit slots of a frame.
constexpr uint32_t slots_of(ValType t) { return t == ValType::kV128 ? 2 : 1; }
// A list of the one type, of static storage.
std::span<const ValType> only(ValType t);
// "i32", "funcref", "(ref 3)"; "any" for kBottom.
std::string name_of(ValType type);

struct FuncType {
  std::vector<ValType> params;
  std::vector<ValType> results;
  bool is_unique = false;  // at run time: it is no other but itself (engine/heap/runtime_types.h)
  friend bool operator==(const FuncType&, const FuncType&) = default;
};

// A defined type (chapter 2.3.8). Of a struct or an array, params and results are empty.
enum class TypeKind : uint8_t { kFunc, kStruct, kArray };
struct FieldType {
  ValType type = ValType::kI32;
  bool is_mutable = false;
  friend bool operator==(const FieldType&, const FieldType&) = default;
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
