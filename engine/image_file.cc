#include "engine/image_file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

#include "base/file_mapping.h"
#include "base/private_file.h"
#include "engine/machine.h"
#include "engine/native/runtime.h"
#include "wasm/binary.h"

namespace membrane::engine {
namespace {

constexpr char kMagic[8] = {'m', 'b', 'r', 'n', 'i', 'm', 'a', 'g'};
constexpr uint32_t kVersion = 3;
constexpr uint64_t kAlignment = 65536;  // of what is mapped: a multiple of every page size
constexpr uint64_t kVectorAlignment = 64;
constexpr size_t kMostMemories = 100;

struct Extent {
  uint64_t offset = 0, bytes = 0;
};

struct Header {
  char magic[8];
  uint64_t checksum;  // XXH3, of the rest of the header and the state
  uint32_t version;
  uint32_t memory_count;
  char build[64];
  Extent state;
  Extent functions, local_runs, frames, starts, indices;  // vectors as they are in memory
  Extent module, code;
};
constexpr size_t kCheckedFrom = offsetof(Header, version);

uint64_t aligned(uint64_t offset, uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

bool is_in(const Extent& e, uint64_t bytes) { return e.offset <= bytes && e.bytes <= bytes - e.offset; }

// Empty when it does not fit.
template <typename T>
MappedVector<T> vector_in(const std::shared_ptr<const FileMapping>& front, const Extent& e) {
  if (!is_in(e, front->bytes().size()) || e.offset % alignof(T) != 0) return {};
  const auto* const at = reinterpret_cast<const T*>(front->bytes().data() + e.offset);
  return {std::span(at, e.bytes / sizeof(T)), front};
}

std::span<const uint8_t> bytes_of(const auto& vector) {
  return {reinterpret_cast<const uint8_t*>(vector.data()), vector.size() * sizeof *vector.data()};
}

uint64_t checksum_of(const Header& header, std::span<const uint8_t> state) {
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  XXH3_64bits_update(&hash, reinterpret_cast<const char*>(&header) + kCheckedFrom,
                     sizeof header - kCheckedFrom);
  XXH3_64bits_update(&hash, state.data(), state.size());
  return XXH3_64bits_digest(&hash);
}

void put_build(Header& header) {
  const std::string id = build_id();
  std::memcpy(header.build, id.data(), std::min(id.size(), sizeof header.build));
}

class StateWriter {
 public:
  template <typename T>
  void one(const T& value) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(&value);
    out.insert(out.end(), bytes, bytes + sizeof value);
  }
  template <typename T>
  void all(std::span<const T> values) {
    one(uint64_t{values.size()});
    if (values.empty()) return;
    const auto* const bytes = reinterpret_cast<const uint8_t*>(values.data());
    out.insert(out.end(), bytes, bytes + values.size_bytes());
  }
  std::vector<uint8_t> out;
};

// Stops at the end: what is not there is 0 and `ok` false. The checksum was right, so that is a mistake of ours.
class StateReader {
 public:
  explicit StateReader(std::span<const uint8_t> bytes) : left_(bytes) {}
  template <typename T>
  T one() {
    T value{};
    if (!take(sizeof value)) return value;
    std::memcpy(&value, taken_.data(), sizeof value);
    return value;
  }
  template <typename T>
  std::vector<T> all() {
    const std::span<const uint8_t> bytes = part<T>();
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  // Where they stand. They begin at a multiple of 4 of the file.
  template <typename T>
  std::span<const T> there() {
    static_assert(alignof(T) <= 4);
    const std::span<const uint8_t> bytes = part<T>();
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  bool ok = true;

 private:
  template <typename T>
  std::span<const uint8_t> part() {
    const auto count = one<uint64_t>();
    if (count > left_.size() / sizeof(T) || !take(count * sizeof(T))) {
      ok = ok && count == 0;
      return {};
    }
    return count == 0 ? std::span<const uint8_t>() : taken_;
  }
  bool take(size_t bytes) {
    ok = ok && bytes <= left_.size();
    if (!ok) return false;
    taken_ = left_.first(bytes);
    left_ = left_.subspan(bytes);
    return true;
  }
  std::span<const uint8_t> left_, taken_;
};

struct MemoryRecord {
  uint64_t pages, size_bytes;
  Extent image;
};

// References to functions stand as their index plus one, 0 for null.
constexpr uint32_t kNull = 0;

}  // namespace

// The image's own parts, written and read.
struct ImageFile {
  using Image = InstanceImage;

