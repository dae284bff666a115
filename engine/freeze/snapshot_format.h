// The envelope of a snapshot: a header with the checksum of the body, and the sections of the body.
// The format: docs/snapshot-format.md.
//
// Threads: any; nothing is shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace membrane::engine {

inline constexpr uint32_t kOldestSnapshotVersion = 2;
inline constexpr size_t kSnapshotHeaderBytes = 40;
inline constexpr std::string_view kSnapshotMagic = "MEMBSNAP";  // what every snapshot begins with

enum class SnapshotSection : uint32_t {
  kModule = 1,
  kGlobals,
  kMemory,
  kTables,
  kSegments,
  kFrames,
  kEmbedder,
  kExceptions,
  kHeap
};

// kInvalidInput: the snapshot has something that its format or its module does not allow.
std::unexpected<Error> damaged_snapshot(std::string what);

// The body of a snapshot whose header and checksum are right. It borrows from the bytes. Errors: kInvalidInput for bytes
// that are damaged or not a snapshot, kUnsupported for another version.
Result<std::span<const uint8_t>> checked_body(std::span<const uint8_t> bytes);

// Writes the header of a snapshot before its body: `bytes` begins with room for it.
void seal_snapshot(std::vector<uint8_t>& bytes, uint32_t version);

}  // namespace membrane::engine
