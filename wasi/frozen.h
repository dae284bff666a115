// A System as bytes: its own state, and its differences from its image.
//
// Not included: the image (its digest is), the policy, and the World. Granted directories belong to the world: open
// files in them are stored by name.
//
// The reader trusts nothing: a truncated, damaged or forged state is refused, or is one that some program could have
// produced under the same limits, except for the number of files it counts. The reader never allocates more than a
// small multiple of the state's size and of the quota.
//
// The format. All numbers are little-endian; a text is its length (u64) and its bytes, a list its length (u64) and
// its elements:
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
// kInvalidInput for an invalid state or one of another image, kUnsupported for another version, kExhausted for a
// state larger than the quota.
Result<std::unique_ptr<State>> read_frozen(std::span<const uint8_t> bytes, std::shared_ptr<const Image> image,
                                           FileQuota quota);

}  // namespace membrane::wasi
