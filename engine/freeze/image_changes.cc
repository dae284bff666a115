#include "engine/freeze/image_changes.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/leb128.h"
#include "base/number_reader.h"
#include "engine/freeze/function_numbers.h"
#include "wasm/type_relations.h"

namespace membrane::engine {
namespace {

constexpr uint64_t kPage = 4096;
// A gap of equal bytes is written, too, when it is shorter than this: another run costs as much.
constexpr size_t kLeastGap = 4;
constexpr std::array<uint8_t, kPage> kZeros{};

std::unexpected<Error> damaged(std::string what) {
  return fail(ErrorCode::kInvalidInput, "the changes are damaged: " + std::move(what),
              "Keep the session again.");
}

// Runs of bytes that have changed.
class Runs {
 public:
  void compare(uint64_t at, const uint8_t* now, const uint8_t* before) {
    for (size_t i = 0; i < kPage;) {
      i = next_difference(i, now, before);
      if (i == kPage) return;
      size_t end = i + 1;
      for (size_t next = end; next < kPage && next - end < kLeastGap; ++next)
        if (now[next] != before[next]) end = next + 1;
      add(at + i, {now + i, end - i});
      i = end;
    }
  }
  void write(std::vector<uint8_t>& out) const;

 private:
  static size_t next_difference(size_t i, const uint8_t* now, const uint8_t* before) {
    const auto word = [](const uint8_t* from) {
      uint64_t value = 0;
      std::memcpy(&value, from, sizeof value);
      return value;
    };
    while (i + sizeof(uint64_t) <= kPage && word(now + i) == word(before + i)) i += sizeof(uint64_t);
    while (i < kPage && now[i] == before[i]) ++i;
    return i;
  }
  void add(uint64_t at, std::span<const uint8_t> bytes) {
    if (!runs_.empty() && runs_.back().first + runs_.back().second == at) runs_.back().second += bytes.size();
    else runs_.emplace_back(at, bytes.size());
    content_.insert(content_.end(), bytes.begin(), bytes.end());
  }

  std::vector<MemoryRange> runs_;
  std::vector<uint8_t> content_;
};

void put(std::vector<uint8_t>& out, const auto& value) {
  const auto* const from = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), from, from + sizeof value);
}

void Runs::write(std::vector<uint8_t>& out) const {
  std::vector<uint8_t> list;
  uint64_t end = 0;
  for (const auto& [at, bytes] : runs_) {
    write_leb128(list, at - end);
    write_leb128(list, bytes);
    end = at + bytes;
  }
  out.reserve(out.size() + list.size() + content_.size() + 2 * sizeof(uint64_t));
  put(out, uint64_t{list.size()});
  out.insert(out.end(), list.begin(), list.end());
  put(out, uint64_t{content_.size()});
  out.insert(out.end(), content_.begin(), content_.end());
}

// The values at ascending indices; each with a number.
template <typename Number>
class Places {
 public:
  void add(uint32_t index, Number number) { places_.emplace_back(index, number); }
  void write(std::vector<uint8_t>& out) const {
    put(out, static_cast<uint32_t>(places_.size()));
    for (const auto& [index, number] : places_) {
      put(out, index);
      put(out, number);
    }
  }

 private:
  std::vector<std::pair<uint32_t, Number>> places_;
};

class Reader : public NumberReader {
 public:
  using NumberReader::NumberReader;

  // Calls take(index) for each of the ascending indices, to read the value. An index that is not below `end` fails.
  void places(uint64_t end, auto take) {
    const auto count = number<uint32_t>();
    uint64_t least = 0;
    for (uint32_t i = 0; i < count && ok(); ++i) {
      const auto index = number<uint32_t>();
      if (index < least || index >= end) fail();
      least = uint64_t{index} + 1;
      if (ok()) take(index);
    }
  }
};

}  // namespace

struct ImageChanges {
  using Image = InstanceImage;

  // A memory's pages one after the other, ascending.
  class Pages {
   public:
    explicit Pages(const Image::MemoryState& memory) : memory_(memory) {}

