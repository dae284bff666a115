#include "engine/heap/runtime_types.h"

#include <algorithm>
#include <mutex>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "wasm/type_relations.h"

namespace membrane::engine {

using wasm::FuncType;
using wasm::ValType;

// A recursive group, once for all modules that have it.
struct ModuleTypes::Group {
  // Its form; references to types of other groups are their addresses, which are unique as long as a module
  // has this one.
  std::vector<uint64_t> key;
  size_t hash = 0;
  std::vector<RuntimeType> types;
  ~Group();
};

struct TypeRegistry {
  using Group = ModuleTypes::Group;
  std::mutex mutex;
  std::unordered_multimap<size_t, std::weak_ptr<Group>> groups;

  static TypeRegistry& instance() {
    static TypeRegistry& registry = *new TypeRegistry;  // outlives all modules
    return registry;
  }

  // The group with the key of `made`, which becomes it when there is none.
  std::shared_ptr<Group> find(std::shared_ptr<Group> made) {
    std::vector<std::shared_ptr<Group>> seen;  // freed when the mutex is
    const std::lock_guard lock(mutex);
    const auto [first, last] = groups.equal_range(made->hash);
    for (auto at = first; at != last; ++at) {
      seen.push_back(at->second.lock());
      if (seen.back() != nullptr && seen.back()->key == made->key) return seen.back();
    }
    groups.emplace(made->hash, made);
    return made;
  }

  // Those that are not used any more.
  void forget(size_t hash) {
    const std::lock_guard lock(mutex);
    const auto [first, last] = groups.equal_range(hash);
    for (auto at = first; at != last;) at = at->second.expired() ? groups.erase(at) : std::next(at);
  }
};

ModuleTypes::Group::~Group() { TypeRegistry::instance().forget(hash); }

// A group must not outlive those that it refers to.
ModuleTypes::~ModuleTypes() {
  while (!groups_.empty()) groups_.pop_back();
}

namespace {

bool names_types(const FuncType& type) {
  return std::ranges::any_of(type.params, wasm::is_indexed) ||
         std::ranges::any_of(type.results, wasm::is_indexed);
}

bool has_plain_types(const wasm::Module& module) {
  return std::ranges::all_of(module.type_details, wasm::is_plain) &&
         std::ranges::none_of(module.types, names_types);
}

// The key of a group, in which a type is named by its place in the group, or by the address of its RuntimeType.
class KeyWriter {
 public:
  KeyWriter(const wasm::Module& module, const std::vector<const FuncType*>& known, uint32_t begin,
            uint32_t size)
      : module_(module), known_(known), begin_(begin), end_(begin + size) {}

  std::vector<uint64_t> write() {
    for (uint32_t i = begin_; i < end_; ++i) type(i);
    return std::move(key_);
  }

 private:
  static constexpr uint64_t kAddress = uint64_t{1} << 63, kOwn = uint64_t{1} << 62;

  uint64_t number_of(uint32_t type) const {
    if (type >= begin_) return kOwn | (type - begin_);
    return kAddress | reinterpret_cast<uint64_t>(known_[type]);
  }
  void value_type(ValType type) {
    key_.push_back(wasm::is_indexed(type) && !wasm::is_nullable(type) ? 1 : 0);
    key_.push_back(wasm::is_indexed(type) ? number_of(wasm::type_index_of(type))
                                          : static_cast<uint64_t>(type));
  }
  void value_types(const std::vector<ValType>& types) {
    key_.push_back(types.size());
    for (const ValType t : types) value_type(t);
  }
  void type(uint32_t index) {
    static const wasm::TypeDetail plain;
    const wasm::TypeDetail& d = module_.type_details.empty() ? plain : module_.type_details[index];
    key_.push_back(static_cast<uint64_t>(d.kind) << 1 | (d.is_final ? 1 : 0));
    key_.push_back(d.supertype == wasm::kNoType ? 0 : number_of(d.supertype));
    key_.push_back(d.fields.size());
    for (const wasm::FieldType& f : d.fields) {
      value_type(f.type);
      key_.push_back(f.is_mutable ? 1 : 0);
    }
    value_types(module_.types[index].params);
    value_types(module_.types[index].results);
  }

