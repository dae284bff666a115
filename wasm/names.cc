#include "wasm/names.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <string_view>

#include "base/leb128.h"
#include "wasm/byte_reader.h"

namespace membrane::wasm {
namespace {

// One row a subsection that holds a name map: its id, where its names go, and whether it maps
// first by function or type ("indirect").
struct Subsection {
  uint8_t id;
  std::vector<NameEntry> Names::* entries;
  bool is_indirect;
};
constexpr uint8_t kModuleName = 0;
constexpr Subsection kSubsections[] = {
    {1, &Names::functions, false}, {2, &Names::locals, true},    {3, &Names::labels, true},
    {4, &Names::types, false},     {5, &Names::tables, false},   {6, &Names::memories, false},
    {7, &Names::globals, false},   {8, &Names::elements, false}, {9, &Names::datas, false},
    {10, &Names::fields, true},    {11, &Names::tags, false},
};

// index name, ascending by index.
bool read_map(ByteReader& reader, uint32_t outer, std::vector<NameEntry>& out) {
  uint32_t count = 0;
  if (!reader.count(count, 2)) return false;
  if (out.empty()) out.reserve(count);  // with many small maps, each would move all that is there
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t index = 0;
    std::string_view name;
    if (!reader.u32(index) || !reader.name(name)) return false;
    if (i != 0 && index <= out.back().index) return false;
    out.push_back({outer, index, std::string(name)});
  }
  return true;
}

bool read_indirect_map(ByteReader& reader, std::vector<NameEntry>& out) {
  uint32_t count = 0;
  if (!reader.count(count, 2)) return false;
  std::optional<uint32_t> last;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t outer = 0;
    if (!reader.u32(outer)) return false;
    if (last && outer <= *last) return false;
    last = outer;
    if (!read_map(reader, outer, out)) return false;
  }
  return true;
}

bool read_subsection(ByteReader& reader, uint8_t id, Names& names) {
  if (id == kModuleName) {
    std::string_view name;
    if (!reader.name(name)) return false;
    names.module = name;
    return reader.at_end();
  }
  for (const Subsection& s : kSubsections) {
    if (s.id != id) continue;
    auto& entries = names.*s.entries;
    return (s.is_indirect ? read_indirect_map(reader, entries) : read_map(reader, 0, entries)) &&
           reader.at_end();
  }
  reader.skip_to(reader.end_offset());
  return true;
}

bool read_names(std::span<const uint8_t> contents, Names& names) {
  ByteReader reader(contents);
  int last_id = -1;
  while (!reader.at_end()) {
    uint8_t id = 0;
    ByteRange range;
    if (!reader.u8(id) || id <= last_id || !reader.range(range)) return false;
    last_id = id;
    ByteReader subsection(contents.subspan(range.offset, range.size));
    if (!read_subsection(subsection, id, names)) return false;
  }
  return true;
}

void append_name(std::vector<uint8_t>& out, std::string_view name) {
  write_leb128(out, static_cast<uint32_t>(name.size()));
  out.insert(out.end(), name.begin(), name.end());
}

void append_subsection(std::vector<uint8_t>& out, uint8_t id, const std::vector<uint8_t>& contents) {
  out.push_back(id);
  write_leb128(out, static_cast<uint32_t>(contents.size()));
  out.insert(out.end(), contents.begin(), contents.end());
}

void append_map(std::vector<uint8_t>& out, std::span<const NameEntry> entries) {
  write_leb128(out, static_cast<uint32_t>(entries.size()));
  for (const NameEntry& e : entries) {
    write_leb128(out, e.index);
    append_name(out, e.name);
  }
}

void append_indirect_map(std::vector<uint8_t>& out, std::span<const NameEntry> entries) {
  const auto group_end = [&](size_t begin) {
    size_t end = begin;
    while (end < entries.size() && entries[end].outer == entries[begin].outer) ++end;
    return end;
  };
  uint32_t groups = 0;
  for (size_t at = 0; at < entries.size(); at = group_end(at)) ++groups;
  write_leb128(out, groups);
  for (size_t at = 0; at < entries.size();) {
    const size_t end = group_end(at);
    write_leb128(out, entries[at].outer);
    append_map(out, entries.subspan(at, end - at));
    at = end;
  }
}

}  // namespace

Names decode_names(std::span<const uint8_t> contents) {
  Names names;
  if (!read_names(contents, names)) names = {};
  return names;
}

void encode_names(std::vector<uint8_t>& out, const Names& names) {
  std::vector<uint8_t> contents;
  if (!names.module.empty()) {
    append_name(contents, names.module);
    append_subsection(out, kModuleName, contents);
  }
  for (const Subsection& s : kSubsections) {
    const auto& entries = names.*s.entries;
    if (entries.empty()) continue;
    contents.clear();
    if (s.is_indirect) append_indirect_map(contents, entries);
    else append_map(contents, entries);
    append_subsection(out, s.id, contents);
  }
}

struct Names::Later {
  std::span<const uint8_t> contents;
  std::once_flag once;
  Names names;

  const Names& get() {
    std::call_once(once, [this] { names = decode_names(contents); });
    return names;
  }
};

Names decode_names_later(std::span<const uint8_t> contents) {
  Names names;
  names.later = std::make_shared<Names::Later>();
  names.later->contents = contents;
  return names;
}

namespace {

std::string_view find_name(const std::vector<NameEntry>& names, uint32_t outer, uint32_t index) {
  const auto at = std::lower_bound(names.begin(), names.end(), std::pair(outer, index),
                                   [](const NameEntry& e, std::pair<uint32_t, uint32_t> key) {
                                     return std::pair(e.outer, e.index) < key;
                                   });
  if (at == names.end() || at->outer != outer || at->index != index) return {};
  return at->name;
}

}  // namespace

std::string_view Names::function(uint32_t index) const {
  return find_name(later == nullptr ? functions : later->get().functions, 0, index);
}
std::string_view Names::local(uint32_t function, uint32_t index) const {
  return find_name(later == nullptr ? locals : later->get().locals, function, index);
}

}  // namespace membrane::wasm
