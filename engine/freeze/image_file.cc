#include "engine/freeze/image_file.h"

#define XXH_INLINE_ALL
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/build_id.h"
#include "base/file_mapping.h"
#include "base/private_file.h"
#include "base/write_at.h"
#include "engine/execution/module.h"
#include "engine/freeze/function_numbers.h"
#include "engine/instance/machine.h"
#include "engine/memory/region_pool.h"
#include "engine/native/runtime.h"
#include "wasm/binary.h"

namespace membrane::engine {
namespace {

constexpr char kMagic[8] = {'m', 'b', 'r', 'n', 'i', 'm', 'a', 'g'};
constexpr uint32_t kVersion = 6;
constexpr uint64_t kAlignment = 65536;  // of what is mapped: a multiple of every page size
constexpr uint64_t kVectorAlignment = 64;
constexpr size_t kMostMemories = 100;
constexpr size_t kPieceBytes = 256u << 10;  // read at once to be hashed: it stays in the processor's cache
constexpr uint32_t kMostFrameSlots = 65535;

struct Extent {
  uint64_t offset = 0, bytes = 0;
};

struct Header {
  char magic[8];
  uint64_t checksum;  // XXH3, of the rest of the header and the state
  uint32_t version;
  uint32_t memory_count;
  uint64_t content[2];  // XXH3, 128 bits, of the file after the state
  char build[64];
  ImageIdentity identity;
  uint64_t file_bytes;
  Extent state;                                           // directly after the header
  Extent functions, local_runs, frames, starts, indices;  // vectors as they are in memory
  Extent module, code, attachment;
};
constexpr size_t kCheckedFrom = offsetof(Header, version);
static_assert(sizeof(Header) % alignof(uint32_t) == 0, "StateReader::there()");

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

// The hash of the file's bytes from `from` to its end, which are read and not mapped: a file that others shorten at the same
// time is an error, and not a signal. Nothing when it cannot be read.
std::optional<XXH128_hash_t> content_of(int file, uint64_t from, uint64_t to) {
  XXH3_state_t hash;
  XXH3_128bits_reset(&hash);
  std::vector<uint8_t> piece(std::min<uint64_t>(kPieceBytes, to - from));
  while (from < to) {
    const ssize_t got =
        pread(file, piece.data(), std::min<uint64_t>(piece.size(), to - from), static_cast<off_t>(from));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    XXH3_128bits_update(&hash, piece.data(), static_cast<size_t>(got));
    from += static_cast<uint64_t>(got);
  }
  return XXH3_128bits_digest(&hash);
}

// The file's parts after the state, in the order of the file; the bytes between them are zero.
class ContentWriter {
 public:
  ContentWriter(NewFile& file, uint64_t from) : file_(file), at_(from) { XXH3_128bits_reset(&hash_); }

  Status put(const Extent& place, std::span<const uint8_t> bytes) {
    skip_to(place.offset);
    if (!bytes.empty()) XXH3_128bits_update(&hash_, bytes.data(), bytes.size());
    at_ += bytes.size();
    return file_.write(place.offset, bytes);
  }
  // The file's first `bytes`, when nothing more is put.
  XXH128_hash_t finish(uint64_t bytes) {
    skip_to(bytes);
    return XXH3_128bits_digest(&hash_);
  }

 private:
  void skip_to(uint64_t offset) {
    static constexpr std::array<uint8_t, 4096> kZeros{};
    while (at_ < offset) {
      const size_t count = std::min<uint64_t>(kZeros.size(), offset - at_);
      XXH3_128bits_update(&hash_, kZeros.data(), count);
      at_ += count;
    }
  }
  NewFile& file_;
  uint64_t at_;
  XXH3_state_t hash_;
};

void put_build(Header& header) {
  std::memcpy(header.build, kBuildId.data(), std::min(kBuildId.size(), sizeof header.build));
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

// At the end, reads give 0 and `ok` is false. The checksum was right, so that is our own mistake.
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
  // Their place in the file, a multiple of 4.
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

}  // namespace

// The image's own parts, written and read.
struct ImageFile {
  using Image = InstanceImage;

