#include "engine/freeze/instance_image.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "engine/freeze/function_numbers.h"
#include "engine/instance/machine.h"
#include "engine/memory/used_pages.h"
#include "wasm/type_relations.h"

namespace membrane::engine {
namespace {

std::unexpected<Error> unsupported(std::string what) {
  return fail(ErrorCode::kUnsupported, std::move(what), "Freeze a run of it into a snapshot instead.");
}

// The elements that are imports of the instance, which stands alone. Most are its own functions, which are contiguous.
std::vector<std::pair<size_t, uint32_t>> imports_among(std::span<const uint64_t> elements,
                                                       const Instance& instance) {
  std::vector<std::pair<size_t, uint32_t>> found;
  const auto imports = Machine::imports(instance);
  const size_t own_count = instance.module().functions.size() - imports.size();
  for (size_t at = 0; at < elements.size(); ++at) {
    if (elements[at] == 0 || Machine::place_among(Machine::own_functions(instance), own_count, elements[at]))
      continue;
    for (uint32_t i = 0; i < imports.size(); ++i)
      if (reinterpret_cast<uint64_t>(imports[i]) == elements[at]) found.emplace_back(at, i);
  }
  return found;
}

// Between two calls an exception is reached from globals and tables alone.
bool has_place_for_exceptions(const wasm::Module& module) {
  const auto may_hold = [&module](wasm::ValType type) {
    return wasm::is_ref(type) && wasm::top_of(module, type) == wasm::ValType::kExnRef;
  };
  return std::ranges::any_of(module.globals, [&](const wasm::Global& g) { return may_hold(g.type.type); }) ||
         std::ranges::any_of(module.tables, [&](const wasm::Table& t) { return may_hold(t.type.element); });
}

Status check(const Instance& instance) {
  const wasm::Module& module = instance.module();
  for (const wasm::Import& import : module.imports)
    if (import.kind != wasm::ExternKind::kFunc)
      return unsupported("the program imports a " + std::string(name_of(import.kind)) +
                         ", which others share");
  if (Machine::home(instance) == &instance)
    return unsupported("the instance was not made to stand alone, and its functions are its own");
  if (!module.type_details.empty()) return unsupported("the program has structs and arrays");
  if (Machine::exceptions(instance).size() != 0 && has_place_for_exceptions(module))
    return unsupported("the program keeps exceptions that it caught");
  return {};
}

}  // namespace

Result<InstanceImage::MemoryState> InstanceImage::whole(const Memory& memory) {
  std::vector<MemoryPart> parts;
  uint64_t end = 0;
  for (const auto& [offset, bytes] : used_pages(memory)) {
    parts.emplace_back(offset, std::span(memory.base() + offset, bytes));
    end = offset + bytes;
  }
  MemoryStart start{memory.pages(), parts.empty() ? nullptr : MemoryImage::create(end, parts)};
  if (!parts.empty() && start.image == nullptr)
    return fail(ErrorCode::kExhausted, "the system has no memory left for the image of an instance",
                "Run fewer sandboxes at once.");
  return MemoryState{std::move(start), memory.size_bytes()};
}

// Nothing when that would be more than a whole copy.
std::optional<InstanceImage::MemoryState> InstanceImage::changes(const Memory& memory) {
  auto ranges = changed_pages(memory);
  if (!ranges) return std::nullopt;
  MemoryState state{{memory.pages(), memory.image()}, memory.size_bytes()};
  uint64_t bytes = 0;
  for (const MemoryRange& range : *ranges) bytes += range.second;
  if (bytes > memory.image()->bytes()) return std::nullopt;
  state.changes = *std::move(ranges);
  state.content.resize_and_overwrite(bytes, [&](char* at, size_t) {
    for (const auto& [offset, size] : state.changes) {
      std::memcpy(at, memory.base() + offset, size);
      at += size;
    }
    return bytes;
  });
  return state;
}

Result<std::shared_ptr<const InstanceImage>> InstanceImage::capture(Instance& instance, Keep keep) {
  MEMBRANE_TRY(check(instance));
  const std::shared_ptr<InstanceImage> image(new InstanceImage);
  const wasm::Module& module = instance.module();
  image->module_ = instance.share_compiled();
  for (uint32_t i = 0; i < module.memories.size(); ++i) {
    const Memory& memory = Machine::memory(instance, i);
    auto state = keep == Keep::kChanges ? changes(memory) : std::nullopt;
    if (!state) {
      MEMBRANE_ASSIGN(state, whole(memory));
    }
    image->memories_.push_back(*std::move(state));
  }
  for (const Table* const table : Machine::tables(instance))
    image->tables_.push_back({table->elements, imports_among(table->elements, instance)});
  for (uint32_t i = 0; i < module.globals.size(); ++i) {
    const GlobalInstance& global = *Machine::global(instance, i);
    GlobalState state{global.bits, global.high_bits};
    if (wasm::is_ref(global.type.type))
      for (const auto& [at, import] : imports_among({&global.bits, 1}, instance)) state.import = import;
    image->globals_.push_back(state);
  }
  const auto& segments = Machine::segments(instance);
  for (size_t i = 0; i < segments.size(); ++i)
    if (!segments[i].empty())
      image->segments_.emplace_back(i, SegmentState{segments[i], imports_among(segments[i], instance)});
  image->dropped_datas_ = Machine::dropped_datas(instance);
  return image;
}

std::expected<Instance*, LinkError> InstanceImage::instantiate(Store& store, const Resolver& resolver,
                                                               const InstanceLimits& limits) const {
  std::vector<MemoryStart> starts;
  for (const MemoryState& memory : memories_) starts.push_back(memory.start);
  auto made = store.instantiate(module_, resolver, limits,
                                {.is_alone = true, .memories = &starts, .has_tables = false});
  if (!made) return made;
  Instance& instance = **made;
  for (uint32_t i = 0; i < memories_.size(); ++i) {
    uint8_t* const base = Machine::memory(instance, i).base();
    const char* at = memories_[i].content.data();
    for (const auto& [offset, size] : memories_[i].changes) {
      std::memcpy(base + offset, at, size);
      at += size;
    }
  }
  const auto import = [&](uint32_t index) {
    return reinterpret_cast<uint64_t>(Machine::function(instance, index));
  };
  for (uint32_t i = 0; i < globals_.size(); ++i) {
    GlobalInstance& global = *Machine::global(instance, i);
    global.bits = globals_[i].import == UINT32_MAX ? globals_[i].bits : import(globals_[i].import);
    global.high_bits = globals_[i].high_bits;
  }
  for (uint32_t i = 0; i < tables_.size(); ++i) {
    Table& table = *Machine::table(instance, i);
    if (!table.allow(tables_[i].elements.size()))
      return std::unexpected(
          LinkError{LinkError::Kind::kLimit,
                    {ErrorCode::kExhausted, "a table of the image is beyond the table limit",
                     "Raise the limit to what it was when the image was made."},
                    UINT32_MAX,
                    {}});
    table.elements = tables_[i].elements;
    for (const auto& [at, index] : tables_[i].imports) table.elements.writable()[at] = import(index);
  }
  auto& segments = Machine::segments(instance);
  for (const auto& [i, state] : segments_) {
    segments[i] = state.elements;
    for (const auto& [at, index] : state.imports) segments[i][at] = import(index);
  }
  Machine::dropped_datas(instance) = dropped_datas_;
  return made;
}

uint64_t InstanceImage::memory_bytes() const {
  return std::accumulate(memories_.begin(), memories_.end(), uint64_t{0},
                         [](uint64_t sum, const MemoryState& memory) { return sum + memory.bytes; });
}

uint64_t InstanceImage::changed_bytes() const {
  return std::accumulate(memories_.begin(), memories_.end(), uint64_t{0},
                         [](uint64_t sum, const MemoryState& memory) { return sum + memory.content.size(); });
}

namespace {

class IdentityHash {
 public:
  IdentityHash() { XXH3_128bits_reset(&hash_); }
  // The length is hashed, too, so that neighbouring parts cannot be confused.
  template <typename T>
  void all(std::span<const T> values) {
    one(uint64_t{values.size()});
    if (!values.empty()) XXH3_128bits_update(&hash_, values.data(), values.size_bytes());
  }
  template <typename T>
  void one(T value) {
    XXH3_128bits_update(&hash_, &value, sizeof value);
  }
  ImageIdentity value() {
    const XXH128_hash_t hash = XXH3_128bits_digest(&hash_);
    return {hash.low64, hash.high64};
  }

