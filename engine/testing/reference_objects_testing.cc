// Structs, arrays and casts in the slow interpreter. Objects are lists of cells, each of the width of its field's
// type, and are never freed.

#include <algorithm>

#include "engine/code/fuel.h"
#include "engine/testing/reference_testing.h"

namespace membrane::engine {
namespace {

using wasm::Instruction;
using wasm::Opcode;
using wasm::TypeKind;
using wasm::ValType;

uint64_t bytes_of(ValType type) {
  switch (type) {
    case ValType::kI8: return 1;
    case ValType::kI16: return 2;
    case ValType::kI32:
    case ValType::kF32: return 4;
    case ValType::kV128: return 16;
    default: return 8;
  }
}

uint64_t rounded(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

// The part of a value that a field keeps.
Cell packed(ValType type, const Cell& value) {
  if (type == ValType::kI8) return Cell(value.get<uint64_t>(0) & 0xFF);
  return type == ValType::kI16 ? Cell(value.get<uint64_t>(0) & 0xFFFF) : value;
}

uint64_t sign_extended(ValType type, uint64_t bits) {
  const uint64_t sign = type == ValType::kI8 ? 0x80 : 0x8000;
  return ((bits ^ sign) - sign) & UINT32_MAX;
}

bool is_inside(uint64_t from, uint64_t count, uint64_t size) { return from <= size && count <= size - from; }

}  // namespace

Reference::Object& Reference::object(uint64_t reference, TrapKind null) {
  if (reference == 0) trap(null);
  return objects_[reference >> 2];
}

bool Reference::is_of(uint64_t reference, ValType type) const {
  if (reference == 0) return wasm::is_nullable(type);
  const bool is_i31 = (reference & 1) != 0;
  if (wasm::is_indexed(type)) {
    if (is_i31) return false;
    uint32_t own = objects_[reference >> 2].type;
    while (own != wasm::type_index_of(type) && own != wasm::kNoType) own = module_.supertype_of(own);
    return own != wasm::kNoType;
  }
  switch (wasm::nullable(type)) {
    case ValType::kAnyRef:
    case ValType::kEqRef: return true;
    case ValType::kI31Ref: return is_i31;
    case ValType::kStructRef:
    case ValType::kArrayRef:
      return !is_i31 && (module_.kind_of_type(objects_[reference >> 2].type) == TypeKind::kStruct) ==
                            (wasm::nullable(type) == ValType::kStructRef);
    default: return false;
  }
}

void Reference::allocate(uint32_t type, std::vector<Cell> fields) {
  const auto types = module_.fields_of(type);
  const bool is_struct = module_.kind_of_type(type) == TypeKind::kStruct;
  uint64_t bytes = is_struct ? 0 : fields.size() * bytes_of(types[0].type);
  for (size_t i = 0; is_struct && i < types.size(); ++i)
    bytes = rounded(bytes, bytes_of(types[i].type)) + bytes_of(types[i].type);
  spend(allocation_cost(32 + rounded(bytes, 16)));
  for (size_t i = 0; i < fields.size(); ++i) fields[i] = packed(types[is_struct ? i : 0].type, fields[i]);
  objects_.push_back({type, std::move(fields)});
  push((objects_.size() - 1) << 2 | 2);
}

void Reference::make_array(const Instruction& in) {
  std::vector<Cell> fields;
  if (in.op == Opcode::kArrayNewFixed) {
    fields.assign(stack_.end() - static_cast<ptrdiff_t>(in.index2), stack_.end());
    stack_.resize(stack_.size() - in.index2);
  } else if (in.op == Opcode::kArrayNewData) {
    const uint64_t count = pop32(), from = pop32(), width = bytes_of(module_.fields_of(in.index)[0].type);
    const auto data = datas_[in.index2];
    if (!is_inside(from, count * width, data.size())) trap(TrapKind::kMemoryOutOfBounds);
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t bits = 0;
      for (uint64_t b = 0; b < width; ++b) bits |= uint64_t{data[from + i * width + b]} << (8 * b);
      fields.emplace_back(bits);
    }
  } else {
    const uint32_t length = pop32();
    const Cell value = in.op == Opcode::kArrayNew ? pop_cell() : Cell();
    fields.assign(length, value);
  }
  allocate(in.index, std::move(fields));
}

void Reference::struct_access(const Instruction& in) {
  const ValType type = module_.fields_of(in.index)[in.index2].type;
  if (in.op == Opcode::kStructSet) {
    const Cell value = pop_cell();
    object(pop(), TrapKind::kNullStructure).fields[in.index2] = packed(type, value);
    return;
  }
  const Cell value = object(pop(), TrapKind::kNullStructure).fields[in.index2];
  if (in.op == Opcode::kStructGetS) push(sign_extended(type, value.get<uint64_t>(0)));
  else push_cell(value);
}

void Reference::array_access(const Instruction& in) {
  const ValType type = module_.fields_of(in.index)[0].type;
  const Cell value = in.op == Opcode::kArraySet ? pop_cell() : Cell();
  const uint32_t index = pop32();
  Object& array = object(pop(), TrapKind::kNullArray);
  if (index >= array.fields.size()) trap(TrapKind::kArrayOutOfBounds);
  if (in.op == Opcode::kArraySet) array.fields[index] = packed(type, value);
  else if (in.op == Opcode::kArrayGetS) push(sign_extended(type, array.fields[index].get<uint64_t>(0)));
  else push_cell(array.fields[index]);
}

void Reference::array_bulk(const Instruction& in) {
  const ValType type = module_.fields_of(in.index)[0].type;
  const uint64_t count = pop32();
  if (in.op == Opcode::kArrayFill) {
    const Cell value = pop_cell();
    const uint32_t at = pop32();
    Object& array = object(pop(), TrapKind::kNullArray);
    if (!is_inside(at, count, array.fields.size())) trap(TrapKind::kArrayOutOfBounds);
    spend(bulk_memory_cost(count * bytes_of(type)));
    return void(std::fill_n(array.fields.begin() + at, count, packed(type, value)));
  }
  const uint32_t from = pop32();
  const uint64_t source = pop();
  const uint32_t at = pop32();
  Object& to = object(pop(), TrapKind::kNullArray);
  const std::vector<Cell> cells = object(source, TrapKind::kNullArray).fields;
  if (!is_inside(at, count, to.fields.size()) || !is_inside(from, count, cells.size()))
    trap(TrapKind::kArrayOutOfBounds);
  spend(bulk_memory_cost(count * bytes_of(type)));
  std::copy_n(cells.begin() + from, count, to.fields.begin() + at);
}

void Reference::reference(const Instruction& in) {
  switch (in.op) {
    case Opcode::kRefEq: {
      const uint64_t b = pop(), a = pop();
      return push(a == b ? 1 : 0);
    }
    case Opcode::kRefAsNonNull:
      if (stack_.back().get<uint64_t>(0) == 0) trap(TrapKind::kNullReference);
      return;
    case Opcode::kStructNew: {
      const auto count = static_cast<ptrdiff_t>(module_.fields_of(in.index).size());
      std::vector<Cell> fields(stack_.end() - count, stack_.end());
      stack_.resize(stack_.size() - fields.size());
      return allocate(in.index, std::move(fields));
    }
    case Opcode::kStructNewDefault:
      return allocate(in.index, std::vector<Cell>(module_.fields_of(in.index).size()));
    case Opcode::kStructGet:
    case Opcode::kStructGetS:
    case Opcode::kStructGetU:
    case Opcode::kStructSet: return struct_access(in);
    case Opcode::kArrayNew:
    case Opcode::kArrayNewDefault:
    case Opcode::kArrayNewFixed:
    case Opcode::kArrayNewData: return make_array(in);
    case Opcode::kArrayGet:
    case Opcode::kArrayGetS:
    case Opcode::kArrayGetU:
    case Opcode::kArraySet: return array_access(in);
    case Opcode::kArrayLen: return push(object(pop(), TrapKind::kNullArray).fields.size());
    case Opcode::kArrayFill:
    case Opcode::kArrayCopy: return array_bulk(in);
    case Opcode::kRefTest: return push(is_of(pop(), wasm::non_null(in.ref_type)) ? 1 : 0);
    case Opcode::kRefTestNull: return push(is_of(pop(), in.ref_type) ? 1 : 0);
    case Opcode::kRefCast:
      if (!is_of(stack_.back().get<uint64_t>(0), wasm::non_null(in.ref_type))) trap(TrapKind::kCastFailure);
      return;
    case Opcode::kRefCastNull:
      if (!is_of(stack_.back().get<uint64_t>(0), in.ref_type)) trap(TrapKind::kCastFailure);
      return;
    case Opcode::kRefI31: return push((pop() & 0x7FFFFFFF) << 1 | 1);
    case Opcode::kI31GetS:
    case Opcode::kI31GetU: {
      const uint64_t value = pop();
      if (value == 0) trap(TrapKind::kNullI31);
      const uint64_t sign = in.op == Opcode::kI31GetS ? 0x40000000 : 0;
      return push((((value >> 1) ^ sign) - sign) & UINT32_MAX);
    }
    case Opcode::kAnyConvertExtern:
    case Opcode::kExternConvertAny: return;
    default: trap(TrapKind::kUnreachable);  // the generator makes no others
  }
}

}  // namespace membrane::engine