    // The content of a page, valid until the next call. Pages must ascend.
    const uint8_t* at(uint64_t page) {
      const auto& changes = memory_.changes;
      while (next_ < changes.size() && end_of(changes[next_]) <= page) content_at_ += changes[next_++].second;
      if (next_ == changes.size() || changes[next_].first >= page + kPage) return began_as(page);
      if (changes[next_].first <= page && end_of(changes[next_]) >= page + kPage)
        return reinterpret_cast<const uint8_t*>(memory_.content.data()) + content_at_ +
               (page - changes[next_].first);
      std::memcpy(mixed_.data(), began_as(page), kPage);
      uint64_t content_at = content_at_;
      for (size_t i = next_; i < changes.size() && changes[i].first < page + kPage; ++i) {
        const uint64_t from = std::max(page, changes[i].first),
                       to = std::min(page + kPage, end_of(changes[i]));
        std::memcpy(mixed_.data() + (from - page),
                    memory_.content.data() + content_at + (from - changes[i].first), to - from);
        content_at += changes[i].second;
      }
      return mixed_.data();
    }

   private:
    static uint64_t end_of(const MemoryRange& range) { return range.first + range.second; }
    const uint8_t* began_as(uint64_t page) const {
      const bool is_in_image = memory_.start.image != nullptr && page < memory_.start.image->bytes();
      return is_in_image ? memory_.start.image->content().data() + page : kZeros.data();
    }

    const Image::MemoryState& memory_;
    size_t next_ = 0;          // of the changes, the first that does not end before the page
    uint64_t content_at_ = 0;  // where its content is
    std::array<uint8_t, kPage> mixed_{};
  };

  static uint64_t image_bytes(const Image::MemoryState& memory) {
    return memory.start.image == nullptr ? 0 : memory.start.image->bytes();
  }

  static void write_memory(const Image::MemoryState& now, const Image::MemoryState& before,
                           std::vector<uint8_t>& out) {
    put(out, static_cast<uint32_t>(now.start.pages));
    Runs runs;
    Pages pages_now(now), pages_before(before);
    const auto compare = [&](uint64_t from, uint64_t to) {
      for (uint64_t page = from; page < to; page += kPage)
        runs.compare(page, pages_now.at(page), pages_before.at(page));
    };
    if (now.start.image == before.start.image) {  // nothing else can differ
      uint64_t done = 0;
      for (const auto& [offset, bytes] : now.changes) {
        const uint64_t end = (offset + bytes + kPage - 1) / kPage * kPage;
        compare(std::max(done, offset / kPage * kPage), end);
        done = std::max(done, end);
      }
    } else {
      const uint64_t last = now.changes.empty() ? 0 : now.changes.back().first + now.changes.back().second;
      compare(0, std::max({last, image_bytes(now), image_bytes(before)}));
    }
    runs.write(out);
  }

  static Status write_table(const Image& image, const Image& of, size_t i, std::vector<uint8_t>& out) {
    const Image::TableState &now = image.tables_[i], &before = of.tables_[i];
    put(out, static_cast<uint32_t>(now.elements.size()));
    Places<uint32_t> changed;
    if (now.elements.data() != before.elements.data() || now.elements.size() != before.elements.size()) {
      MEMBRANE_ASSIGN(const auto numbers, function_numbers(now.elements, *image.module_, now.imports));
      MEMBRANE_ASSIGN(const auto numbers_before,
                      function_numbers(before.elements, *of.module_, before.imports));
      for (uint32_t n = 0; n < numbers.size(); ++n)
        if (numbers[n] != (n < numbers_before.size() ? numbers_before[n] : 0)) changed.add(n, numbers[n]);
    }
    changed.write(out);
    return {};
  }

  struct GlobalValue {
    uint64_t bits, high_bits;
    bool operator==(const GlobalValue&) const = default;
  };
  static Result<GlobalValue> value_of(const Image& image, size_t i) {
    const Image::GlobalState& global = image.globals_[i];
    if (!wasm::is_ref(image.module_->module().globals[i].type.type))
      return GlobalValue{global.bits, global.high_bits};
    std::vector<std::pair<size_t, uint32_t>> imports;
    if (global.import != UINT32_MAX) imports.emplace_back(0, global.import);
    MEMBRANE_ASSIGN(const auto numbers, function_numbers({&global.bits, 1}, *image.module_, imports));
    return GlobalValue{numbers[0], 0};
  }

  static Status write_globals(const Image& image, const Image& of, std::vector<uint8_t>& out) {
    Places<GlobalValue> changed;
    for (uint32_t i = 0; i < image.globals_.size(); ++i) {
      MEMBRANE_ASSIGN(const GlobalValue now, value_of(image, i));
      MEMBRANE_ASSIGN(const GlobalValue before, value_of(of, i));
      if (now != before) changed.add(i, now);
    }
    changed.write(out);
    return {};
  }