 private:
  XXH3_state_t hash_;
};

}  // namespace

Result<ImageIdentity> InstanceImage::make_identity() const {
  IdentityHash hash;
  const auto functions = [&](std::span<const uint64_t> references,
                             std::span<const std::pair<size_t, uint32_t>> imports) -> Status {
    MEMBRANE_ASSIGN(const auto numbers, function_numbers(references, *module_, imports));
    hash.all<uint32_t>(numbers);
    return {};
  };
  hash.all<uint8_t>(module_->module().content());
  for (const MemoryState& memory : memories_) {
    hash.one(memory.bytes);
    hash.all<uint8_t>(memory.start.image == nullptr ? std::span<const uint8_t>()
                                                    : memory.start.image->content());
    hash.all<MemoryRange>(memory.changes);
    hash.all<char>(memory.content);
  }
  for (const TableState& table : tables_) MEMBRANE_TRY(functions(table.elements, table.imports));
  for (size_t i = 0; i < globals_.size(); ++i) {
    const GlobalState& global = globals_[i];
    std::vector<std::pair<size_t, uint32_t>> imports;
    if (global.import != UINT32_MAX) imports.emplace_back(0, global.import);
    if (wasm::is_ref(module_->module().globals[i].type.type))
      MEMBRANE_TRY(functions({&global.bits, 1}, imports));
    else hash.one(global.bits);
    hash.one(global.high_bits);
  }
  for (const auto& [index, segment] : segments_) {
    hash.one(uint64_t{index});
    MEMBRANE_TRY(functions(segment.elements, segment.imports));
  }
  for (const bool dropped : dropped_datas_) hash.one(static_cast<uint8_t>(dropped));
  return hash.value();
}

Result<ImageIdentity> InstanceImage::identity() const {
  std::call_once(identity_once_, [this] { identity_ = make_identity(); });
  return identity_;
}

}  // namespace membrane::engine
