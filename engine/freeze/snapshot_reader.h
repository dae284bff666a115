// Reads the body of a snapshot, or the frames that were frozen alone, into a Snapshot. The bytes are foreign: nothing is
// accepted that the types of the module do not allow.
//
// Threads: one; the bytes, and what the pointers lead to, must outlive it. Errors: kInvalidInput.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/number_reader.h"
#include "engine/freeze/snapshot.h"
#include "engine/freeze/snapshot_format.h"
#include "engine/freeze/snapshot_references.h"
#include "engine/heap/runtime_types.h"
#include "wasm/type_relations.h"
#include "wasm/validate.h"

namespace membrane::engine {

struct SnapshotReader : NumberReader {
  using NumberReader::NumberReader;

  const wasm::Module* frozen = nullptr;  // the module that all of it is of
  wasm::TypeRelations* relations = nullptr;
  // How many there are. References to them come after them, except the fields of objects.
  uint64_t exception_count = 0;
  uint64_t* most_exception = nullptr;  // where objects' fields note the last that they refer to
  const std::vector<Snapshot::ObjectState>* objects = nullptr;
  KnownPlaces::Parts* known = nullptr;

  // The content of the section that must come next.
  std::optional<SnapshotReader> section(SnapshotSection wanted);
  // All sections after that of the module.
  Status read(Snapshot& s);
  Status frames(Snapshot& s);

  // Calls take(index, storage type, layout, offset, bits) for each field of each object.
  void fields(const Snapshot& s, auto take) {
    for (size_t i = 0; i < s.objects_.size(); ++i) {
      const Snapshot::ObjectState& object = s.objects_[i];
      const auto types = frozen->fields_of(object.type);
      const auto& layouts = static_cast<const RuntimeType*>(s.module_->canonical_type(object.type))->fields;
      const bool has_elements = is_array(*frozen, object.type);
      const uint64_t count = has_elements ? object.length : types.size();
      for (uint64_t n = 0; n < count && ok(); ++n) {
        const size_t field = has_elements ? 0 : n;
        field_slots_.clear();
        if (types[field].type == wasm::ValType::kI8) field_slots_.push_back(number<uint8_t>());
        else if (types[field].type == wasm::ValType::kI16) field_slots_.push_back(number<uint16_t>());
        else value(types[field].type, field_slots_);
        field_slots_.push_back(0);
        const uint64_t offset = has_elements ? n * layouts[0].bytes : layouts[field].offset;
        take(i, types[field].type, layouts[field], offset, field_slots_.data());
      }
    }
  }

 private:
  uint32_t u32() { return number<uint32_t>(); }
  uint64_t u64() { return number<uint64_t>(); }
  // Appends the slots of a value. A function is its index plus one.
  void value(wasm::ValType type, std::vector<uint64_t>& slots, bool may_be_unset = false);
  // Code relies on types without checks, so a reference must have its type.
  uint64_t reference(wasm::ValType type, bool may_be_unset);
  // Whether a number is a reference of the type, which is below anyref, and not null.
  [[nodiscard]] bool is_any(uint64_t any, wasm::ValType type) const;

  Status heap(Snapshot& s);
  Status exceptions(Snapshot& s);
  Status globals(Snapshot& s);
  Status memory(Snapshot& s);
  Status tables(Snapshot& s);
  Status segments(Snapshot& s);
  Status frame(Snapshot& s, size_t index, const wasm::StackTypes& stack);
  Status values_of_frames(Snapshot& s, std::span<const wasm::ValType> types, size_t locals);

  std::vector<uint64_t> field_slots_;  // of the current field
};

}  // namespace membrane::engine