  // Segments are dropped, and never otherwise changed.
  static void write_segments(const Image& image, const Image& of, std::vector<uint8_t>& out) {
    std::vector<uint32_t> dropped, dropped_datas;
    for (const auto& [index, segment] : of.segments_)
      if (std::ranges::find(image.segments_, index, [](const auto& one) { return one.first; }) ==
          image.segments_.end())
        dropped.push_back(static_cast<uint32_t>(index));
    for (uint32_t i = 0; i < image.dropped_datas_.size(); ++i)
      if (image.dropped_datas_[i] && !of.dropped_datas_[i]) dropped_datas.push_back(i);
    for (const auto& list : {dropped, dropped_datas}) {
      put(out, static_cast<uint32_t>(list.size()));
      for (const uint32_t index : list) put(out, index);
    }
  }

  static Result<std::vector<uint8_t>> write(const Image& image, const Image& of) {
    const auto is_whole = [](const Image::MemoryState& memory) { return memory.changes.empty(); };
    if (image.module_ != of.module_ || !std::ranges::all_of(of.memories_, is_whole))
      return fail(ErrorCode::kInvalidArgument, "the image is not of what it is compared with",
                  "Give the image that its instance began with.");
    std::vector<uint8_t> out;
    for (size_t i = 0; i < image.memories_.size(); ++i)
      write_memory(image.memories_[i], of.memories_[i], out);
    for (size_t i = 0; i < image.tables_.size(); ++i) MEMBRANE_TRY(write_table(image, of, i, out));
    MEMBRANE_TRY(write_globals(image, of, out));
    write_segments(image, of, out);
    return out;
  }

  // -- reading ----------------------------------------------------------------------------------------------------

  static Status read_memory(Reader& in, const wasm::Memory& type, Image::MemoryState& memory) {
    const auto pages = in.number<uint32_t>();
    if (pages < memory.start.pages || pages > wasm::kMaxPages ||
        pages > type.type.limits.max.value_or(wasm::kMaxPages))
      return damaged("a memory has a size that its module does not allow");
    memory.start.pages = pages;
    memory.bytes = uint64_t{pages} * wasm::kPageBytes;
    const auto list = in.take(in.number<uint64_t>());
    const auto content = in.take(in.number<uint64_t>());
    if (!in.ok()) return damaged("a memory is cut short");
    const uint8_t* at = list.data();
    const uint8_t* const list_end = at + list.size();
    uint64_t offset = 0, left = content.size();
    while (at != list_end) {
      uint64_t gap = 0, bytes = 0;
      at = read_leb128(at, list_end, gap);
      if (at != nullptr) at = read_leb128(at, list_end, bytes);
      if (at == nullptr || gap > memory.bytes - offset || bytes == 0 || bytes > memory.bytes - offset - gap ||
          bytes > left)
        return damaged("a part of a memory is beyond its size");
      memory.changes.emplace_back(offset + gap, bytes);
      offset += gap + bytes;
      left -= bytes;
    }
    if (left != 0) return damaged("a part of a memory has no place");
    memory.content.assign(content.begin(), content.end());
    return {};
  }

  // Code relies on types without checks, so a function must have the type.
  static bool may_hold(const wasm::Module& module, wasm::TypeRelations& relations, wasm::ValType type,
                       uint64_t number) {
    if (number == 0) return wasm::is_nullable(type);
    return number <= module.functions.size() &&
           relations.matches(wasm::ref_to(module.functions[number - 1].type), type);
  }

  static Status read_table(Reader& in, const wasm::TableType& type, wasm::TypeRelations& relations,
                           Image& image, Image::TableState& table, uint64_t& elements_left) {
    const wasm::Module& module = image.module_->module();
    const uint64_t size = in.number<uint32_t>(), before = table.elements.size();
    if (!in.ok() || size < before || size > type.limits.max.value_or(UINT32_MAX))
      return damaged("a table has a size that its module does not allow");
    if (size > elements_left)
      return fail(ErrorCode::kExhausted, "a table is beyond the table limit",
                  "Raise the limit to what it was when the changes were written.");
    elements_left -= size;
    std::vector<uint32_t> places, numbers;
    in.places(size, [&](uint32_t index) {
      places.push_back(index);
      numbers.push_back(in.number<uint32_t>());
      if (!may_hold(module, relations, type.element, numbers.back())) in.fail();
    });
    const auto added = places.end() - std::ranges::lower_bound(places, before);
    if (!in.ok() || (!wasm::is_nullable(type.element) && static_cast<uint64_t>(added) != size - before))
      return damaged("a table is not of its module");
    put_elements(*image.module_, table, size, places, numbers);
    return {};
  }

