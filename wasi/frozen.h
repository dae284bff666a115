// A System as bytes: what it has of its own, and where it differs from its image.
//
// Not in it: the image (its digest is), the policy, and whom it asks. Granted directories are the world's: files
// of them are open by their names.
//
// Whoever reads trusts nothing: a state that was cut, damaged or forged is refused, or is one that some program
// could have made under the same limits but for how many files it counts. It never makes the reader allocate
// more than a small multiple of its own size and of the quota.
//
// The bytes, all numbers little-endian; a text is its length (u64) and its bytes, a list its length (u64) and its
// elements:
//
//   "MWAS" u32 version=1, text digest of the image
//   list text arguments, list text environment
//   text stdin, u8 waits, text and text of unfinished characters of stdout and stderr
//   u8 has exited, u32 exit code
//   u64 ns passed on the virtual clock, u64 × 3 the real clock's start, monotonic, last
//   32 bytes key of randomness, u64 position
//   u64 next inode, list of inodes of the image that are gone, list of nodes that are not the image's, each
//     u64 inode, links, accessed, modified, changed; u8 counted, written, kind, and
//     directory: u64 parent, list of (text name, u64 inode)      file: u64 size, u64 bytes of the image below,
//     link: text target      device: u8                          list of (u64 index, text bytes)
//   list of descriptors, each u32 number, u64 rights, inheriting, u16 flags, u64 offset, u8 preopened, kind, and
//     stream: u8      directory: u64 inode, text host path, u8 has a listing, list of (text, u64 inode, u8 type)
//     file: u64 inode      device: u64 inode, text answer      host file: text path, u8 writes, u64 × 2 bytes
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "wasi/state.h"

namespace membrane::wasi {

inline constexpr uint32_t kFrozenVersion = 1;

Result<std::vector<uint8_t>> write_frozen(const State& state);
// kInvalidInput for what is no such state or of another image, kUnsupported for another version, kExhausted for
// what is larger than the quota.
Result<std::unique_ptr<State>> read_frozen(std::span<const uint8_t> bytes, std::shared_ptr<const Image> image,
                                           FileQuota quota);

}  // namespace membrane::wasi