  // What is no function, and not null, is for snapshots.
  static Result<std::vector<uint32_t>> numbers_of(std::span<const uint64_t> references, const Image& image,
                                                  std::span<const std::pair<size_t, uint32_t>> imports) {
    const CompiledModule::Lone& lone = image.module_->lone();
    const uint32_t imported = image.module_->module().imported_function_count();
    const size_t own_count = image.module_->module().functions.size() - imported;
    std::vector<uint32_t> numbers(references.size(), kNull);
    for (size_t i = 0; i < references.size(); ++i) {
      if (const auto own = Machine::place_among(lone.functions.get(), own_count, references[i]))
        numbers[i] = imported + *own + 1;
      else if (references[i] != 0) numbers[i] = UINT32_MAX;
    }
    for (const auto& [at, index] : imports) numbers[at] = index + 1;
    if (std::ranges::find(numbers, UINT32_MAX) != numbers.end())
      return fail(ErrorCode::kUnsupported, "the program holds a reference that is no function of its module",
                  "Freeze a run of it into a snapshot instead.");
    return numbers;
  }

  static std::vector<uint64_t> references_of(std::span<const uint32_t> numbers, const Image& image,
                                             std::vector<std::pair<size_t, uint32_t>>& imports) {
    FunctionInstance* const own = image.module_->lone().functions.get();
    const uint32_t imported = image.module_->module().imported_function_count();
    std::vector<uint64_t> references(numbers.size());
    for (size_t i = 0; i < numbers.size(); ++i) {
      if (numbers[i] == kNull) continue;
      const uint32_t index = numbers[i] - 1;
      if (index < imported) imports.emplace_back(i, index);
      else references[i] = reinterpret_cast<uint64_t>(own + (index - imported));
    }
    return references;
  }

  static Status write_state(const Image& image, std::span<const MemoryRecord> memories, StateWriter& t) {
    const wasm::Module& module = image.module_->module();
    t.all<MemoryRecord>(memories);
    for (const Image::MemoryState& memory : image.memories_) t.all<Extent>(changes_of(memory));
    for (const Image::TableState& table : image.tables_) {
      MEMBRANE_ASSIGN(const auto numbers, numbers_of(table.elements, image, table.imports));
      t.all<uint32_t>(numbers);
    }
    for (size_t i = 0; i < image.globals_.size(); ++i) {
      const Image::GlobalState& global = image.globals_[i];
      const wasm::ValType type = module.globals[i].type.type;
      uint64_t bits = global.bits;
      if (wasm::is_ref(type)) {
        std::vector<std::pair<size_t, uint32_t>> imports;
        if (global.import != UINT32_MAX) imports.emplace_back(0, global.import);
        MEMBRANE_ASSIGN(const auto numbers, numbers_of({&global.bits, 1}, image, imports));
        bits = numbers[0];
      }
      t.one(bits);
      t.one(global.high_bits);
    }
    t.one(uint64_t{image.segments_.size()});
    for (const auto& [index, segment] : image.segments_) {
      MEMBRANE_ASSIGN(const auto numbers, numbers_of(segment.elements, image, segment.imports));
      t.one(uint64_t{index});
      t.all<uint32_t>(numbers);
    }
    for (const bool dropped : image.dropped_datas_) t.one(static_cast<uint8_t>(dropped));
    return {};
  }

  // Pages that forks have been seen to change.
  static std::vector<Extent> changes_of(const Image::MemoryState& memory) {
    std::vector<Extent> changes;
    if (memory.start.image == nullptr) return changes;
    for (const auto& [offset, bytes] : memory.start.image->learned()) changes.push_back({offset, bytes});
    return changes;
  }

  static const native::ModuleImage* code_of(const Image& image) {
    return image.module_->tier() == Tier::kInterpreter ? nullptr : image.module_->native_code().whole();
  }

