#include "engine/freeze/snapshot_format.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>
#include <cstring>

#include "base/number_reader.h"
#include "engine/code/fuel.h"
#include "engine/freeze/snapshot.h"

namespace membrane::engine {
namespace {

struct SnapshotHeader {
  char magic[8];
  uint32_t version;
  uint32_t cost_version;
  uint64_t body_bytes;
  uint64_t checksum[2];  // XXH3, 128 bits, of the body
};
static_assert(sizeof(SnapshotHeader) == kSnapshotHeaderBytes && std::endian::native == std::endian::little);

void checksum_of(uint32_t version, std::span<const uint8_t> body, uint64_t (&out)[2]) {
  const XXH128_hash_t hash =
      XXH3_128bits_withSeed(body.data(), body.size(), version - kOldestSnapshotVersion);
  out[0] = hash.low64;
  out[1] = hash.high64;
}

}  // namespace

std::unexpected<Error> damaged_snapshot(std::string what) {
  return fail(ErrorCode::kInvalidInput, "the snapshot is damaged: " + std::move(what),
              "Freeze the program again.");
}

Result<std::span<const uint8_t>> checked_body(std::span<const uint8_t> bytes) {
  SnapshotHeader header{};
  if (bytes.size() < sizeof header ||
      std::memcmp(bytes.data(), kSnapshotMagic.data(), kSnapshotMagic.size()) != 0)
    return fail(ErrorCode::kInvalidInput, "this is no snapshot", "Give a file that --snapshot has written.");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.version < kOldestSnapshotVersion || header.version > kNewestSnapshotVersion)
    return fail(ErrorCode::kUnsupported,
                "the snapshot has format version " + std::to_string(header.version) +
                    ", and this program reads versions " + std::to_string(kOldestSnapshotVersion) + " to " +
                    std::to_string(kNewestSnapshotVersion),
                "Thaw it with the version of Membrane that froze it.");
  if (header.cost_version != kCostVersion)
    return fail(ErrorCode::kUnsupported,
                "the snapshot was frozen under cost table " + std::to_string(header.cost_version) +
                    ", and this program has " + std::to_string(kCostVersion),
                "Thaw it with the version of Membrane that froze it: fuel would not add up.");
  uint64_t checksum[2];
  checksum_of(header.version, bytes.subspan(sizeof header), checksum);
  if (header.body_bytes != bytes.size() - sizeof header || header.checksum[0] != checksum[0] ||
      header.checksum[1] != checksum[1])
    return damaged_snapshot("its checksum is not that of its content");
  return bytes.subspan(sizeof header);
}

void seal_snapshot(std::vector<uint8_t>& bytes, uint32_t version) {
  SnapshotHeader header{};
  std::memcpy(header.magic, kSnapshotMagic.data(), sizeof header.magic);
  header.version = version;
  header.cost_version = kCostVersion;
  header.body_bytes = bytes.size() - sizeof header;
  checksum_of(version, std::span<const uint8_t>(bytes).subspan(sizeof header), header.checksum);
  std::memcpy(bytes.data(), &header, sizeof header);
}

Result<std::span<const uint8_t>> embedder_part(std::span<const uint8_t> snapshot) {
  MEMBRANE_ASSIGN(const auto body, checked_body(snapshot));
  NumberReader reader{body};
  while (!reader.left().empty()) {
    const auto section = reader.number<uint32_t>();
    const auto content = reader.take(reader.number<uint64_t>());
    if (!reader.ok()) break;
    if (section == static_cast<uint32_t>(SnapshotSection::kEmbedder)) return content;
  }
  return damaged_snapshot("a section is missing or cut short");
}

Result<std::vector<uint8_t>> with_embedder_part(std::span<const uint8_t> snapshot,
                                                std::span<const uint8_t> part) {
  MEMBRANE_ASSIGN(const auto old, embedder_part(snapshot));
  // It comes last: everything before it, its size too, is known by then.
  const size_t before = static_cast<size_t>(old.data() - snapshot.data()) - sizeof(uint64_t);
  if (before + sizeof(uint64_t) + old.size() != snapshot.size())
    return damaged_snapshot("something follows its last section");
  std::vector<uint8_t> made(snapshot.begin(), snapshot.begin() + static_cast<std::ptrdiff_t>(before));
  const uint64_t size = part.size();
  const auto* const size_bytes = reinterpret_cast<const uint8_t*>(&size);
  made.insert(made.end(), size_bytes, size_bytes + sizeof size);
  made.insert(made.end(), part.begin(), part.end());
  SnapshotHeader header{};
  std::memcpy(&header, made.data(), sizeof header);
  seal_snapshot(made, header.version);
  return made;
}

}  // namespace membrane::engine
