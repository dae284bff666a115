#include "engine/native/code_cache.h"

#define XXH_INLINE_ALL
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/build_id.h"
#include "base/file_mapping.h"
#include "base/private_file.h"
#include "base/sha256.h"

namespace membrane::engine::native {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'m', 'b', 'r', 'n', 'c', 'o', 'd', 'e'};
constexpr uint32_t kVersion = 2;
constexpr std::string_view kProcessor = "x86-64-v3";  // all that the compiler needs, and makes use of
constexpr std::string_view kEnding = ".code";
constexpr uint64_t kAlignment = 65536;  // of the code in the file: a multiple of every page size

// After it the functions' starts and indices and all frames, and at code_offset the code.
struct Header {
  char magic[8];
  uint64_t checksum[2];  // XXH3, 128 bits, of all that follows
  uint32_t version;
  uint32_t function_count;  // with code
  uint32_t frame_count;
  uint32_t unused;
  uint64_t code_offset;
  uint64_t code_bytes;
  char key[64];
};
static_assert(sizeof(Header) == 120 && std::endian::native == std::endian::little);
constexpr size_t kCheckedFrom = offsetof(Header, version);

uint64_t table_bytes_of(const Header& header) {
  return 2 * sizeof(uint32_t) * uint64_t{header.function_count} +
         sizeof(FrameSlots) * uint64_t{header.frame_count};
}
uint64_t code_offset_of(const Header& header) {
  const uint64_t tables_end = sizeof header + table_bytes_of(header);
  return (tables_end + kAlignment - 1) / kAlignment * kAlignment;
}

void put_checksum(Header& header, std::span<const uint8_t> tables, std::span<const uint8_t> code) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  XXH3_128bits_update(&state, reinterpret_cast<const char*>(&header) + kCheckedFrom,
                      sizeof header - kCheckedFrom);
  XXH3_128bits_update(&state, tables.data(), tables.size());
  XXH3_128bits_update(&state, code.data(), code.size());
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  header.checksum[0] = hash.low64;
  header.checksum[1] = hash.high64;
}

// Whether starts and indices are those of functions of the module, in code of this many bytes.
bool fits(const wasm::Module& module, const ModuleImage& image, uint64_t code_bytes) {
  const auto ascending = [](const MappedVector<uint32_t>& numbers) {
    return std::ranges::adjacent_find(numbers, std::greater_equal()) == numbers.end();
  };
  return !image.starts.empty() && ascending(image.starts) && ascending(image.indices) &&
         image.starts.back() < code_bytes && image.indices.back() < module.functions.size() &&
         image.indices.front() >= module.imported_function_count() &&
         image.frames.size() == module.functions.size() - module.imported_function_count();
}

// The header and the tables of a complete file with this key.
std::optional<ModuleImage> read(std::span<const uint8_t> file, const std::string& key, Header& header) {
  if (file.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, file.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.version != kVersion ||
      std::string_view(header.key, sizeof header.key) != key ||
      header.code_offset != code_offset_of(header) || header.code_offset > file.size() ||
      header.code_bytes != file.size() - header.code_offset)
    return std::nullopt;
  const std::span<const uint8_t> tables = file.subspan(sizeof header, table_bytes_of(header));
  Header expected = header;
  put_checksum(expected, tables, file.subspan(header.code_offset));
  if (std::memcmp(expected.checksum, header.checksum, sizeof header.checksum) != 0) return std::nullopt;
  ModuleImage image;
  const uint8_t* at = tables.data();
  const auto take = [&](auto& table, uint32_t count) {
    table.resize(count);
    const size_t bytes = count * sizeof table[0];
    std::memcpy(table.data(), at, bytes);
    at += bytes;
  };
  take(image.starts.own(), header.function_count);
  take(image.indices.own(), header.function_count);
  take(image.frames, header.frame_count);
  return image;
}

}  // namespace

Result<CodeCache> CodeCache::open(const std::string& directory) {
  std::error_code error;
  const fs::path path = fs::absolute(directory, error);
  if (error) return refused_by_system("find", directory);
  if (!make_directory(path)) return refused_by_system("make", path);
  MEMBRANE_TRY(check_private_directory(path, "compiled code"));
  return CodeCache(path);
}

Result<std::string> CodeCache::path_of(const wasm::Module& module) const {
  if (!module.is_binary)
    return fail(ErrorCode::kUnsupported, "the code of this module is not kept",
                "Compile the module to a binary first.");
  const std::string_view bytes(reinterpret_cast<const char*>(module.content().data()),
                               module.content().size());
  MEMBRANE_ASSIGN(const std::string key, sha256_hex({kBuildId, "\n", kProcessor, "\n", bytes}));
  return directory_ + "/" + key + std::string(kEnding);
}

std::optional<ModuleImage> CodeCache::find(const wasm::Module& module) const {
  const auto path = path_of(module);
  if (!path) return std::nullopt;
  const PrivateFile file(*path);
  if (!file.usable()) return std::nullopt;
  const FileMapping mapped(file.number(), 0, file.bytes());
  Header header{};
  auto image = read(mapped.bytes(), fs::path(*path).stem(), header);
  if (!image || !fits(module, *image, header.code_bytes)) return std::nullopt;
  CodeBlock block = map_code(file.number(), header.code_offset, header.code_bytes);
  if (block.code() == nullptr) return std::nullopt;
  futimens(file.number(), nullptr);  // used now
  return ModuleImage{std::move(block), std::move(image->starts), std::move(image->indices),
                     std::move(image->frames)};
}

Status CodeCache::keep(const wasm::Module& module, const ModuleImage& image) const {
  MEMBRANE_ASSIGN(const std::string path, path_of(module));
  std::vector<uint8_t> tables;
  const auto put = [&](const auto& table) {
    const auto* const bytes = reinterpret_cast<const uint8_t*>(table.data());
    tables.insert(tables.end(), bytes, bytes + table.size() * sizeof table[0]);
  };
  put(image.starts);
  put(image.indices);
  put(image.frames);
  const std::span<const uint8_t> code(image.block.code(), image.block.size());
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.function_count = static_cast<uint32_t>(image.starts.size());
  header.frame_count = static_cast<uint32_t>(image.frames.size());
  header.code_offset = code_offset_of(header);
  header.code_bytes = code.size();
  std::memcpy(header.key, fs::path(path).stem().c_str(), sizeof header.key);
  put_checksum(header, tables, code);

  MEMBRANE_ASSIGN(NewFile file, NewFile::create(path));
  MEMBRANE_TRY(file.write(0, {reinterpret_cast<const uint8_t*>(&header), sizeof header}));
  MEMBRANE_TRY(file.write(sizeof header, tables));
  MEMBRANE_TRY(file.write(header.code_offset, code));
  MEMBRANE_TRY(file.publish());
  make_room(directory_, kEnding, kMostFileBytes, path);
  return {};
}

}  // namespace membrane::engine::native