  static void read_state(StateReader& t, Image& image, size_t memory_count, int file) {
    const wasm::Module& module = image.module_->module();
    for (const MemoryRecord& record : t.all<MemoryRecord>()) {
      std::shared_ptr<const MemoryImage> start;
      if (record.image.bytes != 0)
        start = MemoryImage::of_file(file, record.image.offset, record.image.bytes);
      t.ok = t.ok && (record.image.bytes == 0 || start != nullptr);
      image.memories_.push_back({{record.pages, std::move(start)}, record.size_bytes});
    }
    t.ok = t.ok && image.memories_.size() == memory_count && memory_count == module.memories.size();
    for (const Image::MemoryState& memory : image.memories_) {
      std::vector<MemoryRange> changes;
      for (const Extent& e : t.all<Extent>())
        if (is_in(e, memory.start.image == nullptr ? 0 : memory.start.image->bytes()))
          changes.emplace_back(e.offset, e.bytes);
      if (!changes.empty()) memory.start.image->learn(changes);
    }
    for (size_t i = 0; t.ok && i < module.tables.size(); ++i) {
      Image::TableState table;
      table.elements.assign(references_of(t.there<uint32_t>(), image, table.imports));
      image.tables_.push_back(std::move(table));
    }
    for (size_t i = 0; t.ok && i < module.globals.size(); ++i) {
      Image::GlobalState global{t.one<uint64_t>(), t.one<uint64_t>()};
      if (wasm::is_ref(module.globals[i].type.type)) {
        const auto number = static_cast<uint32_t>(global.bits);
        std::vector<std::pair<size_t, uint32_t>> imports;
        global.bits = references_of({&number, 1}, image, imports)[0];
        for (const auto& [at, index] : imports) global.import = index;
      }
      image.globals_.push_back(global);
    }
    const auto segments = t.one<uint64_t>();
    for (uint64_t i = 0; t.ok && i < segments; ++i) {
      const auto index = t.one<uint64_t>();
      Image::SegmentState segment;
      segment.elements = references_of(t.there<uint32_t>(), image, segment.imports);
      t.ok = t.ok && index < module.elements.size();
      image.segments_.emplace_back(index, std::move(segment));
    }
    for (size_t i = 0; t.ok && i < module.datas.size(); ++i)
      image.dropped_datas_.push_back(t.one<uint8_t>() != 0);
  }

