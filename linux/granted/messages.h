// The requests of a kernel process to its sandbox's owner about a granted directory, over a SOCK_SEQPACKET
// socket: a request, then its answer, one after another. Each side treats what the other sends as foreign
// data.
//
// Paths are relative to the granted directory, with '/' between names; "" is the directory itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace membrane::linux {

enum class GrantedAct : uint32_t {
  kStatus = 1,  // of `path`; with `file`, of an open file, and permissions by `path` if set
  kList,        // of `path`, from entry number `offset` on: a series of GrantedEntry
  kTarget,      // of the link `path`
  kRoom,        // of the file system of `path`: GrantedRoom
  kOpen,        // `flags`; returns `file`
  kRead,        // `file`, `offset`, at most `count` bytes
  kWrite,       // `file`, `offset`, `bytes`
  kResize,      // `file`, to `offset`
  kSync,        // `file`
  kClose,       // `file`
  kSetTimes,    // of `path`: accessed_ns, modified_ns; kKeepTime: unchanged
  kSetMode,     // of `path`, to `mode`; the broker may leave bits as they are
  kUnlink,
  kRemoveDirectory,
  kMakeDirectory,
  kMakeLink,      // `path`, with `other` as its target
  kMakeHardLink,  // from `path` to `other`
  kRename,        // from `path` to `other`
  kLast = kRename,
};

struct GrantedRequest {
  static constexpr size_t kMostPathBytes = 4096, kMostBytes = 64u << 10;
  static constexpr int64_t kKeepTime = INT64_MIN;
  enum : uint32_t { kForWriting = 1, kCreate = 2, kExclusive = 4 };
  GrantedAct act = GrantedAct::kStatus;
  uint32_t flags = 0, path_bytes = 0, other_bytes = 0, count = 0;
  uint32_t bytes = 0;  // after both paths
  uint32_t mode = 0, reserved = 0;
  uint64_t file = 0, offset = 0;
  int64_t accessed_ns = kKeepTime, modified_ns = kKeepTime;
};

struct GrantedAnswer {
  enum : uint32_t { kIsDirectory = 1, kIsLink = 2 };
  int32_t error = 0;  // of Linux
  uint32_t flags = 0;
  uint64_t file = 0;
  uint64_t size = 0, links = 1, number = 0;  // number 0: unknown
  int64_t accessed_ns = 0, modified_ns = 0, changed_ns = 0;
  uint32_t entries = 0;  // in the list
  uint32_t bytes = 0;    // that follow
  uint32_t mode = 0;     // permissions, 0777
  uint32_t reserved = 0;
};

struct GrantedRoom {
  uint64_t most_bytes = 0, free_bytes = 0, most_files = 0, free_files = 0;
};

struct GrantedEntry {
  uint64_t number = 0;
  uint16_t flags = 0, name_bytes = 0;  // the name follows
};

}  // namespace membrane::linux