  static Status write_state(const Image& image, std::span<const MemoryRecord> memories, StateWriter& t) {
    const wasm::Module& module = image.module_->module();
    t.all<MemoryRecord>(memories);
    for (const Image::MemoryState& memory : image.memories_) t.all<Extent>(changes_of(memory));
    for (const Image::TableState& table : image.tables_) {
      MEMBRANE_ASSIGN(const auto numbers, function_numbers(table.elements, *image.module_, table.imports));
      t.all<uint32_t>(numbers);
    }
    for (size_t i = 0; i < image.globals_.size(); ++i) {
      const Image::GlobalState& global = image.globals_[i];
      const wasm::ValType type = module.globals[i].type.type;
      uint64_t bits = global.bits;
      if (wasm::is_ref(type)) {
        std::vector<std::pair<size_t, uint32_t>> imports;
        if (global.import != UINT32_MAX) imports.emplace_back(0, global.import);
        MEMBRANE_ASSIGN(const auto numbers, function_numbers({&global.bits, 1}, *image.module_, imports));
        bits = numbers[0];
      }
      t.one(bits);
      t.one(global.high_bits);
    }
    t.one(uint64_t{image.segments_.size()});
    for (const auto& [index, segment] : image.segments_) {
      MEMBRANE_ASSIGN(const auto numbers,
                      function_numbers(segment.elements, *image.module_, segment.imports));
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

  // Whether the memory can be one of this type, and its image is within a file of this many bytes.
  static bool fits(const MemoryRecord& record, const wasm::Memory& memory, uint64_t file_bytes) {
    const wasm::Limits& limits = memory.type.limits;
    const uint64_t most = limits.max.value_or(limits.is_64 ? wasm::kMaxPages64 : wasm::kMaxPages);
    return record.pages >= limits.min && record.pages <= most &&
           record.size_bytes == record.pages * wasm::kPageBytes && is_in(record.image, file_bytes) &&
           record.image.offset % system_page_bytes() == 0 && record.image.bytes % system_page_bytes() == 0 &&
           record.image.bytes <= record.size_bytes;
  }

  static void read_memories(StateReader& t, Image& image, int file, uint64_t file_bytes) {
    const wasm::Module& module = image.module_->module();
    const auto records = t.all<MemoryRecord>();
    t.ok = t.ok && records.size() == module.memories.size();
    for (size_t i = 0; t.ok && i < records.size(); ++i) {
      const MemoryRecord& record = records[i];
      t.ok = fits(record, module.memories[i], file_bytes);
      std::shared_ptr<const MemoryImage> start;
      if (t.ok && record.image.bytes != 0)
        start = MemoryImage::of_file(file, record.image.offset, record.image.bytes);
      t.ok = t.ok && (record.image.bytes == 0 || start != nullptr);
      image.memories_.push_back({{record.pages, std::move(start)}, record.size_bytes});
    }
  }

  static void read_state(StateReader& t, Image& image, int file, uint64_t file_bytes) {
    const wasm::Module& module = image.module_->module();
    read_memories(t, image, file, file_bytes);
    for (const Image::MemoryState& memory : image.memories_) {
      std::vector<MemoryRange> changes;
      for (const Extent& e : t.all<Extent>()) {
        t.ok = t.ok && memory.start.image != nullptr && is_in(e, memory.start.image->bytes());
        changes.emplace_back(e.offset, e.bytes);
      }
      if (t.ok && !changes.empty()) memory.start.image->learn(changes);
    }
    for (size_t i = 0; t.ok && i < module.tables.size(); ++i) {
      Image::TableState table;
      table.elements.assign(function_references(t.there<uint32_t>(), *image.module_, table.imports, t.ok));
      image.tables_.push_back(std::move(table));
    }
    for (size_t i = 0; t.ok && i < module.globals.size(); ++i) {
      Image::GlobalState global{t.one<uint64_t>(), t.one<uint64_t>()};
      if (wasm::is_ref(module.globals[i].type.type)) {
        const auto number = static_cast<uint32_t>(global.bits);
        std::vector<std::pair<size_t, uint32_t>> imports;
        global.bits = function_references({&number, 1}, *image.module_, imports, t.ok)[0];
        for (const auto& [at, index] : imports) global.import = index;
      }
      image.globals_.push_back(global);
    }
    const auto segments = t.one<uint64_t>();
    for (uint64_t i = 0; t.ok && i < segments; ++i) {
      const auto index = t.one<uint64_t>();
      Image::SegmentState segment;
      segment.elements = function_references(t.there<uint32_t>(), *image.module_, segment.imports, t.ok);
      t.ok = t.ok && index < module.elements.size();
      image.segments_.emplace_back(index, std::move(segment));
    }
    for (size_t i = 0; t.ok && i < module.datas.size(); ++i)
      image.dropped_datas_.push_back(t.one<uint8_t>() != 0);
  }

  static Status write(const std::string& path, const Image& image, std::span<const uint8_t> embedder,
                      std::span<const uint8_t> attachment);
  static Result<LoadedImage> load(const std::string& path, Tier tier, int64_t now_ns);
};

Status ImageFile::write(const std::string& path, const Image& image, std::span<const uint8_t> embedder,
                        std::span<const uint8_t> attachment) {
  const wasm::Module& module = image.module_->module();
  if (!module.is_binary)
    return fail(ErrorCode::kUnsupported, "the image of this module is not kept in a file",
                "Compile the module to a binary first.");
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
  MEMBRANE_ASSIGN(header.identity, image.identity());
  // Offsets do not change the size of the state, so a first write measures it.
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
  header.attachment = place(attachment.size(), kAlignment);
  for (size_t i = 0; i < memories.size(); ++i) {
    const Image::MemoryState& memory = image.memories_[i];
    const uint64_t bytes =
        memory.start.image == nullptr ? 0 : aligned(memory.start.image->bytes(), kAlignment);
    memories[i] = {memory.start.pages, memory.bytes, place(std::min(bytes, memory.bytes), kAlignment)};
  }
  MEMBRANE_TRY(write_all());
  header.file_bytes = at;

  MEMBRANE_ASSIGN(NewFile file, NewFile::create(path));
  MEMBRANE_TRY(file.write(header.state.offset, state.out));
  ContentWriter content(file, header.state.offset + header.state.bytes);
  MEMBRANE_TRY(content.put(header.functions, bytes_of(module.functions)));
  MEMBRANE_TRY(content.put(header.local_runs, bytes_of(module.local_runs)));
  MEMBRANE_TRY(content.put(header.frames, bytes_of(frames)));
  MEMBRANE_TRY(content.put(header.starts, bytes_of(code.starts)));
  MEMBRANE_TRY(content.put(header.indices, bytes_of(code.indices)));
  MEMBRANE_TRY(content.put(header.module, module.content()));
  if (made != nullptr) MEMBRANE_TRY(content.put(header.code, {code.block.code(), code.block.size()}));
  if (!attachment.empty()) MEMBRANE_TRY(content.put(header.attachment, attachment));
  for (size_t i = 0; i < memories.size(); ++i)
    if (memories[i].image.bytes != 0)
      MEMBRANE_TRY(content.put(memories[i].image, image.memories_[i].start.image->content()));
  MEMBRANE_TRY(file.resize(at));
  const XXH128_hash_t hash = content.finish(at);
  header.content[0] = hash.low64;
  header.content[1] = hash.high64;
  header.checksum = checksum_of(header, state.out);
  MEMBRANE_TRY(file.write(0, {reinterpret_cast<const uint8_t*>(&header), sizeof header}));
  return file.publish();
}

namespace {

// Whether every part is within the file that it is mapped from, with whole elements.
bool is_laid_out(const Header& header, uint64_t file_bytes) {
  const auto fits = [&](const Extent& e, uint64_t alignment, uint64_t element_bytes) {
    return is_in(e, file_bytes) && e.offset % alignment == 0 && e.bytes % element_bytes == 0;
  };
  const auto is_table = [&](const Extent& e, uint64_t element_bytes) {
    return fits(e, kVectorAlignment, element_bytes) && is_in(e, header.module.offset);
  };
  return header.file_bytes == file_bytes && header.memory_count <= kMostMemories &&
         header.state.offset == sizeof header && fits(header.module, kAlignment, 1) &&
         is_in(header.state, header.module.offset) && fits(header.code, kAlignment, 1) &&
         fits(header.attachment, kAlignment, 1) && is_table(header.functions, sizeof(wasm::Function)) &&
         is_table(header.local_runs, sizeof(wasm::LocalRun)) &&
         is_table(header.frames, sizeof(native::FrameSlots)) && is_table(header.starts, sizeof(uint32_t)) &&
         is_table(header.indices, sizeof(uint32_t)) && header.starts.bytes == header.indices.bytes;
}

bool has_its_content(const Header& header, int file) {
  const auto found = content_of(file, header.state.offset + header.state.bytes, header.file_bytes);
  return found && found->low64 == header.content[0] && found->high64 == header.content[1];
}

bool is_local(wasm::ValType type) {
  using enum wasm::ValType;
  return wasm::is_ref(type) || type == kI32 || type == kI64 || type == kF32 || type == kF64 || type == kV128;
}

// Whether what the file says of each function is within the module, and within its code of this many bytes.
bool functions_fit(const wasm::Module& module, std::span<const native::FrameSlots> frames,
                   std::span<const uint32_t> starts, std::span<const uint32_t> indices, uint64_t code_bytes) {
  const uint32_t imported = module.imported_function_count();
  for (size_t i = 0; i < module.functions.size(); ++i) {
    const wasm::Function& function = module.functions[i];
    const bool is_import = i < imported;
    const bool fits =
        function.type < module.types.size() && is_import == (function.import != wasm::kNotImported) &&
        (!is_import || function.import < module.imports.size()) &&
        uint64_t{function.code.offset} + function.code.size <= module.content().size() &&
        uint64_t{function.first_local_run} + function.local_run_count <= module.local_runs.size();
    if (!fits) return false;
  }
  const auto is_frame = [](const native::FrameSlots& frame) {
    return frame.zero <= frame.whole && frame.whole <= kMostFrameSlots && frame.uses_vectors <= 1;
  };
  const auto ascending = [](std::span<const uint32_t> numbers) {
    return std::ranges::adjacent_find(numbers, std::greater_equal()) == numbers.end();
  };
  const auto is_run = [](const wasm::LocalRun& run) { return is_local(run.type); };
  return std::ranges::all_of(frames, is_frame) && std::ranges::all_of(module.local_runs, is_run) &&
         ascending(starts) && ascending(indices) &&
         (starts.empty() || (starts.back() < code_bytes && indices.front() >= imported &&
                             indices.back() < module.functions.size()));
}

}  // namespace

Result<LoadedImage> ImageFile::load(const std::string& path, Tier tier, int64_t now_ns) {
  const auto damaged = [&] {
    return fail(ErrorCode::kInvalidInput, path + " is damaged", "Remove it: it will be made again.");
  };
  const PrivateFile file(path);
  struct stat status{};
  if (!file.usable() || fstat(file.number(), &status) != 0)
    return fail(ErrorCode::kNotFound, path + " is not there, or not a private file of yours",
                "It will be made when it is needed.");
  Header header{}, expected{};
  if (pread(file.number(), &header, sizeof header, 0) != sizeof header) return damaged();
  put_build(expected);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return damaged();
  if (header.version != kVersion || std::memcmp(header.build, expected.build, sizeof header.build) != 0)
    return fail(ErrorCode::kUnsupported, path + " is of another build of this program",
                "Remove it: it will be made again.");
  if (!is_laid_out(header, file.bytes())) return damaged();
  const auto front = std::make_shared<FileMapping>(file.number(), 0, header.module.offset);
  if (front->bytes().empty()) return damaged();
  const std::span<const uint8_t> state = front->bytes().subspan(header.state.offset, header.state.bytes);
  if (checksum_of(header, state) != header.checksum) return damaged();
  const bool was_checked = is_sealed(path, file.number());
  if (!was_checked && !has_its_content(header, file.number())) return damaged();

  auto binary = std::make_shared<FileMapping>(file.number(), header.module.offset, header.module.bytes);
  auto module = wasm::decode_known(std::move(binary), {vector_in<wasm::Function>(front, header.functions),
                                                       vector_in<wasm::LocalRun>(front, header.local_runs)});
  auto frames = vector_in<native::FrameSlots>(front, header.frames);
  auto starts = vector_in<uint32_t>(front, header.starts);
  auto indices = vector_in<uint32_t>(front, header.indices);
  if (!module || module->functions.size() < module->imported_function_count() ||
      frames.size() != module->functions.size() - module->imported_function_count() ||
      header.memory_count != module->memories.size())
    return damaged();
  if (!was_checked && !functions_fit(*module, {frames.data(), frames.size()}, {starts.data(), starts.size()},
                                     {indices.data(), indices.size()}, header.code.bytes))
    return damaged();
  const bool has_code = tier != Tier::kInterpreter && !starts.empty() && native::machine_is_supported();
  native::ModuleImage code{
      has_code ? native::map_code(file.number(), header.code.offset, header.code.bytes) : native::CodeBlock(),
      std::move(starts),
      std::move(indices),
      {}};
  const std::shared_ptr<InstanceImage> image(new InstanceImage);
  image->module_ = restore_module(std::move(*module), std::move(frames), std::move(code), tier);
  std::call_once(image->identity_once_, [&] { image->identity_ = header.identity; });
  StateReader t(state);
  read_state(t, *image, file.number(), header.file_bytes);
  LoadedImage loaded{image, t.all<uint8_t>(), nullptr};
  if (!t.ok) return damaged();
  if (header.attachment.bytes != 0) {
    const Extent& e = header.attachment;
    loaded.attachment = std::make_shared<const FileMapping>(file.number(), e.offset, e.bytes);
    if (loaded.attachment->bytes().empty()) return damaged();
  }
  // Without a seal the file is read again the next time; nothing else is lost.
  if (!was_checked) static_cast<void>(seal(path, file.number(), status, now_ns));
  return loaded;
}

Status write_image_file(const std::string& path, const InstanceImage& image,
                        std::span<const uint8_t> embedder, std::span<const uint8_t> attachment) {
  return ImageFile::write(path, image, embedder, attachment);
}

Result<LoadedImage> load_image_file(const std::string& path, Tier tier, int64_t now_ns) {
  return ImageFile::load(path, tier, now_ns);
}

Status repair_image_checksums(int file) {
  struct stat status{};
  Header header{};
  if (fstat(file, &status) != 0 || pread(file, &header, sizeof header, 0) != sizeof header ||
      !is_in(header.state, static_cast<uint64_t>(status.st_size)))
    return fail(ErrorCode::kInvalidInput, "the file is no image", "");
  std::vector<uint8_t> state(header.state.bytes);
  const auto got = pread(file, state.data(), state.size(), static_cast<off_t>(header.state.offset));
  const auto content =
      content_of(file, header.state.offset + header.state.bytes, static_cast<uint64_t>(status.st_size));
  if (got != static_cast<ssize_t>(state.size()) || !content)
    return fail(ErrorCode::kInvalidInput, "the file is no image", "");
  header.content[0] = content->low64;
  header.content[1] = content->high64;
  header.checksum = checksum_of(header, state);
  if (!write_at(file, 0, {reinterpret_cast<const uint8_t*>(&header), sizeof header}))
    return refused_by_system("write", "an image");
  return {};
}

}  // namespace membrane::engine