  static Status write(const std::string& path, const Image& image, std::span<const uint8_t> embedder);
  static Result<LoadedImage> load(const std::string& path, Tier tier);
};

Status ImageFile::write(const std::string& path, const Image& image, std::span<const uint8_t> embedder) {
  const wasm::Module& module = image.module_->module();
  if (!module.is_binary || build_id().empty())
    return fail(ErrorCode::kUnsupported, "the image of this module is not kept in a file",
                "Compile the module to a binary first; link the program with a build id.");
  const auto is_whole = [](const Image::MemoryState& memory) { return memory.changes.empty(); };
  if (!std::ranges::all_of(image.memories_, is_whole))
    return fail(ErrorCode::kUnsupported, "the image holds only what an instance changed",
                "Capture it whole.");
  static const native::ModuleImage kNoCode;
  const native::ModuleImage* const made = code_of(image);
  const native::ModuleImage& code = made == nullptr ? kNoCode : *made;
  const std::vector<native::FrameSlots> frames = image.module_->frames();
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  put_build(header);
  header.memory_count = static_cast<uint32_t>(image.memories_.size());
  // Where things are does not change how large the state is: a first writing tells.
  std::vector<MemoryRecord> memories(image.memories_.size());
  StateWriter state;
  const auto write_all = [&]() -> Status {
    state.out.clear();
    MEMBRANE_TRY(write_state(image, memories, state));
    state.all<uint8_t>(embedder);
    return {};
  };
  MEMBRANE_TRY(write_all());
  uint64_t at = sizeof header;
  const auto place = [&at](uint64_t bytes, uint64_t alignment) {
    at = aligned(at, alignment);
    const Extent extent{at, bytes};
    at += bytes;
    return extent;
  };
  header.state = place(state.out.size(), 1);
  header.functions = place(bytes_of(module.functions).size(), kVectorAlignment);
  header.local_runs = place(bytes_of(module.local_runs).size(), kVectorAlignment);
  header.frames = place(bytes_of(frames).size(), kVectorAlignment);
  header.starts = place(bytes_of(code.starts).size(), kVectorAlignment);
  header.indices = place(bytes_of(code.indices).size(), kVectorAlignment);
  header.module = place(module.content().size(), kAlignment);
  header.code = place(code.block.size(), kAlignment);
  for (size_t i = 0; i < memories.size(); ++i) {
    const Image::MemoryState& memory = image.memories_[i];
    const uint64_t bytes =
        memory.start.image == nullptr ? 0 : aligned(memory.start.image->bytes(), kAlignment);
    memories[i] = {memory.start.pages, memory.bytes, place(std::min(bytes, memory.bytes), kAlignment)};
  }
  MEMBRANE_TRY(write_all());
  header.checksum = checksum_of(header, state.out);

  MEMBRANE_ASSIGN(NewFile file, NewFile::create(path));
  MEMBRANE_TRY(file.write(0, {reinterpret_cast<const uint8_t*>(&header), sizeof header}));
  MEMBRANE_TRY(file.write(header.state.offset, state.out));
  MEMBRANE_TRY(file.write(header.functions.offset, bytes_of(module.functions)));
  MEMBRANE_TRY(file.write(header.local_runs.offset, bytes_of(module.local_runs)));
  MEMBRANE_TRY(file.write(header.frames.offset, bytes_of(frames)));
  MEMBRANE_TRY(file.write(header.starts.offset, bytes_of(code.starts)));
  MEMBRANE_TRY(file.write(header.indices.offset, bytes_of(code.indices)));
  MEMBRANE_TRY(file.write(header.module.offset, module.content()));
  if (made != nullptr) MEMBRANE_TRY(file.write(header.code.offset, {code.block.code(), code.block.size()}));
  for (size_t i = 0; i < memories.size(); ++i)
    if (memories[i].image.bytes != 0)
      MEMBRANE_TRY(file.write(memories[i].image.offset, image.memories_[i].start.image->content()));
  MEMBRANE_TRY(file.resize(at));
  return file.publish();
}

Result<LoadedImage> ImageFile::load(const std::string& path, Tier tier) {
  const auto damaged = [&] {
    return fail(ErrorCode::kInvalidInput, path + " is damaged", "Remove it: it will be made again.");
  };
  const PrivateFile file(path);
  if (!file.usable())
    return fail(ErrorCode::kNotFound, path + " is not there, or not a private file of yours",
                "It will be made when it is needed.");
  Header header{}, expected{};
  if (file.bytes() < sizeof header) return damaged();
  const FileMapping head(file.number(), 0, sizeof header);
  if (head.bytes().empty()) return damaged();
  std::memcpy(&header, head.bytes().data(), sizeof header);
  put_build(expected);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return damaged();
  if (header.version != kVersion || std::memcmp(header.build, expected.build, sizeof header.build) != 0)
    return fail(ErrorCode::kUnsupported, path + " is of another build of this program",
                "Remove it: it will be made again.");
  if (!is_in(header.module, file.bytes()) || !is_in(header.code, file.bytes()) ||
      header.memory_count > kMostMemories)
    return damaged();
  const auto front = std::make_shared<FileMapping>(file.number(), 0, header.module.offset);
  if (!is_in(header.state, front->bytes().size())) return damaged();
  const std::span<const uint8_t> state = front->bytes().subspan(header.state.offset, header.state.bytes);
  if (checksum_of(header, state) != header.checksum) return damaged();

  auto binary = std::make_shared<FileMapping>(file.number(), header.module.offset, header.module.bytes);
  auto module = wasm::decode_known(std::move(binary), {vector_in<wasm::Function>(front, header.functions),
                                                       vector_in<wasm::LocalRun>(front, header.local_runs)});
  auto frames = vector_in<native::FrameSlots>(front, header.frames);
  auto starts = vector_in<uint32_t>(front, header.starts);
  auto indices = vector_in<uint32_t>(front, header.indices);
  if (!module || frames.size() != module->functions.size() - module->imported_function_count() ||
      starts.size() != indices.size())
    return damaged();
  const bool has_code = tier != Tier::kInterpreter && !starts.empty() && native::machine_is_supported();
  native::ModuleImage code{
      has_code ? native::map_code(file.number(), header.code.offset, header.code.bytes) : native::CodeBlock(),
      std::move(starts),
      std::move(indices),
      {}};
  const std::shared_ptr<InstanceImage> image(new InstanceImage);
  image->module_ = CompiledModule::restore(std::move(*module), std::move(frames), std::move(code), tier);
  StateReader t(state);
  read_state(t, *image, header.memory_count, file.number());
  LoadedImage loaded{image, t.all<uint8_t>()};
  if (!t.ok) return damaged();
  return loaded;
}

Status write_image_file(const std::string& path, const InstanceImage& image,
                        std::span<const uint8_t> embedder) {
  return ImageFile::write(path, image, embedder);
}

Result<LoadedImage> load_image_file(const std::string& path, Tier tier) {
  return ImageFile::load(path, tier);
}

}  // namespace membrane::engine
