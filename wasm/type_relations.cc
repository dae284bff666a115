#include "wasm/type_relations.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace membrane::wasm {
namespace {

// The heap type of a defined type's kind.
ValType abstract_of(const Module& module, uint32_t type) {
  switch (module.kind_of_type(type)) {
    case TypeKind::kFunc: return ValType::kFuncRef;
    case TypeKind::kStruct: return ValType::kStructRef;
    case TypeKind::kArray: return ValType::kArrayRef;
  }
  return ValType::kFuncRef;
}

ValType top_of_abstract(ValType type) {
  switch (type) {
    case ValType::kFuncRef:
    case ValType::kNullFuncRef: return ValType::kFuncRef;
    case ValType::kExternRef:
    case ValType::kNullExternRef: return ValType::kExternRef;
    case ValType::kExnRef:
    case ValType::kNullExnRef: return ValType::kExnRef;
    default: return ValType::kAnyRef;
  }
}

}  // namespace

bool is_bottom_ref(ValType type) {
  return type == ValType::kNullRef || type == ValType::kNullFuncRef || type == ValType::kNullExternRef ||
         type == ValType::kNullExnRef;
}

bool abstract_matches(ValType sub, ValType super) {
  if (sub == super) return true;
  if (top_of_abstract(sub) != top_of_abstract(super)) return false;
  if (is_bottom_ref(sub) || super == top_of_abstract(super)) return true;
  return super == ValType::kEqRef &&
         (sub == ValType::kI31Ref || sub == ValType::kStructRef || sub == ValType::kArrayRef);
}

ValType top_of(const Module& module, ValType type) {
  return top_of_abstract(is_indexed(type) ? abstract_of(module, type_index_of(type)) : nullable(type));
}

bool TypeRelations::reference_matches(ValType sub, ValType super) {
  if (sub == ValType::kBottomRef) return true;
  if (!is_ref(sub) || (is_nullable(sub) && !is_nullable(super))) return false;
  return heap_type_matches(nullable(sub), nullable(super));
}

// Both nullable.
bool TypeRelations::heap_type_matches(ValType sub, ValType super) {
  if (sub == super) return true;
  if (is_indexed(super)) {
    if (is_indexed(sub)) return type_matches(type_index_of(sub), type_index_of(super));
    return is_bottom_ref(sub) && abstract_matches(sub, abstract_of(module_, type_index_of(super)));
  }
  return abstract_matches(is_indexed(sub) ? abstract_of(module_, type_index_of(sub)) : sub, super);
}

bool TypeRelations::type_matches(uint32_t sub, uint32_t super) {
  if (same(sub, super)) return true;
  const uint32_t wanted = depth(super);
  while (ancestry_[sub].depth > wanted) {
    const uint32_t jump = ancestry_[sub].jump;
    sub = ancestry_[jump].depth >= wanted ? jump : module_.supertype_of(sub);
  }
  return same(sub, super);
}

bool TypeRelations::field_matches(const FieldType& sub, const FieldType& super) {
  if (sub.is_mutable != super.is_mutable) return false;
  return sub.is_mutable ? matches(sub.type, super.type) && matches(super.type, sub.type)
                        : matches(sub.type, super.type);
}

// A reference to the group itself is written as the number of the member, and one to another type
// as the number of that type.
uint32_t TypeRelations::number_in_key(ValType type, uint32_t begin, uint32_t end) const {
  constexpr uint32_t kOfGroup = 1u << 9;
  if (!is_indexed(type)) return static_cast<uint32_t>(type);
  const uint32_t index = type_index_of(type);
  const bool is_own = index >= begin && index < end;
  const ValType plain = is_own ? ref_null_to(index - begin) : ref_null_to(canonical_[index]);
  return static_cast<uint32_t>(with_nullability_of(plain, type)) | (is_own ? kOfGroup : 0);
}

void TypeRelations::append_key(std::vector<uint32_t>& key, uint32_t begin, uint32_t size) const {
  const uint32_t end = begin + size;
  const auto types = [&](const std::vector<ValType>& list) {
    key.push_back(static_cast<uint32_t>(list.size()));
    for (const ValType type : list) key.push_back(number_in_key(type, begin, end));
  };
  for (uint32_t i = begin; i < end; ++i) {
    if (module_.type_details.empty()) {
      key.insert(key.end(), {0, kNoType, 0});
    } else {
      const TypeDetail& d = module_.type_details[i];
      const ValType super = d.supertype == kNoType ? ValType::kBottom : ref_null_to(d.supertype);
      key.push_back(static_cast<uint32_t>(d.kind) << 1 | (d.is_final ? 0 : 1));
      key.push_back(d.supertype == kNoType ? kNoType : number_in_key(super, begin, end));
      key.push_back(static_cast<uint32_t>(d.fields.size()));
      for (const FieldType& f : d.fields) {
        key.push_back(number_in_key(f.type, begin, end));
        key.push_back(f.is_mutable ? 1 : 0);
      }
    }
    types(module_.types[i].params);
    types(module_.types[i].results);
  }
}

void TypeRelations::relate() {
  find_canonical();
  find_ancestry();
}

void TypeRelations::find_ancestry() {
  const auto count = static_cast<uint32_t>(module_.types.size());
  ancestry_.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t super = module_.supertype_of(i);
    if (super == kNoType) {
      ancestry_[i] = {.depth = 0, .jump = i};
      continue;
    }
    const Ancestry& above = ancestry_[super];
    const Ancestry& jumped = ancestry_[above.jump];
    const bool equal = above.depth - jumped.depth == jumped.depth - ancestry_[jumped.jump].depth;
    ancestry_[i] = {.depth = above.depth + 1, .jump = equal ? jumped.jump : super};
  }
}

void TypeRelations::find_canonical() {
  const auto count = static_cast<uint32_t>(module_.types.size());
  canonical_.resize(count);
  std::vector<uint32_t> keys;  // of the groups that are kept, one after the other
  struct Group {
    size_t key_begin, key_end;
    uint32_t first;
  };
  std::unordered_multimap<size_t, Group> groups;
  const auto bytes_of = [&](size_t begin, size_t end) {
    return std::string_view(reinterpret_cast<const char*>(keys.data() + begin),
                            (end - begin) * sizeof(uint32_t));
  };
  for (uint32_t begin = 0; begin < count;) {
    const uint32_t size = module_.type_details.empty() ? 1 : module_.type_details[begin].group_size;
    const size_t key_begin = keys.size();
    append_key(keys, begin, size);
    const std::string_view key = bytes_of(key_begin, keys.size());
    const size_t hash = std::hash<std::string_view>{}(key);
    const auto [first, last] = groups.equal_range(hash);
    const auto found = std::find_if(
        first, last, [&](const auto& g) { return bytes_of(g.second.key_begin, g.second.key_end) == key; });
    const uint32_t same = found == last ? begin : found->second.first;
    for (uint32_t i = 0; i < size; ++i) canonical_[begin + i] = same + i;
    if (found == last) groups.emplace(hash, Group{key_begin, keys.size(), begin});
    else keys.resize(key_begin);
    begin += size;
  }
}

}  // namespace membrane::wasm