  const wasm::Module& module_;
  const std::vector<const FuncType*>& known_;
  const uint32_t begin_, end_;
  std::vector<uint64_t> key_;
};

size_t hash_of(const std::vector<uint64_t>& key) {
  return std::hash<std::string_view>{}(
      {reinterpret_cast<const char*>(key.data()), key.size() * sizeof(uint64_t)});
}

}  // namespace

void ModuleTypes::find(const wasm::Module& module) {
  types_.reserve(module.types.size());
  if (!has_plain_types(module)) return look_up(module);
  for (const FuncType& type : module.types) types_.push_back(&type);
  if (types_.size() > 1) unify(module);
}

void ModuleTypes::unify(const wasm::Module&) {
  std::vector<const FuncType*> sorted = types_;
  const auto before = [](const FuncType* a, const FuncType* b) {
    return std::tie(a->params, a->results) < std::tie(b->params, b->results);
  };
  std::stable_sort(sorted.begin(), sorted.end(), before);
  for (const FuncType*& type : types_) type = *std::lower_bound(sorted.begin(), sorted.end(), type, before);
}

namespace {

uint8_t bytes_of(ValType type) {
  switch (type) {
    case ValType::kI8: return 1;
    case ValType::kI16: return 2;
    case ValType::kI32:
    case ValType::kF32: return 4;
    case ValType::kV128: return 16;
    default: return 8;
  }
}

Traced traced_in(const wasm::Module& module, ValType type) {
  if (!wasm::is_ref(type)) return Traced::kNothing;
  switch (wasm::top_of(module, type)) {
    case ValType::kAnyRef: return Traced::kAny;
    case ValType::kExternRef: return Traced::kExtern;
    default: return Traced::kNothing;
  }
}

void lay_out(const wasm::Module& module, const std::vector<wasm::FieldType>& fields, RuntimeType& type) {
  for (const wasm::FieldType& field : fields) {
    const uint32_t bytes = bytes_of(field.type);
    type.struct_bytes = (type.struct_bytes + bytes - 1) / bytes * bytes;
    type.fields.push_back({type.struct_bytes, static_cast<uint8_t>(bytes), traced_in(module, field.type)});
    type.struct_bytes += bytes;
  }
}

}  // namespace

void ModuleTypes::look_up(const wasm::Module& module) {
  static const wasm::TypeDetail plain;
  const auto detail = [&](uint32_t i) -> const wasm::TypeDetail& {
    return module.type_details.empty() ? plain : module.type_details[i];
  };
  for (uint32_t begin = 0; begin < module.types.size();) {
    const uint32_t size = detail(begin).group_size;
    auto made = std::make_shared<Group>();
    made->key = KeyWriter(module, types_, begin, size).write();
    made->hash = hash_of(made->key);
    made->types.resize(size);
    for (uint32_t i = begin; i < begin + size; ++i) {
      RuntimeType& type = made->types[i - begin];
      static_cast<FuncType&>(type) = module.types[i];
      type.kind = detail(i).kind;
      type.is_unique = !is_plain(detail(i)) || names_types(module.types[i]);
      lay_out(module, detail(i).fields, type);
      const uint32_t super = detail(i).supertype;
      if (super == wasm::kNoType) continue;
      type.supertype =
          super >= begin ? &made->types[super - begin] : static_cast<const RuntimeType*>(types_[super]);
      type.depth = type.supertype->depth + 1;
    }
    groups_.push_back(TypeRegistry::instance().find(std::move(made)));
    for (const RuntimeType& type : groups_.back()->types) types_.push_back(&type);
    begin += size;
  }
}

bool same_type(const FuncType* a, const FuncType* b) {
  return a == b || (!a->is_unique && !b->is_unique && a->params == b->params && a->results == b->results);
}

namespace {

ValType abstract_of(const FuncType* type) {
  switch (kind_of(type)) {
    case wasm::TypeKind::kFunc: return ValType::kFuncRef;
    case wasm::TypeKind::kStruct: return ValType::kStructRef;
    case wasm::TypeKind::kArray: return ValType::kArrayRef;
  }
  return ValType::kFuncRef;
}

}  // namespace

Traced traced_of(const RuntimeValType& type) {
  if (!wasm::is_ref(type.type)) return Traced::kNothing;
  const ValType heap = type.defined != nullptr ? abstract_of(type.defined) : wasm::nullable(type.type);
  if (wasm::abstract_matches(heap, ValType::kAnyRef)) return Traced::kAny;
  return wasm::abstract_matches(heap, ValType::kExternRef) ? Traced::kExtern : Traced::kNothing;
}

bool matches(const RuntimeValType& sub, const RuntimeValType& super) {
  if (!wasm::is_ref(sub.type) || !wasm::is_ref(super.type)) return sub.type == super.type;
  if (wasm::is_nullable(sub.type) && !wasm::is_nullable(super.type)) return false;
  if (sub.defined != nullptr && super.defined != nullptr) return is_subtype(sub.defined, super.defined);
  const ValType from = sub.defined != nullptr ? abstract_of(sub.defined) : wasm::nullable(sub.type);
  if (super.defined == nullptr) return wasm::abstract_matches(from, wasm::nullable(super.type));
  return wasm::is_bottom_ref(from) && wasm::abstract_matches(from, abstract_of(super.defined));
}

}  // namespace membrane::engine