  static void put_elements(CompiledModule& module, Image::TableState& table, uint64_t size,
                           std::span<const uint32_t> places, std::span<const uint32_t> numbers) {
    table.elements.resize(size);
    if (places.empty()) return;
    std::vector<std::pair<size_t, uint32_t>> imports;
    bool are_functions = true;  // they were checked
    const std::vector<uint64_t> references = function_references(numbers, module, imports, are_functions);
    const std::span<uint64_t> elements = table.elements.writable();
    for (size_t i = 0; i < places.size(); ++i) elements[places[i]] = references[i];
    std::erase_if(table.imports,
                  [&](const auto& import) { return std::ranges::binary_search(places, import.first); });
    for (const auto& [i, import] : imports) table.imports.emplace_back(places[i], import);
  }

  static Status read_globals(Reader& in, wasm::TypeRelations& relations, Image& image) {
    const wasm::Module& module = image.module_->module();
    in.places(module.globals.size(), [&](uint32_t index) {
      const wasm::GlobalType& type = module.globals[index].type;
      const auto bits = in.number<uint64_t>(), high_bits = in.number<uint64_t>();
      const bool is_reference = wasm::is_ref(type.type);
      const bool is_short = type.type == wasm::ValType::kI32 || type.type == wasm::ValType::kF32;
      const bool is_sound = type.is_mutable && (high_bits == 0 || type.type == wasm::ValType::kV128) &&
                            (!is_short || bits <= UINT32_MAX) &&
                            (!is_reference || may_hold(module, relations, type.type, bits));
      if (!is_sound) return in.fail();
      Image::GlobalState global{bits, high_bits};
      if (is_reference) {
        const auto number = static_cast<uint32_t>(bits);
        std::vector<std::pair<size_t, uint32_t>> imports;
        bool is_function = true;
        global.bits = function_references({&number, 1}, *image.module_, imports, is_function)[0];
        for (const auto& [at, import] : imports) global.import = import;
      }
      image.globals_[index] = global;
    });
    return in.ok() ? Status() : damaged("its globals are not those of its module");
  }

  static Status read_segments(Reader& in, Image& image) {
    std::vector<uint32_t> dropped;
    in.places(image.module_->module().elements.size(), [&](uint32_t index) { dropped.push_back(index); });
    const size_t erased = std::erase_if(
        image.segments_, [&](const auto& one) { return std::ranges::binary_search(dropped, one.first); });
    if (erased != dropped.size()) in.fail();
    in.places(image.dropped_datas_.size(), [&](uint32_t index) {
      if (image.dropped_datas_[index]) in.fail();
      image.dropped_datas_[index] = true;
    });
    return in.ok() ? Status() : damaged("its segments are not those of its module");
  }

  static Result<std::shared_ptr<const Image>> read(std::span<const uint8_t> bytes, const Image& of,
                                                   const InstanceLimits& limits) {
    const std::shared_ptr<Image> image(new Image);
    image->module_ = of.module_;
    image->memories_ = of.memories_;
    image->tables_ = of.tables_;
    image->globals_ = of.globals_;
    image->segments_ = of.segments_;
    image->dropped_datas_ = of.dropped_datas_;
    const wasm::Module& module = of.module_->module();
    wasm::TypeRelations relations(module);
    Reader in(bytes);
    for (size_t i = 0; i < image->memories_.size(); ++i)
      MEMBRANE_TRY(read_memory(in, module.memories[i], image->memories_[i]));
    uint64_t elements_left = limits.table_elements;
    for (size_t i = 0; i < image->tables_.size(); ++i)
      MEMBRANE_TRY(
          read_table(in, module.tables[i].type, relations, *image, image->tables_[i], elements_left));
    MEMBRANE_TRY(read_globals(in, relations, *image));
    MEMBRANE_TRY(read_segments(in, *image));
    if (!in.left().empty()) return damaged("something follows its segments");
    return image;
  }
};

Result<std::vector<uint8_t>> write_changes(const InstanceImage& image, const InstanceImage& of) {
  return ImageChanges::write(image, of);
}

Result<std::shared_ptr<const InstanceImage>> read_changes(std::span<const uint8_t> bytes,
                                                          const InstanceImage& of,
                                                          const InstanceLimits& limits) {
  return ImageChanges::read(bytes, of, limits);
}

}  // namespace membrane::engine
